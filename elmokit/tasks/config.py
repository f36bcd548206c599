"""The settings of a task: what it reads, the network, how it is trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from elmokit.config import (
    check_above_zero,
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
from elmokit.errors import ConfigError


@dataclass(frozen=True)
class CorefConfig:
    """What is a span, how many are kept, and what each may refer back to."""

    longest_span: int = 10
    """The most words of a mention: L in the paper."""
    spans_per_word: float = 0.4
    """How many spans are kept for each word of a document: lambda in the paper."""
    antecedents: int = 50
    """How many earlier spans are looked at closely for each span, chosen by the coarse score."""
    antecedent_window: int = 1000
    """How many kept spans back an antecedent may be."""
    span_size: int | None = None
    """Spans are projected to this size before pairs are scored; None for as large as they are."""
    scorer_size: int = 150
    """Of both hidden layers of the mention scorer and of the antecedent scorer."""
    feature_size: int = 20
    """Of the vectors for the width of a span and for the distance of two."""
    mention_loss: float = 0.0
    """How much it counts in the loss whether each span is a mention: -log p of that, summed over
    all spans there are, is divided by the number of kept ones, as -log p of antecedents is."""
    singletons: bool = False
    """Whether mentions that corefer with nothing are learnt and found; if not, they are left out
    of the data too."""
    segment_words: int = 1000
    """Longer documents are cut between sentences to be trained on; longer sentences too."""

    def __post_init__(self) -> None:
        for name in ("longest_span", "antecedents", "antecedent_window", "segment_words"):
            check_size(name, getattr(self, name))
        for name in ("scorer_size", "feature_size"):
            check_size(name, getattr(self, name))
        if self.span_size is not None:
            check_size("span_size", self.span_size)
        check_above_zero("spans_per_word", self.spans_per_word)
        check_number("mention_loss", self.mention_loss)
        check_flag("singletons", self.singletons)


Kind = Literal["text", "tags", "pair", "reading", "coref", "srl"]
"""What a task is about: texts, each word of a sentence, pairs of texts, questions about a text,
documents, what verbs say."""
Format = Literal[
    "csv", "tsv", "jsonl", "trees", "columns", "conllu", "squad", "coref", "gap", "propbank",
    "conll2012",
]  # fmt: skip
Column = str | int
"""The name of a column or its number: from 1, or from -1 for the last."""
ElmoPlace = Literal["none", "input", "output", "both"]
NetworkName = Literal["pooled", "biattentive", "tagger", "esim", "reader", "coref", "highway"]
LayerName = Literal["mix", "top"] | int
Pool = Literal["mean", "max"]
Dense = Literal["maxout", "relu"]
Optimiser = Literal["adamw"]
Preset = Literal["small", "paper"]
Tables = dict[str, dict[str, Any]]
"""Settings by table and name."""

NETWORKS: dict[Kind, tuple[NetworkName, ...]] = {
    "text": ("pooled", "biattentive"),
    "tags": ("tagger",),
    "pair": ("esim",),
    "reading": ("reader",),
    "coref": ("coref",),
    "srl": ("highway",),
}
"""The networks that can learn a kind of task."""
NAMED_LAYERS = ("mix", "top")


@dataclass(frozen=True)
class FilesConfig:
    """How files of examples are read."""

    format: Format | None = None
    """None for what the name of a file says."""
    encoding: str = "utf-8"
    tokenizer: str | None = None
    """What splits raw text: `default` or `whitespace`; None for what the biLM was trained with."""
    header: bool = True
    """Whether the first line of a table names its columns."""
    label: Column | None = None
    """The column of the labels, by name or by number from 1; of CoNLL-U, upos or xpos. None for
    the usual one."""
    texts: tuple[Column, ...] = ()
    """The columns of the text, of both texts of a pair, or of words; none for the usual ones."""
    skip_bad_rows: bool = False
    """Leave out rows of a table that have more or fewer values than columns, and questions whose
    answer is not where the file says."""
    phrases: bool = False
    """Train on every labelled phrase of SST trees, not on whole sentences alone."""
    shortest_phrase: int = 1
    """The fewest words of a phrase of SST trees that is trained on."""

    def __post_init__(self) -> None:
        check_choice("format", self.format, (None, *get_args(Format)))
        if not isinstance(self.encoding, str):
            raise ConfigError(f"encoding is {self.encoding!r}; give its name, such as utf-8")
        if self.tokenizer is not None:
            check_choice("tokenizer", self.tokenizer, ("default", "whitespace"))
        check_flag("header", self.header)
        check_flag("skip_bad_rows", self.skip_bad_rows)
        check_flag("phrases", self.phrases)
        check_size("shortest_phrase", self.shortest_phrase)
        texts = self.texts if isinstance(self.texts, list | tuple) else (self.texts,)
        for column in (*texts, *([] if self.label is None else [self.label])):
            if isinstance(column, bool) or not isinstance(column, str | int):
                raise ConfigError(f"{column!r} is no column; give its name, or its number from 1")
        object.__setattr__(self, "texts", tuple(texts))


@dataclass(frozen=True)
class InputConfig:
    """What the network knows of each word."""

    static: str | None = None
    """A file of word vectors, GloVe's or word2vec's; None for none."""
    static_trainable: bool = False
    lowercase: bool = True
    """Look a word up in lower case where the file does not have it as it is."""
    characters: bool = False
    """Features of a word's characters that the task learns."""
    elmo: ElmoPlace = "input"
    """Where ELMo joins: the network's input, the output of its recurrent layer, or both."""
    layers: LayerName = "mix"
    """`mix`: all, their weights learnt. `top`, or a number: this one alone, 0 the token layer."""
    per_direction: bool = False
    """Whether the mix weighs both directions of a layer separately."""
    mix_penalty: float = 0.0
    """The paper's lambda: a large one keeps the mix near a plain average. With `per_direction`,
    whose weights are used as they are, it pulls these to 0, and gamma makes up for it."""
    layer_norm: bool = False
    """Normalise each layer over the words of a batch before mixing. A prediction then depends a
    little on what else is asked."""
    elmo_dropout: float = 0.5
    dropout: float = 0.0
    """Of everything that is joined at the input."""
    variational: bool = False
    """Whether that leaves out the same dimensions of every word of a sentence."""
    finetune_bilm: bool = False
    """Train the biLM too. Then its layers are computed again for every batch."""

    def __post_init__(self) -> None:
        check_file_name("static", self.static)
        for name in ("static_trainable", "lowercase", "characters"):
            check_flag(name, getattr(self, name))
        for name in ("per_direction", "finetune_bilm", "layer_norm", "variational"):
            check_flag(name, getattr(self, name))
        check_choice("elmo", self.elmo, get_args(ElmoPlace))
        self._check_layers()
        check_number("mix_penalty", self.mix_penalty)
        check_number("elmo_dropout", self.elmo_dropout, below=1.0)
        check_number("dropout", self.dropout, below=1.0)
        if self.finetune_bilm and not self.uses_elmo:
            raise ConfigError("finetune_bilm is true but elmo is 'none'; choose one of them")
        if self.elmo in ("none", "output") and self.static is None and not self.characters:
            raise ConfigError(
                f"elmo is {self.elmo!r}, so words need vectors of their own; give a file of static "
                "vectors (--static FILE), or set inputs.characters=true"
            )

    def _check_layers(self) -> None:
        if self.layer_norm and self.per_direction:
            raise ConfigError("layer_norm is of whole layers, not per_direction; choose one")
        if self.layers != "mix" and self.per_direction:
            raise ConfigError("per_direction weighs all layers, and one was chosen; use 'mix'")
        if self.layers in NAMED_LAYERS:
            return
        if isinstance(self.layers, str):
            allowed = ", ".join(map(repr, NAMED_LAYERS))
            raise ConfigError(f"layers is {self.layers!r}; use {allowed}, or the number of a layer")
        check_size("layers", self.layers, least=0)

    @property
    def uses_elmo(self) -> bool:
        """Whether there is a biLM at all."""
        return self.elmo != "none"


@dataclass(frozen=True)
class NetworkConfig:
    """The task's own network."""

    name: NetworkName = "pooled"
    """`pooled`, `biattentive` (texts), `tagger` (tags of words), `esim` (pairs), `reader`, `coref`,
    `highway` (srl)."""
    hidden: int = 256
    """Cells of each direction of its LSTMs, or of each layer of `highway`; of `pooled`, the size of
    its dense layer."""
    layers: int = 1
    """LSTM layers of a tagger, or of `highway`, where they read from the left and from the right
    in turn."""
    dropout: float = 0.5
    pool: Pool = "mean"
    """What `pooled` makes of all words."""
    dense: Dense = "maxout"
    """What `biattentive` ends in: two maxout layers, or two with relu, as the ELMo paper has it."""
    crf: bool = True
    """Whether a tagger scores whole sequences of tags, or each tag by itself."""
    answer_lstms: bool = True
    """Whether a reader reads once more for the start of an answer and once for its end, as Clark
    and Gardner's does; the ELMo paper's scores both with a dense layer each."""
    longest_answer: int = 17
    """The most words of a reader's answer."""
    window: int = 400
    """Words of a text that a reader reads at once."""
    overlap: int = 100
    """Words that two windows of a longer text share; an answer is found whole in one of them."""

    def __post_init__(self) -> None:
        check_choice("name", self.name, get_args(NetworkName))
        check_size("hidden", self.hidden)
        check_size("layers", self.layers)
        check_number("dropout", self.dropout, below=1.0)
        check_choice("pool", self.pool, get_args(Pool))
        check_choice("dense", self.dense, get_args(Dense))
        check_flag("crf", self.crf)
        check_flag("answer_lstms", self.answer_lstms)
        for name in ("longest_answer", "window", "overlap"):
            check_size(name, getattr(self, name))
        if not self.longest_answer - 1 <= self.overlap < self.window:
            raise ConfigError(
                f"overlap is {self.overlap}; it must be below window, which is {self.window}, and "
                f"at least longest_answer - 1, which is {self.longest_answer - 1}"
            )


@dataclass(frozen=True)
class TaskTrainingConfig:
    """How to train."""

    epochs: int = 20
    """The most epochs."""
    patience: int = 4
    """Stop after so many epochs in which the score on dev was not better."""
    batch_tokens: int = 2048
    """The most words in a batch, padding counted, as if both texts of a pair were one."""
    batch_examples: int = 64
    """The most examples in a batch."""
    optimiser: Optimiser = "adamw"
    learning_rate: float = 0.001
    bilm_learning_rate: float = 0.0001
    """That of a biLM that is trained too."""
    rate_factor: float = 1.0
    """What the learning rates are multiplied by after an epoch without a better score."""
    weight_decay: float = 0.0
    """Of matrices only."""
    clip: float | None = 5.0
    """The largest norm of all gradients together; None, or infinite, for any."""
    fraction: float = 1.0
    """Train on this part of the examples alone, whose choice does not depend on the seed."""
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("epochs", "patience", "batch_tokens", "batch_examples"):
            check_size(name, getattr(self, name))
        check_choice("optimiser", self.optimiser, get_args(Optimiser))
        for name in ("learning_rate", "bilm_learning_rate", "rate_factor", "weight_decay"):
            check_number(name, getattr(self, name))
        check_clip("clip", self.clip)
        check_number("fraction", self.fraction)
        if not 0 < self.fraction <= 1:
            raise ConfigError(f"fraction is {self.fraction!r}; it must be above 0 and at most 1")
        check_size("seed", self.seed, least=0)
        if self.seed >= 2**63:
            raise ConfigError(f"seed is {self.seed}; it must be below 2 to the 63rd")


TABLES: dict[str, type] = {
    "files": FilesConfig,
    "inputs": InputConfig,
    "network": NetworkConfig,
    "training": TaskTrainingConfig,
    "coref": CorefConfig,
}
MAY_CHANGE = ("training.epochs", "training.patience")
"""What a resumed run may have otherwise than its checkpoint: how long."""


@dataclass(frozen=True)
class TaskConfig:
    """All settings of a task."""

    name: str
    """One of the catalogue: spam, sst, ner, pos, nli, squad, coref, srl."""
    kind: Kind
    files: FilesConfig = field(default_factory=FilesConfig)
    inputs: InputConfig = field(default_factory=InputConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    training: TaskTrainingConfig = field(default_factory=TaskTrainingConfig)
    coref: CorefConfig = field(default_factory=CorefConfig)

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, get_args(Kind))
        fitting = NETWORKS[self.kind]
        if self.network.name not in fitting:
            raise ConfigError(
                f"network.name is {self.network.name!r}, which does not learn {self.name}; "
                f"use {' or '.join(map(repr, fitting))}"
            )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TaskConfig:
        """From plain values, refusing unknown keys by name."""
        check_known(cls, values)
        tables = {
            name: make_table(kind, name, values.get(name, {})) for name, kind in TABLES.items()
        }
        return make(cls, {**values, **tables})

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON; `from_dict` is its inverse."""
        return asdict(self)
