from __future__ import annotations

import json

import pytest
from small_models import ENCODER, small_config

from elmokit.config import CharacterEncoderConfig, ModelConfig, WordEncoderConfig
from elmokit.errors import ConfigError


@pytest.mark.parametrize(
    "config",
    [
        small_config(),
        small_config(encoder=WordEncoderConfig(9), softmax_words=9),
        small_config(softmax_words=9, softmax_cutoffs=(2, 5), softmax_division=3),
    ],
)
def test_a_config_survives_json(config):
    assert ModelConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"token_size": 0}, "token_size is 0"),
        ({"cell_size": -5}, "cell_size is -5"),
        ({"lstm_layers": 0}, "lstm_layers is 0"),
        ({"lstm_layers": 2.0}, "lstm_layers is 2.0"),
        ({"cell_clip": -1.0}, "cell_clip is -1.0"),
        ({"cell_clip": float("nan")}, "cell_clip is nan"),
        ({"projection_clip": "3"}, "projection_clip is '3'"),
        ({"skip_connections": "no"}, "skip_connections is 'no'"),
        ({"softmax_words": 0}, "softmax_words is 0"),
        ({"skip_connections": 1}, "skip_connections is 1"),
        ({"encoder": None}, "encoder is None"),
        ({"softmax_division": 0}, "softmax_division is 0"),
        ({"softmax_division": 2.0}, "softmax_division is 2.0"),
        ({"softmax_cutoffs": 5}, "softmax_cutoffs is 5; give"),
        ({"softmax_cutoffs": None}, "softmax_cutoffs is None; give"),
        ({"softmax_cutoffs": [0]}, "a cutoff of the softmax is 0"),
        ({"softmax_cutoffs": [2.5]}, "a cutoff of the softmax is 2.5"),
        ({"softmax_cutoffs": ["a"]}, "a cutoff of the softmax is 'a'"),
    ],
)
def test_a_senseless_setting_is_named(changes, message):
    with pytest.raises(ConfigError, match=message.replace("(", r"\(")):
        small_config(**changes)


@pytest.mark.parametrize("cutoffs", [[3, 2], [3, 3], [9], [2, 10]])
def test_clusters_must_follow_each_other_inside_the_vocabulary(cutoffs):
    with pytest.raises(ConfigError) as caught:
        small_config(softmax_words=9, softmax_cutoffs=cutoffs)
    assert str(caught.value) == (
        f"softmax_cutoffs is {cutoffs}; "
        "each must be larger than the one before, the last below the number of words"
    )


def test_last_cluster_may_be_of_one_word():
    config = small_config(softmax_words=9, softmax_cutoffs=[1, 2, 8])
    assert config.softmax_cutoffs == (1, 2, 8)


def test_model_without_cutoffs_has_a_softmax_of_one_piece():
    values = small_config(softmax_words=9).to_dict()
    del values["softmax_cutoffs"], values["softmax_division"]  # as in folders written before
    assert ModelConfig.from_dict(values).softmax_cutoffs == ()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"activation": "gelu"}, "activation is 'gelu'; use one of 'relu', 'tanh'"),
        ({"filters": ()}, "filters is empty"),
        ({"filters": ((1, 2, 3),)}, "each entry is"),
        ({"filters": 5}, "filters is 5"),
        ({"filters": ((0, 4),)}, "filter width is 0"),
        ({"filters": ((60, 4),)}, "a filter is 60 wide"),
        ({"highways": -1}, "highways is -1"),
        ({"max_characters": 2}, "max_characters is 2"),
    ],
)
def test_a_senseless_encoder_setting_is_named(changes, message):
    with pytest.raises(ConfigError, match=message):
        CharacterEncoderConfig(**({"filters": ((1, 4),)} | changes))


def test_markers_of_a_word_encoder_must_be_among_its_words():
    with pytest.raises(ConfigError, match="beyond the 2 words"):
        WordEncoderConfig(2, end_id=3)


def test_a_misspelt_setting_names_the_nearest():
    values = small_config().to_dict()
    values["lstm_layer"] = values.pop("lstm_layers")
    with pytest.raises(
        ConfigError, match="unknown setting 'lstm_layer'; did you mean 'lstm_layers'"
    ):
        ModelConfig.from_dict(values)


def test_a_missing_setting_is_named():
    values = small_config().to_dict()
    del values["cell_size"]
    with pytest.raises(ConfigError, match="cell_size"):
        ModelConfig.from_dict(values)


def test_an_encoder_that_is_no_table_is_refused():
    with pytest.raises(ConfigError, match="encoder is 'cnn'"):
        ModelConfig.from_dict({**small_config().to_dict(), "encoder": "cnn"})


def test_sizes_of_the_result_follow_from_the_config():
    config = small_config(token_size=6, lstm_layers=3)
    assert (config.vector_size, config.layer_count, config.has_projection) == (12, 4, True)
    assert ENCODER.filter_count == 18
