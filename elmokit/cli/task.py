"""`elmo task`: train a network on ELMo's vectors, measure it, and ask it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, get_args

import click

from elmokit.cli.options import Function, ModelCommand, model_options
from elmokit.cli.progress import Bytes, Progress
from elmokit.cli.training import Lines, duration, settings_of
from elmokit.tasks.config import CATALOGUE, ElmoPlace, Format, Preset
from elmokit.tasks.watcher import EpochReport, StepReport, Watcher

if TYPE_CHECKING:
    from elmokit.tasks.bilm_reference import BilmReference
    from elmokit.tasks.items import Item
    from elmokit.tasks.saved_task import TrainedTask


@click.group()
def task() -> None:
    """Train a task network on ELMo's vectors; measure it, and ask it.

    \b
    Example:
      elmo task train spam --train messages.csv -o my-spam
      elmo task evaluate my-spam more-messages.csv
      echo "Free entry! Text WIN to 80086 now" | elmo task predict my-spam -
    """


def files_options(function: Function) -> Function:
    """Add the flags that say how files of examples are read."""
    for option in reversed(
        (
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
            click.option(
                "--header/--no-header",
                default=None,
                help="Whether the first line of a table names its columns.",
            ),
        )
    ):
        function = option(function)
    return function


def computing_options(function: Function) -> Function:
    """Add the flags that say where to compute, and what to show."""
    for option in reversed(
        (
            click.option("--device", help="Where to compute: cpu, cuda, cuda:1, mps."),
            click.option(
                "--threads", type=click.IntRange(min=1), metavar="N", help="To compute with."
            ),
            click.option("--quiet", is_flag=True, help="Show no progress."),
        )
    ):
        function = option(function)
    return function


@task.command(cls=ModelCommand)
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
    help="Minutes on two cores, or the ELMo paper's networks (sst, ner, nli).",
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
@computing_options
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
    threads: int | None,
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

    Files are CSV, TSV, JSON lines, CoNLL columns, CoNLL-U or sentiment trees, plain or compressed.
    FOLDER gets the trained task, scores, curves.png, mix.png and confusion.png. Stop it whenever
    you like: --resume goes on exactly where it was.

    \b
    Examples:
      elmo task train spam --train spam.csv --encoding latin-1 -o my-spam
      elmo task train ner --train eng.train --dev eng.testa --test eng.testb -o my-ner
      elmo task train ner --train eng.train --dev eng.testa --static glove.txt --no-elmo -o base
      elmo task train sst --train trees.txt --dev dev.txt --set training.epochs=5 -o sst
    """
    from elmokit.tasks.config import task_config
    from elmokit.tasks.run import train_task

    bilm = bilm_reference(flags.pop("model"), flags.pop("weights"), flags.pop("vocabulary"))
    config = task_config(name, preset, settings_of(settings, **settings_of_flags(**flags)))
    use_threads(threads)
    shown = Shown(quiet)
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


@task.command(cls=ModelCommand)
@click.argument("folder")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@files_options
@model_options
@computing_options
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def evaluate(
    folder: str,
    files: tuple[str, ...],
    device: str | None,
    threads: int | None,
    quiet: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Score a trained task on files of labelled examples.

    FOLDER is what elmo task train wrote. Files are read as the training files were, unless flags
    say otherwise. Prints the score, then precision and recall class by class, and what was taken
    for what.

    \b
    Example:
      elmo task evaluate my-spam more-messages.csv
    """
    from dataclasses import replace

    from elmokit.tasks.reports import errors_text

    trained = load_task(folder, device, threads, quiet, flags)
    changes = settings_of((), **settings_of_flags(**flags))
    reading = {name.removeprefix("files."): value for name, value in changes.items()}
    found = trained.evaluate(*files, reading=replace(trained.config.files, **reading))
    if as_json:
        click.echo(json.dumps(found.score.to_dict()))
    else:
        click.echo(f"{found.score.describe()}\n\n{errors_text(found)}")


@task.command(cls=ModelCommand)
@click.argument("folder")
@click.argument("input_file", metavar="INPUT")
@click.option("-o", "--output", metavar="OUT.jsonl", help="Where the answers go (standard output).")
@click.option(
    "--format",
    "item_format",
    type=click.Choice(["text", "jsonl"]),
    help="What INPUT is. Without it: what its name says; standard input is text.",
)
@model_options
@computing_options
def predict(
    folder: str,
    input_file: str,
    output: str | None,
    item_format: Any,
    device: str | None,
    threads: int | None,
    quiet: bool,
    **flags: Any,
) -> None:
    """Ask a trained task about text: JSON lines with labels and probabilities.

    FOLDER is what elmo task train wrote. Each line of INPUT (- for standard input) is a raw text,
    or for pairs two texts with a tab between them; or a JSON object with "text" or "words", or with
    "first" and "second". Blank lines are left out. Whatever else an object has is kept; a field
    that the answer has too becomes given_label, for one, and the answer's is label.

    \b
    Examples:
      echo "Free entry! Text WIN to 80086 now" | elmo task predict my-spam -
      elmo task predict my-ner news.txt -o entities.jsonl
    """
    from elmokit.cli.lines import read_lines
    from elmokit.formats.files import write_atomically
    from elmokit.tasks.items import format_of, items_of

    name = "standard input" if input_file == "-" else input_file
    lines = read_lines(input_file)
    trained = load_task(folder, device, threads, quiet, flags)
    items = list(items_of(lines, name, trained.config.kind, item_format or format_of(input_file)))
    with Texts("predicting", quiet) as progress, Bytes("reading static vectors", quiet) as reading:
        answers = predicted(trained, items, progress, reading)
        if output is None:
            for answer in answers:
                click.echo(answer)
            return
        with write_atomically(output) as temporary, open(temporary, "w", encoding="utf-8") as file:
            file.writelines(f"{answer}\n" for answer in answers)


def predicted(
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
        "files__tokenizer": tokenizer,
    }


def bilm_reference(
    model: str | None, weights: str | None, vocabulary: str | None
) -> BilmReference | None:
    """The biLM that flags name; None where they name none."""
    from elmokit.tasks.bilm_reference import BilmReference

    given = BilmReference(model, weights, vocabulary)
    return None if given == BilmReference() else given


def load_task(
    folder: str, device: str | None, threads: int | None, quiet: bool, flags: dict[str, Any]
) -> TrainedTask:
    """The trained task that the flags describe; those of its model are taken out of them."""
    from elmokit.tasks.saved_task import TrainedTask

    use_threads(threads)
    bilm = bilm_reference(flags.pop("model"), flags.pop("weights"), flags.pop("vocabulary"))
    tokenizer = flags.pop("tokenizer")
    with Bytes("fetching", quiet) as progress:
        return TrainedTask.load(
            folder, bilm=bilm, tokenizer=tokenizer, device=device, progress=progress
        )


def use_threads(threads: int | None) -> None:
    """Compute with so many threads."""
    if threads is not None:
        import torch

        torch.set_num_threads(threads)


class Texts(Progress):
    """Progress of predicting."""

    unit = "texts"


class Shown(Lines, Watcher):
    """Shows how training goes."""

    def __init__(self, quiet: bool) -> None:
        super().__init__(quiet)
        self._layers: Words | None = None
        self._fetching = Bytes("reading", quiet)

    def fetching(self, done: int, total: int | None) -> None:
        """Bytes of a model or of static vectors that have been read."""
        self._fetching(done, total)

    def layers(self, done: int, total: int | None) -> None:
        """Words whose layers have been computed."""
        if self._layers is None:
            self._layers = Words("computing ELMo's layers, once", self.quiet)
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


class Words(Progress):
    """Progress of computing layers."""

    unit = "words"
