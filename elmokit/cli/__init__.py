"""The `elmo` command: parse flags, call one library function, print.

Nothing here imports torch before a command runs, so that `--help` answers at once.
"""

from __future__ import annotations

import signal
import sys
import warnings
from types import FrameType
from typing import TextIO

import click

from elmokit import __version__
from elmokit.cli.analysis import compare, senses
from elmokit.cli.embed import embed
from elmokit.cli.models import convert, download, info
from elmokit.cli.neighbours import neighbours
from elmokit.cli.options import EitherSpelling
from elmokit.cli.pretrain import finetune, pretrain, vocabulary
from elmokit.cli.probe import probe
from elmokit.cli.serve import serve
from elmokit.cli.static import static
from elmokit.cli.task import task
from elmokit.cli.words import perplexity, predict, score
from elmokit.errors import ElmoError, ElmoWarning, StoppedError
from elmokit.system import wait_briefly

TRAINING = ("pretrain", "finetune")
"""Long runs whose threads, where the cores are theirs alone, had better not sleep (docs/log.md)."""


@click.group(cls=EitherSpelling, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="elmo")
@click.pass_context
def elmo(context: click.Context) -> None:
    """ELMo: contextual word vectors from bidirectional language models.

    \b
    Try it:
      elmo compare bank "He sat on the river bank ." "She opened a bank account ."
      elmo predict "The cat is looking out of the ___ ."
      elmo embed sentences.txt -o vectors.h5

    The model is the bundled one of English; --model names another: a model folder, or the two files
    of an AllenNLP model, OPTIONS WEIGHTS.
    """
    if context.invoked_subcommand not in TRAINING:
        wait_briefly()


COMMANDS = (
    compare, convert, download, embed, finetune, info, neighbours, perplexity, predict, pretrain,
    probe, score, senses, serve, static, task, vocabulary,
)  # fmt: skip
for command in COMMANDS:
    elmo.add_command(command)


def main() -> None:
    """Run the command; say what went wrong in one line, never in a traceback."""
    warnings.showwarning = show_warning
    signal.signal(signal.SIGTERM, stop)
    try:
        status = elmo.main(prog_name="elmo", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except (KeyboardInterrupt, click.Abort):
        say("interrupted; no half-written file is left")
        status = 130
    except ElmoError as error:
        say(str(error))
        status = 130 if isinstance(error, StoppedError) else 1
    sys.exit(status)


def stop(number: int, frame: FrameType | None) -> None:
    """End as Ctrl-C does, so that no temporary file is left behind."""
    raise KeyboardInterrupt


def say(message: str) -> None:
    """One line on stderr; on a terminal over that of a progress that is still open."""
    line = f"elmo: {message}"
    click.echo(f"\r{line:<79}" if sys.stderr.isatty() else line, err=True)


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Our own warnings as one line; others only where a developer asks for them."""
    if issubclass(category, ElmoWarning):
        say(f"note: {message}")
    elif sys.warnoptions:
        say(f"{category.__name__}: {message} ({filename}:{lineno})")
