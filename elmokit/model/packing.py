"""Packing of a padded batch, step by step, so that padding costs nothing."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Packing(NamedTuple):
    """Where each token of a padded batch stands in the order the LSTMs read it.

    Step t of a packed batch holds the t-th token of every sentence that has one, longest sentence
    first, so a step's tokens are consecutive rows and their sentences a prefix of the previous
    step's.
    """

    rows: Tensor  # (batch,) batch row of each sentence, longest first
    step_sizes: list[int]  # sentences still running at each step: never rises
    forward: Tensor  # (tokens,) flat position, row * words + word, reading left to right
    backward: Tensor  # (tokens,) the same, each sentence read from its own end


def pack(lengths: Tensor, words: int, device: torch.device | None = None) -> Packing:
    """Pack sentences of `lengths` (batch,) that stand padded in (batch, words) on a device."""
    # Sizes steer Python loops, so they are counted where Python can read them.
    lengths = lengths.cpu()
    sorted_lengths, rows = lengths.sort(descending=True, stable=True)
    steps = torch.arange(int(sorted_lengths[0]) if len(lengths) else 0)
    step_sizes = torch.searchsorted(-sorted_lengths, -steps)
    step = steps.repeat_interleave(step_sizes)
    start = (step_sizes.cumsum(0) - step_sizes).repeat_interleave(step_sizes)
    rank = torch.arange(len(step)) - start
    first = rows[rank] * words
    return Packing(
        rows=rows.to(device),
        step_sizes=step_sizes.tolist(),
        forward=(first + step).to(device),
        backward=(first + sorted_lengths[rank] - 1 - step).to(device),
    )
