from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from small_models import small_bilm, small_config

from elmokit.config import WordEncoderConfig
from elmokit.errors import ConfigError
from elmokit.formats.native import (
    SavedModel,
    expected_shapes,
    read_model,
    state_dict_misfit,
    write_model,
)
from elmokit.model.bilm import BiLM
from elmokit.model.softmax import AdaptiveSoftmax
from elmokit.text.vocabulary import Vocabulary

WORDS = 40
VOCABULARY = Vocabulary(["<S>", "</S>", "<UNK>", *(f"w{number}" for number in range(WORDS - 3))])

SOFTMAXES: dict[str, dict[str, Any]] = {
    "none": {"softmax_words": None},
    "whole": {},
    "one cluster": {"softmax_cutoffs": (10,)},
    "three clusters": {"softmax_cutoffs": (3, 4, 39), "softmax_division": 2},
    "small clusters": {"softmax_cutoffs": (1, 2, 3, 4), "softmax_division": 100},
    "equal clusters": {"softmax_cutoffs": (5, 20), "softmax_division": 1},
    "word input": {"softmax_cutoffs": (5, 20), "encoder": WordEncoderConfig(WORDS)},
}


@pytest.mark.parametrize("changes", SOFTMAXES.values(), ids=SOFTMAXES.keys())
def test_shapes_are_those_of_the_state_dict(changes: dict[str, Any]) -> None:
    config = small_config(**({"softmax_words": WORDS} | changes))
    state_dict = BiLM(config).state_dict()
    found = {name: tuple(value.shape) for name, value in state_dict.items()}
    assert found == expected_shapes(config)
    assert state_dict_misfit(state_dict, config) == ""


def test_model_of_more_numbers_than_there_can_be_is_one_line() -> None:
    with pytest.raises(ConfigError, match="too large"):
        expected_shapes(small_config(cell_size=2**60))


@pytest.mark.parametrize("changes", SOFTMAXES.values(), ids=SOFTMAXES.keys())
def test_model_is_the_same_after_saving_and_loading(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    bilm = small_bilm(**({"softmax_words": WORDS} | changes))
    vocabulary = VOCABULARY if bilm.config.softmax_words else None
    saved = SavedModel(bilm.config, bilm.state_dict(), "whitespace", vocabulary)
    write_model(tmp_path / "model", saved)
    loaded = read_model(tmp_path / "model")
    assert loaded.config == bilm.config
    assert loaded.weights.keys() == saved.weights.keys()
    assert all(torch.equal(loaded.weights[name], saved.weights[name]) for name in saved.weights)
    again = BiLM.from_weights(loaded.config, loaded.weights)
    if bilm.softmax is not None:
        assert again.softmax is not None
        outputs = torch.randn(5, bilm.config.token_size)
        assert torch.equal(again.softmax(outputs), bilm.softmax(outputs))


def test_adaptive_softmax_is_made_where_there_are_cutoffs() -> None:
    softmax = small_bilm(softmax_words=WORDS, softmax_cutoffs=(10, 20), softmax_division=3).softmax
    assert isinstance(softmax, AdaptiveSoftmax)
    assert softmax.bounds == (0, 10, 20, WORDS)
    assert [len(cluster.project.weight) for cluster in softmax.clusters] == [2, 1]


def test_weights_of_other_clusters_do_not_fit() -> None:
    state_dict = small_bilm(softmax_words=WORDS, softmax_cutoffs=(10,)).state_dict()
    config = small_config(softmax_words=WORDS, softmax_cutoffs=(12, 20))
    assert state_dict_misfit(state_dict, config) == (
        "missing softmax.clusters.1.project.weight; missing softmax.clusters.1.softmax.weight; "
        "missing softmax.clusters.1.softmax.bias; "
        "softmax.head.weight is (11, 6) instead of (14, 6); "
        "softmax.head.bias is (11,) instead of (14,); 2 more"
    )
