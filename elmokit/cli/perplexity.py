"""`elmo perplexity`: how well a language model predicts a text."""

from __future__ import annotations

import json
from typing import Any

import click

from elmokit.cli.language_models import (
    STATE_OPTION,
    language_model_options,
    load_language_model,
    sentences_of_files,
)
from elmokit.cli.options import ModelCommand, encoding_options


@click.command(cls=ModelCommand)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@language_model_options
@click.option(
    "--split",
    is_flag=True,
    help="FILE is raw text: split each line into sentences and words.",
)
@STATE_OPTION
@encoding_options
@click.option("--quiet", is_flag=True, help="Show no progress.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def perplexity(
    files: tuple[str, ...],
    split: bool,
    state: Any,
    encoding: str,
    errors: str,
    quiet: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Say how well a model predicts a text: the lower the better.

    Each line of FILE (- for standard input; globs, folders, .gz, .xz and .zst work) is a sentence,
    its words separated by blanks; blank lines are skipped.

    Every word and the end of every sentence counts; a word outside the vocabulary counts as <UNK>,
    so models with different vocabularies cannot be compared.

    \b
    Example:
      elmo perplexity held-out.txt --split
    """
    from elmokit.cli.progress import Sentences

    language_model = load_language_model(**flags, quiet=quiet)
    sentences = sentences_of_files(language_model, files, split, encoding, errors)
    with Sentences("scoring", quiet) as progress:
        result = language_model.perplexity(sentences, state, progress)
    click.echo(json.dumps(result.to_dict()) if as_json else result.describe())
