from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from closeness import EXACT, assert_close
from small_models import small_bilm
from torch import Tensor, nn
from torch.optim import Optimizer

from elmokit.model.bilm import BiLM
from elmokit.model.weights import watch_optimisers
from elmokit.pretraining.config import TrainingConfig
from elmokit.pretraining.objective import (
    MOMENTUM,
    AveragedWeights,
    learning_rate,
    make_optimiser,
    orthogonal,
)

OPTIMISERS = ["adagrad", "adamw", "muon"]


def training(**changes: Any) -> TrainingConfig:
    return TrainingConfig(**({"steps": 10} | changes))


def small_model(dtype: torch.dtype = torch.float64) -> nn.Linear:
    """A matrix and a vector."""
    torch.manual_seed(0)
    return nn.Linear(3, 2, dtype=dtype)


def random_gradients(steps: int, model: nn.Module) -> list[list[Tensor]]:
    """Of every weight at every step; at some steps a few numbers of them are zero."""
    generator = torch.Generator().manual_seed(1)
    return [
        [
            torch.randn(weight.shape, dtype=weight.dtype, generator=generator)
            * (torch.rand(weight.shape, generator=generator) < 0.8)
            for weight in model.parameters()
        ]
        for _ in range(steps)
    ]


def step(model: nn.Module, optimiser: Optimizer, gradients: list[Tensor]) -> None:
    for weight, gradient in zip(model.parameters(), gradients, strict=True):
        weight.grad = gradient.clone()
    optimiser.step()


def weights_of(model: nn.Module) -> list[np.ndarray]:
    return [weight.detach().numpy().copy() for weight in model.parameters()]


# Learning rates


@pytest.mark.parametrize(
    ("changes", "rates"),
    [
        ({}, {0: 0.2, 7: 0.2, 100: 0.2}),
        ({"schedule": "linear"}, {0: 0.2, 7: 0.1, 14: 0.0, 15: 0.0}),
        (
            {"schedule": "linear", "warmup_steps": 4, "final_rate": 0.1},
            {0: 0.05, 3: 0.2, 4: 0.2, 9: 0.11, 14: 0.02, 30: 0.02},
        ),
        (
            {"schedule": "cosine", "warmup_steps": 2},
            {0: 0.1, 2: 0.2, 5: 0.1 * (1 + math.sqrt(0.5)), 6: 0.15, 8: 0.1, 14: 0.0},
        ),
        ({"schedule": "cosine", "final_rate": 0.5}, {0: 0.2, 7: 0.15, 14: 0.1, 99: 0.1}),
        ({"schedule": "linear", "warmup_steps": 20}, {0: 0.01, 13: 0.14}),
        (
            {"schedule": "trapezoid", "falling_share": 0.5, "warmup_steps": 2},
            {0: 0.1, 2: 0.2, 7: 0.2, 8: 0.2 * 6 / 7, 13: 0.2 / 7, 14: 0.0, 15: 0.0},
        ),
        (
            {"schedule": "trapezoid", "falling_share": 0.5, "final_rate": 0.5},
            {0: 0.2, 7: 0.2, 14: 0.1, 15: 0.1},
        ),
        (
            {"schedule": "trapezoid", "falling_share": 0.9, "warmup_steps": 4},
            {0: 0.05, 4: 0.2, 9: 0.1, 14: 0.0},
        ),
    ],
)
def test_learning_rate_at_points_worked_out_by_hand(
    changes: dict[str, Any], rates: dict[int, float]
) -> None:
    config = training(learning_rate=0.2, **changes)
    assert {number: learning_rate(config, number, 14) for number in rates} == pytest.approx(rates)


# Optimisers


def test_adagrad_is_the_one_of_tensorflow() -> None:
    model = small_model()
    optimiser = make_optimiser(model, training(learning_rate=0.2, adagrad_start=0.7))
    expected = weights_of(model)
    sums = [np.full_like(weight, 0.7) for weight in expected]
    for number, gradients in enumerate(random_gradients(6, model)):
        rate = 0.2 / (number + 1)
        optimiser.param_groups[0]["lr"] = rate
        step(model, optimiser, gradients)
        for weight, total, gradient in zip(expected, sums, gradients, strict=True):
            total += gradient.numpy() ** 2
            weight -= rate * gradient.numpy() / np.sqrt(total)
        for found, weight in zip(weights_of(model), expected, strict=True):
            assert_close(found, weight, 1e-9)  # torch adds 1e-10 to the root


def test_adamw_decays_apart_from_the_gradient_and_matrices_only() -> None:
    model = small_model()
    config = training(optimiser="adamw", learning_rate=0.01, betas=[0.8, 0.95], weight_decay=0.3)
    optimiser = make_optimiser(model, config)
    expected = weights_of(model)
    means = [np.zeros_like(weight) for weight in expected]
    squares = [np.zeros_like(weight) for weight in expected]
    for number, gradients in enumerate(random_gradients(6, model), start=1):
        step(model, optimiser, gradients)
        for place, gradient in enumerate(gradient.numpy() for gradient in gradients):
            means[place] = 0.8 * means[place] + 0.2 * gradient
            squares[place] = 0.95 * squares[place] + 0.05 * gradient**2
            mean, square = means[place] / (1 - 0.8**number), squares[place] / (1 - 0.95**number)
            decay = 0.3 if expected[place].ndim > 1 else 0.0
            expected[place] *= 1 - 0.01 * decay
            expected[place] -= 0.01 * mean / (np.sqrt(square) + 1e-8)
        for found, weight in zip(weights_of(model), expected, strict=True):
            assert_close(found, weight, EXACT)


def test_every_weight_of_a_model_is_optimised_once_and_frozen_ones_are_not() -> None:
    bilm = small_bilm(softmax_words=9)
    bilm.encoder.requires_grad_(False)
    wanted = {name for name, _ in bilm.named_parameters() if not name.startswith("encoder")}
    names = {id(weight): name for name, weight in bilm.named_parameters()}
    for name in OPTIMISERS:
        optimiser = make_optimiser(bilm, training(optimiser=name))
        found = [names[id(w)] for group in optimiser.param_groups for w in group["params"]]
        assert len(found) == len(wanted)
        assert set(found) == wanted


@pytest.mark.parametrize("shape", [(1, 64, 16), (1, 16, 64), (4, 48, 16)])
def test_orthogonal_brings_singular_values_near_one_and_keeps_directions(shape) -> None:
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    left, values, right = torch.linalg.svd(matrices, full_matrices=False)
    values = torch.logspace(0, -1.5, values.shape[-1]).expand_as(values)
    found = orthogonal(left * values[..., None, :] @ right)
    assert torch.linalg.svdvals(found).min() > 0.6
    assert torch.linalg.svdvals(found).max() < 1.3
    rotated = left.mT @ found @ right.mT
    assert_close(rotated, torch.diag_embed(rotated.diagonal(dim1=-2, dim2=-1)), 1e-3)


def exact_polar(matrix: Tensor) -> Tensor:
    """Newton and Schulz's iteration on the singular values themselves."""
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    values = values / values.norm()
    for _ in range(5):
        values = 3.4445 * values - 4.7750 * values**3 + 2.0315 * values**5
    return left * values @ right


def test_muon_changes_each_gate_by_its_orthogonal_momentum_and_the_rest_as_adamw() -> None:
    bilm = small_bilm().double()
    before = copy.deepcopy(bilm)
    config = training(
        optimiser="muon", learning_rate=0.01, muon_rate=0.05, weight_decay=0.3, betas=[0.8, 0.95]
    )
    optimiser = make_optimiser(bilm, config)
    adamw = make_optimiser(before, training(**vars(config) | {"optimiser": "adamw"}))
    gradients = random_gradients(2, bilm)
    names = [name for name, _ in bilm.named_parameters()]
    at = names.index("forward_lstm.layers.1.recurrent_weight")
    expected, momentum = list(bilm.parameters())[at].detach().clone(), torch.zeros(())
    for one in gradients:
        step(bilm, optimiser, one)
        step(before, adamw, one)
        momentum = MOMENTUM * momentum + (1 - MOMENTUM) * one[at]
        change = (1 - MOMENTUM) * one[at] + MOMENTUM * momentum
        gates = torch.cat([exact_polar(gate) for gate in change.chunk(4)])
        rows, columns = len(change) // 4, change.shape[1]
        expected = expected * (1 - 0.01 * 0.3) - 0.05 * math.sqrt(rows / columns) * gates
    found = dict(bilm.named_parameters())
    assert_close(found[names[at]], expected, 1e-6)
    same = [name for name, weight in before.named_parameters() if torch.equal(weight, found[name])]
    assert {name.split(".")[0] for name in same} == {"encoder", "forward_lstm", "backward_lstm"}
    assert "encoder.highways.0.gate.weight" in same
    assert "forward_lstm.layers.0.bias" in same
    assert not [name for name in same if name.endswith("projection.weight")]


# The average of the weights


def set_to(model: nn.Module, number: float) -> None:
    with torch.no_grad():
        for weight in model.parameters():
            weight.fill_(number)


def averages(rate: float, numbers: list[float]) -> list[float]:
    """The average after each step of a model whose weights are these numbers, from 0 on."""
    model = small_model()
    set_to(model, 0.0)
    average = AveragedWeights(model, rate)
    found = []
    for number in numbers:
        set_to(model, number)
        average.update(model)
        (value,) = {float(x) for weight in average.weights.values() for x in weight.flatten()}
        found.append(value)
    return found


@pytest.mark.parametrize(
    ("rate", "numbers", "expected"),
    [
        (0.999, [3.0, 1.0, 8.0, -2.0], [3 / 2, 4 / 3, 12 / 4, 10 / 5]),
        # One quarter is the share of the fourth value; the mean would give later ones less.
        (0.75, [4.0, 4.0, 4.0, 12.0, 0.0], [2.0, 8 / 3, 3.0, 5.25, 0.75 * 5.25]),
    ],
)
def test_average_is_the_mean_at_first_and_forgets_once_that_is_slower(
    rate: float, numbers: list[float], expected: list[float]
) -> None:
    assert averages(rate, numbers) == pytest.approx(expected)


def test_average_stands_in_for_the_weights_for_the_time_of_a_block() -> None:
    model = small_model()
    average = AveragedWeights(model, 0.5)
    set_to(model, 7.0)
    kept = {name: value.clone() for name, value in average.weights.items()}

    def validate() -> None:
        with average.applied(model):
            for name, weight in model.named_parameters():
                assert torch.equal(weight, kept[name])
            raise RuntimeError("held-out text is gone")

    with pytest.raises(RuntimeError, match="is gone"):
        validate()
    assert all(bool((weight == 7.0).all()) for weight in model.parameters())
    for name, value in average.weights.items():
        assert torch.equal(value, kept[name])


def test_inference_inside_the_block_uses_the_average() -> None:
    # Layers keep their weights laid out for inference: writing the average must be noticed.
    bilm = small_bilm()
    ids = torch.randint(1, 257, (1, 4, 50))
    average = AveragedWeights(bilm, 0.5)
    expected = vectors(bilm, ids)
    with torch.no_grad():
        for weight in bilm.parameters():
            weight.mul_(1.5)
    changed = vectors(bilm, ids)
    with average.applied(bilm):
        assert torch.equal(vectors(bilm, ids), expected)
    assert torch.equal(vectors(bilm, ids), changed)
    assert not torch.equal(changed, expected)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_inference_after_a_step_uses_the_new_weights(name: str) -> None:
    bilm = small_bilm()
    ids = torch.randint(1, 257, (1, 4, 50))
    before = vectors(bilm, ids)
    watch_optimisers()  # as recording gradients does
    optimiser = make_optimiser(bilm, training(optimiser=name, learning_rate=0.1))
    step(bilm, optimiser, random_gradients(1, bilm)[0])
    after = vectors(bilm, ids)
    fresh = BiLM.from_weights(bilm.config, bilm.state_dict())
    assert not torch.equal(after, before)
    assert_close(after, vectors(fresh, ids))


def vectors(bilm: BiLM, ids: Tensor) -> Tensor:
    with torch.no_grad():
        return bilm(ids).layers.vectors
