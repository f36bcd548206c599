"""`elmo task evaluate`: how good a trained task is."""

from __future__ import annotations

import json
from typing import Any

import click

from elmokit.cli.options import QUIET_OPTION, ModelCommand, device_options
from elmokit.cli.progress import Bytes
from elmokit.cli.task_options import (
    files_options,
    load_task,
    settings_of_flags,
    trained_with_options,
)
from elmokit.cli.task_progress import WordsRead
from elmokit.cli.training import settings_of


@click.command(cls=ModelCommand)
@click.argument("folder")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@files_options
@trained_with_options
@device_options
@QUIET_OPTION
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def evaluate(
    folder: str,
    files: tuple[str, ...],
    device: str | None,
    quiet: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Score a trained task on files of labelled examples.

    FOLDER is what elmo task train wrote. Files are read as the training files were, unless flags
    say otherwise. Prints the score, then its parts: precision and recall class by class, and what
    was taken for what; of squad the kinds of questions, of coref the three measures.

    \b
    Example:
      elmo task evaluate my-spam more-messages.csv
    """
    from dataclasses import replace

    from elmokit.tasks.reports import errors_text

    trained = load_task(folder, device, quiet, flags)
    changes = settings_of((), **settings_of_flags(**flags))
    reading = {name.removeprefix("files."): value for name, value in changes.items()}
    with Bytes("reading static vectors", quiet) as vectors, WordsRead("scoring", quiet) as progress:
        found = trained.evaluate(
            *files,
            reading=replace(trained.config.files, **reading),
            progress=progress,
            looking_up=vectors,
        )
    if as_json:
        click.echo(json.dumps(found.score.to_dict()))
    else:
        click.echo(f"{found.score.describe()}\n\n{errors_text(found)}")
