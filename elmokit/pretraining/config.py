"""The settings of a pretraining run: what `elmo pretrain RUN.toml` reads."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from elmokit.config import (
    ModelConfig,
    WordEncoderConfig,
    change_setting,
    check_choice,
    check_clip,
    check_file_name,
    check_flag,
    check_known,
    check_number,
    check_size,
    make,
    make_table,
)
from elmokit.errors import ConfigError, InputError
from elmokit.io.text_files import Errors, TextSettings

Optimiser = Literal["adagrad", "adamw", "muon"]
Schedule = Literal["constant", "linear", "cosine", "trapezoid"]
Mode = Literal["stream", "sentence"]
TokenizerName = Literal["default", "whitespace"]
TrainingPrecision = Literal["float32", "bfloat16"]

WORD_INPUT = "words"
"""What `model.encoder` says for a table of word vectors, its size being that of the vocabulary."""
MOST_WORDS = 2**31 - 1
"""Of a vocabulary: prepared text has ids of 32 bits."""


def check_names(name: str, value: object) -> tuple[str, ...]:
    """File names and patterns as a tuple; one alone needs no list."""
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(one, str) for one in names):
        raise ConfigError(f"{name} is {value!r}; give a list of files, folders or patterns")
    return tuple(names)


@dataclass(frozen=True)
class CorpusConfig:
    """What to train on, and the words to predict."""

    train: tuple[str, ...] = ()
    """Files, folders and patterns: .txt, .gz, .xz, .zst."""
    valid: tuple[str, ...] = ()
    """Held-out text, likewise; none for no validation."""
    tokenizer: TokenizerName = "default"
    """`default`: raw text. `whitespace`: tokenized already, one sentence a line."""
    one_sentence_per_line: bool = False
    """Whether a line of raw text is one sentence, whatever stands in it."""
    errors: Errors = "strict"
    """What to do with bytes that are not of the encoding: stop, or put U+FFFD in their place."""
    encoding: str = "utf-8"
    """How the text is written as bytes; UTF-16 is known by its mark."""
    vocabulary: str | None = None
    """A file of words, by falling frequency; None to count the training text."""
    vocabulary_size: int | None = None
    """The most words when counting, the three special ones included."""
    min_count: int = 1
    """How often a word must occur to be counted in."""
    block_words: int = 1024
    """Length of the runs of sentences that keep their order when the text is shuffled."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "train", check_names("train", self.train))
        object.__setattr__(self, "valid", check_names("valid", self.valid))
        check_flag("one_sentence_per_line", self.one_sentence_per_line)
        object.__setattr__(self, "encoding", self.text.encoding)
        check_file_name("vocabulary", self.vocabulary)
        if self.vocabulary_size is not None:
            check_size("vocabulary_size", self.vocabulary_size, least=4)
        check_size("min_count", self.min_count)
        check_size("block_words", self.block_words)

    @property
    def text(self) -> TextSettings:
        """How the text is read."""
        return TextSettings.of_corpus(
            self.tokenizer, self.one_sentence_per_line, self.errors, self.encoding
        )


@dataclass(frozen=True)
class TrainingConfig:
    """How to train. What is said of a batch is said of all processes together."""

    rows: int = 128
    """Streams, or sentences, read side by side."""
    unroll: int = 20
    """Words that gradients pass back through; in mode `sentence` no more than a factor."""
    mode: Mode = "stream"
    """`stream`: endless text in each row, states carried. `sentence`: each starts from zeros."""
    reset_state: float = 0.0
    """In mode `stream`: the share of sentences that are read from zeros, as an `Embedder` reads."""
    accumulate: int = 1
    """Parts that a batch is computed in, to save memory; must divide the rows."""
    epochs: float | None = None
    """How often to read the text; exactly one of epochs and steps is given."""
    steps: int | None = None
    """How many batches to train on."""
    minutes: float | None = None
    """Stop after so long, if not done before; the learning rate does not know."""
    samples: int | None = None
    """Candidates of a sampled softmax; None to use the model's own softmax whole."""
    optimiser: Optimiser = "adagrad"
    learning_rate: float = 0.2
    adagrad_start: float = 1.0
    """What Adagrad's sum of squares starts from."""
    betas: tuple[float, float] = (0.9, 0.999)
    """AdamW's memory of gradients and of their squares."""
    weight_decay: float = 0.0
    """AdamW's and Muon's; of matrices only."""
    muon_rate: float = 0.02
    """Muon's learning rate of LSTMs and projections; it falls as `learning_rate`, of the rest."""
    schedule: Schedule = "constant"
    """How the learning rate falls to `final_rate` of itself after warming up."""
    final_rate: float = 0.0
    falling_share: float = 0.2
    """Of the steps: the last ones, in which a trapezoid falls. Before, the rate is constant."""
    warmup_steps: int = 0
    clip: float | None = 10.0
    """The largest norm of all gradients together."""
    scale_loss_by_unroll: bool = True
    """Whether the loss is multiplied by `unroll` before gradients are clipped, as originally."""
    dropout: float = 0.1
    unigram_bias: bool = False
    """Whether the softmax starts from the words' frequencies or from equal probabilities."""
    ema: float | None = None
    """Validate and keep an average of the weights that forgets at this rate, such as 0.999."""
    precision: TrainingPrecision = "float32"
    """Of matrix products; `bfloat16` is used where the device multiplies it faster."""
    seed: int = 1
    word_vectors: str | None = None
    """Text vectors (GloVe's or word2vec's) that a word-input model starts from."""
    freeze_word_vectors: bool = False

    def __post_init__(self) -> None:
        for name in ("rows", "unroll", "accumulate"):
            check_size(name, getattr(self, name))
        check_choice("mode", self.mode, get_args(Mode))
        check_number("reset_state", self.reset_state, below=1.0)
        check_choice("optimiser", self.optimiser, get_args(Optimiser))
        check_choice("schedule", self.schedule, get_args(Schedule))
        check_choice("precision", self.precision, get_args(TrainingPrecision))
        if (self.epochs is None) == (self.steps is None):
            raise ConfigError("give one of epochs and steps: how long to train")
        if self.epochs is not None:
            check_number("epochs", self.epochs)
            if not self.epochs:
                raise ConfigError("epochs is 0; nothing would be trained")
        if self.steps is not None:
            check_size("steps", self.steps)
        if self.minutes is not None:
            check_number("minutes", self.minutes)
        if self.samples is not None:
            check_size("samples", self.samples)
        check_number("learning_rate", self.learning_rate)
        check_number("adagrad_start", self.adagrad_start)
        self._check_betas()
        check_number("weight_decay", self.weight_decay)
        check_number("muon_rate", self.muon_rate)
        check_number("final_rate", self.final_rate)
        check_number("falling_share", self.falling_share, below=1.0)
        if not self.falling_share:
            raise ConfigError('falling_share is 0; if the rate is not to fall, use "constant"')
        check_size("warmup_steps", self.warmup_steps, least=0)
        check_clip("clip", self.clip)
        check_number("dropout", self.dropout, below=1.0)
        for name in ("scale_loss_by_unroll", "unigram_bias", "freeze_word_vectors"):
            check_flag(name, getattr(self, name))
        if self.ema is not None:
            check_number("ema", self.ema, below=1.0)
        check_size("seed", self.seed, least=0)
        check_file_name("word_vectors", self.word_vectors)
        if self.rows % self.accumulate:
            raise ConfigError(f"accumulate is {self.accumulate}; it must divide {self.rows} rows")

    def _check_betas(self) -> None:
        if not isinstance(self.betas, list | tuple) or len(self.betas) != 2:
            raise ConfigError(f"betas is {self.betas!r}; give two numbers")
        for beta in self.betas:
            check_number("a beta", beta, below=1.0)
        object.__setattr__(self, "betas", tuple(self.betas))


@dataclass(frozen=True)
class LoggingConfig:
    """How often to look, and what to keep."""

    every: int = 100
    """Steps between lines of metrics."""
    validate_every: int | None = None
    """Steps between validations; None for about ten of them in all."""
    checkpoint_every: int | None = None
    """Steps between checkpoints; None for one at every validation, and every 1,000 steps."""
    keep: int = 2
    """Checkpoints kept besides the best."""
    patience: int | None = None
    """Stop after so many validations without a better one; None to continue."""
    tensorboard: bool = False

    def __post_init__(self) -> None:
        check_size("every", self.every)
        for name in ("validate_every", "checkpoint_every", "patience"):
            if getattr(self, name) is not None:
                check_size(name, getattr(self, name))
        check_size("keep", self.keep)
        check_flag("tensorboard", self.tensorboard)


MAY_CHANGE = ("training.epochs", "training.steps", "training.minutes", "logging")
"""What a resumed run may have otherwise than its checkpoint: how long, and what is shown."""


@dataclass(frozen=True)
class PretrainConfig:
    """A whole run: one TOML file."""

    corpus: CorpusConfig
    training: TrainingConfig
    model: Mapping[str, Any] = field(default_factory=dict)
    """The settings of a ModelConfig, but for the words, which the vocabulary tells."""
    logging: LoggingConfig = field(default_factory=LoggingConfig)
    output: str | None = None
    """The folder of the run: its model, its checkpoints, its metrics."""

    def __post_init__(self) -> None:
        config = self.model_config(MOST_WORDS)  # refuses misspelt settings before text is read
        if config.softmax_cutoffs and self.training.samples:
            raise ConfigError(
                "training.samples is of a sampled softmax, model.softmax_cutoffs of an adaptive "
                "one; give one of them"
            )
        if self.training.word_vectors and not isinstance(config.encoder, WordEncoderConfig):
            raise ConfigError(
                "training.word_vectors is given but the model reads characters; "
                f'set model.encoder = "{WORD_INPUT}"'
            )
        if self.training.freeze_word_vectors and not isinstance(config.encoder, WordEncoderConfig):
            raise ConfigError("training.freeze_word_vectors is for a model that reads words")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> PretrainConfig:
        """From the tables of a TOML file, refusing unknown keys by name."""
        check_known(cls, values)
        values = dict(values)
        for name, kind in TABLES.items():
            values[name] = make_table(kind, name, values.get(name, {}))
        model = values.get("model")
        if not isinstance(model, Mapping):
            raise ConfigError(f"model is {model!r}; it must be a table of settings: [model]")
        output = values.get("output")
        if output is not None and not isinstance(output, str):
            raise ConfigError(f"output is {output!r}; give the name of a folder")
        return make(cls, values)

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return asdict(self)

    def model_config(self, words: int) -> ModelConfig:
        """The shape of the model for a vocabulary of so many words."""
        settings = {**self.model, "softmax_words": words}
        if settings.get("encoder") == WORD_INPUT:
            settings["encoder"] = {"words": words}
        try:
            return ModelConfig.from_dict(settings)
        except ConfigError as error:
            raise ConfigError(f"model: {error}") from None

    @property
    def needs_sorted_words(self) -> bool:
        """Whether the loss takes a word's id for its rank."""
        return bool(self.training.samples or self.model.get("softmax_cutoffs"))


TABLES: dict[str, type] = {
    "corpus": CorpusConfig,
    "training": TrainingConfig,
    "logging": LoggingConfig,
}


def read_run(path: str | Path, settings: Mapping[str, Any] | None = None) -> PretrainConfig:
    """Read a run's TOML file; `settings`, by dotted name, take the place of what it says."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        values = tomllib.loads(text)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: is not TOML ({error})") from error
    apply_settings(values, settings or {})
    try:
        return PretrainConfig.from_dict(values)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def apply_settings(values: dict[str, Any], settings: Mapping[str, Any]) -> None:
    """Change the tables of a TOML file in place, by dotted names.

    Of epochs and steps, the one that is given takes the place of the other.
    """
    for name, value in settings.items():
        other = {"training.epochs": "training.steps", "training.steps": "training.epochs"}.get(name)
        if other is not None and value is not None and other not in settings:
            change_setting(values, other.split("."), None)
        change_setting(values, name.split("."), value)
