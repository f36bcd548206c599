"""The settings of a pretraining run: what `elmo pretrain RUN.toml` reads."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from elmokit.config import (
    Clip,
    Count,
    CountOrZero,
    FileName,
    ModelConfig,
    Number,
    Positive,
    Settings,
    Share,
    Within,
    WordEncoderConfig,
    change_setting,
    make,
)
from elmokit.errors import ConfigError, ElmoError
from elmokit.io.files import read_text
from elmokit.io.text_files import Errors, TextSettings, TokenizerName

LONGEST_RUN = 1 << 20  # bytes of a run's file
WORD_INPUT = "words"
"""What `model.encoder` says for a table of word vectors, its size being that of the vocabulary."""
MOST_WORDS = 2**31 - 1  # of a vocabulary: prepared text has ids of 32 bits
Betas = Annotated[tuple[Share, Share], "give two numbers of at least 0 and below 1"]
Names = Annotated[tuple[str, ...], "give a list of files, folders or patterns"]


@dataclass(frozen=True)
class CorpusConfig(Settings):
    """What to train on, and the words to predict."""

    train: Names = ()
    """Files, folders and patterns of text to train on, plain or `.gz`, `.bz2`, `.xz`, `.zst`;
    `--train`."""
    valid: Names = ()
    """Held-out text, likewise; without it nothing is validated; `--valid`."""
    tokenizer: TokenizerName = "default"
    """`default`: raw text. `kiwi`: raw Korean, split into morphemes (extra `[korean]`).
    `whitespace`: tokenized text, a sentence on each line. The model remembers which."""
    one_sentence_per_line: bool = False
    """Whether a line of raw text is one sentence; else it is a paragraph."""
    errors: Errors = "strict"
    """What to do with bytes that are not of the encoding: stop, or put U+FFFD in their place."""
    encoding: str = "utf-8"
    """How the text is written as bytes; UTF-16 is known by its mark."""
    vocabulary: FileName | None = None
    """A file of words, by falling frequency, with or without counts; without it the training text
    is counted."""
    vocabulary_size: Annotated[int, Within(least=4)] | None = None
    """The most words when counting, `<S>`, `</S>` and `<UNK>` included."""
    min_count: Count = 1
    """How often a word must occur to be counted in."""
    block_words: Count = 1024
    """Length of the runs of sentences that keep their order when the text is shuffled."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "encoding", self.text.encoding)

    @property
    def text(self) -> TextSettings:
        """How the text is read."""
        return TextSettings.of_corpus(
            self.tokenizer, self.one_sentence_per_line, self.errors, self.encoding
        )


@dataclass(frozen=True)
class TrainingConfig(Settings):
    """How to train. What is said of a batch is said of all processes together."""

    rows: Count = 128
    """Streams, or sentences, read side by side, on all processes together."""
    unroll: Count = 20
    """Words that gradients pass back through; in mode `sentence` only the factor of
    `scale_loss_by_unroll`."""
    mode: Literal["stream", "sentence"] = "stream"
    """`stream`: endless text in each row, states carried. `sentence`: each starts from zeros."""
    reset_state: Share = 0.0
    """In mode `stream`: the share of sentences that are read from zeros, as an `Embedder` reads."""
    accumulate: Count = 1
    """Parts that a batch is computed in, one after the other, to save memory; must divide
    `rows`."""
    epochs: Positive | None = None
    """How often to read the text; `0.5` for half of it. Exactly one of `epochs` and `steps` is
    given."""
    steps: Count | None = None
    """How many batches to train on."""
    minutes: Number | None = None
    """Stop after so many minutes of training and validation, if not done before; the schedule of
    the learning rate does not depend on it."""
    samples: Count | None = None
    """Candidates of a sampled softmax; without it the model's own softmax is trained in full."""
    optimiser: Literal["adagrad", "adamw", "muon"] = "adagrad"
    """`muon` is AdamW, but for the matrices of LSTMs and projections, whose updates are made
    orthogonal."""
    learning_rate: Number = 0.2
    """The highest rate of the schedule: 0.2 suits Adagrad, 0.001 to 0.004 AdamW and Muon."""
    adagrad_start: Number = 1.0
    """What Adagrad's sums of squares start from."""
    betas: Betas = (0.9, 0.999)
    """AdamW's decay rates for the averages of gradients and of their squares."""
    weight_decay: Number = 0.0
    """AdamW's and Muon's; of matrices only."""
    muon_rate: Number = 0.02
    """Muon's learning rate for LSTMs and projections; it rises and falls as `learning_rate`, which
    is that of all other weights."""
    schedule: Literal["constant", "linear", "cosine", "trapezoid"] = "constant"
    """How the learning rate falls after warming up."""
    final_rate: Number = 0.0
    """The share of `learning_rate` that is left at the end of a schedule."""
    falling_share: Annotated[float, Within(above=0, below=1)] = 0.2
    """The share of all steps, the last ones, in which a `trapezoid` falls; before, the rate is
    constant."""
    warmup_steps: CountOrZero = 0
    """Steps in which the rate rises from zero."""
    clip: Clip | None = 10.0
    """The largest norm of all gradients together; longer ones are scaled down to it; `inf` for
    none."""
    scale_loss_by_unroll: bool = True
    """Whether the loss is multiplied by `unroll` before gradients are clipped, as originally: with
    a fixed `clip` it matters."""
    dropout: Share = 0.1
    """Share of numbers set to zero before each layer and before the softmax, drawn at each step."""
    multi_token: Number = 0.0
    """Weight of a second loss, of the word after next, from the same outputs; 0 for none."""
    unigram_bias: bool = False
    """Whether the softmax starts from the words' frequencies (a better start) or from equal
    probabilities (as originally)."""
    ema: Share | None = None
    """Validate and store a running average of the weights; 0.999 averages over about a thousand
    steps."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of matrix products; `bfloat16` is used where the device multiplies it faster."""
    seed: CountOrZero = 1
    """Of weights, order of the text, dropout and candidates."""
    word_vectors: FileName | None = None
    """A text file of vectors (GloVe's or word2vec's) that a word-input model starts from."""
    freeze_word_vectors: bool = False
    """Whether a word-input model's vectors stay as they are."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.epochs is None) == (self.steps is None):
            raise ConfigError("give one of epochs and steps: how long to train")
        if self.rows % self.accumulate:
            raise ConfigError(f"accumulate is {self.accumulate}; it must divide {self.rows} rows")


@dataclass(frozen=True)
class LoggingConfig(Settings):
    """How often to look, and what to store."""

    every: Count = 100
    """Steps between lines of metrics."""
    validate_every: Count | None = None
    """Steps between validations; without it about ten in all."""
    checkpoint_every: Count | None = None
    """Steps between checkpoints; without it one at every validation, and every 1,000 steps."""
    keep: Count = 2
    """Checkpoints stored besides the best."""
    patience: Count | None = None
    """Stop after so many validations without a better one."""
    tensorboard: bool = False
    """Whether to write the metrics for TensorBoard too (extra `[tensorboard]`)."""


MAY_CHANGE = ("training.epochs", "training.steps", "training.minutes", "logging")
"""What a resumed run may have otherwise than its checkpoint: how long, and what is shown."""


@dataclass(frozen=True)
class PretrainConfig(Settings):
    """A complete run: one TOML file."""

    corpus: CorpusConfig
    """What to train on, and the words to predict."""
    training: TrainingConfig
    """How to train."""
    model: Mapping[str, Any] = field(default_factory=dict)
    """The settings of a ModelConfig, but for the words, which the vocabulary tells."""
    logging: LoggingConfig = field(default_factory=LoggingConfig)
    """How often to look, and what to store."""
    output: Annotated[str, "give the name of a folder"] | None = None
    """The folder of the run: its model, its checkpoints, its metrics; `-o`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        config = self.model_config(MOST_WORDS)  # raises for misspelt settings before text is read
        if config.softmax_cutoffs and self.training.samples:
            raise ConfigError(
                "training.samples is of a sampled softmax, model.softmax_cutoffs of an adaptive "
                "one; give one of them"
            )
        for name in ("word_vectors", "freeze_word_vectors"):
            if getattr(self.training, name) and not isinstance(config.encoder, WordEncoderConfig):
                raise ConfigError(
                    f"training.{name} is for a model that reads words, and this one reads "
                    f'characters; set model.encoder = "{WORD_INPUT}"'
                )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> PretrainConfig:
        """From the tables of a TOML file; unknown keys are named."""
        return make(cls, values)

    def model_config(self, words: int) -> ModelConfig:
        """The shape of the model for a vocabulary of so many words."""
        settings = {**self.model, "softmax_words": words}
        if settings.get("encoder") == WORD_INPUT:
            settings["encoder"] = {"words": words}
        try:
            return ModelConfig.from_dict(settings)
        except ConfigError as error:
            advice = "" if self.model else "; give the table [model]"
            raise ConfigError(f"model: {error}{advice}") from None


def recipes() -> dict[str, Path]:
    """The recipes that come with the package, by name."""
    return {path.stem: path for path in sorted(Path(__file__).parent.glob("recipes/*.toml"))}


def read_run(path: str | Path, settings: Mapping[str, Any] | None = None) -> PretrainConfig:
    """Read a run's TOML file, or a recipe; `settings`, by dotted name, replace its own."""
    file = Path(path) if Path(path).is_file() else recipes().get(str(path), Path(path))
    try:
        values = tomllib.loads(read_text(file, LONGEST_RUN))
    except FileNotFoundError as error:
        raise type(error)(f"{error}; the recipes that there are: {', '.join(recipes())}") from error
    except (ValueError, RecursionError) as error:  # digits or brackets beyond Python's limits, too
        if isinstance(error, ElmoError):
            raise
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
