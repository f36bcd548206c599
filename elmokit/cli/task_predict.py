"""`elmo task predict`: what a trained task says of text."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from elmokit.cli.options import ModelCommand, check_place, device_options
from elmokit.cli.progress import Bytes, Progress
from elmokit.cli.task_options import HEADER_OPTION, SKIP_OPTION, load_task, trained_with_options
from elmokit.cli.task_progress import Texts
from elmokit.errors import InputError
from elmokit.plurals import counted

if TYPE_CHECKING:
    from elmokit.tasks.config import FilesConfig
    from elmokit.tasks.files.lines import Line
    from elmokit.tasks.items import Item, ItemSettings
    from elmokit.tasks.predictions import Prediction
    from elmokit.tasks.saved_task import TrainedTask


@click.command(cls=ModelCommand)
@click.argument("folder")
@click.argument("input_file", metavar="[INPUT]", required=False)
@click.option(
    "--context",
    metavar="FILE.txt",
    help="Of a reader: the text that all questions are about.",
)
@click.option(
    "--question",
    "questions",
    multiple=True,
    metavar="TEXT",
    help="Of a reader: a question, in place of INPUT. Can be given several times.",
)
@click.option(
    "--predicates",
    metavar="WORD,...",
    help="Of srl: these words are the predicates, wherever they occur; the task finds none itself.",
)
@click.option(
    "--tagger",
    metavar="FOLDER",
    help="Of srl: what this trained task (pos) tags as a verb is a predicate.",
)
@click.option("-o", "--output", metavar="OUT.jsonl", help="Where the answers go (standard output).")
@click.option("--force", is_flag=True, help="Replace OUT.jsonl.")
@click.option(
    "--as",
    "shown_as",
    type=click.Choice(["jsonl", "text"]),
    default="jsonl",
    show_default=True,
    help="JSON lines, or the text itself with marks (coref).",
)
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
@trained_with_options
@device_options
def predict(
    folder: str,
    input_file: str | None,
    context: str | None,
    questions: tuple[str, ...],
    predicates: str | None,
    tagger: str | None,
    output: str | None,
    force: bool,
    shown_as: str,
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

    A reader (squad) answers questions with words of a text: --context names the text, and each line
    of INPUT, or each --question, asks about it. Or the questions bring their texts: JSON lines with
    "question" and "context", or a tab between the two.

    For coref all lines of INPUT are one document; JSON lines hold one each. --as text puts brackets
    with numbers around what is mentioned, equal numbers for the same.

    For srl the task finds the predicates, unless --predicates or --tagger say which they are, or
    JSON lines with "predicates": a list of words, or of their numbers from 0.

    Whatever else a row has is kept; a field that the answer has too becomes given_label, for one,
    and the answer's is label.

    \b
    Examples:
      echo "Free entry! Text WIN to 80086 now" | elmo task predict my-spam -
      elmo task predict my-spam messages.csv --text-column message -o answers.jsonl
      elmo task predict my-ner news.txt -o entities.jsonl
      elmo task predict my-squad --context report.txt --question "Who wrote it?"
      elmo task predict my-coref story.txt --as text
      elmo task predict my-srl news.txt --tagger my-pos -o roles.jsonl
    """
    from elmokit.tasks.files.lines import read_text
    from elmokit.tasks.items import items_of
    from elmokit.tasks.saved_task import config_of

    check_asked(input_file, questions, predicates, tagger)
    if output is not None:
        check_answers(output, force)
    reading = config_of(folder)
    if reading.kind != "srl" and (predicates is not None or tagger is not None):
        raise InputError(f"{folder}: knows no predicates; give neither --predicates nor --tagger")
    settings = item_settings(input_file or "-", flags, reading.files, reading.kind == "tags")
    encoding = flags.pop("encoding") or settings.encoding
    if context is not None:
        settings = replace(settings, context=read_text(context, encoding))
    lines = lines_of(input_file, encoding) if input_file else lines_of_questions(questions)
    items = list(items_of(lines, reading.kind, settings))
    trained = load_task(folder, device, threads, quiet, flags)
    if predicates is not None or tagger is not None:
        items = with_predicates(items, trained, predicates, tagger, device)
    with Texts("predicting", quiet) as progress, Bytes("reading static vectors", quiet) as found:
        write(answers(trained, items, shown_as == "text", progress, found), output)
    if output is not None and not quiet:
        click.echo(f"{counted(len(items), 'answer')} in {output}", err=True)


def check_asked(
    input_file: str | None, questions: tuple[str, ...], predicates: str | None, tagger: str | None
) -> None:
    """Refuse flags that contradict each other."""
    if bool(input_file) == bool(questions):
        raise click.UsageError(
            "give INPUT, a file or - for standard input; or, to a reader, questions (--question)"
        )
    if predicates is not None and tagger is not None:
        raise click.UsageError("give --predicates or --tagger, and not both")


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


def lines_of_questions(questions: Sequence[str]) -> list[Line]:
    """Questions as lines, each with its place; one that asks nothing is refused."""
    from elmokit.tasks.files.lines import Line

    for number, question in enumerate(questions, start=1):
        if not question.strip():
            raise InputError(f"question {number}: has no words; ask something")
    return [Line(f"question {number}", each) for number, each in enumerate(questions, start=1)]


def with_predicates(
    items: Sequence[Item],
    trained: TrainedTask,
    predicates: str | None,
    tagger: str | None,
    device: str | None,
) -> list[Item]:
    """Items with their predicates: words with commas between them, or what a tagger calls verbs."""
    from elmokit.tasks.saved_task import TrainedTask
    from elmokit.tasks.srl.asking import about_verbs, about_words

    if tagger is not None:
        return about_verbs(items, TrainedTask.load(tagger, device=device), trained.tokenizer)
    words = [word.strip() for word in (predicates or "").split(",") if word.strip()]
    if not words:
        raise InputError("--predicates has no words; name some with commas between them")
    return about_words(items, words)


def answers(
    trained: TrainedTask,
    items: Sequence[Item],
    as_text: bool,
    progress: Progress,
    reading: Progress,
) -> Iterator[str]:
    """The answers as lines of JSON, or as text."""
    found = trained.predictions(
        [item.asked for item in items], places=[item.place for item in items], progress=reading
    )
    for done, (item, prediction) in enumerate(zip(items, found, strict=True), start=1):
        yield text_of(prediction) if as_text else json_of(item, prediction)
        progress(done, len(items))


def json_of(item: Item, prediction: Prediction) -> str:
    """An answer as a line of JSON."""
    from elmokit.tasks.items import answer_to

    answer = answer_to(item, prediction.to_dict())
    line = json.dumps(answer, ensure_ascii=False)
    # Half a pair of surrogates, which JSON can write and UTF-8 cannot, stays escaped.
    return line if is_utf8(line) else json.dumps(answer)


def is_utf8(text: str) -> bool:
    """Whether a text can be written as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def text_of(prediction: Prediction) -> str:
    """An answer as text."""
    from elmokit.tasks.predictions import ReadablePrediction

    if not isinstance(prediction, ReadablePrediction):
        raise InputError("the answers of this task are no text; leave out --as text")
    return prediction.to_text()


def write(lines: Iterator[str], output: str | None) -> None:
    """Print lines, or write them into a file that appears when it is whole."""
    from elmokit.formats.files import write_atomically

    if output is None:
        for line in lines:
            click.echo(line)
        return
    with write_atomically(output) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
