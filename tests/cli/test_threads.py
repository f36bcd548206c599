from __future__ import annotations

import os

import click
import pytest
from helpers import run_python

from elmokit.cli import elmo as all_commands
from elmokit.system import WAITING, WAITING_CHOSEN
from runs.reference import commands

COMPUTE_NOTHING = {"download", "info", "vocabulary"} | {
    f"static {name}"
    for name in ("analogy", "convert", "evaluate", "neighbours", "pairs", "similarity")
}


@pytest.mark.parametrize(("name", "command"), list(commands("", all_commands)))
def test_every_command_that_computes_takes_threads(name, command):
    if not isinstance(command, click.Group):
        flags = {flag for parameter in command.params for flag in parameter.opts}
        assert ("--threads" in flags) == (name.strip() not in COMPUTE_NOTHING)


def test_a_number_of_threads_that_cannot_work_is_an_error_of_one_line(elmo):
    status, _, err = elmo("compare", "bank", "a bank", "--threads", "1000000")
    assert status == 1
    assert err.startswith("elmo: 1,000,000 threads are asked for")
    assert err.count("\n") == 1


def test_no_threads_at_all_is_wrong_usage(elmo):
    assert elmo("compare", "bank", "a bank", "--threads", "0")[0] == 2


PROGRAM = """
import os, sys
from elmokit.cli import main
try:
    main()
except SystemExit:
    print(os.environ.get("GOMP_SPINCOUNT"), os.environ.get("OMP_NUM_THREADS"))
"""


@pytest.mark.parametrize(
    ("command", "expected"),
    [("score", [WAITING["GOMP_SPINCOUNT"], "1"]), ("pretrain", ["None", "1"])],
)
def test_threads_wait_briefly_but_for_those_that_train(command, expected, tmp_path):
    environment = {name: text for name, text in os.environ.items() if name not in WAITING_CHOSEN}
    arguments = [command, str(tmp_path / "missing"), "--threads", "1"]
    assert run_python(PROGRAM, *arguments, environment=environment).split() == expected
