"""`elmo info`: what a model is."""

from __future__ import annotations

import json

import click

from elmokit.cli.options import threads_option


@click.command()
@click.argument("model", nargs=-1, metavar="[MODEL]")
@click.option("--vocabulary", metavar="FILE", help="The words of a word-input AllenNLP model.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def info(model: tuple[str, ...], vocabulary: str | None, as_json: bool) -> None:
    """Say what a model is: its name, its shape, its size, its tokenizer, where it is.

    MODEL is a model folder, or OPTIONS WEIGHTS; without it, the bundled model.
    """
    from elmokit.formats.find import describe, find_model, read_model

    if len(model) > 2:
        raise click.UsageError("give a folder, or OPTIONS WEIGHTS")
    found = find_model(*model)
    described = describe(read_model(*model, vocabulary=vocabulary))
    facts = {"model": found.name, **described, "path": found.path}
    if as_json:
        click.echo(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    width = max(map(len, facts))
    for name, value in facts.items():
        click.echo(f"{name:<{width}}  {shown(value)}")


def shown(value: object) -> str:
    """A fact in words for people."""
    words = {None: "none", True: "yes", False: "no"}
    if value is None or isinstance(value, bool):
        return words[value]
    return f"{value:,}" if isinstance(value, int) else str(value)


@click.command()
@click.argument("source", nargs=-1, required=True, metavar="SRC")
@click.argument("destination", metavar="DST")
@click.option(
    "--to",
    "target",
    type=click.Choice(["native", "allennlp", "cached-vocabulary"]),
    help="What to write. Without it: the other one of native and allennlp.",
)
@click.option(
    "--vocabulary",
    metavar="FILE",
    help="The words of the softmax, of a word-input model, or to cache; one per line.",
)
@click.option("--embedding", metavar="FILE", help="A second file with a word-input model's words.")
@click.option("--tokenizer", metavar="NAME", help="The tokenizer to record: default, whitespace.")
@click.option("--half", is_flag=True, help="Store native weights as float16: half the space.")
@threads_option
@click.option("--force", is_flag=True, help="Replace what DST holds.")
def convert(
    source: tuple[str, ...],
    destination: str,
    target: str | None,
    vocabulary: str | None,
    embedding: str | None,
    tokenizer: str | None,
    half: bool,
    force: bool,
) -> None:
    """Convert between a model folder and AllenNLP's files.

    SRC is a model folder, or OPTIONS WEIGHTS (paths or addresses). DST is a folder; AllenNLP's
    options.json and weights.hdf5 are written into it. `--to cached-vocabulary` writes the token
    vectors of the words in `--vocabulary` to the HDF5 file DST.

    \b
    Examples:
      elmo convert options.json weights.hdf5 my-model
      elmo convert my-model allennlp-files
      elmo convert my-model words.hdf5 --to cached-vocabulary --vocabulary words.txt
    """
    from elmokit.formats.convert import convert_model

    if len(source) > 2:
        raise click.UsageError("SRC is a folder, or OPTIONS WEIGHTS")
    written = convert_model(
        source,
        destination,
        target=target,
        vocabulary=vocabulary,
        embedding=embedding,
        tokenizer=tokenizer,
        half=half,
        force=force,
    )
    click.echo("\n".join(str(path) for path in written))


@click.command()
@click.argument("name", required=False)
@click.option("--quiet", is_flag=True, help="Show no progress.")
def download(name: str | None, quiet: bool) -> None:
    """Fetch a published model once; without NAME, list them.

    The cache is the folder ELMOKIT_CACHE, or ~/.cache/elmokit. Prints the paths of the two files.
    """
    from elmokit.cli.progress import Fetched
    from elmokit.formats import find as published

    if name is None:
        for model in published.PUBLISHED_MODELS:
            click.echo(f"{model.name:<14} {model.millions:>5} M parameters  {model.description}")
        return
    with Fetched(f"fetching {name}", quiet) as progress:
        options, weights = published.download(name, progress)
    click.echo(f"{options} {weights}")
