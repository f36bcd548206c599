from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

import pytest
from helpers import error_of
from small_models import ENCODER, small_config

from elmokit.config import (
    CharacterEncoderConfig,
    Clip,
    Count,
    FileName,
    ModelConfig,
    Number,
    Settings,
    Within,
    WordEncoderConfig,
    hints_of,
)
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


@dataclass(frozen=True)
class Example(Settings):
    choice: Literal["a", "b"] | None = None
    flag: bool = False
    count: Count = 1
    share: Annotated[float, Within(above=0, most=1)] = 1
    clip: Clip | None = None
    file: FileName | None = None
    pair: Annotated[tuple[Number, Number], "give two numbers"] = (0, 1)
    several: tuple[Count, ...] = ()
    table: Mapping[str, int] = field(default_factory=dict)


@pytest.mark.parametrize(
    ("name", "values", "advice"),
    [
        ("choice", ["c", 1, []], "use one of 'a', 'b'"),
        ("flag", [1, None, "yes"], "use true or false"),
        ("count", [0, 2.0, True, "1", None], "it must be a whole number of at least 1"),
        ("share", [0, 1.5, math.nan, True], "it must be a number above 0 and at most 1"),
        ("clip", [0, -1.0, math.nan, "3"], "it must be a number above 0; inf is not a clip"),
        ("file", [3, True], "give the name of a file"),
        ("pair", [0.5, [1], [1, 2, 3], [1, -1], [1, math.inf]], "give two numbers"),
        ("several", [0, [0], [2.5], None, {}], ""),
        ("table", [3, [1], None], "it must be a table of settings"),
    ],
)
def test_a_setting_that_is_not_what_it_may_be_is_named_with_what_it_may_be(name, values, advice):
    for value in values:
        with pytest.raises(ConfigError) as caught:
            Example(**{name: value})
        assert str(caught.value).startswith(f"{name} is {value!r}; {advice}")


def test_lists_become_tuples_and_one_alone_needs_no_list():
    assert Example(pair=[1, 2.5], several=[3, 4]) == Example(pair=(1, 2.5), several=(3, 4))
    assert Example(several=5).several == (5,)
    assert Example(clip=math.inf, choice="b").clip == math.inf


@pytest.mark.parametrize("kind", [CharacterEncoderConfig, WordEncoderConfig, ModelConfig])
def test_every_setting_of_a_model_is_checked(kind):
    needed = {"filters": [[1, 4]], "words": 9, "encoder": ENCODER, "token_size": 2, "cell_size": 3}
    known = {name: value for name, value in needed.items() if name in hints_of(kind)}
    for name in hints_of(kind):
        with pytest.raises(ConfigError, match=f"^{name} is "):
            kind(**(known | {name: object()}))


@pytest.mark.parametrize("cutoffs", [[3, 2], [3, 3], [9], [2, 10]])
def test_clusters_must_follow_each_other_inside_the_vocabulary(cutoffs):
    assert error_of(small_config, softmax_words=9, softmax_cutoffs=cutoffs, kind=ConfigError) == (
        f"softmax_cutoffs is {cutoffs}; "
        "each must be larger than the one before, the last below the number of words"
    )


def test_model_without_cutoffs_has_a_softmax_of_one_piece():
    values = small_config(softmax_words=9).to_dict()
    del values["softmax_cutoffs"], values["softmax_division"]  # as in folders written before
    assert ModelConfig.from_dict(values).softmax_cutoffs == ()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"filters": ()}, "filters is empty"),
        ({"filters": ((1, 2, 3),)}, r"filters is .*; give \[\[width, number\], …\]"),
        ({"filters": ((0, 4),)}, "filters is"),
        ({"filters": ((60, 4),)}, "a filter is 60 wide"),
        ({"max_characters": 2}, "max_characters is 2"),
    ],
)
def test_a_senseless_encoder_setting_is_named(changes, message):
    with pytest.raises(ConfigError, match=message):
        CharacterEncoderConfig(**({"filters": ((1, 4),)} | changes))


def test_markers_of_a_word_encoder_must_be_among_its_words():
    assert "beyond the 2 words" in error_of(WordEncoderConfig, 2, end_id=3, kind=ConfigError)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lstm_layer": 2}, "unknown setting 'lstm_layer'; did you mean 'lstm_layers'"),
        ({"cell_size": None}, "cell_size"),
        ({"encoder": "cnn"}, "encoder is 'cnn'"),
    ],
)
def test_a_table_of_settings_that_makes_no_model_is_named(changes, message):
    values = small_config().to_dict() | changes
    with pytest.raises(ConfigError, match=message):
        ModelConfig.from_dict({name: value for name, value in values.items() if value is not None})


def test_sizes_of_the_result_follow_from_the_config():
    config = small_config(token_size=6, lstm_layers=3)
    assert (config.vector_size, config.layer_count, config.has_projection) == (12, 4, True)
    assert ENCODER.filter_count == 18
