import pytest
import torch
from closeness import assert_close

from elmokit.errors import ConfigError
from elmokit.model.scalar_mix import DirectionalMix, ScalarMix


def random_layers() -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(3, 2, 4, 6)


def test_a_new_mix_is_the_average():
    layers = random_layers()
    assert_close(ScalarMix(3)(layers), layers.mean(0))


def test_weights_pass_through_a_softmax_and_gamma_scales():
    layers = random_layers()
    mix = ScalarMix(3, weights=[1.0, -2.0, 0.5])
    with torch.no_grad():
        mix.gamma.fill_(2.5)
    shares = torch.tensor([1.0, -2.0, 0.5]).softmax(0)
    expected = 2.5 * sum(share * layer for share, layer in zip(shares, layers, strict=True))
    assert_close(mix(layers), expected)


def test_weights_and_gamma_learn_unless_told_not_to():
    for trainable in (True, False):
        mix = ScalarMix(3, weights=[0.0, 0.0, 0.0], trainable=trainable)
        assert [parameter.requires_grad for parameter in mix.parameters()] == [trainable] * 2


def test_layer_norm_gives_each_layer_mean_0_and_variance_1_over_real_words():
    layers = random_layers() * 7 + 3
    mask = torch.tensor([[True, True, True, True], [True, True, False, False]])
    layers = layers * mask[None, :, :, None]
    mixed = ScalarMix(3, layer_norm=True)(layers, mask)
    expected = torch.zeros_like(mixed)
    for layer in layers:
        real = layer[mask]
        std = (real.var(unbiased=False) + 1e-13).sqrt()
        expected += (layer - real.mean()) / std / 3
    assert_close(mixed, expected)


def test_the_penalty_is_lambda_times_the_squares():
    mix = ScalarMix(2, weights=[3.0, -1.0], penalty=0.1)
    assert mix.penalty().item() == pytest.approx(1.0)
    directional = DirectionalMix(2, weights=[1.0, 2.0, 2.0], penalty=0.5)
    assert directional.penalty().item() == pytest.approx(4.5)


def test_a_new_directional_mix_is_the_average():
    layers = random_layers()
    layers[0, ..., 3:] = layers[0, ..., :3]  # the token layer is the same vector twice
    assert_close(DirectionalMix(3)(layers), layers.mean(0))


def test_a_directional_mix_contains_the_paper_s():
    layers = random_layers()
    layers[0, ..., 3:] = layers[0, ..., :3]
    mix = ScalarMix(3, weights=[0.3, -1.0, 2.0])
    token, first, second = mix.shares().tolist()
    directional = DirectionalMix(3, weights=[token, first, second, first, second])
    assert_close(directional(layers), mix(layers))


def test_directions_can_be_added_up():
    layers = random_layers()
    weights = [0.5, 1.0, 2.0, -1.0, 3.0]
    token, ahead, back = layers[0, ..., :3], layers[1:, ..., :3], layers[1:, ..., 3:]
    expected = 0.5 * token + ahead[0] + 2 * ahead[1] - back[0] + 3 * back[1]
    assert_close(DirectionalMix(3, join="add", weights=weights)(layers), expected)


def test_a_wrong_number_of_weights_or_an_unknown_join_is_refused():
    with pytest.raises(ConfigError, match="2 mix weights were given for 3"):
        ScalarMix(3, weights=[1.0, 2.0])
    with pytest.raises(ConfigError, match="3 mix weights were given for 5"):
        DirectionalMix(3, weights=[1.0, 2.0, 3.0])
    with pytest.raises(ConfigError, match="join is 'sum'"):
        DirectionalMix(3, join="sum")
