"""What the commands that ask a language model share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from elmokit.cli.options import Function, add_options, device_options, model_options

if TYPE_CHECKING:
    from elmokit.language_model import LanguageModel

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
    from elmokit.language_model import LanguageModel

    with Fetched("fetching", quiet) as progress:
        return LanguageModel.load(
            model,
            weights,
            vocabulary=vocabulary,
            tokenizer=tokenizer,
            progress=progress,
            device=device,
        )


def sentences_of_lines(
    language_model: LanguageModel, lines: Sequence[str], split: bool
) -> list[list[str]]:
    """Each line as a sentence, or raw text split into sentences."""
    return language_model.split("\n".join(lines)) if split else [line.split() for line in lines]


def sentences_of_files(
    language_model: LanguageModel, files: Sequence[str], split: bool, encoding: str, errors: str
) -> Iterable[list[str]]:
    """The sentences of files, globs and folders, none of them empty; "-" is standard input."""
    from elmokit.bulk.inputs import InputSettings, open_input
    from elmokit.text.corpus import find_files

    settings = InputSettings(
        split=split,
        tokenizer=language_model.tokenizer.name,
        errors=errors,  # type: ignore[arg-type]
        encoding=encoding,
        format="text",
    )
    names = files if list(files) == ["-"] else [str(path) for path in find_files(files)]
    records = open_input(names, settings).records(hint_at_raw=False)
    return (record.words for record in records if record.words)
