"""`elmo task predict`: what a trained task says of text."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from elmokit.cli.options import QUIET_OPTION, ModelCommand, check_place, device_options
from elmokit.cli.progress import Bytes
from elmokit.cli.task_options import HEADER_OPTION, SKIP_OPTION, load_task, trained_with_options
from elmokit.cli.task_progress import WordsRead
from elmokit.errors import InputError
from elmokit.plurals import counted

if TYPE_CHECKING:
    from elmokit.tasks.config import TaskConfig
    from elmokit.tasks.files.lines import Line
    from elmokit.tasks.items import Item
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
@click.option(
    "-o", "--output", metavar="OUT.jsonl", help="Where the JSON lines go (standard output)."
)
@click.option("--force", is_flag=True, help="Replace OUT.jsonl.")
@click.option(
    "--as",
    "shown_as",
    type=click.Choice(["jsonl", "text"]),
    default="jsonl",
    show_default=True,
    help="JSON lines, or the text itself with marks (coref, srl).",
)
@click.option(
    "--format",
    "item_format",
    type=click.Choice(["text", "jsonl", "csv", "tsv", "squad"]),
    help="What INPUT is. Without it: what its name says, or else what --format was in training; "
    "standard input is text.",
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
@QUIET_OPTION
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
    "question" and "context", a tab between the two, or SQuAD's JSON, whose answers are not looked
    at.

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
    from elmokit.tasks.answer_lines import answer_lines
    from elmokit.tasks.task_folder import config_of

    check_asked(input_file, questions, predicates, tagger)
    if output is not None:
        check_answers(output, force, [name for name in (input_file, context) if name])
    task = config_of(folder)
    if task.kind != "reading" and questions:
        raise InputError(f"{folder}: answers no questions; give texts as INPUT, not --question")
    if task.kind != "srl" and (predicates is not None or tagger is not None):
        raise InputError(f"{folder}: knows no predicates; give neither --predicates nor --tagger")
    items = asked_items(task, input_file, questions, context, flags)
    trained = load_task(folder, device, quiet, flags)
    items = with_predicates(items, trained, predicates, tagger, device)
    with Bytes("reading static vectors", quiet) as read, WordsRead("predicting", quiet) as done:
        as_text = shown_as == "text"
        write(answer_lines(trained, items, as_text=as_text, progress=done, looking_up=read), output)
    if output is not None and not quiet:
        click.echo(f"{counted(len(items), 'answer')} in {output}", err=True)


def check_asked(
    input_file: str | None, questions: tuple[str, ...], predicates: str | None, tagger: str | None
) -> None:
    """Refuse flags that contradict each other."""
    if input_file and questions:
        raise click.UsageError("give INPUT or --question, and not both")
    if not input_file and not questions:
        raise click.UsageError(
            "give INPUT, a file or - for standard input; or, to a reader, questions (--question)"
        )
    if predicates is not None and tagger is not None:
        raise click.UsageError("give --predicates or --tagger, and not both")


def check_answers(output: str, force: bool, read: Sequence[str]) -> None:
    """Refuse to replace a file unasked, and what is read in any case."""
    from elmokit.formats.files import is_any_of

    if os.path.isdir(output):
        raise InputError(f"{output}: is a folder; name a file for the answers")
    if is_any_of(output, read):
        raise InputError(f"{output}: is what is asked about; name another file for the answers")
    if os.path.exists(output) and not force:
        raise InputError(f"{output}: is there already; choose another name, or force it (--force)")
    check_place(output)


def asked_items(
    task: TaskConfig,
    input_file: str | None,
    questions: Sequence[str],
    context: str | None,
    flags: dict[str, Any],
) -> list[Item]:
    """What is asked about, in a file or as questions; takes the flags on reading out of `flags`."""
    from elmokit.tasks.item_settings import item_settings
    from elmokit.tasks.items import items_of

    settings = item_settings(
        input_file or "-",
        task,
        format=flags.pop("item_format"),
        columns=flags.pop("text_column"),
        context=context,
        **{name: flags.pop(name) for name in ("header", "skip_bad_rows", "encoding")},
    )
    lines = lines_of(input_file, settings.encoding) if input_file else lines_of_questions(questions)
    return list(items_of(lines, task.kind, settings))


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
    items: list[Item],
    trained: TrainedTask,
    predicates: str | None,
    tagger: str | None,
    device: str | None,
) -> list[Item]:
    """Items with the predicates that flags say: some words, or what a tagger calls verbs."""
    from elmokit.tasks.saved_task import TrainedTask
    from elmokit.tasks.srl.asking import about_verbs, about_words

    if tagger is not None:
        return about_verbs(items, TrainedTask.load(tagger, device=device), trained.tokenizer)
    if predicates is not None:
        return about_words(items, predicates.split(","), trained.tokenizer)
    return items


def write(lines: Iterator[str], output: str | None) -> None:
    """Print lines, or write them into a file that appears when it is whole."""
    from elmokit.formats.files import write_atomically

    if output is None:
        for line in lines:
            click.echo(line)
        return
    with write_atomically(output) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
