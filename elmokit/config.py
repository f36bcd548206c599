"""Settings of a model, how settings are checked, and settings by dotted name."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass
from difflib import get_close_matches
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from elmokit.errors import ConfigError, FormatError, InputError

BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, WORD_PADDING = range(257, 262)
"""The five marks among the character ids. Bytes are 1 to 256, so that 0 is a word not there."""
CHARACTERS = 262  # character ids in all

LEXICON_MARKS = ("<pad>", "<oov>", "<bos>", "<eos>", "<bow>", "<eow>")
"""The marks of a lexicon's characters: their ids are 1 to 6, and those of characters follow."""

Activation = Literal["relu", "tanh"]
State = Literal["zero", "carry", "warm"]
Precision = Literal["exact", "fast"]


@dataclass(frozen=True)
class Within:
    """The numbers that a setting may be, as in `Annotated[int, Within(least=1)]`."""

    least: float = -math.inf
    above: float = -math.inf
    below: float = math.inf
    most: float = math.inf
    infinite: bool = False

    def __contains__(self, value: float) -> bool:
        """Whether it is one of them; NaN never is."""
        finite = value < self.below or self.infinite
        return self.least <= value <= self.most and self.above < value and finite

    def __str__(self) -> str:
        limits = {"of at least": self.least, "above": self.above}
        limits |= {"below": self.below, "at most": self.most}
        return " and ".join(
            f"{words} {limit}" for words, limit in limits.items() if math.isfinite(limit)
        )


LARGEST = 2**63  # whole numbers are below: torch and NumPy count no further
MOST_VALUES = 1000  # of a setting that is a list
LONGEST_SHOWN = 200
Count = Annotated[int, Within(least=1)]
CountOrZero = Annotated[int, Within(least=0)]
Depth = Annotated[int, Within(least=1, most=100)]
DepthOrZero = Annotated[int, Within(least=0, most=100)]
"""Layers one above the other: each costs time before a weight is looked at."""
Positions = Annotated[int, Within(least=3, most=10_000)]
Number = Annotated[float, Within(least=0)]
Positive = Annotated[float, Within(above=0)]
Share = Annotated[float, Within(least=0, below=1)]
Clip = Annotated[
    float, Within(above=0, infinite=True), "it must be a number above 0; inf is not a clip"
]
FileName = Annotated[str, "give the name of a file"]

FILTERS = "give [[width, number], …], whole numbers of at least 1"
TABLE = "it must be a table of settings"

ADVICE = {
    bool: "use true or false",
    int: "it must be a whole number",
    float: "it must be a number",
    str: "it must be a text",
}


class Settings:
    """A base of frozen dataclasses whose fields are checked by their annotations.

    `Literal` names the choices, `Within` the numbers, and so does a tuple in `Annotated`; a text
    there is what an error advises. Lists become tuples, and where several values may stand, one
    alone needs no list.
    """

    def __post_init__(self) -> None:
        for name, kind in hints_of(type(self)).items():
            object.__setattr__(self, name, checked(name, getattr(self, name), kind))

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return asdict(self)  # type: ignore[call-overload]


_type_hints = cache(get_type_hints)  # which compiles every annotation again


def hints_of(kind: type) -> dict[str, Any]:
    """What each field of a dataclass may be."""
    hints = _type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in fields(kind)}


def checked(name: str, value: object, kind: Any) -> Any:
    """The value of a setting, lists as tuples; raises where it is not of its kind."""
    try:
        return _fitted(value, kind)
    except ValueError:
        large = isinstance(value, int) and abs(value) >= LARGEST
        advice = "use a smaller number" if large else _advice(kind)
        raise ConfigError(f"{name} is {_shown(value)}; {advice}") from None


def _shown(value: object) -> str:
    try:
        return repr(value)[:LONGEST_SHOWN]
    except ValueError:  # digits beyond Python's limit
        return "a number of thousands of digits"


def _fitted(value: Any, kind: Any) -> Any:
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        value = _fitted(value, parts[0])
        fits = all(value in part for part in parts[1:] if not isinstance(part, str))
    elif origin in (Union, UnionType):
        for part in parts:
            with suppress(ValueError):
                return _fitted(value, part)
        fits = False
    elif origin is tuple:
        return _fitted_tuple(value, parts)
    elif origin is Literal:
        fits = value in parts
    elif kind in (int, float):
        numbers = int if kind is int else int | float
        fits = isinstance(value, numbers) and not isinstance(value, bool)
        fits = fits and (isinstance(value, float) or abs(value) < LARGEST)
    else:
        fits = isinstance(value, origin or kind)
    if not fits:
        raise ValueError
    return value


def _fitted_tuple(value: Any, parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """A tuple of these parts, or of any number of the first where an ellipsis follows it."""
    if parts[-1] is Ellipsis:
        with suppress(ValueError):
            return (_fitted(value, parts[0]),)
        many = isinstance(value, list | tuple) and len(value) <= MOST_VALUES
        parts = parts[:1] * len(value) if many else ()
    if not isinstance(value, list | tuple) or len(value) != len(parts):
        raise ValueError
    return tuple(_fitted(one, part) for one, part in zip(value, parts, strict=True))


def _advice(kind: Any) -> str:
    """What to give instead of a value that is not of its kind."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        own = [part for part in parts if isinstance(part, str)]
        return own[0] if own else " ".join([_advice(parts[0]), *map(str, parts[1:])])
    if origin is Literal:
        return f"use one of {', '.join(map(repr, parts))}"
    if origin in (Union, UnionType):
        advice = [_advice(part) for part in parts if part is not NoneType]
        return ", or ".join(dict.fromkeys(advice))
    return ADVICE.get(kind, TABLE)


def check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    """Raise where a value is not one of `choices`."""
    checked(name, value, Literal[choices])


class FilterSizes(Settings):
    """What follows from the filters of an encoder."""

    filters: tuple[tuple[int, int], ...]

    @property
    def max_width(self) -> int:
        """The widest filter."""
        return max(width for width, _ in self.filters)

    @property
    def filter_count(self) -> int:
        """Filters of all widths together: the size the highways work in."""
        return sum(number for _, number in self.filters)


@dataclass(frozen=True)
class CharacterEncoderConfig(FilterSizes):
    """Words from their characters: embedding, convolutions, highways, projection."""

    filters: Annotated[tuple[tuple[Count, Count], ...], FILTERS]
    """`[width, number]` of each group of convolution filters."""
    character_size: Count = 16
    """Size of one character's embedding."""
    max_characters: Positions = 50
    """Positions per word, its begin and end marks included; longer words are cut."""
    highways: DepthOrZero = 2
    """Highway layers after the convolutions."""
    activation: Activation = "relu"
    """What follows each convolution."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.filters:
            raise ConfigError(f"filters is empty; {FILTERS}")
        if self.max_width > self.max_characters:
            raise ConfigError(
                f"a filter is {self.max_width} wide but a word has {self.max_characters} positions"
            )


@dataclass(frozen=True)
class WordEncoderConfig(Settings):
    """Words from a table of vectors, one row per word of a vocabulary."""

    words: Count
    """Words of the table."""
    begin_id: Count = 1
    """Id of the word that begins a sentence; id 0 is padding, word i of the vocabulary i + 1."""
    end_id: Count = 2
    """Id of the word that ends a sentence."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if max(self.begin_id, self.end_id) > self.words:
            raise ConfigError(
                f"begin_id {self.begin_id} or end_id {self.end_id} is beyond the {self.words} words"
            )


@dataclass(frozen=True)
class LexiconEncoderConfig(FilterSizes):
    """Words from a table joined to words from characters of an alphabet of the model's own."""

    words: Count
    """Words of the table, or of the softmax alone where `word_size` is 0."""
    word_size: CountOrZero
    """Size of a word's vector in the table; 0 for a model without."""
    characters: CountOrZero
    """Characters of the alphabet, the six marks included."""
    character_size: CountOrZero
    """Size of one character's embedding; 0 for a model of words alone."""
    filters: Annotated[tuple[tuple[Count, Count], ...], FILTERS]
    """`[width, number]` of each group of convolution filters."""
    max_characters: Positions = 50
    """Positions per word, its begin and end marks included; longer words are cut."""
    highways: DepthOrZero = 2
    """Highway layers after the convolutions."""
    activation: Activation = "relu"
    """What follows each convolution."""
    begin_id: Count = 1
    """Id of the word that begins a sentence; id 0 is padding, word i of the table i + 1."""
    end_id: Count = 2
    """Id of the word that ends a sentence."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.word_size and not self.character_size:
            raise ConfigError("word_size and character_size are both 0; one must be above")
        if self.character_size and (not self.filters or self.characters < len(LEXICON_MARKS)):
            raise ConfigError("a model of characters needs filters, and rows for the six marks")
        if max(self.begin_id, self.end_id) > self.words:
            raise ConfigError(f"begin_id or end_id is beyond the {self.words} words")


EncoderConfig = CharacterEncoderConfig | WordEncoderConfig | LexiconEncoderConfig
Config = TypeVar("Config")


@dataclass(frozen=True)
class ModelConfig(Settings):
    """The shape of a bidirectional language model."""

    encoder: EncoderConfig
    """How words are read: a table of settings below. In a pretraining run also `"words"`, for a
    vector for each word of the vocabulary."""
    token_size: Count
    """Size of a token vector and of each direction's output: the paper's projection, 512. The
    vector of a word has twice as many numbers."""
    cell_size: Count
    """LSTM cells per layer and direction: 4096 in the paper. Where it equals `token_size` there is
    no projection."""
    lstm_layers: Depth = 2
    """LSTM layers of each direction."""
    cell_clip: Clip | None = None
    """The largest absolute value of a cell: 3 in the paper; none by default."""
    projection_clip: Clip | None = None
    """The largest absolute value of a layer's output: 3 in the paper; none by default."""
    skip_connections: bool = True
    """Whether layers above the first add their input to their output."""
    softmax_words: Count | None = None
    """Size of the softmax vocabulary; None for a model whose softmax was not stored. In a
    pretraining run the vocabulary tells, and it is not given."""
    softmax_cutoffs: Annotated[tuple[Count, ...], "give whole numbers: [first, second, …]"] = ()
    """Where the clusters of an adaptive softmax begin, words numbered by falling frequency; none
    for a softmax of one piece."""
    softmax_division: Count = 4
    """How much smaller the vectors of each cluster are than those of the one before."""

    def __post_init__(self) -> None:
        super().__post_init__()
        bounds = [0, *self.softmax_cutoffs, self.softmax_words or math.inf]
        if any(later <= earlier for earlier, later in pairwise(bounds)):
            raise ConfigError(
                f"softmax_cutoffs is {list(self.softmax_cutoffs)}; "
                "each must be larger than the one before, the last below the number of words"
            )

    @property
    def recurrent_numbers(self) -> int:
        """The numbers of a layer's recurrent weight: the work of a step."""
        return 4 * self.cell_size * self.token_size

    @property
    def has_projection(self) -> bool:
        """Whether the LSTM's cells are projected down; equal sizes need no projection."""
        always = isinstance(self.encoder, LexiconEncoderConfig)
        return always or self.cell_size != self.token_size

    @property
    def layer_count(self) -> int:
        """Layers of the result: the token layer and each LSTM layer."""
        return self.lstm_layers + 1

    @property
    def vector_size(self) -> int:
        """Size of a word's vector in each layer: both directions side by side."""
        return 2 * self.token_size

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ModelConfig:
        """From plain values; unknown and missing keys are named."""
        values = dict(values)
        encoder = values.get("encoder")
        if isinstance(encoder, Mapping):
            by_words = WordEncoderConfig if "words" in encoder else CharacterEncoderConfig
            kind = LexiconEncoderConfig if "word_size" in encoder else by_words
            values["encoder"] = make(kind, encoder)
        return make(cls, values)


def make(kind: type[Config], values: Mapping[str, Any]) -> Config:
    """Build a config and those of its tables, naming the nearest key where one is misspelt."""
    check_names(hints_of(kind), values)
    tables = {
        name: make_table(table, name, values.get(name, {}))
        for name, table in tables_of(kind).items()
    }
    given = {**values, **tables}
    required = [
        field.name
        for field in fields(kind)  # type: ignore[arg-type]
        if field.default is MISSING and field.default_factory is MISSING
    ]
    if missing := [name for name in required if name not in given]:
        raise ConfigError(f"settings are incomplete: missing {', '.join(missing)}")
    return kind(**given)


def tables_of(kind: type) -> dict[str, type]:
    """The fields of a config that are configs themselves."""
    return {name: table for name, table in hints_of(kind).items() if is_dataclass(table)}  # type: ignore[misc]


def check_names(known: Collection[str], values: Iterable[str]) -> None:
    """Raise where a name is not a known one, naming the nearest."""
    for key in values:
        if key not in known:
            near = get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
            raise ConfigError(f"unknown setting {key!r}; {hint}")


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Say in which file a setting is wrong."""
    try:
        yield
    except ConfigError as error:
        raise FormatError(f"{path}: {error}") from error


def make_table(kind: type, name: str, values: object) -> Any:
    """Build the config of one table, naming the table in what is wrong with it."""
    table = checked(name, values, Annotated[Mapping[str, Any], f"{TABLE}: [{name}]"])
    try:
        return make(kind, table)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None


def change_setting(values: dict[str, Any], names: list[str], value: Any) -> None:
    """Change one setting of nested tables in place, None taking it away."""
    for name in names[:-1]:
        values = values.setdefault(name, {})
        if not isinstance(values, dict):
            raise ConfigError(f"{'.'.join(names)}: {name} is not a table of settings")
    if value is None:
        values.pop(names[-1], None)
    else:
        values[names[-1]] = value


def parse_setting(text: str, example: str = "training.rows=64") -> tuple[str, Any]:
    """A setting from the command line, its value read as TOML, or as a text where that fails.

    No value takes the setting away. `example` is what an error shows.

    >>> parse_setting("training.rows=64"), parse_setting("training.schedule=cosine")
    (('training.rows', 64), ('training.schedule', 'cosine'))
    """
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InputError(f"{text!r} is not a setting; write name=value, as in {example}")
    try:
        return name.strip(), tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):  # digits or brackets beyond Python's limits, too
        return name.strip(), value.strip() or None
