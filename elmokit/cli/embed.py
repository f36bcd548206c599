"""`elmo embed`: text of any size to a file of vectors."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from elmokit.cli.options import (
    Function,
    ModelCommand,
    add_options,
    check_place,
    computing_options,
    load_embedder,
    model_options,
    text_options,
    text_settings,
    threads_given,
)
from elmokit.system import give_back_large_blocks, remember_few_shapes

if TYPE_CHECKING:
    from elmokit.bulk.compute import Summary
    from elmokit.bulk.inputs import Input
    from elmokit.inference.embedder import Embedder
    from elmokit.vectors.items import VectorSettings


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


def vector_options(function: Function) -> Function:
    """Add the flags that say what is made of each sentence."""
    return add_options(
        function,
        click.option(
            "--layers",
            default="average",
            show_default=True,
            metavar="LAYERS",
            help="average, top, all, a layer's number, or mix FILE: a mix that a task has learnt.",
        ),
        click.option("--mix", metavar="FILE", hidden=True),
        click.option(
            "--pool",
            type=click.Choice(["none", "mean", "max"]),
            default="none",
            show_default=True,
            help="A vector per word, or one per sentence.",
        ),
        click.option(
            "--dtype",
            type=click.Choice(["float32", "float16"]),
            default="float32",
            show_default=True,
            help="Of the vectors in OUT; float16 takes half the space and keeps three digits.",
        ),
        click.option(
            "--compression",
            metavar="KIND",
            help="gzip for .h5; zstd, snappy or gzip for .parquet; deflate for .npz.",
        ),
        click.option("--forget-sentences", is_flag=True, help="Leave the sentences out of OUT."),
    )


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
@text_options
@click.option("--keep", metavar="NAME", help="Of a table: a column to keep as the vectors' id.")
@vector_options
@computing_options
@click.option(
    "--engine",
    type=click.Choice(["local", "ray"]),
    default="local",
    show_default=True,
    help="This machine, or the machines of a Ray cluster.",
)
@click.option("--ray-address", metavar="ADDRESS", help="The cluster. Without it: one made here.")
@click.option("--resume", is_flag=True, help="Go on with the same command where it was cut short.")
@click.option("--force", is_flag=True, help="Replace OUT, or what is left of another run.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def embed(
    inputs: tuple[str, ...],
    output: str,
    engine: str,
    ray_address: str | None,
    resume: bool,
    force: bool,
    quiet: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Turn text of any size into a file of vectors.

    INPUT is a text file (a sentence a line, words separated by whitespace), JSON lines or CSV,
    plain or as .gz, .xz or .zst, or Parquet; several files, patterns or folders; or - for standard
    input. Line n of a text is vector n of OUT; blank lines are kept, with no words. Raw text needs
    --tokenize, or --split.

    Memory does not grow with the text. What is done is kept in OUT.parts until OUT is whole: after
    Ctrl-C, a crash or a power cut, the same command with --resume continues.

    \b
    Examples:
      elmo embed sentences.txt -o vectors.h5
      elmo embed "news/*.txt.gz" --split --pool mean --dtype float16 -o news.parquet
      elmo embed reviews.csv --text-column text --keep id --tokenize --pool mean -o reviews.npz
    """
    give_back_large_blocks()
    remember_few_shapes()
    from elmokit.bulk.inputs import open_input

    if ray_address is not None and engine != "ray":
        raise click.UsageError("--ray-address is for --engine ray")
    if engine == "ray" and threads_given() is not None:
        raise click.UsageError("--threads is for --engine local; Ray's workers have one CPU each")
    settings = vector_settings(flags)
    # Files are looked for before PyTorch and a model are loaded for nothing.
    source = open_input(inputs, text_settings(flags))
    check(output, settings, resume=resume, force=force)
    embedder = load_embedder(**flags, quiet=quiet)
    source = source.split_by(embedder.tokenizer.name)
    work: dict[str, Any] = {"resume": resume, "force": force}
    if engine == "ray":
        work |= {"address": ray_address, "quiet": quiet}
    else:
        work["threads"] = threads_given()
    summary = compute(engine, embedder, source, output, settings, quiet, work)
    click.echo(json.dumps(summary.to_dict()) if as_json else summary.describe())


def vector_settings(flags: dict[str, Any]) -> VectorSettings:
    """What is made of each sentence; its flags are taken out of all."""
    from elmokit.vectors.items import VectorSettings

    layers, mix = flags.pop("layers"), flags.pop("mix")
    if (mix is not None) != (layers == "mix"):
        raise click.UsageError("a trained mix is named after --layers: --layers mix FILE")
    return VectorSettings(
        layers=layers,
        mix=mix,
        keep_sentences=not flags.pop("forget_sentences"),
        **{name: flags.pop(name) for name in ("pool", "dtype", "compression")},
    )


def check(output: str, settings: VectorSettings, *, resume: bool, force: bool) -> None:
    """Refuse an output that cannot be written, before a model is loaded for it."""
    from elmokit.bulk.pipeline import check_output
    from elmokit.vectors.files import check_compression

    check_output(output, resume=resume, force=force)
    check_compression(output, settings.compression)
    check_place(output)


def compute(
    engine: str,
    embedder: Embedder,
    source: Input,
    output: str,
    settings: VectorSettings,
    quiet: bool,
    work: dict[str, Any],
) -> Summary:
    """Embed with an engine, and show how far it is."""
    from elmokit.cli.progress import EmbeddingProgress

    with EmbeddingProgress("embedding", quiet) as progress:
        if engine == "ray":
            from elmokit.bulk.ray import embed_with_ray

            return embed_with_ray(
                embedder, source, output, settings, report=progress.report, **work
            )
        from elmokit.bulk.pipeline import embed_files

        return embed_files(embedder, source, output, settings, report=progress.report, **work)
