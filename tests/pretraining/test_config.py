from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from helpers import error_of

from elmokit.config import CharacterEncoderConfig, WordEncoderConfig, parse_setting
from elmokit.errors import ConfigError, InputError
from elmokit.pretraining.config import (
    MAY_CHANGE,
    CorpusConfig,
    LoggingConfig,
    PretrainConfig,
    TrainingConfig,
    read_run,
    recipes,
)

RECIPES = [*recipes().values(), *sorted((Path(__file__).parents[2] / "runs").glob("*.toml"))]

RUN = """
output = "here"

[corpus]
train = ["a.txt", "b/*.gz"]
valid = "c.txt"

[model]
token_size = 6
cell_size = 10

[model.encoder]
filters = [[1, 4], [2, 8]]

[training]
steps = 5

[logging]
every = 3
"""


def run_file(folder: Path, old: str = "", new: str = "") -> Path:
    """A run in which something is otherwise."""
    assert old in RUN
    path = folder / "run.toml"
    path.write_text(RUN.replace(old, new, 1) if old else RUN, encoding="utf-8")
    return path


def refusal(path: Path, settings: Mapping[str, Any] | None = None) -> str:
    """What is said of a run that is refused, in one line that begins with its file."""
    return error_of(read_run, path, settings, after=f"{path}: ")


# Reading


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.name)
def test_every_recipe_is_read_and_survives_json(path: Path) -> None:
    config = read_run(path)
    assert config.model_config(50_000).softmax_words == 50_000
    changes: dict[str, Any] = {"corpus.vocabulary": "words.txt", "training.clip": None}
    for one in (config, read_run(path, changes | {"training.betas": [0.8, 0.9]})):
        assert PretrainConfig.from_dict(json.loads(json.dumps(one.to_dict()))) == one


def test_recipe_of_the_paper_is_that_of_the_original() -> None:
    config = read_run("paper")
    training = config.training
    assert (training.rows, training.unroll, training.epochs) == (3 * 128, 20, 10)
    assert (training.optimiser, training.learning_rate, training.adagrad_start) == (
        "adagrad",
        0.2,
        1.0,
    )
    assert (training.clip, training.scale_loss_by_unroll) == (10.0, True)
    assert (training.samples, training.dropout, training.schedule) == (8192, 0.1, "constant")
    model = config.model_config(793_471)
    assert (model.cell_size, model.token_size, model.lstm_layers) == (4096, 512, 2)
    assert (model.cell_clip, model.projection_clip) == (3.0, 3.0)
    assert isinstance(model.encoder, CharacterEncoderConfig)
    assert (model.encoder.filter_count, model.encoder.highways) == (2048, 2)


def test_run_is_read_with_its_defaults(tmp_path: Path) -> None:
    config = read_run(run_file(tmp_path))
    assert config.corpus == CorpusConfig(train=("a.txt", "b/*.gz"), valid=("c.txt",))
    assert config.training == TrainingConfig(steps=5)
    assert config.logging == LoggingConfig(every=3)
    assert config.output == "here"
    model = config.model_config(77)
    assert (model.softmax_words, model.token_size) == (77, 6)
    assert isinstance(model.encoder, CharacterEncoderConfig)


def test_word_input_model_has_as_many_words_as_the_vocabulary(tmp_path: Path) -> None:
    path = run_file(tmp_path, "[model.encoder]\nfilters = [[1, 4], [2, 8]]\n", "encoder = 'words'")
    model = read_run(path).model_config(77)
    assert model.encoder == WordEncoderConfig(words=77)


def test_settings_take_the_place_of_what_the_file_says(tmp_path: Path) -> None:
    changes = {
        "training.steps": None,
        "training.epochs": 2.5,
        "model.encoder.highways": 0,
        "logging.keep": 7,
        "output": "there",
    }
    config = read_run(run_file(tmp_path), changes)
    assert (config.training.steps, config.training.epochs) == (None, 2.5)
    assert config.model["encoder"] == {"filters": [[1, 4], [2, 8]], "highways": 0}
    assert (config.logging.every, config.logging.keep, config.output) == (3, 7, "there")


def test_what_may_change_when_resuming_are_settings(tmp_path: Path) -> None:
    values = read_run(run_file(tmp_path)).to_dict()
    for name in MAY_CHANGE:
        table, _, key = name.partition(".")
        assert table in values
        assert not key or key in values[table]


# Refusing


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("steps = 5", "stesp = 5", "training: unknown setting 'stesp'; did you mean 'steps'?"),
        ("output", "outptu", "unknown setting 'outptu'; did you mean 'output'?"),
        ("filters", "filter", "unknown setting 'filter'; did you mean 'filters'?"),
    ],
)
def test_typo_names_the_nearest_key_with_file_and_table(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert refusal(run_file(tmp_path, old, new)).endswith(message)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("corpus.train", [5], "corpus: train is [5]; give a list of files, folders or patterns"),
        ("training.accumulate", 3, "training: accumulate is 3; it must divide 128 rows"),
        ("training.steps", None, "training: give one of epochs and steps: how long to train"),
        ("training.betas", [0.9, 1], "training: betas is [0.9, 1]; give two numbers of at least 0"),
        ("model.cell_size", None, "model: settings are incomplete: missing cell_size"),
        (
            "model",
            None,
            "model: settings are incomplete: missing encoder, token_size, cell_size; "
            "give the table [model]",
        ),
        ("model.encoder", "characters", "model: encoder is 'characters'; it must be a table"),
        ("model", 3, "model is 3; it must be a table of settings"),
        ("training", [1], "training is [1]; it must be a table of settings: [training]"),
        ("output", 3, "output is 3; give the name of a folder"),
        ("training.word_vectors", "a.txt", "training.word_vectors is for a model that reads words"),
        ("training.freeze_word_vectors", True, "training.freeze_word_vectors is for a model that"),
    ],
)
def test_wrong_value_is_refused_in_one_line(
    tmp_path: Path, name: str, value: object, message: str
) -> None:
    assert refusal(run_file(tmp_path), {name: value}).startswith(message)


def test_settings_that_do_not_go_together_are_an_error(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"output.folder": "x"}
    error_of(read_run, run_file(tmp_path), changes, kind=ConfigError, after="output.folder: ")
    changes = {"training.samples": 10, "model.softmax_cutoffs": [100]}
    assert refusal(run_file(tmp_path), changes).startswith("training.samples is of a sampled")


@pytest.mark.parametrize("contents", [b"[corpus", b"a = 1\na = 2\n", b"output = '\xff'"])
def test_file_that_is_not_toml_is_refused(tmp_path: Path, contents: bytes) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes(contents)
    assert refusal(path).startswith(("is not TOML (", "is not UTF-8 text ("))
    assert refusal(tmp_path / "none.toml").startswith("cannot be read (")


# Settings of the command line


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("training.rows=64", ("training.rows", 64)),
        (" training.rows = 64 ", ("training.rows", 64)),
        ("training.learning_rate=1e-3", ("training.learning_rate", 0.001)),
        ("training.schedule=cosine", ("training.schedule", "cosine")),
        ("model.softmax_cutoffs=[10, 20]", ("model.softmax_cutoffs", [10, 20])),
        ("corpus.train=text/a b.txt", ("corpus.train", "text/a b.txt")),
        ("output=a=b", ("output", "a=b")),
        ("output=", ("output", None)),
        ("training.schedule=True", ("training.schedule", "True")),
    ],
)
def test_setting_is_read_as_toml_or_else_as_text(text: str, expected: tuple[str, Any]) -> None:
    assert parse_setting(text) == expected


@pytest.mark.parametrize("text", ["training.rows", "", "=5", "  = 5"])
def test_what_is_no_setting_is_refused_with_the_right_form(text: str) -> None:
    assert error_of(parse_setting, text, kind=InputError) == (
        f"{text!r} is not a setting; write name=value, as in training.rows=64"
    )
