"""American spellings of commands, beside ours."""

from __future__ import annotations

import click

AMERICAN = {"neighbors": "neighbours"}


class EitherSpelling(click.Group):
    """A group of commands that go by their American names too; help shows ours."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name in either spelling."""
        return super().get_command(ctx, AMERICAN.get(cmd_name, cmd_name))
