"""`elmo task predict`: what a trained task says of text."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from elmokit.cli.options import ModelCommand, check_place, device_options, model_options
from elmokit.cli.progress import Bytes, Progress
from elmokit.cli.task_options import HEADER_OPTION, SKIP_OPTION, load_task
from elmokit.cli.task_progress import Texts
from elmokit.errors import InputError

if TYPE_CHECKING:
    from elmokit.tasks.config import FilesConfig
    from elmokit.tasks.files.lines import Line
    from elmokit.tasks.items import Item, ItemSettings
    from elmokit.tasks.saved_task import TrainedTask


@click.command(cls=ModelCommand)
@click.argument("folder")
@click.argument("input_file", metavar="INPUT")
@click.option("-o", "--output", metavar="OUT.jsonl", help="Where the answers go (standard output).")
@click.option("--force", is_flag=True, help="Replace OUT.jsonl.")
@click.option(
    "--format",
    "item_format",
    type=click.Choice(["text", "jsonl", "csv", "tsv"]),
    help="What INPUT is. Without it: what its name says; standard input is text.",
)
@click.option(
    "--text-column",
    multiple=True,
    metavar="COLUMN",
    help="Of a table: the name of the text's column, or its number from 1; given twice for pairs.",
)
@HEADER_OPTION
@SKIP_OPTION
@click.option(
    "--encoding",
    metavar="NAME",
    help="That of INPUT. Without it: that of the training files for CSV and TSV, else utf-8.",
)
@model_options
@device_options
def predict(
    folder: str,
    input_file: str,
    output: str | None,
    force: bool,
    device: str | None,
    threads: int | None,
    quiet: bool,
    **flags: Any,
) -> None:
    """Ask a trained task about text: JSON lines with labels and probabilities.

    FOLDER is what elmo task train wrote. Each line of INPUT (- for standard input) is a raw text,
    or for pairs two texts with a tab between them; or INPUT is a table: .csv, .tsv, or .jsonl with
    "text" or "words" in each object, or "first" and "second". Tables are read as the training files
    were, unless flags say otherwise. Blank lines are left out.

    Whatever else a row has is kept; a field that the answer has too becomes given_label, for one,
    and the answer's is label.

    \b
    Examples:
      echo "Free entry! Text WIN to 80086 now" | elmo task predict my-spam -
      elmo task predict my-spam messages.csv --text-column message -o answers.jsonl
      elmo task predict my-ner news.txt -o entities.jsonl
    """
    from elmokit.tasks.items import items_of
    from elmokit.tasks.saved_task import config_of

    if output is not None:
        check_answers(output, force)
    reading = config_of(folder)
    settings = item_settings(input_file, flags, reading.files, reading.kind == "tags")
    lines = lines_of(input_file, flags.pop("encoding") or settings.encoding)
    items = list(items_of(lines, reading.kind, settings))
    trained = load_task(folder, device, threads, quiet, flags)
    with Texts("predicting", quiet) as progress, Bytes("reading static vectors", quiet) as found:
        write(answers(trained, items, progress, found), output)


def check_answers(output: str, force: bool) -> None:
    """Refuse to replace a file unasked."""
    if os.path.exists(output) and not force:
        raise InputError(f"{output}: is there already; choose another name, or force it (--force)")
    check_place(output)


def item_settings(
    input_file: str, flags: dict[str, Any], training: FilesConfig, tagged: bool
) -> ItemSettings:
    """How INPUT is read; the flags are taken out of all."""
    from elmokit.tasks.items import ItemSettings, format_of

    header, columns = flags.pop("header"), flags.pop("text_column")
    return ItemSettings(
        format=flags.pop("item_format") or format_of(input_file),
        columns=columns,
        # The columns of tagged words are no columns of texts.
        usual=() if tagged else training.texts,
        header=(tagged or training.header) if header is None else header,
        skip_bad_rows=flags.pop("skip_bad_rows"),
        table_encoding=training.encoding,
    )


def lines_of(input_file: str, encoding: str) -> list[Line]:
    """The lines of INPUT, each with its place."""
    from elmokit.cli.lines import read_lines as read_stream
    from elmokit.tasks.files.lines import numbered, read_lines

    if input_file == "-":
        return numbered("standard input", read_stream(input_file, encoding))
    return read_lines(input_file, encoding)


def answers(
    trained: TrainedTask, items: Sequence[Item], progress: Progress, reading: Progress
) -> Iterator[str]:
    """The answers as lines of JSON."""
    from elmokit.tasks.items import answer_to

    found = trained.predictions(
        [item.asked for item in items], places=[item.place for item in items], progress=reading
    )
    for done, (item, prediction) in enumerate(zip(items, found, strict=True), start=1):
        yield json.dumps(answer_to(item, prediction.to_dict()), ensure_ascii=False)
        progress(done, len(items))


def write(lines: Iterator[str], output: str | None) -> None:
    """Print lines, or write them into a file that appears when it is whole."""
    from elmokit.formats.files import write_atomically

    if output is None:
        for line in lines:
            click.echo(line)
        return
    with write_atomically(output) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
