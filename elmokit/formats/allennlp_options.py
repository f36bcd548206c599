"""The contents of AllenNLP's options.json: the same settings under other names."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from elmokit.config import (
    CharacterEncoderConfig,
    EncoderConfig,
    ModelConfig,
    WordEncoderConfig,
    check_size,
)
from elmokit.errors import ConfigError, FormatError

MAX_CHARACTERS = 50
"""What AllenNLP uses whatever its options say."""
CHARACTERS = (262, 261)
"""At prediction and in training: the padded word's zeros are counted, or not."""
UNCOUNTED_WORDS = 2
"""Words of a word-input model until they are counted in its weight file: the markers alone."""

Options = Mapping[str, Any]


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Say in which file a setting is wrong."""
    try:
        yield
    except ConfigError as error:
        raise FormatError(f"{path}: {error}") from error


def parse_options(options: Options, path: str | Path) -> ModelConfig:
    """The config that options describe; `path` is for the errors."""
    with naming(path):
        lstm = _section(options, "lstm")
        return ModelConfig(
            encoder=_encoder(options, path),
            token_size=_size(lstm, "lstm.projection_dim"),
            cell_size=_size(lstm, "lstm.dim"),
            lstm_layers=_size(lstm, "lstm.n_layers", default=1),
            cell_clip=_clip(lstm, "lstm.cell_clip"),
            projection_clip=_clip(lstm, "lstm.proj_clip"),
            skip_connections=_skip_connections(lstm),
        )


def options_of(config: ModelConfig) -> dict[str, Any]:
    """The options that describe this config to AllenNLP.

    `parse_options` gives the config back, but for what options have no name for: the number of
    softmax words, which the weight file shows, and the sentence markers of a word-input model,
    which its vocabulary shows.
    """
    options: dict[str, Any] = {
        "lstm": {
            "use_skip_connections": config.skip_connections,
            "projection_dim": config.token_size,
            "cell_clip": _shortest(config.cell_clip),
            "proj_clip": _shortest(config.projection_clip),
            "dim": config.cell_size,
            "n_layers": config.lstm_layers,
        }
    }
    if isinstance(config.encoder, WordEncoderConfig):
        return {**options, "n_tokens_vocab": config.encoder.words}
    options["char_cnn"] = {
        "activation": config.encoder.activation,
        "filters": [list(pair) for pair in config.encoder.filters],
        "n_highway": config.encoder.highways,
        "embedding": {"dim": config.encoder.character_size},
        "n_characters": CHARACTERS[0],
        "max_characters_per_token": config.encoder.max_characters,
    }
    return options


def _encoder(options: Options, path: str | Path) -> EncoderConfig:
    if "char_cnn" not in options:
        # Training options know the number of words; others leave it to the weight file.
        return WordEncoderConfig(words=_size(options, "n_tokens_vocab", default=UNCOUNTED_WORDS))
    characters = _section(options, "char_cnn")
    _check_characters(characters)
    return CharacterEncoderConfig(
        filters=_filters(characters),
        character_size=_size(_section(characters, "char_cnn.embedding"), "char_cnn.embedding.dim"),
        max_characters=_size(
            characters, "char_cnn.max_characters_per_token", default=MAX_CHARACTERS
        ),
        highways=_highways(characters),
        activation=_activation(characters, path),
    )


def _value(section: Options, name: str) -> Any:
    """The value of a setting that must be there; `name` is its whole path, for the error."""
    key = name.rpartition(".")[2]
    if key not in section:
        raise ConfigError(f"{name} is missing; is this the options file of a biLM?")
    return section[key]


def _section(options: Options, name: str) -> Options:
    section = _value(options, name)
    if not isinstance(section, Mapping):
        raise ConfigError(f"{name} is {section!r}; it must be an object of settings")
    return section


def _size(section: Options, name: str, default: int | None = None) -> int:
    key = name.rpartition(".")[2]
    value = default if default is not None and key not in section else _value(section, name)
    check_size(name, value)
    return int(value)


def _highways(characters: Options) -> int:
    highways = characters.get("n_highway")
    if highways is None:
        return 0
    check_size("char_cnn.n_highway", highways, least=0)
    return int(highways)


def _clip(lstm: Options, name: str) -> float | None:
    """A clip; absent, null and 0 all mean none, as AllenNLP reads them."""
    value = lstm.get(name.rpartition(".")[2])
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e30:
        raise ConfigError(f"{name} is {value!r}; it must be a positive number, or null for no clip")
    return float(value) or None


def _skip_connections(lstm: Options) -> bool:
    """Whether layers add their input; absent or null means no, as in the original training code."""
    value = lstm.get("use_skip_connections")
    if value is None:
        return False
    if not isinstance(value, bool):
        raise ConfigError(f"lstm.use_skip_connections is {value!r}; it must be true or false")
    return value


def _check_characters(characters: Options) -> None:
    """Refuse an alphabet other than ours; the weight file has 261 rows in either case."""
    number = characters.get("n_characters", CHARACTERS[0])
    if number not in CHARACTERS:
        raise ConfigError(f"char_cnn.n_characters is {number!r}; use 262 (or 261, as in training)")


def _filters(characters: Options) -> tuple[tuple[int, int], ...]:
    filters = _value(characters, "char_cnn.filters")
    pairs = isinstance(filters, list) and all(
        isinstance(pair, list) and len(pair) == 2 for pair in filters
    )
    if not pairs:
        raise ConfigError(f"char_cnn.filters is {filters!r}; it must be a list of [width, number]")
    return tuple((width, number) for width, number in filters)


def _activation(characters: Options, path: str | Path) -> Any:
    name = _value(characters, "char_cnn.activation")
    if name not in ("relu", "tanh"):
        raise FormatError(f"{path}: activation {name!r} is not supported; use 'relu' or 'tanh'")
    return name


def _shortest(clip: float | None) -> float | None:
    """The same number, written 3 rather than 3.0, as in the published options."""
    if clip is None or math.isinf(clip):  # JSON knows no infinity, and an infinite clip is none
        return None
    return int(clip) if float(clip).is_integer() else clip
