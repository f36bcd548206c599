"""Write docs/reference/commands.md from --help: `python -m runs.command_line_reference`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from elmokit.cli import elmo

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "commands.md"


def reference() -> str:
    """The help of `elmo` and of each of its commands, as one Markdown page."""
    parts = [
        "# The command line",
        "",
        "Made from `--help` by `runs/command_line_reference.py`.",
        "",
    ]
    for title, command in commands("elmo", elmo):
        context = click.Context(
            command, info_name=title, terminal_width=100, help_option_names=["-h", "--help"]
        )
        parts += [f"## {title}", "", "```text", command.get_help(context), "```", ""]
    return "\n".join(parts)


def commands(title: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """A command and those inside it, each with its whole name."""
    yield title, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from commands(f"{title} {name}", inner)


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
