"""`elmo compare`: how far apart two occurrences of a word are."""

from __future__ import annotations

import json
from typing import Any

import click

from elmokit.cli.options import ModelCommand, computing_options, load_embedder, model_options


@click.command(cls=ModelCommand)
@click.argument("word")
@click.argument("sentences", nargs=-1, required=True, metavar="SENTENCE SENTENCE...")
@model_options
@computing_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def compare(word: str, sentences: tuple[str, ...], as_json: bool, **flags: Any) -> None:
    """Compare a word in several sentences, layer by layer.

    Layer 0 knows the word alone, so it gives a static vector; the layers above read the sentence.
    1 is the same direction, 0 unrelated.

    \b
    Example:
      elmo compare bank "He sat on the river bank ." "She opened a bank account ."
    """
    from elmokit.analysis.comparison import compare_occurrences

    comparison = compare_occurrences(load_embedder(**flags), word, sentences)
    click.echo(json.dumps(comparison.to_dict(), indent=2) if as_json else comparison.table())
