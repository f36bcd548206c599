"""`elmo task`: train a network on ELMo's vectors, measure it, and ask it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, get_args

import click

from elmokit.cli.options import (
    QUIET_OPTION,
    Function,
    ModelCommand,
    add_options,
    check_place,
    device_options,
    model_options,
)
from elmokit.cli.pretrain import Lines, settings_of
from elmokit.cli.progress import DownloadProgress, Fetched, ProgressLine, SoonShown, duration
from elmokit.errors import InputError
from elmokit.system import counted, keep_large_blocks
from elmokit.tasks.catalogue import CATALOGUE, task_config
from elmokit.tasks.config import ElmoPlace, Format, Preset
from elmokit.tasks.watcher import EpochReport, StepReport, Watcher

if TYPE_CHECKING:
    from elmokit.io.text_files import Line
    from elmokit.tasks.ask import PredictionItem
    from elmokit.tasks.config import TaskConfig
    from elmokit.tasks.trained import BilmReference, TrainedTask


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
    from elmokit.tasks.trained import BilmReference

    given = BilmReference(model, weights, vocabulary)
    return None if given == BilmReference() else given


def load_task(folder: str, device: str | None, quiet: bool, flags: dict[str, Any]) -> TrainedTask:
    """The trained task that the flags describe; those of its model are taken out of them."""
    from elmokit.tasks.trained import TrainedTask

    bilm = bilm_reference(flags.pop("model"), flags.pop("weights"), flags.pop("vocabulary"))
    tokenizer = flags.pop("tokenizer")
    with Fetched("fetching", quiet) as progress:
        return TrainedTask.load(
            folder, bilm=bilm, tokenizer=tokenizer, device=device, progress=progress
        )


class LayersProgress(ProgressLine):
    """Progress of computing layers."""

    unit = "word"


class WordsRead(SoonShown, LayersProgress):
    """Progress of predicting and of scoring."""

    first_line = "the first words are being read"

    def __call__(self, done: int, total: int | None) -> None:
        """Report that `done` of `total` are done; with none of them the reading begins."""
        if not done:
            self.begin()
            return
        self.cancel_first_line()
        super().__call__(done, total)


class TaskDisplay(Lines, Watcher):
    """Shows how training goes."""

    def __init__(self, quiet: bool) -> None:
        super().__init__(quiet)
        self._layers: LayersProgress | None = None
        self._fetching = DownloadProgress("reading", quiet)

    def fetching(self, done: int, total: int | None) -> None:
        """Bytes of a model or of static vectors that have been read."""
        self._fetching(done, total)

    def layers(self, done: int, total: int | None) -> None:
        """Words whose layers have been computed."""
        if self._layers is None:
            self._layers = LayersProgress("computing ELMo's layers, once", self.quiet)
        self._layers(done, total)

    def step(self, report: StepReport) -> None:
        """A batch is done."""
        if self.due():
            self.line(
                f"epoch {report.epoch} of {report.epochs}, batch {report.batch:,} of "
                f"{report.batches:,}, loss {report.loss:.4f}, {report.words_per_second:,.0f} "
                f"words/s, at most {duration(report.seconds_left)} left",
                stays=not self.terminal,
            )

    def epoch(self, report: EpochReport) -> None:
        """An epoch is done, and dev was scored."""
        mark = ", the best so far" if report.best else ""
        self.line(
            f"epoch {report.epoch}: loss {report.loss:.4f}, dev {report.score.describe()}, "
            f"{duration(report.seconds)}{mark}"
        )


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
    with (
        DownloadProgress("reading static vectors", quiet) as vectors,
        WordsRead("scoring", quiet) as progress,
    ):
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
    from elmokit.tasks.ask import answer_lines
    from elmokit.tasks.trained import config_of

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
    with (
        DownloadProgress("reading static vectors", quiet) as read,
        WordsRead("predicting", quiet) as done,
    ):
        as_text = shown_as == "text"
        lines = answer_lines(trained, items, as_text=as_text, progress=done, looking_up=read)
        number = write(lines, output)
    if output is not None and not quiet:
        click.echo(f"{counted(number, 'answer')} in {output}", err=True)


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
    from elmokit.io.files import is_any_of

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
) -> Iterator[PredictionItem]:
    """What is asked about, in a file or as questions; takes the flags on reading out of `flags`.

    The rest of a file is read as it is answered; its first item is looked at here.
    """
    from elmokit.io.text_files import read_lines
    from elmokit.tasks.ask import item_settings, items_of

    settings = item_settings(
        input_file or "-",
        task,
        format=flags.pop("item_format"),
        columns=flags.pop("text_column"),
        context=context,
        **{name: flags.pop(name) for name in ("header", "skip_bad_rows", "encoding")},
    )
    encoding = settings.encoding
    lines = read_lines(input_file, encoding) if input_file else lines_of_questions(questions)
    items = items_of(lines, task.kind, settings)
    return chain(list(islice(items, 1)), items)


def lines_of_questions(questions: Sequence[str]) -> Iterable[Line]:
    """Questions as lines, each with its place; one that asks nothing is refused."""
    from elmokit.io.text_files import Line

    for number, question in enumerate(questions, start=1):
        if not question.strip():
            raise InputError(f"question {number}: has no words; ask something")
    return [Line(f"question {number}", each) for number, each in enumerate(questions, start=1)]


def with_predicates(
    items: Iterator[PredictionItem],
    trained: TrainedTask,
    predicates: str | None,
    tagger: str | None,
    device: str | None,
) -> Iterator[PredictionItem]:
    """Items with the predicates that flags say: some words, or what a tagger calls verbs."""
    from elmokit.tasks.ask import about_verbs, about_words
    from elmokit.tasks.trained import TrainedTask

    if tagger is not None:
        return about_verbs(items, TrainedTask.load(tagger, device=device), trained.tokenizer)
    if predicates is not None:
        return about_words(items, predicates.split(","), trained.tokenizer)
    return items


def write(lines: Iterator[str], output: str | None) -> int:
    """Print lines, or write them into a file that appears when it is whole; how many they are."""
    from elmokit.io.files import write_atomically

    if output is not None:
        with write_atomically(output) as temporary, open(temporary, "w", encoding="utf-8") as file:
            return sum(1 for line in lines if file.write(f"{line}\n"))
    number = 0
    for line in lines:
        click.echo(line)
        number += 1
    return number


EXAMPLE = "training.epochs=5"


@click.command(cls=ModelCommand)
@click.argument("name", type=click.Choice(list(CATALOGUE)), metavar="NAME")
@click.option(
    "--train",
    "train_files",
    multiple=True,
    required=True,
    metavar="FILE",
    help="Labelled examples to learn from. Can be given several times, as --dev and --test.",
)
@click.option(
    "--dev",
    "dev_files",
    multiple=True,
    metavar="FILE",
    help="To choose the best epoch by. Without it: a fixed tenth of the training data is held out.",
)
@click.option("--test", "test_files", multiple=True, metavar="FILE", help="To score the result on.")
@click.option("-o", "--output", required=True, metavar="FOLDER", help="The trained task.")
@click.option(
    "--preset",
    type=click.Choice(list(get_args(Preset))),
    default="small",
    show_default=True,
    help="Minutes on two cores, or the ELMo paper's networks.",
)
@click.option("--static", metavar="FILE", help="Word vectors to join: GloVe's or word2vec's.")
@click.option(
    "--elmo",
    "elmo_place",
    type=click.Choice(list(get_args(ElmoPlace))),
    help="Where ELMo joins. Without it: what the preset says.",
)
@click.option("--no-elmo", is_flag=True, help="The baseline of the same network: --elmo none.")
@click.option("--layers", metavar="mix|top|N", help="All layers mixed, or one alone (mix).")
@click.option("--per-direction", is_flag=True, help="Mix the directions of a layer separately.")
@click.option("--finetune-bilm", is_flag=True, help="Train the biLM too.")
@click.option("--phrases", is_flag=True, help="Train on all phrases of sentiment trees.")
@click.option(
    "--fraction",
    type=float,
    metavar="SHARE",
    help="Train on a fixed random part of the examples, such as 0.1.",
)
@click.option("--seed", type=click.IntRange(min=0), metavar="N", help="Of all randomness (1).")
@click.option(
    "--cache",
    type=click.Choice(["memory", "disk", "none"]),
    default="memory",
    show_default=True,
    help="Where the layers of a frozen biLM are kept; disk is for other runs too, in "
    "ELMOKIT_CACHE.",
)
@files_options
@model_options
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Change a setting, such as training.epochs=5; NAME= takes it away. Can be given several "
    "times.",
)
@click.option("--resume", is_flag=True, help="Go on where the run in FOLDER stopped.")
@click.option("--force", is_flag=True, help="Replace the run in FOLDER.")
@device_options
@QUIET_OPTION
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def train(
    name: str,
    train_files: tuple[str, ...],
    dev_files: tuple[str, ...],
    test_files: tuple[str, ...],
    output: str,
    preset: Any,
    cache: Any,
    settings: tuple[str, ...],
    resume: bool,
    force: bool,
    device: str | None,
    quiet: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Train a task on files of examples.

    \b
    NAME says what is learnt; your own files take the place of the well-known ones:
      spam   a text's class, from the mean of its word vectors
      sst    a sentence's class, with a biattentive classification network
      ner    entities: words with tags such as B-PER; a BiLSTM with a CRF
      pos    a tag for each word; a BiLSTM
      nli    the class of a pair of sentences; ESIM
      squad  the words of a text that answer a question; BiDAF with self-attention
      coref  which words of a document mean the same; span ranking
      srl    who did what to whom: arguments of predicates; a deep highway LSTM

    Files are CSV, TSV, JSON lines, CoNLL columns, CoNLL-U, sentiment trees; for squad its JSON, for
    coref the columns of CoNLL-2012 or GAP's TSV, for srl those of PropBank or CoNLL-2012; plain or
    compressed.
    FOLDER gets the trained task, scores, curves.png, mix.png and, where there are classes,
    confusion.png. Stop it whenever you like: --resume continues exactly where it was.

    \b
    Examples:
      elmo task train spam --train spam.csv --encoding latin-1 -o my-spam
      elmo task train ner --train eng.train --dev eng.testa --test eng.testb -o my-ner
      elmo task train ner --train eng.train --dev eng.testa --static glove.txt --no-elmo -o base
      elmo task train sst --train trees.txt --dev dev.txt --set training.epochs=5 -o sst
      elmo task train squad --train wiki.json --train reddit.json --test dev.json -o my-squad
      elmo task train coref --train train.conll --dev dev.conll -o my-coref
      elmo task train srl --train propbank.train.tsv --dev propbank.dev.tsv -o my-srl
    """
    from elmokit.tasks.run import train_task

    keep_large_blocks()
    check_place(output)
    bilm = bilm_reference(flags.pop("model"), flags.pop("weights"), flags.pop("vocabulary"))
    config = task_config(name, preset, settings_of(settings, EXAMPLE, **settings_of_flags(**flags)))
    shown = TaskDisplay(quiet)
    try:
        result = train_task(
            config,
            output,
            train=train_files,
            dev=dev_files or None,
            test=test_files or None,
            bilm=bilm,
            cache=cache,
            resume=resume,
            force=force,
            device=device,
            watcher=shown,
        )
    finally:
        shown.close()
    click.echo(json.dumps(result.to_dict()) if as_json else result.describe())


@click.group()
def task() -> None:
    """Train a task network on ELMo's vectors; measure it, and ask it.

    \b
    Example:
      elmo task train spam --train messages.csv -o my-spam
      elmo task evaluate my-spam more-messages.csv
      echo "Free entry! Text WIN to 80086 now" | elmo task predict my-spam -
    """


for command in (train, evaluate, predict):
    task.add_command(command)
