from __future__ import annotations

import math
import os

import pytest
import torch
from helpers import error_of, run_python, write

from elmokit import system as threads
from elmokit.errors import InputError
from elmokit.system import check_threads, computing_with, cpu_quota, usable_cpus, use_threads


def v1(folder: str, quota: int) -> dict[str, str]:
    return {f"{folder}/cpu.cfs_quota_us": f"{quota}\n", f"{folder}/cpu.cfs_period_us": "100000\n"}


NESTED = {
    "outer/cpu.max": "50000 100000",
    "outer/middle/cpu.max": "max 100000",
    "outer/middle/inner/cpu.max": "300000 100000",
}
V2_JOB = {"job/cpu.max": "200000 100000\n"}
MACHINES = {
    "v2": ("0::/job\n", V2_JOB, 2),
    "v2 max": ("0::/job\n", {"job/cpu.max": "max 100000\n"}, math.inf),
    "v2 without cpu": ("0::/\n", {}, math.inf),
    "v2, the least of nested groups": ("0::/outer/middle/inner\n", NESTED, 0.5),
    "v1": ("5:cpuacct,cpu:/job\n0::/\n", v1("cpu/job", 150_000), 1.5),
    "v1 unlimited": ("5:cpuacct,cpu:/job\n", v1("cpu/job", -1), math.inf),
    "v1 of another controller": ("5:cpuset:/job\n", v1("cpu/job", 50_000), math.inf),
    "both, the lesser": ("2:cpu:/job\n0::/job\n", V2_JOB | v1("cpu/job", 100_000), 1),
    "container": ("2:cpu:/docker/abc\n", v1("cpu", 100_000), 1),
    "above a container": ("2:cpu:/..\n", v1("cpu", 100_000), 1),
    "groups of another form": ("what is this\n", V2_JOB, math.inf),
}


@pytest.mark.parametrize(("groups", "files", "expected"), MACHINES.values(), ids=MACHINES.keys())
def test_the_quota_of_a_group_is_found(tmp_path, groups, files, expected):
    for name, text in files.items():
        write(tmp_path / "all" / name, text)
    own = write(tmp_path / "own", groups)
    assert cpu_quota(own, tmp_path / "all") == expected


def test_without_control_groups_there_is_no_quota(tmp_path):
    assert cpu_quota(tmp_path / "nothing") == math.inf


@pytest.mark.parametrize(
    ("quota", "bound", "expected"), [(math.inf, 4, 4), (0.5, 4, 1), (2.9, 4, 2), (8.0, 4, 4)]
)
def test_whole_cpus_of_a_quota_are_usable(monkeypatch, quota, bound, expected):
    monkeypatch.setattr(threads, "cpu_quota", lambda: quota)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(bound), raising=False)
    assert usable_cpus() == expected


def test_a_number_far_above_that_of_the_cpus_is_an_error(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert check_threads(8) == 8
    assert "machine has 2 CPUs; choose 1 to 8" in error_of(check_threads, 9, kind=InputError)


def test_threads_are_set_for_the_time_of_a_block():
    before = torch.get_num_threads()
    with computing_with(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before
    with computing_with(None):
        assert torch.get_num_threads() == before


def test_without_a_quota_the_number_of_threads_is_left_to_torch(monkeypatch):
    asked: list[int] = []
    monkeypatch.setattr("torch.set_num_threads", asked.append)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(threads, "cpu_quota", lambda: math.inf)
    use_threads(None)
    assert asked == []
    monkeypatch.setattr(threads, "cpu_quota", lambda: 0.5)
    use_threads(None)
    assert asked == [1]
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    use_threads(None)
    assert asked == [1]


PROGRAM = """
import os
from elmokit.system import WAITING_CHOSEN, use_threads, wait_briefly
for chosen in ("OMP_WAIT_POLICY=active", "GOMP_SPINCOUNT=7", "KMP_BLOCKTIME=3", ""):
    for name in WAITING_CHOSEN:
        os.environ.pop(name, None)
    if chosen:
        os.environ.update([chosen.split("=")])
    wait_briefly()
    print(os.environ.get("GOMP_SPINCOUNT"), os.environ.get("KMP_BLOCKTIME"))
use_threads(1)
import torch
print(torch.get_num_threads())
"""


def test_before_torch_is_loaded_the_environment_says_it_where_the_user_has_not():
    others = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    printed = run_python(PROGRAM, environment=others).splitlines()
    assert printed == ["None None", "7 None", "None 3", "2000 1", "1"]


def test_when_torch_is_loaded_the_environment_stays_as_it_is():
    before = dict(os.environ)
    threads.wait_briefly()
    use_threads(torch.get_num_threads())
    assert dict(os.environ) == before
