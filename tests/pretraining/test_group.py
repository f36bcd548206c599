from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from elmokit.pretraining import trainer as module
from elmokit.pretraining.trainer import Group, join_group

ROOT = Path(module.__file__).parents[2]

PROCESS = """
import json, sys, torch
from torch import nn
from elmokit.pretraining.trainer import join_group

with join_group("cpu") as group:
    rank = group.rank
    torch.manual_seed(0)
    model = nn.Linear(2, 1, bias=False)
    wrapped = group.wrap(model)
    (wrapped(torch.tensor([[1.0 + rank, 10.0]])).sum() * group.size).backward()
    found = {
        "rank": rank,
        "size": group.size,
        "leads": group.leads,
        "sum": group.sum(torch.tensor([1.0 + rank, 5.0])).tolist(),
        "any": [group.any(False), group.any(rank == 1)],
        "from_leader": group.from_leader(0.1 + rank),
        "rows": group.join_rows(torch.full((2, 1, 3), float(rank)))[0, :, 0].tolist(),
        "gradient": model.weight.grad.tolist(),
    }
print(json.dumps(found))
"""


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


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.slow
def test_two_processes_share_sums_rows_and_gradients() -> None:
    port = str(free_port())
    processes = []
    for rank in (0, 1):
        places = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
        processes.append(
            subprocess.Popen(
                [sys.executable, "-c", PROCESS],
                cwd=ROOT,
                env=os.environ | places | address,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
    try:
        outputs = [process.communicate(timeout=120)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    leader, other = (json.loads(output.splitlines()[-1]) for output in outputs)
    assert [found.pop("rank") for found in (leader, other)] == [0, 1]
    assert [found.pop("leads") for found in (leader, other)] == [True, False]
    assert leader == other
    assert leader == {
        "size": 2,
        "sum": [3.0, 10.0],
        "any": [False, True],
        "from_leader": 0.1,
        "rows": [0.0, 1.0],
        "gradient": [[3.0, 20.0]],  # the sum: each loss was multiplied by the processes
    }
