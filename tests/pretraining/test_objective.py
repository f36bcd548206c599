from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from closeness import assert_close
from helpers import error_of
from oracle import Oracle, StackState, run_stack
from oracle import character_ids as oracle_character_ids
from random_models import random_options, random_weights, write_files
from small_models import small_bilm
from torch import Tensor

from elmokit.config import WordEncoderConfig
from elmokit.errors import InputError
from elmokit.formats.allennlp import read_model
from elmokit.jobs.progress import Observer
from elmokit.model import lstm as lstm_module
from elmokit.model.bilm import BiLM, BiLMState
from elmokit.model.lstm import LSTMState
from elmokit.model.products import MixedProduct
from elmokit.model.softmax import Softmax, sampled_loss
from elmokit.pretraining import objective as module
from elmokit.pretraining.batches import BACKWARD, FORWARD, Batch, Side
from elmokit.pretraining.config import CorpusConfig, PretrainConfig, TrainingConfig
from elmokit.pretraining.objective import Objective
from elmokit.pretraining.trainer import Group, Trainer
from elmokit.text.vocabulary import Vocabulary

WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", "sat", "on", "mat", "."]
VOCABULARY = Vocabulary(WORDS)
STEPS = 6


class Stream(NamedTuple):
    """What a row reads in one direction, and what it is to predict."""

    inputs: Sequence[str]
    targets: Sequence[str]

    def part(self, start: int, end: int) -> Stream:
        return Stream(self.inputs[start:end], self.targets[start:end])


def stream(text: str, opening: str, closing: str) -> Stream:
    """A row of sentences, `/` between them."""
    sentences = [sentence.split() for sentence in text.split("/")]
    return Stream(
        [word for sentence in sentences for word in (opening, *sentence)],
        [word for sentence in sentences for word in (*sentence, closing)],
    )


FORWARD_ROWS = [
    stream("the cat sat on the aardvark . / the mat . ", "<S>", "</S>"),
    stream("sat / . / the cat / the zebra sat . . /", "<S>", "</S>"),
]
BACKWARD_ROWS = [
    stream(". mat the on cat / aardvark the sat . .", "</S>", "<S>"),
    stream(". cat the / sat the / zebra cat . the", "</S>", "<S>"),
]
BOTH = (FORWARD_ROWS, BACKWARD_ROWS)


def target_id(word: str) -> int:
    return WORDS.index(word if word in WORDS else "<UNK>")


def batch_of(rows: tuple[Sequence[Stream], Sequence[Stream]], start: int, end: int) -> Batch:
    """A batch of the same steps of all rows, its words told apart the plain way."""
    parts = [[row.part(start, end) for row in side] for side in rows]
    words = sorted({word for side in parts for row in side for word in row.inputs})
    sides = [
        Side(
            torch.tensor([words.index(row.inputs[s]) for s in range(end - start) for row in side]),
            torch.tensor([target_id(row.targets[s]) for s in range(end - start) for row in side]),
        )
        for side in parts
    ]
    ids = torch.tensor([oracle_character_ids(word) for word in words], dtype=torch.int16)
    tokens = len(parts[0]) * (end - start)
    forward, backward = sides
    return Batch(ids, forward, backward, [len(parts[0])] * (end - start), tokens, tokens)


def training(**changes: Any) -> TrainingConfig:
    settings: dict[str, Any] = {"steps": 10, "rows": 2, "unroll": STEPS, "dropout": 0.0}
    return TrainingConfig(**(settings | changes))


def zero_state(bilm: BiLM, rows: int = 2) -> BiLMState:
    like = next(bilm.forward_lstm.parameters()).detach()
    return BiLMState(
        bilm.forward_lstm.zero_state(rows, like), bilm.backward_lstm.zero_state(rows, like)
    )


def trainable_bilm(**changes: Any) -> BiLM:
    return small_bilm(softmax_words=len(WORDS), **changes)


# Against NumPy


def oracle_losses(
    oracle: Oracle, rows: Sequence[Stream], direction: int, states: list[StackState | None]
) -> float:
    """Sum of -log p(target); the states of the rows are moved on."""
    weight, bias = (oracle.weights[f"softmax/{name}"].astype(np.float64) for name in ("W", "b"))
    total = 0.0
    for number, row in enumerate(rows):
        vectors = [oracle.token_vector(word) for word in row.inputs]
        layers, states[number] = run_stack(
            oracle.options, oracle.weights, direction, vectors, states[number]
        )
        for output, target in zip(layers[-1], row.targets, strict=True):
            logits = weight @ output + bias
            total -= logits[target_id(target)] - np.log(np.exp(logits).sum())
    return total


def test_losses_with_carried_state_are_those_of_the_oracle(tmp_path: Path) -> None:
    options = random_options()
    weights = random_weights(options, softmax_words=len(WORDS))
    bilm = BiLM.from_weights(*read_model(*write_files(tmp_path, options, weights)))
    oracle = Oracle(options, weights)
    states: list[list[StackState | None]] = [[None, None], [None, None]]
    objective, state = Objective(bilm.requires_grad_(), training()), zero_state(bilm)
    for start, end in ((0, 6), (6, 8), (8, 11)):
        losses, state = objective(batch_of(BOTH, start, end), state, step=0)
        for direction, loss in enumerate(losses):
            rows = [row.part(start, end) for row in BOTH[direction]]
            expected = oracle_losses(oracle, rows, direction, states[direction])
            assert_close(loss, expected)
            for row, stack in enumerate(states[direction]):
                assert stack is not None
                for depth, after in enumerate(stack):
                    cells, outputs = (part[depth, row] for part in state[direction])
                    assert_close(cells, after.cell)
                    assert_close(outputs, after.output)


# Against plain autograd


def plain_loss(bilm: BiLM, batch: Batch, second: float = 0.0) -> list[Tensor]:
    """From zeros, one row and one word at a time, left to autograd.

    With `second`, so much of the loss of the word after next too.
    """
    return [plain_direction(bilm, batch, direction, second) for direction in (FORWARD, BACKWARD)]


def plain_direction(bilm: BiLM, batch: Batch, direction: int, second: float) -> Tensor:
    assert bilm.softmax is not None
    vectors, step_sizes = bilm.encoder(batch.words), batch.step_sizes
    stack = (bilm.forward_lstm, bilm.backward_lstm)[direction]
    side = (batch.forward, batch.backward)[direction]
    before: dict[int, Tensor] = {}
    cell_size, token_size = bilm.config.cell_size, bilm.config.token_size
    states = [
        [(torch.zeros(cell_size), torch.zeros(token_size)) for _ in stack.layers]
        for _ in range(step_sizes[0])
    ]
    total, token = torch.zeros(()), 0
    for size in step_sizes:
        for row in range(size):
            word = vectors[side.inputs[token]]
            for depth, layer in enumerate(stack.layers):
                cell, output = plain_step(layer, word, *states[row][depth])
                states[row][depth] = cell, output
                word = output + word if depth else output
            target = side.targets[token]
            total = total - bilm.softmax(word[None])[0][target]
            if second and row in before:
                turned = before[row] + before[row] @ bilm.second_word[direction]  # type: ignore[index]
                total = total - second * bilm.softmax(turned[None])[0][target]
            before[row] = word
            token += 1
    return total


def plain_step(layer: Any, word: Tensor, cell: Tensor, output: Tensor) -> tuple[Tensor, Tensor]:
    gates = layer.input_weight @ word + layer.recurrent_weight @ output + layer.bias
    i, f, o, j = gates.chunk(4)
    cell = i.sigmoid() * j.tanh() + (f + 1).sigmoid() * cell
    cell = cell.clamp(-layer.cell_clip, layer.cell_clip)
    output = layer.projection_weight @ (o.sigmoid() * cell.tanh())
    return cell, output.clamp(-layer.output_clip, layer.output_clip)


def gradients_of(bilm: BiLM, loss: Tensor) -> dict[str, Tensor]:
    names, weights = zip(*bilm.named_parameters(), strict=True)
    found = torch.autograd.grad(loss, weights, materialize_grads=True)
    return dict(zip(names, found, strict=True))


def assert_same_gradients(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        assert gradient.abs().max() > 0, name
        assert_close(found[name], gradient)


@pytest.mark.parametrize("changes", [{}, {"softmax_cutoffs": (4, 6), "softmax_division": 2}])
@pytest.mark.parametrize("direction", [FORWARD, BACKWARD])
def test_loss_and_gradients_of_each_direction_are_those_of_plain_autograd(
    direction: int, changes: dict[str, Any]
) -> None:
    bilm = trainable_bilm(**changes)
    batch = batch_of(BOTH, 0, STEPS)
    losses, _ = Objective(bilm, training())(batch, zero_state(bilm), step=0)
    found, expected = losses[direction], plain_loss(bilm, batch)[direction]
    assert_close(found, expected)
    other = {FORWARD: "backward_lstm", BACKWARD: "forward_lstm"}[direction]
    plain = gradients_of(bilm, expected)
    gradients = gradients_of(bilm, found)
    for name in [name for name in plain if name.startswith(other)]:
        assert gradients.pop(name).abs().max() == plain.pop(name).abs().max() == 0
    assert_same_gradients(gradients, plain)


@pytest.mark.parametrize("sizes", [[2] * STEPS, [2, 2, 1, 1], [1]], ids=str)
@pytest.mark.parametrize("changes", [{}, {"softmax_cutoffs": (4, 6), "softmax_division": 2}])
def test_gradients_with_multi_token_are_of_the_next_word_and_the_one_after(
    changes: dict[str, Any], sizes: list[int]
) -> None:
    bilm, batch = trainable_bilm(**changes), batch_of(BOTH, 0, STEPS)
    read = torch.tensor([2 * step + row for step, size in enumerate(sizes) for row in range(size)])
    sides = [Side(side.inputs[read], side.targets[read]) for side in batch[1:3]]
    batch = Batch(batch.words, *sides, sizes, len(read), len(read))
    next_alone = torch.stack(plain_loss(bilm, batch))
    objective = Objective(bilm, training(multi_token=0.3))
    torch.nn.init.normal_(objective.second_word, std=0.1)
    losses, _ = objective(batch, zero_state(bilm, sizes[0]), step=0)
    assert_close(losses, next_alone)
    expected = gradients_of(bilm, sum(plain_loss(bilm, batch, second=0.3), torch.zeros(())))
    found = gradients_of(bilm, losses.sum())
    assert bool(expected["second_word"].any()) == (len(sizes) > 1)
    for name, gradient in expected.items():
        assert_close(found[name], gradient)


class Parts:
    """A reader that is only asked how its rows are shared."""

    def __init__(self, *sizes: int) -> None:
        self.parts = [range(size) for size in sizes]
        self.batches_per_epoch = 1.0


def trainer_of(bilm: BiLM, folder: Path, reader: Parts, **changes: Any) -> Trainer:
    config = PretrainConfig(
        CorpusConfig(),
        training(**changes),
        model={"encoder": {"filters": [[1, 4]]}, "token_size": 4, "cell_size": 4},
        output=str(folder),
    )
    return Trainer(bilm, reader, config, Group(), None, {}, Observer())  # type: ignore[arg-type]


@pytest.mark.parametrize(("scales", "factor"), [(False, 1), (True, STEPS)])
def test_gradient_is_of_half_the_sum_of_both_mean_losses(
    tmp_path: Path, scales: bool, factor: int
) -> None:
    bilm = trainable_bilm()
    batch = batch_of(BOTH, 0, STEPS)
    trainer = trainer_of(bilm, tmp_path, Parts(2), scale_loss_by_unroll=scales)
    sums = trainer.backward(0, batch)
    losses = plain_loss(bilm, batch)
    targets = 2 * STEPS
    mean = (losses[FORWARD] / targets + losses[BACKWARD] / targets) / 2
    expected = gradients_of(bilm, factor * mean)
    found = {name: weight.grad for name, weight in bilm.named_parameters()}
    assert_same_gradients(found, expected)  # type: ignore[arg-type]
    assert_close(sums, torch.stack(losses))


# State


def test_no_gradient_passes_from_a_batch_to_the_one_before() -> None:
    bilm = trainable_bilm()
    objective = Objective(bilm, training())
    _, state = objective(batch_of(BOTH, 0, 4), zero_state(bilm), step=0)
    assert not any(part.requires_grad for half in state for part in half)
    copied = BiLMState(*(LSTMState(*(part.clone() for part in half)) for half in state))
    found, expected = (
        gradients_of(bilm, sum(objective(batch_of(BOTH, 4, 8), before, step=1)[0]))
        for before in (state, copied)
    )
    assert_same_gradients(found, expected)


# A sampled softmax


def test_candidates_depend_on_seed_step_and_direction_alone() -> None:
    def drawn(seed: int, step: int, direction: int, bilm_seed: int) -> list[int]:
        bilm = small_bilm(bilm_seed, softmax_words=300)
        objective = Objective(bilm, training(samples=20, seed=seed))
        torch.manual_seed(bilm_seed)  # what dropout draws must not matter
        return objective.candidates(step, direction).ids.tolist()

    draws = [
        drawn(seed, step, direction, bilm_seed=0)
        for seed in (1, 2)
        for step in (0, 1)
        for direction in (FORWARD, BACKWARD)
    ]
    for number, one in enumerate(draws):
        assert one not in draws[:number]
    assert drawn(2, 1, BACKWARD, bilm_seed=5) == draws[-1]


def test_sampled_losses_are_against_the_candidates_of_the_step() -> None:
    bilm = trainable_bilm()
    batch = batch_of(BOTH, 0, STEPS)
    objective = Objective(bilm, training(samples=3))
    losses, _ = objective(batch, zero_state(bilm), step=7)
    vectors = bilm.encoder(batch.words)
    assert isinstance(bilm.softmax, Softmax)
    for direction, (lstm, side) in enumerate(
        ((bilm.forward_lstm, batch.forward), (bilm.backward_lstm, batch.backward))
    ):
        layers, _ = lstm(vectors[side.inputs], batch.step_sizes, zero_state(bilm)[direction])
        candidates = objective.candidates(7, direction)
        expected = sampled_loss(bilm.softmax, layers[-1], side.targets, candidates)
        assert_close(losses[direction], expected)
        others = objective.candidates(8, direction)
        assert losses[direction] != sampled_loss(bilm.softmax, layers[-1], side.targets, others)


def test_samples_are_never_more_than_the_words() -> None:
    objective = Objective(trainable_bilm(), training(samples=8192))
    assert sorted(objective.candidates(0, FORWARD).ids.tolist()) == list(range(len(WORDS)))


# Dropout and precision


def outputs_seen(
    objective: Objective, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[Tensor], list[Tensor]]:
    """The top outputs of both directions as the LSTMs give them, and as the softmax gets them."""
    before: list[Tensor] = []
    after: list[Tensor] = []
    loss = objective.softmax.loss

    def note(outputs: Tensor, *arguments: Any) -> Tensor:
        after.append(outputs)
        return loss(outputs, *arguments)

    monkeypatch.setattr(objective.softmax, "loss", note)
    for lstm in (objective.bilm.forward_lstm, objective.bilm.backward_lstm):
        lstm.register_forward_hook(lambda _, given, result: before.append(result[0][-1]))
    objective(
        batch_of((FORWARD_ROWS * 20, BACKWARD_ROWS * 20), 0, 10), zero_state(objective.bilm, 40), 0
    )
    return before, after


def test_dropout_comes_once_more_before_the_softmax(monkeypatch: pytest.MonkeyPatch) -> None:
    objective = Objective(trainable_bilm(), training(dropout=0.2))
    torch.manual_seed(0)
    given, got = outputs_seen(objective, monkeypatch)
    for before, after in zip(given, got, strict=True):
        dropped = after == 0
        assert dropped.float().mean().item() == pytest.approx(0.2, abs=0.05)
        assert_close(after[~dropped], before[~dropped] / 0.8)
    assert not torch.equal(got[FORWARD] == 0, got[BACKWARD] == 0)


def test_dropout_reaches_the_layers_too() -> None:
    bilm = trainable_bilm()
    batch = batch_of(BOTH, 0, STEPS)

    def state_after(dropout: float, seed: int) -> Tensor:
        torch.manual_seed(seed)
        _, state = Objective(bilm, training(dropout=dropout))(batch, zero_state(bilm), step=0)
        return state.forward.cells

    assert not torch.equal(state_after(0.5, 0), state_after(0.5, 1))
    assert torch.equal(state_after(0.5, 0), state_after(0.5, 0))
    assert torch.equal(state_after(0.0, 0), state_after(0.0, 1))


def losses_in(
    precision: str, monkeypatch: pytest.MonkeyPatch, is_fast: bool
) -> tuple[Tensor, dict[str, Tensor]]:
    """And the gradients of their sum."""
    for place in (module, lstm_module):
        monkeypatch.setattr(place, "has_bfloat16", lambda device: is_fast)
    bilm = trainable_bilm()
    objective = Objective(bilm, training(precision=precision))
    losses, _ = objective(batch_of(BOTH, 0, STEPS), zero_state(bilm), step=0)
    return losses, gradients_of(bilm, losses.sum())


def test_bfloat16_gives_nearly_the_same_losses_and_gradients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exact, exact_gradients = losses_in("float32", monkeypatch, is_fast=True)
    near, near_gradients = losses_in("bfloat16", monkeypatch, is_fast=True)
    for one, other in zip(exact, near, strict=True):
        assert other.dtype == torch.float32
        assert other != one
        assert other.item() == pytest.approx(one.item(), rel=0.02)
    for name, gradient in exact_gradients.items():
        other = near_gradients[name]
        assert other.dtype == torch.float32
        assert torch.cosine_similarity(other.flatten(), gradient.flatten(), dim=0) > 0.99, name


@pytest.mark.parametrize(("is_fast", "dtype"), [(True, torch.bfloat16), (False, torch.float32)])
def test_bfloat16_products_are_those_of_lstms_and_softmax_where_they_are_faster(
    monkeypatch: pytest.MonkeyPatch, is_fast: bool, dtype: torch.dtype
) -> None:
    inside: list[torch.dtype] = []
    make = MixedProduct.__init__

    def note(self: MixedProduct, *dtypes: torch.dtype) -> None:
        inside.append(dtypes[1])
        make(self, *dtypes)

    monkeypatch.setattr(MixedProduct, "__init__", note)
    losses_in("bfloat16", monkeypatch, is_fast)
    assert inside == [dtype] * 6  # two layers and the softmax, in both directions


# What cannot be trained


@pytest.mark.parametrize(
    ("make", "samples", "message"),
    [
        (small_bilm, None, "this model has no softmax, so it cannot be trained to predict words"),
        (
            lambda: trainable_bilm(softmax_cutoffs=(4,)),
            3,
            "an adaptive softmax is not sampled; leave training.samples out",
        ),
    ],
)
def test_model_that_cannot_be_trained_so_is_refused(
    make: Callable[[], BiLM], samples: int | None, message: str
) -> None:
    assert error_of(Objective, make(), training(samples=samples), kind=InputError) == message


def test_word_input_model_is_trained_on_the_rows_it_reads() -> None:
    bilm = trainable_bilm(encoder=WordEncoderConfig(len(WORDS)))
    batch = batch_of(BOTH, 0, STEPS)._replace(words=torch.tensor([1, 2, 3, 4, 5, 6, 7, 8, 9]))
    read = {*batch.forward.inputs.tolist(), *batch.backward.inputs.tolist()}
    losses, _ = Objective(bilm, training())(batch, zero_state(bilm), step=0)
    gradient = gradients_of(bilm, losses.sum())["encoder.words.weight"]
    moved = gradient.abs().sum(1).nonzero()[:, 0].tolist()
    assert set(moved) == {number + 1 for number in read}
