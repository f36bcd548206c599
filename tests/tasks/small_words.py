"""Random word vectors for task networks, and what must hold for every one of these."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor, nn

from elmokit.model.lstm import pack
from elmokit.tasks import recurrent
from elmokit.tasks.inputs import BatchVectors, Sizes
from elmokit.tasks.srl.network import HighwayLSTM

SIZES = Sizes(at_input=5, at_output=4)
LENGTHS = (4, 3, 1, 6, 2)
"""Sentences out of order, one of one word."""


def random_words(
    lengths: Sequence[int] = LENGTHS, sizes: Sizes = SIZES, *, padding: int = 0, seed: int = 0
) -> BatchVectors:
    """Sentences with vectors of their own, whatever the batch; on padding stands what may."""
    width = max(lengths, default=0) + padding
    mask = torch.arange(width) < torch.tensor(lengths)[:, None]

    def vectors(size: int, kind: int) -> Tensor:
        everywhere = torch.full((len(lengths), width, size), 7.0)
        for row, length in enumerate(lengths):
            generator = torch.Generator().manual_seed(1000 * seed + 10 * length + kind)
            everywhere[row, :length] = torch.randn(length, size, generator=generator)
        return everywhere

    at_output = vectors(sizes.at_output, 1) if sizes.at_output else None
    return BatchVectors(vectors(sizes.at_input, 0), at_output, mask)


def assert_dropout_is_for_training_only(network: nn.Module, *inputs: BatchVectors) -> None:
    assert not torch.equal(network(*inputs), network(*inputs))
    network.eval()
    assert torch.equal(network(*inputs), network(*inputs))


def assert_every_parameter_learns(network: nn.Module, loss: Tensor) -> None:
    network.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name


def fit(network: nn.Module, loss: Callable[[], Tensor], steps: int, rate: float = 0.01) -> float:
    """Learn a batch by heart; give the last loss."""
    optimiser = torch.optim.Adam(network.parameters(), lr=rate)
    for _ in range(steps):
        optimiser.zero_grad()
        value = loss()
        value.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return loss().item()


@contextmanager
def no_default_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a network makes without naming a device has no values, and cannot be mixed in."""

    def pack_where_python_counts(*arguments: object) -> object:
        with torch.device("cpu"):
            return pack(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(recurrent, "pack", pack_where_python_counts)
    with torch.device("meta"):
        yield


def read_all(lstm: HighwayLSTM, vectors: Tensor, mask: Tensor) -> Tensor:
    """What a highway LSTM makes of (sentences, words, size): (sentences, words, hidden)."""
    packing = pack(mask.sum(1), mask.shape[1], mask.device)
    words = vectors.flatten(0, 1).index_select(0, packing.forward)
    outputs = lstm(lstm.layers[0].inputs(words), packing)
    everywhere = outputs.new_zeros(mask.numel(), lstm.output_size)
    return everywhere.index_copy(0, packing.forward, outputs).view(*mask.shape, lstm.output_size)
