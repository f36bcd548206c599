from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from elmokit.config import CharacterEncoderConfig, WordEncoderConfig, parse_setting
from elmokit.errors import ConfigError, ElmoError, InputError
from elmokit.pretraining.config import (
    MAY_CHANGE,
    CorpusConfig,
    LoggingConfig,
    PretrainConfig,
    TrainingConfig,
    read_run,
)

RECIPES = sorted((Path(__file__).parents[2] / "runs").glob("*.toml"))

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
    with pytest.raises(ElmoError) as caught:
        read_run(path, settings)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message.removeprefix(f"{path}: ")


# Reading


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.name)
def test_every_recipe_is_read(path: Path) -> None:
    config = read_run(path)
    assert config.model_config(50_000).softmax_words == 50_000
    assert PretrainConfig.from_dict(config.to_dict()) == config


def test_there_are_recipes() -> None:
    assert "paper.toml" in [path.name for path in RECIPES]


def test_recipe_of_the_paper_is_that_of_the_original() -> None:
    config = read_run(next(path for path in RECIPES if path.name == "paper.toml"))
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


def test_config_survives_json(tmp_path: Path) -> None:
    config = read_run(
        run_file(tmp_path),
        {
            "model.softmax_cutoffs": [20, 400],
            "training.optimiser": "adamw",
            "training.betas": [0.8, 0.9],
            "training.clip": None,
            "corpus.vocabulary": "words.txt",
        },
    )
    assert PretrainConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


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


@pytest.mark.parametrize(
    ("changes", "needed"),
    [
        ({}, False),
        ({"training.samples": 100}, True),
        ({"model.softmax_cutoffs": [10]}, True),
        ({"model.softmax_cutoffs": []}, False),
    ],
)
def test_words_must_be_sorted_where_an_id_is_taken_for_a_rank(
    tmp_path: Path, changes: dict[str, Any], needed: bool
) -> None:
    assert read_run(run_file(tmp_path), changes).needs_sorted_words is needed


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
        ("valid", "vaild", "corpus: unknown setting 'vaild'; did you mean 'valid'?"),
        ("every", "evry", "logging: unknown setting 'evry'; did you mean 'every'?"),
        ("cell_size", "cell_sise", "model: unknown setting 'cell_sise'; did you mean 'cell_size'?"),
        ("output", "outptu", "unknown setting 'outptu'; did you mean 'output'?"),
        ("[training]", "[traning]", "unknown setting 'traning'; did you mean 'training'?"),
        ("[corpus]", "[korpus]", "unknown setting 'korpus'; did you mean 'corpus'?"),
        ("[model]", "[modell]", "unknown setting 'modell'; did you mean 'model'?"),
    ],
)
def test_typo_names_the_nearest_key_with_file_and_table(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert refusal(run_file(tmp_path, old, new)) == message


def test_typo_in_the_encoder_names_the_nearest_key(tmp_path: Path) -> None:
    message = refusal(run_file(tmp_path, "filters", "filter"))
    assert message.startswith("model: ")
    assert message.endswith("unknown setting 'filter'; did you mean 'filters'?")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("corpus.train", 5, "corpus: train is 5; give a list of files, folders or patterns"),
        ("corpus.train", [5], "corpus: train is [5]; give a list"),
        ("corpus.valid", True, "corpus: valid is True; give a list"),
        ("corpus.tokenizer", "spacy", "corpus: tokenizer is 'spacy'; use one of 'default', "),
        ("corpus.one_sentence_per_line", "yes", "corpus: one_sentence_per_line is 'yes'; use true"),
        ("corpus.errors", "ignore", "corpus: errors is 'ignore'; use one of 'strict', 'replace'"),
        ("corpus.vocabulary", 3, "corpus: vocabulary is 3; give the name of a file"),
        ("corpus.vocabulary_size", 3, "corpus: vocabulary_size is 3; it must be a whole number"),
        ("corpus.min_count", 0, "corpus: min_count is 0; it must be a whole number of at least 1"),
        ("corpus.block_words", 1.5, "corpus: block_words is 1.5; it must be a whole number"),
        ("training.rows", 0, "training: rows is 0; it must be a whole number of at least 1"),
        ("training.rows", True, "training: rows is True; it must be a whole number"),
        ("training.unroll", "20", "training: unroll is '20'; it must be a whole number"),
        ("training.accumulate", 3, "training: accumulate is 3; it must divide 128 rows"),
        ("training.mode", "row", "training: mode is 'row'; use one of 'stream', 'sentence'"),
        ("training.steps", None, "training: give one of epochs and steps: how long to train"),
        ("training.epochs", 0, "training: epochs is 0; nothing would be trained"),
        ("training.steps", -1, "training: steps is -1; it must be a whole number"),
        ("training.minutes", -1, "training: minutes is -1; it must be a number of at least 0"),
        ("training.samples", 0, "training: samples is 0; it must be a whole number of at least 1"),
        (
            "training.optimiser",
            "sgd",
            "training: optimiser is 'sgd'; use one of 'adagrad', 'adamw', 'muon'",
        ),
        (
            "training.learning_rate",
            "fast",
            "training: learning_rate is 'fast'; it must be a number",
        ),
        ("training.learning_rate", float("nan"), "training: learning_rate is nan; it must be"),
        ("training.learning_rate", float("inf"), "training: learning_rate is inf; it must be"),
        ("training.adagrad_start", -0.1, "training: adagrad_start is -0.1; it must be a number"),
        ("training.betas", 0.9, "training: betas is 0.9; give two numbers"),
        ("training.betas", [0.9], "training: betas is [0.9]; give two numbers"),
        (
            "training.betas",
            [0.9, 1.0],
            "training: a beta is 1.0; it must be a number of at least 0",
        ),
        ("training.weight_decay", -1, "training: weight_decay is -1; it must be a number"),
        ("training.schedule", "step", "training: schedule is 'step'; use one of 'constant', "),
        ("training.final_rate", -1, "training: final_rate is -1; it must be a number"),
        ("training.warmup_steps", 1.5, "training: warmup_steps is 1.5; it must be a whole number"),
        ("training.clip", 0, "training: clip is 0; it must be a positive number"),
        ("training.scale_loss_by_unroll", 1, "training: scale_loss_by_unroll is 1; use true or"),
        ("training.dropout", 1, "training: dropout is 1; it must be a number of at least 0 and "),
        ("training.unigram_bias", "no", "training: unigram_bias is 'no'; use true or false"),
        (
            "training.ema",
            1.0,
            "training: ema is 1.0; it must be a number of at least 0 and below 1",
        ),
        ("training.precision", "float16", "training: precision is 'float16'; use one of 'float32'"),
        ("training.seed", -1, "training: seed is -1; it must be a whole number of at least 0"),
        ("training.word_vectors", 5, "training: word_vectors is 5; give the name of a file"),
        (
            "training.freeze_word_vectors",
            0,
            "training: freeze_word_vectors is 0; use true or false",
        ),
        ("logging.every", 0, "logging: every is 0; it must be a whole number of at least 1"),
        ("logging.validate_every", 0, "logging: validate_every is 0; it must be a whole number"),
        ("logging.checkpoint_every", 0.5, "logging: checkpoint_every is 0.5; it must be a whole"),
        ("logging.patience", 0, "logging: patience is 0; it must be a whole number"),
        ("logging.keep", 0, "logging: keep is 0; it must be a whole number of at least 1"),
        ("logging.tensorboard", "on", "logging: tensorboard is 'on'; use true or false"),
        ("model.cell_size", 0, "model: cell_size is 0; it must be a whole number of at least 1"),
        ("model.cell_size", None, "model: settings are incomplete: missing"),
        ("model.encoder", "characters", "model: encoder is 'characters'; it must be a table"),
        ("model.softmax_cutoffs", 5, "model: softmax_cutoffs is 5; give [first, second, …]"),
        ("model.softmax_cutoffs", ["a"], "model: a cutoff of the softmax is 'a'; it must be a"),
        ("model.softmax_cutoffs", [9, 3], "model: softmax_cutoffs is [9, 3]; each must be larger"),
        ("model", 3, "model is 3; it must be a table of settings: [model]"),
        ("training", [1], "training is [1]; it must be a table of settings: [training]"),
        ("output", 3, "output is 3; give the name of a folder"),
    ],
)
def test_wrong_value_is_refused_in_one_line(
    tmp_path: Path, name: str, value: object, message: str
) -> None:
    assert refusal(run_file(tmp_path), {name: value}).startswith(message)


def test_two_kinds_of_softmax_at_once_are_refused(tmp_path: Path) -> None:
    changes = {"training.samples": 10, "model.softmax_cutoffs": [100]}
    assert refusal(run_file(tmp_path), changes) == (
        "training.samples is of a sampled softmax, model.softmax_cutoffs of an adaptive one; "
        "give one of them"
    )


def test_word_vectors_for_a_model_that_reads_characters_are_refused(tmp_path: Path) -> None:
    assert refusal(run_file(tmp_path), {"training.word_vectors": "glove.txt"}) == (
        'training.word_vectors is given but the model reads characters; set model.encoder = "words"'
    )


@pytest.mark.parametrize("contents", [b"[corpus", b"a = 1\na = 2\n", b"output = '\xff'"])
def test_file_that_is_not_toml_is_refused(tmp_path: Path, contents: bytes) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes(contents)
    assert refusal(path).startswith("is not TOML (")


def test_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.toml") == "cannot be read (No such file or directory)"


def test_setting_inside_something_that_is_no_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read_run(run_file(tmp_path), {"output.folder": "x"})
    assert str(caught.value).endswith("output.folder: output is not a table of settings")


# Settings of the command line


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("training.rows=64", ("training.rows", 64)),
        (" training.rows = 64 ", ("training.rows", 64)),
        ("training.learning_rate=1e-3", ("training.learning_rate", 0.001)),
        ("training.unigram_bias=true", ("training.unigram_bias", True)),
        ("training.schedule=cosine", ("training.schedule", "cosine")),
        ('training.schedule="cosine"', ("training.schedule", "cosine")),
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
    with pytest.raises(InputError) as caught:
        parse_setting(text)
    assert str(caught.value) == (
        f"{text!r} is not a setting; write name=value, as in training.rows=64"
    )
