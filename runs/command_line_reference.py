"""Write docs/command-line.md from --help: `python -m runs.command_line_reference`."""

from __future__ import annotations

from pathlib import Path

import click

from elmokit.cli import elmo

PAGE = Path(__file__).resolve().parents[1] / "docs" / "command-line.md"


def reference() -> str:
    """The help of `elmo` and of each of its commands, as one Markdown page."""
    parts = [
        "# The command line",
        "",
        "Made from `--help` by `runs/command_line_reference.py`.",
        "",
    ]
    for name, command in {"elmo": elmo, **elmo.commands}.items():
        title = name if command is elmo else f"elmo {name}"
        context = click.Context(
            command, info_name=title, terminal_width=100, help_option_names=["-h", "--help"]
        )
        parts += [f"## {title}", "", "```text", command.get_help(context), "```", ""]
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
