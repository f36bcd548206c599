"""`elmo embed`: text of any size to a file of vectors."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from elmokit.cli.options import ModelCommand, computing_options, load_embedder, model_options

SHAPES_REMEMBERED = "64"
"""By oneDNN, of products. Every batch has others, and a thousand of them take some 200 MB."""


class EmbedCommand(ModelCommand):
    """A command whose `--layers` also takes `mix FILE`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read `--layers mix FILE` as `--layers mix --mix FILE`."""
        args = list(args)
        for place in range(len(args) - 2):
            if args[place : place + 2] == ["--layers", "mix"] and args[place + 2][:1] != "-":
                args.insert(place + 2, "--mix")
                break
        return super().parse_args(ctx, args)


@click.command(cls=EmbedCommand)
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="OUT",
    help="Where to write: .h5 or .hdf5 (the layout of `allennlp elmo`), .parquet, .npz, .jsonl.",
)
@model_options
@click.option(
    "--split",
    is_flag=True,
    help="INPUT is raw text: split it into words and sentences (of 4,000 characters at most).",
)
@click.option("--column", metavar="NAME", help="Of a table: the column that holds the text.")
@click.option("--keep", metavar="NAME", help="Of a table: a column to keep as the vectors' id.")
@click.option(
    "--errors",
    type=click.Choice(["strict", "replace"]),
    default="strict",
    show_default=True,
    help="Bytes that are not UTF-8: refuse the file, or read them as U+FFFD.",
)
@click.option(
    "--layers",
    default="average",
    show_default=True,
    metavar="LAYERS",
    help="average, top, all, a layer's number, or mix FILE: a mix that a task has learnt.",
)
@click.option("--mix", metavar="FILE", hidden=True)
@click.option(
    "--pool",
    type=click.Choice(["none", "mean", "max"]),
    default="none",
    show_default=True,
    help="A vector per word, or one per sentence.",
)
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float16"]),
    default="float32",
    show_default=True,
    help="Of the vectors in OUT; float16 takes half the space and keeps three digits.",
)
@click.option(
    "--compression",
    metavar="KIND",
    help="gzip for .h5; zstd, snappy or gzip for .parquet; deflate for .npz.",
)
@click.option("--forget-sentences", is_flag=True, help="Leave the sentences out of OUT.")
@computing_options
@click.option("--threads", type=click.IntRange(min=1), metavar="N", help="Threads to compute with.")
@click.option(
    "--engine",
    type=click.Choice(["local", "ray"]),
    default="local",
    show_default=True,
    help="This machine, or the machines of a Ray cluster (OUT is then a folder of Parquet files).",
)
@click.option("--ray-address", metavar="ADDRESS", help="The cluster. Without it: one made here.")
@click.option("--resume", is_flag=True, help="Go on with the same command where it was cut short.")
@click.option("--force", is_flag=True, help="Replace OUT, or what is left of another run.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def embed(
    inputs: tuple[str, ...],
    output: str,
    split: bool,
    column: str | None,
    keep: str | None,
    errors: str,
    layers: str,
    mix: str | None,
    pool: str,
    dtype: str,
    compression: str | None,
    forget_sentences: bool,
    threads: int | None,
    engine: str,
    ray_address: str | None,
    resume: bool,
    force: bool,
    quiet: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Turn text of any size into a file of vectors.

    INPUT is a text file (each line a sentence, its words separated by blanks), JSON lines or CSV,
    plain or as .gz, .xz or .zst, or Parquet; several files, patterns or folders; or - for standard
    input. Line n of a text is vector n of OUT; blank lines are kept, with no words.

    Memory does not grow with the text. What is done is kept in OUT.parts until OUT is whole: after
    Ctrl-C, a crash or a power cut, the same command with --resume goes on.

    \b
    Examples:
      elmo embed sentences.txt -o vectors.h5
      elmo embed "news/*.txt.gz" --split --pool mean --dtype float16 -o news.parquet
      elmo embed reviews.csv --column text --keep id --layers all -o reviews.npz
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", SHAPES_REMEMBERED)
    from elmokit.bulk.inputs import InputSettings, open_input
    from elmokit.cli.progress import Embedded
    from elmokit.formats.vector_settings import VectorSettings

    if (mix is not None) != (layers == "mix"):
        raise click.UsageError("a trained mix is named after --layers: --layers mix FILE")
    if ray_address is not None and engine != "ray":
        raise click.UsageError("--ray-address is for --engine ray")
    settings = VectorSettings(
        layers=layers,
        mix=mix,
        pool=pool,  # type: ignore[arg-type]
        dtype=dtype,  # type: ignore[arg-type]
        compression=compression,
        keep_sentences=not forget_sentences,
    )
    # Files are looked for before PyTorch and a model are loaded for nothing.
    source = open_input(inputs, InputSettings(split, column=column, keep=keep, errors=errors))  # type: ignore[arg-type]

    from elmokit.bulk.outputs import check_output
    from elmokit.formats.vectors import check_compression

    check_output(output, resume=resume, force=force, folder=engine == "ray")
    check_compression(output, compression)
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
    embedder = load_embedder(**flags, quiet=quiet)
    source = source.split_by(embedder.tokenizer.name)
    with Embedded("embedding", quiet) as progress:
        work: dict[str, Any] = {"resume": resume, "force": force, "report": progress.report}
        if engine == "ray":
            from elmokit.bulk.ray import embed_with_ray

            summary = embed_with_ray(
                embedder, source, output, settings, address=ray_address, quiet=quiet, **work
            )
        else:
            from elmokit.bulk.pipeline import embed_files

            summary = embed_files(embedder, source, output, settings, **work)
    click.echo(json.dumps(summary.to_dict()) if as_json else summary.describe())
