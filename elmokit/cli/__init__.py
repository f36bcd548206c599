"""The `elmo` command: parse flags, call one library function, print.

A command is imported when it runs, and torch when it computes, so that `--help` answers at once.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import warnings
from importlib import import_module
from types import FrameType
from typing import Any, NoReturn

import click

from elmokit import __version__
from elmokit.errors import ElmoError, ElmoWarning, StoppedError

COMMANDS = {
    "compare": ("analysis", "Compare a word in several sentences, or all words of some."),
    "convert": ("models", "Convert between a model folder and AllenNLP's files, or to ONNX."),
    "download": ("models", "Fetch a published model once; without NAME, list them."),
    "embed": ("embed", "Turn text of any size into a file of vectors."),
    "finetune": ("pretrain", "Train a model on for a domain, and say what it has gained."),
    "info": ("models", "Say what a model is: its shape, its size, where it is."),
    "neighbours": ("neighbours", "Find the words in context nearest to a word in its sentence."),
    "perplexity": ("words", "Say how well a model predicts a text: the lower the better."),
    "predict": ("words", "Predict the next word of SENTENCE, or the one missing at ___."),
    "pretrain": ("pretrain", "Train a bidirectional language model on text of your own."),
    "probe": ("probe", "What each layer knows of words, and each direction of grammar."),
    "score": ("words", "Print the log probability of each sentence of a file."),
    "senses": ("analysis", "Part the occurrences of WORD in INDEX: one cluster a sense."),
    "serve": ("serve", "Serve vectors and trained tasks over HTTP, and show the explorer page."),
    "static": ("static", "Static vectors: one for a word, whatever it means."),
    "task": ("task", "Train a task network on ELMo's vectors; measure it, and ask it."),
    "vocabulary": ("pretrain", "Count the words of CORPUS, and write those to predict."),
}
"""The module of each command, which is imported when it runs, and how its help begins."""
AMERICAN = {"neighbors": "neighbours"}
WITHOUT_MEMORY = (
    "not enough memory",
    "can't allocate",
    "out of memory",
    "size calculation overflow",
)
"""What torch says in a RuntimeError."""
TRAINING = ("pretrain", "finetune")
"""Long runs whose threads, where the cores are theirs alone, had better not sleep (docs/log.md)."""


class EitherSpelling(click.Group):
    """A group of commands that go by their American names too; help shows ours, not cut short."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name in either spelling."""
        return super().get_command(ctx, AMERICAN.get(cmd_name, cmd_name))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show the first sentence on each command, however long it is."""
        rows = [(name, one.get_short_help_str(1000)) for name, one in sorted(self.commands.items())]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


class LazyCommands(EitherSpelling):
    """The commands of `COMMANDS`, each imported when it is asked for."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name in either spelling."""
        name = AMERICAN.get(cmd_name, cmd_name)
        if name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"{__name__}.{COMMANDS[name][0]}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show how the help of each command begins, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(
    cls=LazyCommands,
    commands=dict.fromkeys(COMMANDS, click.Command(None)),  # names alone, to list and to suggest
    context_settings={"help_option_names": ["-h", "--help"]},
)
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
    from elmokit.system import wait_briefly

    os.getcwd()  # raises where the current folder is gone; without it MKL ends the process
    if context.invoked_subcommand not in TRAINING:
        wait_briefly()


def main() -> None:
    """Run the command; say what went wrong in one line, never in a traceback."""
    warnings.showwarning = show_warning
    signal.signal(signal.SIGTERM, stop)
    try:
        status = elmo.main(prog_name="elmo", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except (KeyboardInterrupt, click.Abort):
        say("interrupted; no half-written file is left")
        status = 130
    except ElmoError as error:
        say(str(error))
        status = 130 if isinstance(error, StoppedError) else 1
    except (OSError, MemoryError, RuntimeError, UnicodeEncodeError) as error:
        say(of_the_system(error))
        status = 1
    leave(status)


def of_the_system(error: Exception) -> str:
    """One line about an error that is not of this program; raises what may be a mistake in it."""
    from elmokit.io.files import ADVICE

    if isinstance(error, UnicodeEncodeError):
        letters = error.object[error.start : error.end][:8]
        return (
            f"{letters!a} cannot be written in the encoding {error.encoding}; "
            "set PYTHONIOENCODING=utf-8"
        )
    if isinstance(error, OSError):
        named = f"{error.filename}: " if error.filename else ""
        gone = "; is the current folder still there?" if error.errno == errno.ENOENT else ""
        return f"{named}{error.strerror or error}{gone or ADVICE.get(error.errno or 0, '')}"
    words = str(error).lower()
    if isinstance(error, MemoryError) or any(one in words for one in WITHOUT_MEMORY):
        return "there is not enough memory for this; choose smaller sizes, or batches"
    raise error


def leave(status: int | None) -> NoReturn:
    """End; what is left of an output that cannot be written is not tried again."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(status)


def stop(number: int, frame: FrameType | None) -> None:
    """End as Ctrl-C does, so that no temporary file is left behind."""
    raise KeyboardInterrupt


def say(message: str) -> None:
    """One line on stderr."""
    from elmokit.cli.progress import write_line

    write_line(f"elmo: {message}")


def show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any, **__: Any
) -> None:
    """Our own warnings as one line; others only where a developer asks for them."""
    if issubclass(category, ElmoWarning):
        say(f"note: {message}")
    elif sys.warnoptions:
        say(f"{category.__name__}: {message} ({filename}:{lineno})")
