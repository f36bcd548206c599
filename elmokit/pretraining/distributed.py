"""One process, or many under `torchrun`: the same calls either way."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import NamedTuple

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from elmokit.token_vectors import check_device

LONGEST_WAIT = timedelta(hours=12)
"""For a process that still prepares its text, or that validates."""


class Group(NamedTuple):
    """The processes that train one model together, and this one's place among them."""

    rank: int = 0
    size: int = 1
    device: torch.device = torch.device("cpu")

    @property
    def leads(self) -> bool:
        """Whether this process is the one that writes files and reports."""
        return self.rank == 0

    def wrap(self, model: nn.Module) -> nn.Module:
        """A model whose gradients are averaged over all processes."""
        if self.size == 1:
            return model
        places = [self.device] if self.device.type == "cuda" else None
        return DistributedDataParallel(model, device_ids=places)

    def unwrap(self, model: nn.Module) -> nn.Module:
        """The model that was wrapped; to be called before the group ends.

        The wrapper keeps the group alive. Freed after the group's end, it would wait for the
        group's threads while these wait for Python, for ever.
        """
        return model.module if isinstance(model, DistributedDataParallel) else model

    def sum(self, values: Tensor) -> Tensor:
        """Add up the values of all processes."""
        if self.size > 1:
            values = values.to(self.device)
            distributed.all_reduce(values)
        return values.cpu()

    def any(self, flag: bool) -> bool:
        """Whether any process says so."""
        if self.size == 1:
            return flag
        return bool(self.sum(torch.tensor(float(flag))))

    def from_leader(self, number: float) -> float:
        """The number that the leading process has."""
        if self.size == 1:
            return number
        value = torch.tensor(number, dtype=torch.float64, device=self.device)
        distributed.broadcast(value, src=0)
        return float(value)

    def join_rows(self, rows: Tensor) -> Tensor:
        """The rows (layers, rows, size) of all processes, one after the other."""
        if self.size == 1:
            return rows
        parts = [torch.empty_like(rows) for _ in range(self.size)]
        distributed.all_gather(parts, rows.contiguous())
        return torch.cat(parts, dim=1)


def will_lead() -> bool:
    """Whether this process will lead the group that it has yet to join."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def join_group(device: str | torch.device | None = None) -> Iterator[Group]:
    """Join the processes that `torchrun` has started; alone if it has not."""
    if "WORLD_SIZE" not in os.environ and not distributed.is_initialized():
        yield Group(device=check_device(device or "cpu"))
        return
    place = own_device(device)
    joined_before = distributed.is_initialized()
    if not joined_before:
        backend = "nccl" if place.type == "cuda" else "gloo"
        distributed.init_process_group(backend, timeout=LONGEST_WAIT)
    try:
        yield Group(distributed.get_rank(), distributed.get_world_size(), place)
    finally:
        if not joined_before:
            distributed.destroy_process_group()


def own_device(device: str | torch.device | None) -> torch.device:
    """This process's device: of several processors of a kind, the one of its number here."""
    if device is None and torch.cuda.is_available():
        device = "cuda"
    place = check_device(device or "cpu")
    if place.type != "cuda":
        return place
    if place.index is None:
        place = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    torch.cuda.set_device(place)
    return place
