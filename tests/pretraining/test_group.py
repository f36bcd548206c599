from __future__ import annotations

import pytest
import torch
from torch import nn

from elmokit.pretraining import trainer as module
from elmokit.pretraining.trainer import Group, join_group


def alone() -> Group:
    with join_group() as group:
        return group


@pytest.fixture
def _no_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)


@pytest.mark.usefixtures("_no_torchrun")
def test_process_alone_leads_and_agrees_with_itself() -> None:
    group = alone()
    assert group == Group(0, 1, torch.device("cpu"))
    assert group.leads
    model, rows = nn.Linear(1, 1), torch.randn(2, 3, 4)
    assert group.wrap(model) is model
    assert torch.equal(group.join_rows(rows), rows)
    assert group.sum(torch.tensor([2.0, 3.0])).tolist() == [2.0, 3.0]
    assert [group.any(False), group.any(True)] == [False, True]
    assert group.from_leader(0.1) == 0.1


@pytest.mark.usefixtures("_no_torchrun")
def test_process_alone_computes_where_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "check_device", torch.device)  # the only other one on all machines
    with join_group("meta") as group:
        assert group.device == torch.device("meta")
