"""Options that several commands share, and what they describe: models, text, places."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from elmokit.bundled import KOREAN_SMALL_WORD2VEC
from elmokit.cli.progress import Display
from elmokit.errors import InputError
from elmokit.system import VARIABLE, check_threads, use_threads

if TYPE_CHECKING:
    from elmokit.inference.embedder import Embedder
    from elmokit.inference.language_model import LanguageModel
    from elmokit.io.text_files import TextSettings
    from elmokit.static.vectors import StaticVectors


Function = TypeVar("Function", bound=Callable[..., Any])
Option = Callable[[Function], Function]

TOKENIZERS = ("default", "whitespace", "kiwi")
THREADS_GIVEN = f"{__name__}.threads"


def combined(*options: Option[Any]) -> Option[Any]:
    """Several options as one, in the order in which help shows them."""

    def add(function: Function) -> Function:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def value(
    name: str, metavar: str | None, help: str, *, called: str | None = None, **settings: Any
) -> Option[Any]:
    """An option that takes a text; its default is shown, if it has one."""
    names = [name] if called is None else [name, called]
    shown = "default" in settings
    return click.option(*names, metavar=metavar, help=help, show_default=shown, **settings)


def flag(name: str, help: str, **settings: Any) -> Option[Any]:
    """An option without a value."""
    return value(name, None, help, is_flag=True, **settings)


def number(name: str, help: str, *, least: int = 1, **settings: Any) -> Option[Any]:
    """An option that takes a whole number."""
    metavar = settings.pop("metavar", "N")
    return value(name, metavar, help, type=click.IntRange(min=least), **settings)


def choice(name: str, choices: Sequence[str], help: str, **settings: Any) -> Option[Any]:
    """An option that takes one of some words."""
    return value(name, None, help, type=click.Choice(choices), **settings)


def output(metavar: str, help: str, required: bool = True) -> Option[Any]:
    """The option that says where the result goes."""
    return click.option("-o", "--output", required=required, metavar=metavar, help=help)


def settings(example: str) -> Option[Any]:
    """The option that changes any setting of a run by its name, as `example` does."""
    return value(
        "--set",
        "NAME=VALUE",
        f"Change a setting, such as {example}; NAME= takes it away. Can be given several times.",
        called="settings",
        multiple=True,
    )


quiet = flag("--quiet", "Show no progress.")
as_json = flag("--json", "Print JSON.", called="as_json")
run = combined(
    flag("--resume", "Resume the run in FOLDER where it stopped."),
    flag("--force", "Replace the run in FOLDER."),
)
resume = flag("--resume", "Resume the same command where it was cut short.")
precision = choice(
    "--precision",
    ("exact", "fast"),
    "float32, or lower-precision matrix products.",
    default="exact",
)
static = value(
    "--static",
    "FILE",
    "Static vectors to show beside: GloVe's, word2vec's, fastText's; or none. Without it: the "
    "bundled ones of the model's language.",
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


def threads_option(*, pass_on: bool = False, more: str = "") -> Option[Any]:
    """The option that says how many threads compute; it is set before the command begins.

    The command takes the number, too, if it is to `pass_on`.
    """
    return number(
        "--threads",
        f"Threads to compute with. Without it: {VARIABLE}, or a thread per CPU.{more}",
        envvar=VARIABLE,
        callback=set_threads,
        expose_value=pass_on,
    )


def threads_given() -> int | None:
    """What `--threads` says; None where it is left to the environment, or to the CPUs."""
    return click.get_current_context().meta.get(THREADS_GIVEN)


threads = threads_option()
device = combined(
    click.option("--device", help="Where to compute: cpu, cuda, cuda:1, mps."), threads
)


class ModelCommand(click.Command):
    """A command whose `--model` also takes the two files of an AllenNLP model."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read `--model OPTIONS WEIGHTS` as `--model OPTIONS --weights WEIGHTS`."""
        args = list(args)
        if "--model" in args:
            place = args.index("--model") + 2
            options, weights = [*args[place - 1 : place + 1], "", ""][:2]
            files = (".json", ".hdf5", ".h5", ".index", ".model")
            if options.endswith(files) and (weights.endswith(files) or ".ckpt" in weights):
                args.insert(place, "--weights")
        return super().parse_args(ctx, args)


def model_option(otherwise: str) -> Option[Any]:
    """The options that name a model; `otherwise` is which it is without them."""
    return combined(
        value(
            "--model",
            "MODEL",
            "A folder, archive (.zip) or checkpoint of a model, a published name, hf://user/name, "
            f"or OPTIONS WEIGHTS. Without it: {otherwise}.",
        ),
        value("--weights", "FILE", "The weights, where MODEL is options."),
        value("--vocabulary", "FILE", "The words of a word-input AllenNLP model, one per line."),
        choice(
            "--tokenizer",
            TOKENIZERS,
            "What splits raw text. Without it: what the model was trained with.",
        ),
    )


model = model_option("the bundled English model")
language_model = combined(model, device)
language_model_state = choice(
    "--state",
    ("zero", "carry"),
    "Where each sentence starts: from nothing, or from the sentence before it.",
    default="zero",
)
computing = combined(
    choice(
        "--state",
        ("zero", "carry", "warm"),
        "Where each sentence starts: from nothing, from the sentence before it in its row, or "
        "from a first reading of itself.",
        default="zero",
    ),
    precision,
    device,
)
encoding = combined(
    value(
        "--encoding", "NAME", "How the text is written as bytes, such as latin-1.", default="utf-8"
    ),
    choice(
        "--errors",
        ("strict", "replace"),
        "Bytes that are not of the encoding: an error, or read as U+FFFD.",
        default="strict",
    ),
)
text = combined(
    flag(
        "--tokenize",
        "The text is raw: split each line, or cell of a table, into words; it stays one sentence.",
    ),
    flag(
        "--split",
        "The text is raw: split each line, or cell of a table, into sentences (of 4,000 "
        "characters at most) and words.",
    ),
    click.option(
        "--text-column",
        "--column",
        "text_column",
        metavar="NAME",
        help="Of a table: the column that holds the text, or its number from 1.",
    ),
    flag(
        "--skip-bad-rows", "Of CSV and TSV: leave out rows with more or fewer fields than columns."
    ),
    choice(
        "--format",
        ("text", "jsonl", "csv", "tsv", "parquet", "fasta"),
        "What the input is. Without it: what its name says; standard input is text, or JSON "
        "lines with --text-column.",
    ),
    encoding,
)
"""How text is read; `text_settings` takes these out of the flags again."""
corpus = combined(
    choice(
        "--tokenizer",
        TOKENIZERS,
        "What splits the text: default for raw text, kiwi for raw Korean, whitespace for a "
        "tokenized sentence per line.",
        default="default",
    ),
    flag("--one-sentence-per-line", "A line of raw text is a sentence. Without it: a paragraph."),
    encoding,
)
"""How text to train on becomes sentences; `corpus_text` takes these out of the flags again."""


def text_settings(flags: dict[str, Any]) -> TextSettings:
    """How text is read; the flags are taken out of all."""
    from elmokit.io.text_files import TextSettings

    if flags["split"] and flags["tokenize"]:
        raise click.UsageError(
            "--split makes sentences of a text, --tokenize takes it for one; choose one of them"
        )
    names = ("split", "tokenize", "text_column", "skip_bad_rows", "format", "encoding", "errors")
    return TextSettings(keep=flags.pop("keep", ()), **{name: flags.pop(name) for name in names})


def corpus_text(flags: dict[str, Any]) -> TextSettings:
    """How text to train on is read; the flags are taken out of all."""
    from elmokit.io.text_files import TextSettings

    names = ("tokenizer", "one_sentence_per_line", "errors", "encoding")
    return TextSettings.of_corpus(**{name: flags.pop(name) for name in names})


def check_place(output: str) -> None:
    """Raise for an output in a folder that is not there, or that cannot be written to."""
    place = Path(output) if os.path.isdir(output) else Path(output).parent
    folder = place if os.path.isdir(output) else Path(os.path.realpath(output)).parent
    if not folder.is_dir():
        raise InputError(
            f"{output}: there is no folder {place} to write it into; check the name, or make the "
            "folder first"
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"{output}: the folder {place} is not writable; choose one that is")


def check_run(output: str, *, resume: bool, force: bool) -> None:
    """Raise for a folder that no run can be written into, before PyTorch is loaded for nothing."""
    from elmokit.jobs.run_folder import already_holds

    check_place(output)
    folder = Path(output)
    if folder.is_file():
        raise InputError(f"{folder}: is a file; give the name of a folder to write into")
    if not (resume or force) and any(folder.glob("checkpoints/step-*")):
        raise already_holds(folder)


def check_picture(
    context: click.Context, parameter: click.Parameter, path: str | None
) -> str | None:
    """Raise for a picture that could not be written, before anything is computed."""
    if path is not None:
        from elmokit.io.pictures import check_picture_name

        check_picture_name(path)
        check_place(path)
    return path


def picture(help: str) -> Option[Any]:
    """The option that draws the result, too."""
    return value("--picture", "FILE", help, callback=check_picture)


def load_static(path: str | None, embedder: Embedder) -> StaticVectors | None:
    """The static vectors that `--static` names; without it the bundled ones of its language."""
    from elmokit.static.vectors import StaticVectors

    korean = KOREAN_SMALL_WORD2VEC if embedder.tokenizer.name == "kiwi" else None
    return None if path == "none" else StaticVectors.load(path or korean)


@contextmanager
def loading(quiet: bool) -> Iterator[Display]:
    """Show that PyTorch and a model are being loaded."""
    with Display(quiet) as shown, shown.stage("loading the model", ""):
        yield shown


def load_embedder(
    model: str | None, weights: str | None, quiet: bool = False, **settings: Any
) -> Embedder:
    """The embedder that the flags describe."""
    with loading(quiet) as shown:
        from elmokit.inference.embedder import Embedder

        return Embedder.load(model, weights, **settings, progress=shown.fetching)


def load_language_model(
    model: str | None, weights: str | None, quiet: bool = False, **settings: Any
) -> LanguageModel:
    """The language model that the flags describe."""
    with loading(quiet) as shown:
        from elmokit.inference.language_model import LanguageModel

        return LanguageModel.load(model, weights, **settings, progress=shown.fetching)


def show_result(result: Any, as_json: bool) -> None:
    """Print what a command has come to; None is of a process that does not lead."""
    if result is not None:
        click.echo(json.dumps(result.to_dict()) if as_json else result.describe())
