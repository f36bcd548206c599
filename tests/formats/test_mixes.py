from __future__ import annotations

import json
import math

import pytest
import torch
from small_models import small_config

from elmokit.errors import DiskError, FormatError, InputError
from elmokit.formats.mixes import read_mix, write_mix
from elmokit.model.scalar_mix import DirectionalMix, ScalarMix

CONFIG = small_config()
CONTENTS = {
    "format": "elmokit-mix",
    "version": 1,
    "layers": 3,
    "weights": [0.5, -1.0, 2],
    "gamma": 1.5,
    "layer_norm": False,
}


def trained(mix):
    with torch.no_grad():
        mix.weights.copy_(torch.randn(mix.weights.shape, generator=torch.manual_seed(0)))
        mix.gamma.fill_(0.1)
    return mix


@pytest.mark.parametrize(
    "mix",
    [ScalarMix(3), ScalarMix(3, layer_norm=True), DirectionalMix(3), DirectionalMix(3, join="add")],
)
def test_a_mix_is_read_as_it_was_written(tmp_path, mix):
    write_mix(trained(mix), tmp_path / "mix.json")
    found = read_mix(tmp_path / "mix.json", CONFIG)
    layers = torch.randn(3, 2, 5, 12, generator=torch.manual_seed(1))
    assert torch.equal(found(layers), mix(layers))
    assert type(found) is type(mix)


def test_the_file_has_the_weights_before_the_softmax(tmp_path):
    mix = ScalarMix(3, weights=[0.5, -1.0, 2])
    with torch.no_grad():
        mix.gamma.fill_(1.5)
    write_mix(mix, tmp_path / "mix.json")
    assert json.loads((tmp_path / "mix.json").read_text()) == CONTENTS


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "elmokit-bilm"}, "format is 'elmokit-bilm'; use one of 'elmokit-mix'"),
        ({"layers": 2}, "layers is 2; it must be 3, as the model has"),
        ({"weights": [1.0, 2.0]}, "weights is 2 numbers; it must be a list of 3"),
        ({"weights": [1.0, 2.0, math.nan]}, r"weights is \[1.0, 2.0, nan\]; it must be a list of"),
        ({"weights": [1.0, 2.0, 10**400]}, "weights is .*it must be a list of numbers"),
        ({"layer_norm": "no"}, "layer_norm is 'no'; use true or false"),
        ({"Gamma": 1.0}, "unknown setting 'Gamma'; did you mean 'gamma'"),
        ({"join": "add"}, "must have one of join and layer_norm"),
        ({"layer_norm": None, "join": "sum"}, "join is 'sum'; use one of 'concat', 'add'"),
    ],
)
def test_a_file_that_is_no_mix_is_refused(tmp_path, changes, message):
    path = tmp_path / "mix.json"
    path.write_text(json.dumps(CONTENTS | changes))
    with pytest.raises(FormatError, match=rf"mix\.json: {message}"):
        read_mix(path, CONFIG)


@pytest.mark.parametrize("text", ["", "[1, 2]", "{", "\x00"])
def test_a_file_that_is_no_object_is_refused(tmp_path, text):
    (tmp_path / "mix.json").write_text(text)
    with pytest.raises(FormatError, match=r"mix\.json"):
        read_mix(tmp_path / "mix.json", CONFIG)


def test_a_mix_that_diverged_is_not_written(tmp_path):
    mix = ScalarMix(3, weights=[0.0, math.nan, 0.0])
    with pytest.raises(InputError, match="weights that are not numbers"):
        write_mix(mix, tmp_path / "mix.json")
    assert not (tmp_path / "mix.json").exists()


def test_a_place_that_cannot_be_written_to_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DiskError, match="cannot be written"):
        write_mix(ScalarMix(3), tmp_path / "file" / "mix.json")
