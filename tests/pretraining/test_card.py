from __future__ import annotations

from typing import Any

import pytest
from small_models import small_bilm

from elmokit.formats.native import SavedModel, model_card
from elmokit.inference.predictions import Perplexity
from elmokit.jobs.checkpoints import Checkpoint
from elmokit.pretraining.config import CorpusConfig, PretrainConfig, TrainingConfig
from elmokit.pretraining.run import training_card
from elmokit.text.vocabulary import Vocabulary

PERPLEXITY = Perplexity(
    forward=90.0, backward=10.0, mean=30.0, targets=1100, words=1000, unknown=15, state="zero"
)


def saved_model() -> SavedModel:
    bilm = small_bilm(softmax_words=4)
    vocabulary = Vocabulary(["<S>", "</S>", "<UNK>", "the"])
    return SavedModel(bilm.config, bilm.state_dict(), "whitespace", vocabulary)


def card_of(
    perplexity: Perplexity | None = PERPLEXITY, model: dict[str, Any] | None = None, **training: Any
) -> str:
    settings: dict[str, Any] = {"steps": 20_000, "learning_rate": 0.003, "dropout": 0.25}
    config = PretrainConfig(
        CorpusConfig(),
        TrainingConfig(**(settings | training)),
        {"encoder": {"filters": [[1, 4]]}, "token_size": 6, "cell_size": 10} | (model or {}),
    )
    progress = {"step": 12_000, "words": 34_567_890, "seconds": 9000.0}
    checkpoint = Checkpoint(12_000, {}, {"progress": progress})
    return training_card(saved_model(), config, checkpoint, perplexity, ["배", "를", "타"])


def history(card: str) -> dict[str, str]:
    """The table under the last heading."""
    _, table = card.split("## Training\n")
    rows = [line.strip("|").split("|") for line in table.strip().splitlines()[2:]]
    return {name.strip(): value.strip() for name, value in rows}


def test_card_is_the_models_own_with_its_history() -> None:
    card = card_of()
    assert card.startswith(model_card(saved_model(), ["배", "를", "타"]))
    assert 'elmo.embed([["배", "를", "타"]])' in card
    found = history(card)
    assert found["steps"] == "12,000"
    assert found["words read"] == "34,567,890"
    assert found["hours"] == "2.50"
    assert found["optimiser"] == "adagrad, learning rate 0.003"
    assert found["batch"] == "128 streams of 20 words"
    assert found["dropout"] == "0.25"


def test_card_gives_the_held_out_perplexity_of_the_full_softmax() -> None:
    assert history(card_of(samples=3))["held-out text"] == PERPLEXITY.describe()
    assert "30.00" in history(card_of())["held-out text"]
    assert history(card_of(perplexity=None))["held-out text"] == "none"


@pytest.mark.parametrize(
    ("training", "model", "loss"),
    [
        ({}, {}, "full softmax"),
        ({"samples": 8192}, {}, "sampled softmax, 8,192 candidates"),
        ({}, {"softmax_cutoffs": [2]}, "adaptive softmax"),
    ],
)
def test_card_names_the_loss(training: dict[str, Any], model: dict[str, Any], loss: str) -> None:
    assert history(card_of(model=model, **training))["loss"] == loss
