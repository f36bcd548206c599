"""Settings of a model, how settings are checked, and settings by dotted name."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from difflib import get_close_matches
from itertools import pairwise
from typing import Any, Literal, TypeVar, get_args

from elmokit.errors import ConfigError, InputError

BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, WORD_PADDING = range(257, 262)
"""The five marks among the character ids. Bytes are 1 to 256, so that 0 is a word not there."""
CHARACTERS = 262
"""Character ids in all."""

Activation = Literal["relu", "tanh"]
State = Literal["zero", "carry", "warm"]
Precision = Literal["exact", "fast"]


def check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    """Refuse a value that is not one of `choices`."""
    if value not in choices:
        allowed = ", ".join(repr(choice) for choice in choices)
        raise ConfigError(f"{name} is {value!r}; use one of {allowed}")


def check_size(name: str, value: object, least: int = 1) -> None:
    """Refuse anything but a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"{name} is {value!r}; it must be a whole number of at least {least}")


def check_clip(name: str, value: object) -> None:
    """Refuse a clip that is neither off (None) nor a positive number."""
    if value is None:
        return
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not value > 0:  # type: ignore[operator]
        raise ConfigError(f"{name} is {value!r}; it must be a positive number; inf is no clip")


def check_number(name: str, value: object, least: float = 0.0, below: float = math.inf) -> None:
    """Refuse anything but a number from `least` up to, not including, `below`."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not least <= value < below:  # type: ignore[operator]
        upper = "" if below == math.inf else f" and below {below:g}"
        raise ConfigError(f"{name} is {value!r}; it must be a number of at least {least:g}{upper}")


def check_above_zero(name: str, value: object) -> None:
    """Refuse anything but a number above 0."""
    check_number(name, value)
    if value == 0:
        raise ConfigError(f"{name} is {value!r}; it must be above 0")


def check_flag(name: str, value: object) -> None:
    """Refuse anything but true and false."""
    if not isinstance(value, bool):
        raise ConfigError(f"{name} is {value!r}; use true or false")


def check_file_name(name: str, value: object) -> None:
    """Refuse anything but the name of a file, or None."""
    if value is not None and not isinstance(value, str):
        raise ConfigError(f"{name} is {value!r}; give the name of a file")


@dataclass(frozen=True)
class CharacterEncoderConfig:
    """Words from their characters: embedding, convolutions, highways, projection."""

    filters: tuple[tuple[int, int], ...]
    """(width, number) of each group of convolution filters."""
    character_size: int = 16
    """Size of one character's embedding."""
    max_characters: int = 50
    """Positions per word, its begin and end marks included; longer words are cut."""
    highways: int = 2
    activation: Activation = "relu"

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "filters", tuple(tuple(pair) for pair in self.filters))
        except TypeError:
            raise ConfigError(f"filters is {self.filters!r}; give [[width, number], …]") from None
        if not self.filters:
            raise ConfigError("filters is empty; give at least one [width, number]")
        for pair in self.filters:
            if len(pair) != 2:
                raise ConfigError(f"filters has {list(pair)!r}; each entry is [width, number]")
            check_size("filter width", pair[0])
            check_size("number of filters", pair[1])
        check_size("character_size", self.character_size)
        check_size("max_characters", self.max_characters, least=3)
        check_size("highways", self.highways, least=0)
        check_choice("activation", self.activation, get_args(Activation))
        if self.max_width > self.max_characters:
            raise ConfigError(
                f"a filter is {self.max_width} wide but a word has {self.max_characters} positions"
            )

    @property
    def max_width(self) -> int:
        """The widest filter."""
        return max(width for width, _ in self.filters)

    @property
    def filter_count(self) -> int:
        """Filters of all widths together: the size the highways work in."""
        return sum(number for _, number in self.filters)


@dataclass(frozen=True)
class WordEncoderConfig:
    """Words from a table of vectors, one row per word of a vocabulary."""

    words: int
    begin_id: int = 1
    """Id of the word that begins a sentence; id 0 is padding, word i of the vocabulary i + 1."""
    end_id: int = 2

    def __post_init__(self) -> None:
        check_size("words", self.words)
        check_size("begin_id", self.begin_id)
        check_size("end_id", self.end_id)
        if max(self.begin_id, self.end_id) > self.words:
            raise ConfigError(
                f"begin_id {self.begin_id} or end_id {self.end_id} is beyond the {self.words} words"
            )


EncoderConfig = CharacterEncoderConfig | WordEncoderConfig
Config = TypeVar("Config")


@dataclass(frozen=True)
class ModelConfig:
    """The shape of a bidirectional language model."""

    encoder: EncoderConfig
    token_size: int
    """Size of a token vector and of each direction's output: the paper's projection, 512."""
    cell_size: int
    """LSTM cells per layer and direction."""
    lstm_layers: int = 2
    cell_clip: float | None = None
    projection_clip: float | None = None
    skip_connections: bool = True
    """Layers above the first add their input to their output."""
    softmax_words: int | None = None
    """Size of the softmax vocabulary; None for a model whose softmax was not kept."""
    softmax_cutoffs: tuple[int, ...] = ()
    """Where the clusters of an adaptive softmax begin, words numbered by falling frequency; none
    for a softmax of one piece."""
    softmax_division: int = 4
    """How much smaller the vectors of each cluster are than those of the one before."""

    def __post_init__(self) -> None:
        if not isinstance(self.encoder, CharacterEncoderConfig | WordEncoderConfig):
            raise ConfigError(f"encoder is {self.encoder!r}; give a config of an encoder")
        check_size("token_size", self.token_size)
        check_size("cell_size", self.cell_size)
        check_size("lstm_layers", self.lstm_layers)
        check_clip("cell_clip", self.cell_clip)
        check_clip("projection_clip", self.projection_clip)
        if not isinstance(self.skip_connections, bool):
            raise ConfigError(f"skip_connections is {self.skip_connections!r}; use True or False")
        if self.softmax_words is not None:
            check_size("softmax_words", self.softmax_words)
        check_size("softmax_division", self.softmax_division)
        self._check_cutoffs()

    def _check_cutoffs(self) -> None:
        """Refuse clusters that do not follow each other inside the vocabulary."""
        try:
            object.__setattr__(self, "softmax_cutoffs", tuple(self.softmax_cutoffs))
        except TypeError:
            raise ConfigError(
                f"softmax_cutoffs is {self.softmax_cutoffs!r}; give [first, second, …]"
            ) from None
        for cutoff in self.softmax_cutoffs:
            check_size("a cutoff of the softmax", cutoff)
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
        return self.cell_size != self.token_size

    @property
    def layer_count(self) -> int:
        """Layers of the result: the token layer and each LSTM layer."""
        return self.lstm_layers + 1

    @property
    def vector_size(self) -> int:
        """Size of a word's vector in each layer: both directions side by side."""
        return 2 * self.token_size

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON; `from_dict` is its inverse."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ModelConfig:
        """From plain values, refusing unknown and missing keys by name."""
        values = dict(values)
        encoder = values.get("encoder")
        if isinstance(encoder, Mapping):
            kind = WordEncoderConfig if "words" in encoder else CharacterEncoderConfig
            values["encoder"] = make(kind, encoder)
        elif encoder is not None:
            raise ConfigError(f"encoder is {encoder!r}; it must be a table of settings")
        return make(cls, values)


def make(kind: type[Config], values: Mapping[str, Any]) -> Config:
    """Build a config, naming the nearest key where one is misspelt."""
    check_known(kind, values)
    try:
        return kind(**values)
    except TypeError as error:
        missing = str(error).split("missing", 1)
        raise ConfigError(f"settings are incomplete: missing{missing[-1]}") from None


def check_known(kind: type, values: Mapping[str, Any]) -> None:
    """Refuse a key that a config does not have, naming the nearest."""
    known = [field.name for field in fields(kind)]
    for key in values:
        if key not in known:
            near = get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
            raise ConfigError(f"unknown setting {key!r}; {hint}")


def make_table(kind: type, name: str, values: object) -> Any:
    """Build the config of one table, naming the table in what is wrong with it."""
    if not isinstance(values, Mapping):
        raise ConfigError(f"{name} is {values!r}; it must be a table of settings: [{name}]")
    try:
        return make(kind, values)
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
    except tomllib.TOMLDecodeError:
        return name.strip(), value.strip() or None
