"""`elmo info`: what a model is."""

from __future__ import annotations

import json
from typing import Any

import click

from elmokit.cli import options
from elmokit.cli.progress import Display


@click.command()
@click.argument("model", nargs=-1, metavar="[MODEL]")
@options.value("--vocabulary", "FILE", "The words of a word-input AllenNLP model.")
@options.as_json
def info(model: tuple[str, ...], vocabulary: str | None, as_json: bool) -> None:
    """Say what a model is: its shape, its size, where it is.

    MODEL is a folder, an archive or a checkpoint of a model, a URL, a published name, hf://user/name
    (Hugging Face), or OPTIONS WEIGHTS; without it, the bundled model.
    """
    from elmokit.formats.find import find_model, read_model
    from elmokit.formats.native import describe

    if len(model) > 2:
        raise click.UsageError("give a folder, or OPTIONS WEIGHTS")
    with Display() as shown:
        found = find_model(*model, progress=shown.fetching, softmax=True)
        described = describe(read_model(*model, vocabulary=vocabulary, progress=shown.fetching))
    facts = {"model": found.name, "format": found.format, **described, "path": found.path}
    if as_json:
        click.echo(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    width = max(map(len, facts))
    for name, value in facts.items():
        click.echo(f"{name:<{width}}  {in_words(value)}")


def in_words(value: object) -> str:
    """A fact in words for people."""
    words = {None: "none", True: "yes", False: "no"}
    if value is None or isinstance(value, bool):
        return words[value]
    return f"{value:,}" if isinstance(value, int) else str(value)


@click.command()
@click.argument("source", nargs=-1, required=True, metavar="SRC")
@click.argument("destination", metavar="DST")
@options.choice(
    "--to",
    ("native", "allennlp", "cached-vocabulary", "onnx"),
    "What to write. Without it: the other one of native and allennlp.",
    called="target",
)
@options.value(
    "--vocabulary",
    "FILE",
    "The words of the softmax, of a word-input model, or to cache; one per line.",
)
@options.value("--embedding", "FILE", "A second file with a word-input model's words.")
@options.value("--tokenizer", "NAME", "The tokenizer to record: default, whitespace, kiwi.")
@options.flag("--half", "Store native weights as float16: half the space.")
@options.flag("--int8", "Store an ONNX graph's products in 8 bits: a third of the space.")
@options.threads
@options.flag("--force", "Replace what DST holds.")
def convert(source: tuple[str, ...], destination: str, **settings: Any) -> None:
    """Convert between a model folder and AllenNLP's files, or to ONNX.

    SRC is a folder, an archive or a checkpoint of a model, a published name, hf://user/name, or
    OPTIONS WEIGHTS (paths or URLs). DST is a folder; AllenNLP's options.json and weights.hdf5 are
    written into it. `--to cached-vocabulary` writes the token vectors of the words in
    `--vocabulary` to the HDF5 file DST; `--to onnx` a graph for ONNX Runtime, into the folder DST
    (docs/onnx.md).

    \b
    Examples:
      elmo convert options.json weights.hdf5 my-model
      elmo convert my-model allennlp-files
      elmo convert my-model words.hdf5 --to cached-vocabulary --vocabulary words.txt
      elmo convert english-small my-onnx --to onnx
    """
    from elmokit.formats.convert import convert_model

    if len(source) > 2:
        raise click.UsageError("SRC is a folder, or OPTIONS WEIGHTS")
    with Display() as shown:
        written = convert_model(source, destination, **settings, progress=shown.fetching)
    click.echo("\n".join(str(path) for path in written))


@click.command()
@click.argument("name", required=False)
@options.flag("--softmax", "Fetch the softmax and its words too, which predict words.")
@options.quiet
def download(name: str | None, softmax: bool, quiet: bool) -> None:
    """Fetch a published model once; without NAME, list them.

    The cache is the folder ELMOKIT_CACHE, or ~/.cache/elmokit. Prints the paths of the files. All
    commands take NAME as a model, with its softmax where that was fetched.
    """
    from elmokit.formats import published

    if name is None:
        for model in published.PUBLISHED_MODELS:
            size = f"{model.megabytes():>4} MB"
            if model.softmax_words:
                size += f", {model.megabytes(softmax=True):,} MB with --softmax"
            click.echo(f"{model.name:<14} {size:<30} {model.description}")
        click.echo(f"efml-LANGUAGE  ELMoForManyLangs: {', '.join(published.EFML_LANGUAGES)}")
        return
    with Display(quiet) as shown:
        shown.note(f"{name}: {published.size_of(name, softmax)}")
        paths = published.fetch(name, softmax, shown.fetching)
    click.echo(" ".join(map(str, paths)))
