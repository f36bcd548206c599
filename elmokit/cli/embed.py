"""`elmo embed`: text of any size to a file of vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from elmokit.cli import options
from elmokit.cli.progress import Display
from elmokit.system import give_back_large_blocks, remember_few_shapes

if TYPE_CHECKING:
    from elmokit.bulk.compute import Summary
    from elmokit.vectors.items import VectorSettings


class EmbedCommand(options.ModelCommand):
    """A command whose `--layers` also takes `mix FILE`, and `--format` what OUT is to be."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read `--layers mix FILE` as `--layers mix --mix FILE`; `--format hdf5` is of OUT."""
        args = list(args)
        for place in range(len(args) - 1):
            if args[place : place + 2] == ["--format", "hdf5"]:
                args[place] = "--output-format"
        for place in range(len(args) - 2):
            if args[place : place + 2] == ["--layers", "mix"] and args[place + 2][:1] != "-":
                args.insert(place + 2, "--mix")
                break
        return super().parse_args(ctx, args)


vector_options = options.combined(
    options.value(
        "--layers",
        "LAYERS",
        "average, sum, top, all, a layer's number, or mix FILE: a mix that a task has learnt, or "
        "the folder of that task.",
        default="average",
    ),
    click.option("--mix", metavar="FILE", hidden=True),
    options.choice(
        "--pool", ("none", "mean", "max"), "A vector per word, or one per sentence.", default="none"
    ),
    options.choice(
        "--dtype",
        ("float32", "float16"),
        "Of the vectors in OUT; float16 takes half the space and keeps three digits.",
        default="float32",
    ),
    options.value(
        "--compression",
        "KIND",
        "gzip for .h5; zstd, snappy or gzip for .parquet; deflate for .npz.",
    ),
    options.flag("--forget-sentences", "Leave the sentences out of OUT."),
)
"""What is made of each sentence; `vector_settings` takes these out of the flags again."""


@click.command(cls=EmbedCommand)
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@options.output(
    "OUT", "Where to write: .h5 or .hdf5 (the layout of `allennlp elmo`), .parquet, .npz, .jsonl."
)
@options.model
@options.text
@options.choice(
    "--output-format", ("hdf5",), "What OUT is, whatever its name says; also as --format hdf5."
)
@options.value(
    "--keep",
    "NAME",
    "Of a table: a column to keep as the vectors' id; of several, a JSON object.",
    multiple=True,
)
@vector_options
@options.computing
@options.number("--batch-size", "Rows that --state carry continues: 64, AllenNLP's, unless given.")
@options.choice(
    "--engine", ("local", "ray"), "This machine, or the machines of a Ray cluster.", default="local"
)
@options.value("--ray-address", "ADDRESS", "The cluster. Without it: one made here.")
@options.resume
@options.flag("--force", "Replace OUT, or what is left of another run.")
@options.quiet
@options.as_json
def embed(
    inputs: tuple[str, ...],
    output: str,
    output_format: Any,
    batch_size: int | None,
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
    plain or as .gz, .bz2, .xz or .zst, or Parquet; FASTA (.fasta, .fa, .faa), a residue a word;
    several files, patterns or folders; or - for standard input. Line n of a text is vector n of
    OUT; blank lines are kept, with no words. Raw text needs --tokenize, or --split.

    Memory does not grow with the text. What is done is kept in OUT.parts until OUT is complete:
    after Ctrl-C, a crash or a power cut, the same command with --resume continues.

    \b
    Examples:
      elmo embed sentences.txt -o vectors.h5
      elmo embed "news/*.txt.gz" --split --pool mean --dtype float16 -o news.parquet
      elmo embed reviews.csv --text-column text --keep id --tokenize --pool mean -o reviews.npz
      elmo embed proteins.fasta --model seqvec/ --layers sum --pool mean -o proteins.h5
    """
    give_back_large_blocks()
    remember_few_shapes()
    from elmokit.bulk.inputs import open_input
    from elmokit.jobs.run_folder import RunFolder
    from elmokit.vectors.files import check_writable

    if ray_address is not None and engine != "ray":
        raise click.UsageError("--ray-address is for --engine ray")
    if engine == "ray" and options.threads_given() is not None:
        raise click.UsageError("--threads is for --engine local; Ray's workers have one CPU each")
    if batch_size is not None:
        if flags["state"] != "carry":
            raise click.UsageError("--batch-size is for --state carry; nothing else depends on it")
        flags["batch_size"] = batch_size
    settings = replace(vector_settings(flags), output_format=output_format)
    # Files are looked for before PyTorch and a model are loaded for nothing.
    source = open_input(inputs, options.text_settings(flags))
    check_writable(output, settings.compression, output_format)
    RunFolder.beside(output).check_output(resume=resume, force=force)
    options.check_place(output)
    embedder = options.load_embedder(**flags, quiet=quiet)
    from elmokit.bulk.pipeline import embed_files

    source = source.split_by(embedder.tokenizer.name)
    compute: Callable[..., Summary] = partial(embed_files, threads=options.threads_given())
    if engine == "ray":
        from elmokit.bulk.ray import embed_with_ray

        compute = partial(embed_with_ray, address=ray_address, quiet=quiet)
    work = (embedder, source, output, settings)
    with Display(quiet) as shown:
        summary = compute(*work, resume=resume, force=force, observer=shown)
    options.show_result(summary, as_json)


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
