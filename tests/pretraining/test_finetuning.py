from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from closeness import assert_close
from helpers import assert_same_bits, write_sentences
from pretraining.small_runs import assert_same_run, sentences, small_run, train

from elmokit import Embedder, LanguageModel
from elmokit.errors import InputError
from elmokit.formats.native import SavedModel, read_model
from elmokit.pretraining.run import Finetuned, finetune, finetuning_run

KINDS: dict[str, dict[str, Any]] = {
    "characters": {},
    "adaptive softmax": {"model.softmax_cutoffs": [20, 50]},
    "words": {"model.encoder": "words"},
}
Models = Callable[[str], SavedModel]
NOTHING_LEARNED = {"training.learning_rate": 0.0}
NEW_WORDS = ("engine", "valve", "piston")
"""Those of the domain, by falling frequency."""


def domain(count: int, seed: int) -> list[list[str]]:
    """Sentences with some words that the model has not been trained on."""
    lines = sentences(count, seed)
    for number, words in enumerate(lines):
        words[2] = "engine"
        words[5] = "valve" if number % 3 else "piston"
    return lines


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    """A model of each kind, trained when first asked for."""
    trained: dict[str, SavedModel] = {}

    def model(kind: str) -> SavedModel:
        if kind not in trained:
            folder = tmp_path_factory.mktemp("model")
            trained[kind] = read_model(train(small_run(folder, KINDS[kind])).model)
        return trained[kind]

    return model


def train_on(
    folder: Path, saved: SavedModel, settings: dict[str, Any] | None = None, **arguments: Any
) -> Finetuned:
    """Train a model on the domain; its held-out text is other sentences of it."""
    text = write_sentences(folder / "domain.txt", domain(80, seed=4))
    valid = write_sentences(folder / "held-out.txt", domain(20, seed=5))
    config = finetuning_run(
        saved,
        (text,),
        str(folder / arguments.pop("output", "run")),
        valid=(valid,) if arguments.pop("held_out", True) else (),
        settings=settings,
    )
    result = finetune(saved, config, processes=1, **arguments)
    assert result is not None
    return result


@pytest.mark.parametrize(
    ("kind", "new_words"),
    [("characters", 0), ("characters", 3), ("adaptive softmax", 3), ("words", 3)],
)
def test_text_of_the_domain_is_expected_more_than_before(
    tmp_path: Path, models: Models, kind: str, new_words: int
) -> None:
    recipe = {"training.learning_rate": 0.03, "training.epochs": 2}
    before = {name: value.clone() for name, value in models(kind).weights.items()}
    result = train_on(tmp_path, models(kind), recipe, new_words=new_words)
    assert_same_bits(models(kind).weights, before)
    assert result.held_out
    assert result.after.forward < 0.9 * result.before.forward
    assert result.after.backward < 0.9 * result.before.backward
    assert result.after.unknown == (0 if new_words else 2 * 20)
    model = LanguageModel.load(result.result.model)
    assert model.perplexity(domain(20, seed=5)) == result.after
    assert Embedder.load(result.result.model).embed([["the", "engine"]])[0].shape == (2, 16)


def test_the_vocabulary_is_kept_unless_words_are_asked_for(tmp_path: Path, models: Models) -> None:
    saved = models("characters")
    result = train_on(tmp_path, saved, NOTHING_LEARNED)
    kept = read_model(result.result.model)
    assert kept.vocabulary == saved.vocabulary
    assert result.before == result.after
    assert_same_bits(kept.weights, saved.weights)


@pytest.mark.parametrize("kind", KINDS)
def test_new_words_come_after_the_old_ones_which_stay(
    tmp_path: Path, models: Models, kind: str
) -> None:
    saved = models(kind)
    # More are asked for than there are.
    result = train_on(tmp_path, saved, NOTHING_LEARNED, new_words=5)

    longer = read_model(result.result.model)
    assert saved.vocabulary is not None
    assert longer.vocabulary is not None
    assert longer.vocabulary.words == (*saved.vocabulary.words, *NEW_WORDS)
    grown = {
        name for name, value in saved.weights.items() if longer.weights[name].shape != value.shape
    }
    last = "softmax.clusters.1.softmax" if kind == "adaptive softmax" else "softmax"
    table = {"encoder.words.weight"} if kind == "words" else set()
    assert grown == {f"{last}.weight", f"{last}.bias"} | table
    for name, value in saved.weights.items():
        assert torch.equal(longer.weights[name][: len(value)], value), name


def test_a_new_word_is_as_likely_as_an_unknown_one_was(tmp_path: Path, models: Models) -> None:
    result = train_on(tmp_path, models("characters"), NOTHING_LEARNED, new_words=1)
    engine, piston = LanguageModel.load(result.result.model).score([["engine"], ["piston"]])
    assert (engine.unknown[0], piston.unknown[0]) == (False, True)
    assert_close(engine.forward, piston.forward)
    assert_close(engine.backward, piston.backward)


def test_without_held_out_text_the_training_text_is_measured(
    tmp_path: Path, models: Models
) -> None:
    result = train_on(tmp_path, models("characters"), held_out=False)
    assert not result.held_out
    assert result.result.perplexity is None
    assert result.before.words == sum(map(len, domain(80, seed=4)))
    assert "of the training text itself" in result.describe()
    assert result.after.mean < result.before.mean


def test_little_text_is_read_in_few_rows(tmp_path: Path, models: Models) -> None:
    result = train_on(tmp_path, models("characters"))
    # 80 sentences make 10 rows, not 32; one epoch of 20 words a step and row is some steps then.
    targets = sum(len(words) + 1 for words in domain(80, seed=4))
    assert result.result.steps == -(-targets // (10 * 20))


def test_a_resumed_run_ends_as_if_it_had_not_been_stopped(tmp_path: Path, models: Models) -> None:
    saved = models("words")
    settings = {
        "training.epochs": None,
        "training.schedule": "constant",
        "logging.every": 2,
        "logging.validate_every": 4,
    }
    whole = train_on(tmp_path, saved, settings | {"training.steps": 8}, new_words=2)
    train_on(tmp_path, saved, settings | {"training.steps": 4}, new_words=2, output="stopped")
    resumed = train_on(
        tmp_path,
        saved,
        settings | {"training.steps": 8},
        new_words=2,
        output="stopped",
        resume=True,
    )
    assert_same_run(tmp_path / "run", tmp_path / "stopped")
    assert (resumed.before, resumed.after) == (whole.before, whole.after)


def test_another_number_of_new_words_is_not_resumed(tmp_path: Path, models: Models) -> None:
    saved = models("characters")
    train_on(tmp_path, saved, new_words=2)
    with pytest.raises(InputError, match=r"vocabulary is another"):
        train_on(tmp_path, saved, new_words=1, resume=True)


def test_a_model_that_cannot_predict_is_refused(tmp_path: Path, models: Models) -> None:
    saved = models("characters")
    config = {**saved.config.to_dict(), "softmax_words": None}
    without = saved._replace(config=type(saved.config).from_dict(config))
    with pytest.raises(InputError, match=r"no softmax.* elmo pretrain"):
        train_on(tmp_path, without)
    with pytest.raises(InputError, match="use a model folder of elmo pretrain"):
        train_on(tmp_path, saved._replace(vocabulary=None))
