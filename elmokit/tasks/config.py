"""The settings of a task: what it reads, the network, how it is trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal

from elmokit.config import (
    Clip,
    Count,
    CountOrZero,
    FileName,
    Number,
    Positive,
    Settings,
    Share,
    Within,
    check_names,
    make,
)
from elmokit.errors import ConfigError
from elmokit.io.text_files import TextSettings


@dataclass(frozen=True)
class CorefConfig(Settings):
    """What is a span, how many are kept, and what each may refer back to."""

    longest_span: Count = 10
    """The most words of a mention: L in the paper."""
    spans_per_word: Positive = 0.4
    """How many spans are kept for each word of a document: lambda in the paper."""
    antecedents: Count = 50
    """How many earlier spans are looked at closely for each span, chosen by the coarse score."""
    antecedent_window: Count = 1000
    """How many kept spans back an antecedent may be."""
    span_size: Count | None = None
    """Spans are projected to this size before pairs are scored; None for as large as they are."""
    scorer_size: Count = 150
    """Of both hidden layers of the mention scorer and of the antecedent scorer."""
    feature_size: Count = 20
    """Of the vectors for the width of a span and for the distance of two."""
    mention_loss: Number = 0.0
    """How much it counts in the loss whether each span is a mention: -log p of that, summed over
    all spans there are, is divided by the number of kept ones, as -log p of antecedents is."""
    singletons: bool = False
    """Whether mentions that corefer with nothing are learnt and found; if not, they are left out
    of the data too."""
    segment_words: Count = 1000
    """Longer documents are cut between sentences to be trained on; longer sentences too."""


Kind = Literal["text", "tags", "pair", "reading", "coref", "srl"]
"""What a task is about: texts, each word of a sentence, pairs of texts, questions about a text,
documents, what verbs say."""
COLUMN_KINDS: tuple[Kind, ...] = ("tags", "srl", "coref")
"""Those whose answers can be columns of CoNLL."""
COLUMN_FORMATS = ("columns", "conllu", "propbank", "conll2012", "coref")
"""Formats of labelled files, to which answers can be added."""
ElmoPlace = Literal["none", "input", "output", "both"]
NetworkName = Literal["pooled", "biattentive", "tagger", "esim", "reader", "coref", "highway"]
LayerName = Annotated[
    Literal["mix", "top"] | CountOrZero, "use 'mix', 'top', or the number of a layer"
]
Preset = Literal["small", "paper"]
Tables = dict[str, dict[str, Any]]  # settings by table and name

NETWORKS: dict[Kind, tuple[NetworkName, ...]] = {
    "text": ("pooled", "biattentive"),
    "tags": ("tagger",),
    "pair": ("esim",),
    "reading": ("reader",),
    "coref": ("coref",),
    "srl": ("highway",),
}
"""The networks that can learn a kind of task."""
OF_ALL_NETWORKS = ("name", "hidden", "dropout")
OF_NETWORK: dict[NetworkName, tuple[str, ...]] = {
    "pooled": ("pool",),
    "biattentive": ("dense",),
    "tagger": ("layers", "crf"),
    "esim": (),
    "reader": ("answer_lstms", "longest_answer", "window", "overlap"),
    "coref": ("layers",),
    "highway": ("layers",),
}
"""The settings of `NetworkConfig` that one network has and others have not."""


@dataclass(frozen=True)
class InputConfig(Settings):
    """What the network knows of each word."""

    static: FileName | None = None
    """A file of word vectors, GloVe's or word2vec's, joined to ELMo's; `--static`."""
    static_trainable: bool = False
    """Whether these vectors learn."""
    lowercase: bool = True
    """Look a word up in lower case where the file does not have it as it is."""
    characters: bool = False
    """Features of a word's characters that the task learns."""
    elmo: ElmoPlace = "input"
    """Where ELMo joins: the network's input, the output of its recurrent layer, or both; `--elmo`,
    `--no-elmo`."""
    layers: LayerName = "mix"
    """`mix`: all, their weights learnt. `top`, or a number: this one alone, 0 the token layer;
    `--layers`."""
    per_direction: bool = False
    """Whether the mix weighs both directions of a layer separately; `--per-direction`."""
    mix_penalty: Number = 0.0
    """The paper's lambda: a large one keeps the mix near a plain average. With `per_direction` the
    weights are used without a softmax: it pulls these to 0, and gamma makes up for it."""
    layer_norm: bool = False
    """Normalise each layer over the words of a batch before mixing. A prediction then depends a
    little on what else is in the batch; not with `per_direction`."""
    elmo_dropout: Share = 0.5
    """Dropout of ELMo's vectors."""
    dropout: Share = 0.0
    """Dropout of everything that is joined at the input."""
    variational: bool = False
    """Whether `dropout` leaves out the same dimensions of every word of a sentence."""
    finetune_bilm: bool = False
    """Train the biLM too: its layers are then computed for every batch, and it is saved in the
    task's folder; `--finetune-bilm`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layer_norm and self.per_direction:
            raise ConfigError("layer_norm is of whole layers, not per_direction; choose one")
        if self.layers != "mix" and self.per_direction:
            raise ConfigError("per_direction weighs all layers, and one was chosen; use 'mix'")
        if self.finetune_bilm and not self.uses_elmo:
            raise ConfigError("finetune_bilm is true but elmo is 'none'; choose one of them")
        if self.elmo in ("none", "output") and self.static is None and not self.characters:
            raise ConfigError(
                f"elmo is {self.elmo!r}, so words need vectors of their own; give a file of static "
                "vectors (--static FILE), or set inputs.characters=true"
            )

    @property
    def uses_elmo(self) -> bool:
        """Whether there is a biLM at all."""
        return self.elmo != "none"


@dataclass(frozen=True)
class NetworkConfig(Settings):
    """The task's own network."""

    name: NetworkName = "pooled"
    """`pooled`, `biattentive` (texts), `tagger` (tags of words), `esim` (pairs), `reader`, `coref`,
    `highway` (srl)."""
    hidden: Count = 256
    """Cells of each direction of its LSTMs, or of each layer of `highway`; of `pooled`, the size of
    its dense layer."""
    layers: Count = 1
    """LSTM layers of a tagger, or of `highway`, where they read from the left and from the right
    in turn."""
    dropout: Share = 0.5
    """Dropout within the network."""
    pool: Literal["mean", "max"] = "mean"
    """What `pooled` makes of all words."""
    dense: Literal["maxout", "relu"] = "maxout"
    """What `biattentive` ends in: two maxout layers, or two with relu, as the ELMo paper has it."""
    crf: bool = True
    """Whether a tagger scores whole sequences of tags, or each tag by itself."""
    answer_lstms: bool = True
    """Whether a reader reads once more for the start of an answer and once for its end, as Clark
    and Gardner's does; the ELMo paper's scores both with a dense layer each."""
    longest_answer: Count = 17
    """The most words of a reader's answer."""
    window: Count = 400
    """Words of a text that a reader reads at once."""
    overlap: Count = 100
    """Words that two windows of a longer text share; an answer is found whole in one of them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.longest_answer - 1 <= self.overlap < self.window:
            raise ConfigError(
                f"overlap is {self.overlap}; it must be below window, which is {self.window}, and "
                f"at least longest_answer - 1, which is {self.longest_answer - 1}"
            )


@dataclass(frozen=True)
class TaskTrainingConfig(Settings):
    """How to train."""

    epochs: Count = 20
    """The most epochs."""
    patience: Count = 4
    """Stop after so many epochs without a better score on dev, from the first above 0 on."""
    batch_tokens: Count = 2048
    """The most words in a batch, padding counted, as if both texts of a pair were one."""
    batch_examples: Count = 64
    """The most examples in a batch."""
    optimiser: Literal["adamw", "adam"] = "adamw"
    """They differ in weight decay alone, which `adam` adds to the gradients."""
    learning_rate: Number = 0.001
    """The rate of the network and the mix."""
    bilm_learning_rate: Number = 0.0001
    """That of a biLM that is trained too."""
    rate_factor: Number = 1.0
    """What the learning rates are multiplied by after an epoch without a better score."""
    weight_decay: Number = 0.0
    """Of matrices only."""
    clip: Clip | None = 5.0
    """The largest norm of all gradients together; `inf` for any."""
    fraction: Annotated[float, Within(above=0, most=1)] = 1.0
    """Train on this part of the examples alone, the same for every seed; `--fraction`."""
    seed: Annotated[int, Within(least=0, below=2**63)] = 1
    """Of weights, order and dropout."""


FILES = {
    "format": "format",
    "encoding": "encoding",
    "tokenizer": "tokenizer",
    "header": "header",
    "label": "label_column",
    "texts": "text_column",
    "skip_bad_rows": "skip_bad_rows",
    "phrases": "phrases",
    "shortest_phrase": "shortest_phrase",
}
"""What the table `files` calls the settings of text."""
MAY_CHANGE = ("training.epochs", "training.patience")
"""What a resumed run may have otherwise than its checkpoint: how long."""


@dataclass(frozen=True)
class TaskConfig(Settings):
    """All settings of a task."""

    name: str
    """One of the catalogue: spam, sst, ner, pos, nli, squad, coref, srl."""
    kind: Kind
    """What the task is about, which its name says."""
    files: TextSettings = field(default_factory=lambda: TextSettings(tokenizer=None))
    """How files of examples are read; without a tokenizer, what the biLM was trained with splits
    raw text."""
    inputs: InputConfig = field(default_factory=InputConfig)
    """What the network knows of each word."""
    network: NetworkConfig = field(default_factory=NetworkConfig)
    """The task's own network."""
    training: TaskTrainingConfig = field(default_factory=TaskTrainingConfig)
    """How to train."""
    coref: CorefConfig = field(default_factory=CorefConfig)
    """Of coreference alone: spans and antecedents."""

    def __post_init__(self) -> None:
        super().__post_init__()
        fitting = NETWORKS[self.kind]
        if self.network.name not in fitting:
            raise ConfigError(
                f"network.name is {self.network.name!r}, which does not learn {self.name}; "
                f"use {' or '.join(map(repr, fitting))}"
            )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TaskConfig:
        """From plain values; unknown keys are named."""
        return make(cls, {**values, "files": _text_settings(values.get("files", {}))})

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON; `from_dict` is its inverse."""
        files = {name: getattr(self.files, field) for name, field in FILES.items()}
        return asdict(self) | {"files": files | {"texts": self.files.text_columns}}


def _text_settings(files: object) -> object:
    """The table `files` under the names that `TextSettings` has for its settings."""
    if not isinstance(files, Mapping):
        return files
    try:
        check_names(FILES, files)
    except ConfigError as error:
        raise ConfigError(f"files: {error}") from None
    return {"tokenizer": None} | {FILES[name]: value for name, value in files.items()}
