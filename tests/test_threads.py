from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from elmokit import system as threads
from elmokit.errors import InputError
from elmokit.system import check_threads, computing_with, cpu_quota, usable_cpus, use_threads


def machine(folder: Path, groups: str, mounts: str, files: dict[str, str]) -> Path:
    """A folder like /proc/self; {here} in `mounts` is where `files` are."""
    (folder / "proc").mkdir()
    (folder / "proc/cgroup").write_text(groups)
    (folder / "proc/mountinfo").write_text(mounts.format(here=folder))
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder / "proc"


V2 = "30 23 0:26 / {here}/v2 rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = "33 32 0:28 / {here}/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
V1_OTHER = "34 32 0:29 / {here}/memory rw - cgroup cgroup rw,memory\n"


def v1(folder: str, quota: int) -> dict[str, str]:
    return {f"{folder}/cpu.cfs_quota_us": f"{quota}\n", f"{folder}/cpu.cfs_period_us": "100000\n"}


@pytest.mark.parametrize(
    ("groups", "mounts", "files", "expected"),
    [
        ("0::/job\n", V2, {"v2/job/cpu.max": "50000 100000\n"}, 0.5),
        ("0::/job\n", V2, {"v2/job/cpu.max": "max 100000\n"}, None),
        ("0::/\n", V2, {}, None),
        ("5:cpuacct,cpu:/job\n0::/\n", V1, v1("cpu/job", 150_000), 1.5),
        ("5:cpuacct,cpu:/job\n", V1, v1("cpu/job", -1), None),
        ("5:cpuset:/job\n4:memory:/job\n", V1_OTHER + V1, v1("cpu/job", 50_000), None),
    ],
    ids=["v2", "v2 max", "v2 without cpu", "v1", "v1 unlimited", "v1 of another controller"],
)
def test_the_quota_of_a_group_is_found(tmp_path, groups, mounts, files, expected):
    assert cpu_quota(machine(tmp_path, groups, mounts, files)) == expected


@pytest.mark.parametrize(
    ("groups", "mounts"),
    [
        ("what is this\n", V2),
        ("0::/job\n", "30 23 0:26\n"),
        ("0::/job\n", "1 2 3 / /x rw - cgroup2\n"),
    ],
)
def test_files_of_another_form_tell_of_no_quota(tmp_path, groups, mounts):
    files = {"v2/job/cpu.max": "50000 100000"}
    assert cpu_quota(machine(tmp_path, groups, mounts, files)) is None


def test_the_least_quota_of_nested_groups_counts(tmp_path):
    files = {
        "v2/outer/cpu.max": "50000 100000",
        "v2/outer/middle/cpu.max": "max 100000",
        "v2/outer/middle/inner/cpu.max": "300000 100000",
    }
    assert cpu_quota(machine(tmp_path, "0::/outer/middle/inner\n", V2, files)) == 0.5


def test_with_both_versions_the_lesser_quota_counts(tmp_path):
    files = {"v2/job/cpu.max": "200000 100000"} | v1("cpu/job", 100_000)
    assert cpu_quota(machine(tmp_path, "2:cpu:/job\n0::/job\n", V2 + V1, files)) == 1


@pytest.mark.parametrize(
    ("group", "file"), [("/docker/abc", "cpu"), ("/docker/abc/job", "cpu/job"), ("/..", "cpu")]
)
def test_a_container_whose_group_is_the_root_of_what_it_sees(tmp_path, group, file):
    mounts = V1.replace("0:28 / ", "0:28 /docker/abc ")
    proc = machine(tmp_path, f"2:cpu:{group}\n", mounts, v1(file, 100_000))
    assert cpu_quota(proc) == 1


def test_without_control_groups_there_is_no_quota(tmp_path):
    assert cpu_quota(tmp_path / "nothing") is None


@pytest.mark.parametrize(
    ("quota", "bound", "expected"), [(None, 4, 4), (0.5, 4, 1), (2.9, 4, 2), (8.0, 4, 4)]
)
def test_whole_cpus_of_a_quota_are_usable(monkeypatch, quota, bound, expected):
    monkeypatch.setattr(threads, "cpu_quota", lambda: quota)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(bound), raising=False)
    assert usable_cpus() == expected


def test_a_number_far_above_that_of_the_cpus_is_an_error(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert check_threads(8) == 8
    with pytest.raises(InputError, match="machine has 2 CPUs; choose 1 to 8"):
        check_threads(9)


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
    monkeypatch.setattr(threads, "cpu_quota", lambda: None)
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
from elmokit.system import use_threads, wait_briefly
wait_briefly()
use_threads(1)
import torch
print(torch.get_num_threads(), os.environ.get("GOMP_SPINCOUNT"), os.environ.get("KMP_BLOCKTIME"))
"""


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({}, "1 2000 1"),
        ({"OMP_WAIT_POLICY": "active"}, "1 None None"),
        ({"GOMP_SPINCOUNT": "7"}, "1 7 None"),
        ({"KMP_BLOCKTIME": "3"}, "1 None 3"),
    ],
)
def test_before_torch_is_loaded_the_environment_says_it_where_the_user_has_not(chosen, expected):
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("OMP_NUM_THREADS", *threads.WAITING_CHOSEN)
    }
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(
        command, env=environment | chosen, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == expected.split()


def test_when_torch_is_loaded_the_environment_stays_as_it_is():
    before = dict(os.environ)
    threads.wait_briefly()
    use_threads(torch.get_num_threads())
    assert dict(os.environ) == before
