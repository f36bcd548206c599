"""`elmo pretrain`: text to a language model."""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from elmokit.cli.options import (
    Function,
    add_options,
    corpus_options,
    corpus_text,
    device_options,
)
from elmokit.cli.progress import SECONDS_BETWEEN_LINES, Passes, duration
from elmokit.pretraining.report import Report, TrainingReport
from elmokit.system import keep_large_blocks

if TYPE_CHECKING:
    from elmokit.inference.predictions import Perplexity


def training_options(function: Function) -> Function:
    """Add the flags that every training run takes."""
    return add_options(
        function,
        click.option(
            "--valid",
            multiple=True,
            metavar="FILES",
            help="Held-out text: a file, folder or pattern. Can be given several times.",
        ),
        click.option("--resume", is_flag=True, help="Go on where the run in FOLDER stopped."),
        click.option(
            "--set",
            "settings",
            multiple=True,
            metavar="NAME=VALUE",
            help="Change a setting, such as training.rows=64; NAME= takes it away. Can be "
            "given several times.",
        ),
        click.option(
            "--processes",
            type=click.IntRange(min=1),
            metavar="N",
            help="How many prepare the text. Without it: one per CPU.",
        ),
        device_options,
        click.option("--quiet", is_flag=True, help="Show no progress."),
        click.option("--json", "as_json", is_flag=True, help="Print the result as JSON."),
    )


def settings_of(
    settings: tuple[str, ...], example: str = "training.rows=64", /, **more: Any
) -> dict[str, Any]:
    """Settings by dotted name, those of flags of their own where they are given.

    `example` is one that the command has, for what is said about those that are none.
    """
    from elmokit.config import parse_setting

    named = {name.replace("__", "."): value for name, value in more.items()}
    given = {name: value for name, value in named.items() if value not in (None, [])}
    return dict(parse_setting(setting, example) for setting in settings) | given


class Lines:
    """A line that renews itself on a terminal, plain lines elsewhere."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.terminal = sys.stderr.isatty()
        self._shown = 0.0
        self._open_line = False

    def due(self) -> bool:
        """Whether the last line that does not stay is old enough for another."""
        now = time.monotonic()
        if now - self._shown < SECONDS_BETWEEN_LINES[self.terminal]:
            return False
        self._shown = now
        return True

    def note(self, message: str) -> None:
        """Something worth a line."""
        self.line(message)

    def line(self, text: str, stays: bool = True) -> None:
        """Write a line, over the one that does not stay."""
        if self.quiet:
            return
        if self.terminal:
            # A line that wraps could not be written over.
            width = shutil.get_terminal_size().columns - 1
            text = "\r" + (text if stays else text[:width]).ljust(width)
        click.echo(text, err=True, nl=stays)
        self._open_line = not stays

    def close(self) -> None:
        """Leave the cursor at the start of a line."""
        if self._open_line:
            click.echo(err=True)


class TrainingDisplay(Lines, Report):
    """Shows a run."""

    def __init__(self, quiet: bool) -> None:
        super().__init__(quiet)
        self._preparing = Passes("preparing the text", quiet)

    def preparing(self, done: int, total: int | None) -> None:
        """Bytes of text that have been prepared."""
        self._preparing(done, total)

    def training(self, report: TrainingReport) -> None:
        """Some steps of training are done."""
        if not self.due() and report.step != report.steps:
            return
        loss = "sampled loss" if report.sampled else "loss"
        self.line(
            f"step {report.step:,} of {report.steps:,}, epoch {report.epoch:.2f}, "
            f"{report.words_per_second:,.0f} words/s, {duration(report.seconds_left)} left, "
            f"{loss} {report.loss_forward:.3f} forward {report.loss_backward:.3f} backward",
            stays=not self.terminal,
        )

    def validation(self, step: int, perplexity: Perplexity, best: bool) -> None:
        """The held-out text was read."""
        mark = ", the best so far" if best else ""
        self.line(
            f"step {step:,}: held-out perplexity {perplexity.mean:,.2f} "
            f"(forward {perplexity.forward:,.2f}, backward {perplexity.backward:,.2f}){mark}"
        )


@click.command()
@click.argument("run", metavar="RUN.toml")
@click.option(
    "--train",
    multiple=True,
    metavar="FILES",
    help="Text to train on: a file, folder or pattern. Can be given several times.",
)
@click.option("-o", "--output", metavar="FOLDER", help="The folder of the run.")
@training_options
def pretrain(
    run: str,
    train: tuple[str, ...],
    output: str | None,
    valid: tuple[str, ...],
    resume: bool,
    settings: tuple[str, ...],
    processes: int | None,
    device: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Train a bidirectional language model on text of your own.

    RUN.toml holds the recipe; flags take the place of what it says. FOLDER gets the model (in
    FOLDER/model), checkpoints, metrics.jsonl and curves.png. Stop it whenever you like: --resume
    continues exactly where it was. The same command runs under torchrun on many processes.

    \b
    Examples:
      elmo pretrain runs/modern.toml --train "text/*.gz" --valid heldout.txt -o my-bilm
      elmo pretrain runs/modern.toml --train "text/*.gz" --valid heldout.txt -o my-bilm --resume
      torchrun --nproc-per-node 8 -m elmokit pretrain runs/paper.toml --train text -o my-bilm
    """
    from elmokit.pretraining.config import read_run
    from elmokit.pretraining.run import pretrain as train_model

    more = {"corpus__train": list(train), "corpus__valid": list(valid), "output": output}
    config = read_run(run, settings_of(settings, **more))
    shown = TrainingDisplay(quiet)
    keep_large_blocks()
    try:
        result = train_model(
            config, resume=resume, device=device, processes=processes, report=shown
        )
    finally:
        shown.close()
    if result is not None:
        click.echo(json.dumps(result.to_dict()) if as_json else result.describe())


@click.command()
@click.argument("model")
@click.argument("corpus", nargs=-1, required=True)
@click.option("-o", "--output", required=True, metavar="FOLDER", help="The folder of the run.")
@click.option("--epochs", type=float, metavar="N", help="How often to read the text (1).")
@click.option(
    "--new-words",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Add the text's N most frequent new words to the vocabulary. Without it: it is kept.",
)
@training_options
def finetune(
    model: str,
    corpus: tuple[str, ...],
    output: str,
    epochs: float | None,
    new_words: int,
    valid: tuple[str, ...],
    resume: bool,
    settings: tuple[str, ...],
    processes: int | None,
    device: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Train a model on for a domain, and say what it has gained.

    MODEL is a model folder with a softmax. CORPUS is text of the domain: files, folders, patterns;
    it is split as the model's own text was. FOLDER/model is the new model.

    \b
    Example:
      elmo finetune my-bilm/model reviews/*.txt --valid heldout-reviews.txt -o my-reviews
    """
    from elmokit.formats.find import read_model
    from elmokit.pretraining.run import finetune as train_on
    from elmokit.pretraining.run import finetuning_run

    saved = read_model(model)
    changes = settings_of(settings, training__epochs=epochs)
    config = finetuning_run(saved, corpus, output, valid=valid, settings=changes)
    shown = TrainingDisplay(quiet)
    keep_large_blocks()
    try:
        result = train_on(
            saved,
            config,
            new_words=new_words,
            resume=resume,
            device=device,
            processes=processes,
            report=shown,
        )
    finally:
        shown.close()
    if result is not None:
        click.echo(json.dumps(result.to_dict()) if as_json else result.describe())


@click.command()
@click.argument("corpus", nargs=-1, required=True)
@click.option("-o", "--output", required=True, metavar="FILE", help="Where to write the words.")
@click.option(
    "--max-size",
    type=click.IntRange(min=4),
    metavar="N",
    help="Keep the most frequent words: N in all, <S>, </S> and <UNK> among them.",
)
@click.option(
    "--min-count",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Leave out words that come less often.",
)
@corpus_options
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many split the text. Without it: one per CPU.",
)
@click.option(
    "--cache",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Where the prepared text is kept for training. Without it: corpora in ELMOKIT_CACHE.",
)
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def vocabulary(
    corpus: tuple[str, ...], output: str, quiet: bool, as_json: bool, **settings: Any
) -> None:
    """Count the words of CORPUS, and write those that a model is to predict.

    CORPUS is any number of text files (plain, .gz, .xz, .zst), patterns such as "news/**/*.gz",
    and folders. Each line of FILE is a word and its count, the most frequent first, after <S>,
    </S> and <UNK>. The text is prepared for `elmo pretrain` at the same time; where that was cut
    off, it continues when run again.

    \b
    Examples:
      elmo vocabulary news/ -o vocabulary.txt --max-size 100000
      elmo vocabulary "tokenized/*.txt.xz" -o vocabulary.txt --tokenizer whitespace --min-count 3
    """
    from elmokit.pretraining.vocabulary import write_corpus_vocabulary

    text = corpus_text(settings)
    with Passes("preparing", quiet) as progress:
        summary = write_corpus_vocabulary(corpus, output, text, **settings, progress=progress)
    click.echo(json.dumps(summary.to_dict()) if as_json else summary.describe())
