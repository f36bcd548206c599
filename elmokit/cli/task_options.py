"""What the commands of `elmo task` share: flags, and what they stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import click

from elmokit.cli.options import Function, add_options, model_options
from elmokit.cli.progress import Fetched
from elmokit.tasks.config import Format

if TYPE_CHECKING:
    from elmokit.tasks.bilm_reference import BilmReference
    from elmokit.tasks.saved_task import TrainedTask

HEADER_OPTION = click.option(
    "--header/--no-header",
    default=None,
    help="Whether the first line of a table names its columns.",
)
SKIP_OPTION = click.option(
    "--skip-bad-rows",
    is_flag=True,
    help="Leave out rows of CSV and TSV with more or fewer fields than columns, and, in SQuAD's "
    "JSON of labelled questions, those without words, without an answer, or whose answer is not "
    "where the file says.",
)


def trained_with_options(function: Function) -> Function:
    """Add the flags that say where the biLM of a trained task is now."""
    return model_options(function, otherwise="where it was when the task was trained")


def files_options(function: Function) -> Function:
    """Add the flags that say how files of examples are read."""
    return add_options(
        function,
        click.option(
            "--format",
            "file_format",
            type=click.Choice(list(get_args(Format))),
            help="What the files are. Without it: what their names say.",
        ),
        click.option("--encoding", metavar="NAME", help="Theirs, such as latin-1 (utf-8)."),
        click.option(
            "--label-column",
            metavar="COLUMN",
            help="A name, a number from 1, or upos or xpos. Without it: the usual one.",
        ),
        click.option(
            "--text-column",
            multiple=True,
            metavar="COLUMN",
            help="That of the text, or of words; given twice for pairs.",
        ),
        HEADER_OPTION,
        SKIP_OPTION,
    )


def settings_of_flags(
    static: str | None = None,
    elmo_place: str | None = None,
    no_elmo: bool = False,
    layers: str | None = None,
    per_direction: bool = False,
    finetune_bilm: bool = False,
    phrases: bool = False,
    fraction: float | None = None,
    seed: int | None = None,
    file_format: str | None = None,
    encoding: str | None = None,
    label_column: str | None = None,
    text_column: tuple[str, ...] = (),
    header: bool | None = None,
    skip_bad_rows: bool = False,
    tokenizer: str | None = None,
) -> dict[str, Any]:
    """Settings that have a flag of their own, those that are given."""
    if no_elmo and elmo_place not in (None, "none"):
        raise click.UsageError(f"--no-elmo and --elmo {elmo_place} contradict each other")
    number = layers is not None and layers.isdecimal()
    return {
        "inputs__static": static,
        "inputs__elmo": "none" if no_elmo else elmo_place,
        "inputs__layers": int(layers or 0) if number else layers,
        "inputs__per_direction": per_direction or None,
        "inputs__finetune_bilm": finetune_bilm or None,
        "files__phrases": phrases or None,
        "training__fraction": fraction,
        "training__seed": seed,
        "files__format": file_format,
        "files__encoding": encoding,
        "files__label": label_column,
        "files__texts": list(text_column),
        "files__header": header,
        "files__skip_bad_rows": skip_bad_rows or None,
        "files__tokenizer": tokenizer,
    }


def bilm_reference(
    model: str | None, weights: str | None, vocabulary: str | None
) -> BilmReference | None:
    """The biLM that flags name; None where they name none."""
    from elmokit.tasks.bilm_reference import BilmReference

    given = BilmReference(model, weights, vocabulary)
    return None if given == BilmReference() else given


def load_task(folder: str, device: str | None, quiet: bool, flags: dict[str, Any]) -> TrainedTask:
    """The trained task that the flags describe; those of its model are taken out of them."""
    from elmokit.tasks.saved_task import TrainedTask

    bilm = bilm_reference(flags.pop("model"), flags.pop("weights"), flags.pop("vocabulary"))
    tokenizer = flags.pop("tokenizer")
    with Fetched("fetching", quiet) as progress:
        return TrainedTask.load(
            folder, bilm=bilm, tokenizer=tokenizer, device=device, progress=progress
        )
