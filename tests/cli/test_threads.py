from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from elmokit.cli import elmo as all_commands

COMPUTE_NOTHING = {"download", "info", "vocabulary"} | {
    f"static {name}"
    for name in ("analogy", "convert", "evaluate", "neighbours", "pairs", "similarity")
}


def commands(group: click.Group, *names: str) -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, *names, name)
        else:
            yield " ".join((*names, name)), command


@pytest.mark.parametrize(("name", "command"), list(commands(all_commands)))
def test_every_command_that_computes_takes_threads(name, command):
    flags = {flag for parameter in command.params for flag in parameter.opts}
    assert ("--threads" in flags) == (name not in COMPUTE_NOTHING)


@pytest.mark.parametrize("threads", ["1000000", "0"])
def test_a_number_of_threads_that_cannot_work_is_an_error_of_one_line(elmo, threads):
    status, _, err = elmo("compare", "bank", "a bank", "--threads", threads)
    assert status == 1
    assert err.startswith(f"elmo: {int(threads):,} threads: this machine has ")
    assert err.count("\n") == 1
