"""`elmo embed`: a file of sentences to a file of vectors."""

from __future__ import annotations

import json
from typing import Any

import click

from elmokit.cli.options import ModelCommand, computing_options, load_embedder, model_options


@click.command(cls=ModelCommand)
@click.argument("input_file", metavar="INPUT")
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="OUT",
    help="Where to write: .h5 or .hdf5 (the layout of `allennlp elmo`), .npz, .jsonl.",
)
@model_options
@click.option(
    "--layers",
    default="average",
    show_default=True,
    metavar="LAYERS",
    help="average, top, all, or a layer's number.",
)
@click.option(
    "--split",
    is_flag=True,
    help="INPUT is raw text: split it into words and sentences (of 4,000 characters at most).",
)
@computing_options
@click.option("--force", is_flag=True, help="Replace OUT if it is there.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def embed(
    input_file: str,
    output: str,
    layers: str,
    split: bool,
    force: bool,
    quiet: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Turn a file of sentences into a file of vectors.

    Each line of INPUT (- for standard input) is a sentence, its words separated by blanks.

    Line n of INPUT is vector n of OUT; blank lines are kept, with no words.
    """
    from elmokit.bulk.local import check_output, embed_file
    from elmokit.cli.progress import Sentences

    check_output(output, force=force)  # before a model is loaded for nothing
    embedder = load_embedder(**flags, quiet=quiet)
    with Sentences("embedding", quiet) as progress:
        summary = embed_file(
            embedder,
            input_file,
            output,
            layers=layers,
            split=split,
            force=force,
            progress=progress,
        )
    click.echo(json.dumps(summary.to_dict()) if as_json else summary.describe())
