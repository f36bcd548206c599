"""Flags that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from elmokit.errors import InputError
from elmokit.system import VARIABLE, check_threads, use_threads

if TYPE_CHECKING:
    from elmokit.inference.embedder import Embedder
    from elmokit.inference.language_model import LanguageModel
    from elmokit.io.text_files import TextSettings
    from elmokit.static.vectors import StaticVectors


Function = TypeVar("Function", bound=Callable[..., Any])

PRECISION_OPTION = click.option(
    "--precision",
    type=click.Choice(["exact", "fast"]),
    default="exact",
    show_default=True,
    help="float32, or lower-precision matrix products.",
)
THREADS_GIVEN = f"{__name__}.threads"
QUIET_OPTION = click.option("--quiet", is_flag=True, help="Show no progress.")
JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
STATIC_OPTION = click.option(
    "--static",
    metavar="FILE",
    help="Static vectors to show beside: GloVe's, word2vec's, fastText's; or none. Without it: the "
    "bundled ones of English.",
)


def set_threads(
    context: click.Context, parameter: click.Parameter, threads: int | None
) -> int | None:
    """Have the command compute with so many threads."""
    if context.get_parameter_source("threads") is ParameterSource.COMMANDLINE:
        context.meta[THREADS_GIVEN] = threads
    if not context.resilient_parsing:
        use_threads(None if threads is None else check_threads(threads))
    return threads


def threads_option(function: Function, *, pass_on: bool = False, more: str = "") -> Function:
    """Add the flag that says how many threads compute; it is set before the command begins.

    Args:
        function: The command.
        pass_on: Whether the command takes the number, too.
        more: What else its help says.
    """
    return click.option(
        "--threads",
        type=click.IntRange(min=1),
        envvar=VARIABLE,
        metavar="N",
        callback=set_threads,
        expose_value=pass_on,
        help=f"Threads to compute with. Without it: {VARIABLE}, or a thread per CPU.{more}",
    )(function)


def threads_given() -> int | None:
    """What `--threads` says; None where it is left to the environment, or to the CPUs."""
    return click.get_current_context().meta.get(THREADS_GIVEN)


def device_options(function: Function) -> Function:
    """Add the flags that say where to compute."""
    return add_options(
        function,
        click.option("--device", help="Where to compute: cpu, cuda, cuda:1, mps."),
        threads_option,
    )


class ModelCommand(click.Command):
    """A command whose `--model` also takes the two files of an AllenNLP model."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read `--model OPTIONS WEIGHTS` as `--model OPTIONS --weights WEIGHTS`."""
        return super().parse_args(ctx, split_pair(args))


def split_pair(arguments: list[str]) -> list[str]:
    """Name the weights that follow an options file.

    >>> split_pair(["--model", "options.json", "weights.hdf5", "text"])
    ['--model', 'options.json', '--weights', 'weights.hdf5', 'text']
    """
    arguments = list(arguments)
    if "--model" in arguments:
        place = arguments.index("--model") + 2
        options, weights = [*arguments[place - 1 : place + 1], "", ""][:2]
        files = (".json", ".hdf5", ".h5")
        if options.endswith(files) and weights.endswith(files):
            arguments.insert(place, "--weights")
    return arguments


def add_options(function: Function, *options: Callable[[Function], Function]) -> Function:
    """Add some flags to a command, in the order in which its help shows them."""
    for option in reversed(options):
        function = option(function)
    return function


def model_options(function: Function, otherwise: str = "the bundled English model") -> Function:
    """Add the flags that name a model; `otherwise` is which it is without them."""
    return add_options(
        function,
        click.option(
            "--model",
            metavar="MODEL",
            help=f"A model folder, or OPTIONS WEIGHTS. Without it: {otherwise}.",
        ),
        click.option("--weights", metavar="FILE", help="The weights, where MODEL is options."),
        click.option(
            "--vocabulary",
            metavar="FILE",
            help="The words of a word-input AllenNLP model, one per line.",
        ),
        click.option(
            "--tokenizer",
            type=click.Choice(["default", "whitespace"]),
            help="What splits raw text. Without it: what the model was trained with.",
        ),
    )


def computing_options(function: Function) -> Function:
    """Add the flags that say how to compute."""
    return add_options(
        function,
        click.option(
            "--state",
            type=click.Choice(["zero", "carry", "warm"]),
            default="zero",
            show_default=True,
            help="Where each sentence starts: from nothing, from the sentence before it in "
            "its row, or from a first reading of itself.",
        ),
        PRECISION_OPTION,
        device_options,
    )


def encoding_options(function: Function) -> Function:
    """Add the flags that say how a text is written as bytes."""
    return add_options(
        function,
        click.option(
            "--encoding",
            default="utf-8",
            show_default=True,
            metavar="NAME",
            help="How the text is written as bytes, such as latin-1.",
        ),
        click.option(
            "--errors",
            type=click.Choice(["strict", "replace"]),
            default="strict",
            show_default=True,
            help="Bytes that are not of the encoding: refuse them, or read them as U+FFFD.",
        ),
    )


def text_options(function: Function) -> Function:
    """Add the flags that say how text is read; `text_settings` takes them out again."""
    return add_options(
        function,
        click.option(
            "--tokenize",
            is_flag=True,
            help="The text is raw: split each line, or cell of a table, into words; it stays one "
            "sentence.",
        ),
        click.option(
            "--split",
            is_flag=True,
            help="The text is raw: split each line, or cell of a table, into sentences (of 4,000 "
            "characters at most) and words.",
        ),
        click.option(
            "--text-column",
            "--column",
            "text_column",
            metavar="NAME",
            help="Of a table: the column that holds the text.",
        ),
        click.option(
            "--skip-bad-rows",
            is_flag=True,
            help="Of CSV and TSV: leave out rows with more or fewer fields than columns.",
        ),
        click.option(
            "--format",
            "input_format",
            type=click.Choice(["text", "jsonl", "csv", "tsv", "parquet"]),
            help="What the input is. Without it: what its name says; standard input is text, or "
            "JSON lines with --text-column.",
        ),
        encoding_options,
    )


def text_settings(flags: dict[str, Any]) -> TextSettings:
    """How text is read; the flags are taken out of all."""
    from elmokit.io.text_files import TextSettings

    if flags["split"] and flags["tokenize"]:
        raise click.UsageError(
            "--split makes sentences of a text, --tokenize takes it for one; choose one of them"
        )
    names = ("split", "tokenize", "text_column", "skip_bad_rows", "encoding", "errors")
    return TextSettings(
        format=flags.pop("input_format"),
        keep=flags.pop("keep", None),
        **{name: flags.pop(name) for name in names},
    )


def corpus_options(function: Function) -> Function:
    """Add the flags that say how files of text become sentences to train on."""
    return add_options(
        function,
        click.option(
            "--tokenizer",
            type=click.Choice(["default", "whitespace"]),
            default="default",
            show_default=True,
            help="What splits the text: default for raw text, whitespace for a tokenized sentence "
            "per line.",
        ),
        click.option(
            "--one-sentence-per-line",
            is_flag=True,
            help="A line of raw text is a sentence. Without it: a paragraph.",
        ),
        encoding_options,
    )


def corpus_text(flags: dict[str, Any]) -> TextSettings:
    """How text to train on is read; the flags are taken out of all."""
    from elmokit.io.text_files import TextSettings

    names = ("tokenizer", "one_sentence_per_line", "errors", "encoding")
    return TextSettings.of_corpus(**{name: flags.pop(name) for name in names})


def check_place(output: str) -> None:
    """Refuse an output in a folder that is not there, or that cannot be written to."""
    place = Path(output) if os.path.isdir(output) else Path(output).parent
    folder = place if os.path.isdir(output) else Path(os.path.realpath(output)).parent
    if not folder.is_dir():
        raise InputError(
            f"{output}: there is no folder {place} to write it into; check the name, or make the "
            "folder first"
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"{output}: the folder {place} is not writable; choose one that is")


def load_static(path: str | None) -> StaticVectors | None:
    """The static vectors that `--static` names; without it the bundled ones."""
    from elmokit.static.vectors import StaticVectors

    return None if path == "none" else StaticVectors.load(path)


def load_embedder(
    model: str | None,
    weights: str | None,
    vocabulary: str | None,
    quiet: bool = False,
    **settings: Any,
) -> Embedder:
    """The embedder that the flags describe."""
    from elmokit.cli.progress import Fetched
    from elmokit.inference.embedder import Embedder

    with Fetched("fetching", quiet) as progress:
        return Embedder.load(model, weights, vocabulary=vocabulary, progress=progress, **settings)


AMERICAN = {"neighbors": "neighbours"}


class EitherSpelling(click.Group):
    """A group of commands that go by their American names too; help shows ours."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name in either spelling."""
        return super().get_command(ctx, AMERICAN.get(cmd_name, cmd_name))


STATE_OPTION = click.option(
    "--state",
    type=click.Choice(["zero", "carry"]),
    default="zero",
    show_default=True,
    help="Where each sentence starts: from nothing, or from the sentence before it.",
)


def language_model_options(function: Function) -> Function:
    """Add the flags that name a language model and where it computes."""
    return add_options(function, model_options, device_options)


def load_language_model(
    model: str | None,
    weights: str | None,
    vocabulary: str | None,
    tokenizer: str | None,
    device: str | None,
    quiet: bool = False,
) -> LanguageModel:
    """The language model that the flags describe."""
    from elmokit.cli.progress import Fetched
    from elmokit.inference.language_model import LanguageModel

    with Fetched("fetching", quiet) as progress:
        return LanguageModel.load(
            model,
            weights,
            vocabulary=vocabulary,
            tokenizer=tokenizer,
            progress=progress,
            device=device,
        )
