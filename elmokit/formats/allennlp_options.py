"""AllenNLP's options.json: the same settings under other names."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from elmokit.config import (
    FILTERS,
    Activation,
    CharacterEncoderConfig,
    Count,
    CountOrZero,
    EncoderConfig,
    ModelConfig,
    Within,
    WordEncoderConfig,
    checked,
    naming,
)
from elmokit.errors import ConfigError
from elmokit.io.files import read_object, write_atomically, write_object

MAX_CHARACTERS = 50
"""What AllenNLP uses whatever its options say."""
CHARACTERS = (262, 261)
"""At prediction and in training: the padded word's zeros are counted, or not."""
UNCOUNTED_WORDS = 2
"""Words of a word-input model until they are counted in its weight file: the markers alone."""

Options = Mapping[str, Any]
Filters = Annotated[tuple[tuple[Count, Count], ...], FILTERS]
LstmClip = Annotated[
    float, Within(least=0, below=1e30), "it must be a positive number, or null for no clip"
]


def read_options(path: str | Path) -> ModelConfig:
    """Read options.json; settings this package has no use for are passed over.

    Where the options do not tell a word-input model's number of words, it is a placeholder until
    `allennlp.read_model` counts them in the weight file. The softmax too is seen there only.
    """
    options = read_object(path)
    with naming(path):
        lstm = value_of(options, "lstm", Options)
        return ModelConfig(
            encoder=_encoder(options),
            token_size=value_of(lstm, "lstm.projection_dim", Count),
            cell_size=value_of(lstm, "lstm.dim", Count),
            lstm_layers=value_of(lstm, "lstm.n_layers", Count, 1),
            # 0 means no clip too, as AllenNLP reads it.
            cell_clip=value_of(lstm, "lstm.cell_clip", LstmClip, None) or None,
            projection_clip=value_of(lstm, "lstm.proj_clip", LstmClip, None) or None,
            # Absent means no, as in the original training code.
            skip_connections=value_of(lstm, "lstm.use_skip_connections", bool, False),
        )


def write_options(config: ModelConfig, path: str | Path) -> None:
    """Write options.json as AllenNLP and the original code read it at prediction.

    `read_options` gives the config back, but for what options have no name for: the number of
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
        options["n_tokens_vocab"] = config.encoder.words
    else:
        options["char_cnn"] = {
            "activation": config.encoder.activation,
            "filters": [list(pair) for pair in config.encoder.filters],
            "n_highway": config.encoder.highways,
            "embedding": {"dim": config.encoder.character_size},
            "n_characters": CHARACTERS[0],
            "max_characters_per_token": config.encoder.max_characters,
        }
    with write_atomically(path) as temporary:
        write_object(options, temporary)


def _encoder(options: Options) -> EncoderConfig:
    if "char_cnn" not in options:
        # Training options know the number of words; others leave it to the weight file.
        return WordEncoderConfig(words=value_of(options, "n_tokens_vocab", Count, UNCOUNTED_WORDS))
    characters = value_of(options, "char_cnn", Options)
    # The weight file has 261 rows in either case.
    value_of(characters, "char_cnn.n_characters", Literal[CHARACTERS], CHARACTERS[0])
    embedding = value_of(characters, "char_cnn.embedding", Options)
    return CharacterEncoderConfig(
        filters=value_of(characters, "char_cnn.filters", Filters),
        character_size=value_of(embedding, "char_cnn.embedding.dim", Count),
        max_characters=value_of(
            characters, "char_cnn.max_characters_per_token", Count, MAX_CHARACTERS
        ),
        highways=value_of(characters, "char_cnn.n_highway", CountOrZero, 0),
        activation=value_of(characters, "char_cnn.activation", Activation),
    )


def value_of(section: Options, name: str, kind: Any, *default: Any) -> Any:
    """A setting by its complete path; absent and null mean its default, if it has one."""
    value = section.get(name.rpartition(".")[2])
    if value is not None:
        return checked(name, value, kind)
    if not default:
        raise ConfigError(f"{name} is missing; is this the options file of a biLM?")
    return default[0]


def _shortest(clip: float | None) -> float | None:
    """The same number, written 3 rather than 3.0, as in the published options."""
    if clip is None or math.isinf(clip):  # JSON knows no infinity, and an infinite clip is none
        return None
    return int(clip) if float(clip).is_integer() else clip
