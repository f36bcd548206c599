from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import error_of
from random_models import random_options

from elmokit.config import CharacterEncoderConfig, ModelConfig, WordEncoderConfig
from elmokit.errors import FormatError
from elmokit.formats.allennlp import read_options, write_options

Change = Callable[[dict[str, Any]], object]


def options_file(folder: Path, change: Change = lambda options: None, **variant: Any) -> Path:
    options = random_options(**variant)
    change(options)
    path = folder / "options.json"
    path.write_text(json.dumps(options), encoding="utf-8")
    return path


def test_every_setting_is_read(tmp_path: Path) -> None:
    path = options_file(
        tmp_path, layers=3, skip=False, activation="tanh", cell_clip=3, proj_clip=2.5, highways=1
    )

    assert read_options(path) == ModelConfig(
        CharacterEncoderConfig(
            filters=((1, 4), (2, 8), (3, 8)),
            character_size=4,
            max_characters=50,
            highways=1,
            activation="tanh",
        ),
        token_size=8,
        cell_size=24,
        lstm_layers=3,
        cell_clip=3.0,
        projection_clip=2.5,
        skip_connections=False,
    )


@pytest.mark.parametrize(
    "config",
    [
        ModelConfig(CharacterEncoderConfig(((1, 4), (7, 2)), highways=0), 8, 8, cell_clip=0.1),
        ModelConfig(CharacterEncoderConfig(((2, 4),), 5, 12, 3, "tanh"), 8, 9, 1, 3.0, 3, False),
        ModelConfig(WordEncoderConfig(words=9), 8, 8, 4),
    ],
)
def test_options_written_and_read_again_are_the_same(tmp_path: Path, config: ModelConfig) -> None:
    write_options(config, tmp_path / "options.json")

    assert read_options(tmp_path / "options.json") == config


def test_options_are_written_as_references_expect_them(tmp_path: Path) -> None:
    config = ModelConfig(CharacterEncoderConfig(((1, 4),)), 8, 8, cell_clip=3.0)

    write_options(config, tmp_path / "options.json")

    options = json.loads((tmp_path / "options.json").read_text())
    assert options["char_cnn"]["n_characters"] == 262
    assert options["lstm"]["proj_clip"] is None
    assert '"cell_clip": 3,' in (tmp_path / "options.json").read_text()


def test_infinite_clip_is_written_as_none(tmp_path: Path) -> None:
    config = ModelConfig(CharacterEncoderConfig(((1, 4),)), 8, 8, cell_clip=float("inf"))

    write_options(config, tmp_path / "options.json")

    assert read_options(tmp_path / "options.json").cell_clip is None


@pytest.mark.parametrize("characters", [261, 262])
def test_characters_are_counted_with_or_without_the_padded_word(
    tmp_path: Path, characters: int
) -> None:
    path = options_file(tmp_path, n_characters=characters)

    assert read_options(path) == read_options(options_file(tmp_path))


@pytest.mark.parametrize(
    ("section", "key", "setting", "value"),
    [
        ("char_cnn", "n_highway", lambda config: config.encoder.highways, 0),
        ("char_cnn", "max_characters_per_token", lambda c: c.encoder.max_characters, 50),
        ("char_cnn", "n_characters", lambda config: config.encoder.max_characters, 50),
        ("lstm", "n_layers", lambda config: config.lstm_layers, 1),
        ("lstm", "cell_clip", lambda config: config.cell_clip, None),
        ("lstm", "proj_clip", lambda config: config.projection_clip, None),
        # The original training code asks for it with .get(), so absence means no.
        ("lstm", "use_skip_connections", lambda config: config.skip_connections, False),
    ],
)
def test_absent_or_null_setting_means_what_it_means_to_the_original_code(
    tmp_path: Path, section: str, key: str, setting: Callable[[Any], Any], value: Any
) -> None:
    for change in (lambda part: part.pop(key), lambda part: part.update({key: None})):
        path = options_file(tmp_path, lambda options, change=change: change(options[section]))
        assert setting(read_options(path)) == value


@pytest.mark.parametrize("clip", [0, 0.0])
def test_clip_of_zero_is_off(tmp_path: Path, clip: float) -> None:
    config = read_options(options_file(tmp_path, cell_clip=clip, proj_clip=clip))

    assert config.cell_clip is None
    assert config.projection_clip is None


def test_settings_of_training_are_passed_over(tmp_path: Path) -> None:
    training = {"dropout": 0.1, "n_tokens_vocab": 793471, "bidirectional": True}

    path = options_file(tmp_path, lambda options: options.update(training))

    assert read_options(path) == read_options(options_file(tmp_path))


def test_options_without_characters_are_those_of_a_word_input_model(tmp_path: Path) -> None:
    path = options_file(tmp_path, word_input=True)

    assert isinstance(read_options(path).encoder, WordEncoderConfig)


def test_training_options_tell_the_words_of_a_word_input_model(tmp_path: Path) -> None:
    path = options_file(tmp_path, lambda o: o.update(n_tokens_vocab=99), word_input=True)

    assert read_options(path).encoder == WordEncoderConfig(words=99)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda o: o.pop("lstm"), "lstm is missing"),
        (lambda o: o.update(lstm=[]), "lstm is []; it must be a table"),
        (lambda o: o["lstm"].pop("projection_dim"), "lstm.projection_dim is missing"),
        (lambda o: o["lstm"].update(dim="64"), "lstm.dim is '64'"),
        (lambda o: o["lstm"].update(cell_clip=-3), "lstm.cell_clip is -3"),
        (lambda o: o["char_cnn"].update(n_characters=60), "n_characters is 60; use one of 262"),
        (lambda o: o["char_cnn"].update(filters=[[1, "2"]]), "char_cnn.filters is [[1, '2']]"),
        (lambda o: o["char_cnn"].update(filters=[[60, 2]]), "a filter is 60 wide"),
        (lambda o: o["char_cnn"].update(embedding={}), "char_cnn.embedding.dim is missing"),
    ],
)
def test_wrong_setting_is_refused_in_one_line_that_names_it(
    tmp_path: Path, change: Change, message: str
) -> None:
    path = options_file(tmp_path, change)

    assert message in error_of(read_options, path, kind=FormatError, after=f"{path}: ")


def test_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"nowhere\.json: cannot be read \(No such file"):
        read_options(tmp_path / "nowhere.json")


def test_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    path = options_file(tmp_path)
    expected = read_options(path)

    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())

    assert read_options(path) == expected
