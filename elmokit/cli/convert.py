"""`elmo convert`: between formats."""

from __future__ import annotations

import click

from elmokit.cli.options import threads_option


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
    from elmokit.conversion import convert_model

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
