"""`elmo static train`: word2vec and fastText on a text."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import click

from elmokit.cli.options import JSON_OPTION, QUIET_OPTION, corpus_options, threads_option
from elmokit.cli.progress import Passes


class Words(Passes):
    """Progress over the words of a text, in several passes."""

    def amount(self, number: int) -> str:
        """A number of words."""
        return f"{number:,} words"


@click.command()
@click.argument("corpus", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="FILE",
    help="Where to write: .safetensors (half precision), .txt or .vec, or .bin.",
)
@click.option(
    "--method",
    type=click.Choice(["skip-gram", "cbow", "fasttext"]),
    default="skip-gram",
    show_default=True,
    help="Predict the words around a word; a word from those around it; skip-gram on subwords.",
)
@click.option("--size", type=click.IntRange(min=1), metavar="N", help="Of a vector (100).")
@click.option("--window", type=click.IntRange(min=1), metavar="N", help="Words to a side (5).")
@click.option(
    "--min-count", type=click.IntRange(min=1), metavar="N", help="Leave out rarer words (5)."
)
@click.option(
    "--max-words", type=click.IntRange(min=1), metavar="N", help="Keep the most frequent (all)."
)
@click.option(
    "--negative", type=click.IntRange(min=1), metavar="N", help="Random words beside each (5)."
)
@click.option("--epochs", type=click.IntRange(min=1), metavar="N", help="Readings of CORPUS (5).")
@click.option(
    "--buckets", type=click.IntRange(min=1), metavar="N", help="Vectors of subwords (200000)."
)
@partial(threads_option, pass_on=True, more=" Only 1 trains the same vectors again.")
@click.option("--seed", type=click.IntRange(min=0), metavar="N", help="Of all randomness (1).")
@click.option("--lowercase", is_flag=True, help="Read CORPUS in lower case.")
@corpus_options
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@QUIET_OPTION
@JSON_OPTION
def train(
    corpus: tuple[str, ...],
    output: str,
    lowercase: bool,
    tokenizer: str,
    one_sentence_per_line: bool,
    errors: Any,
    force: bool,
    quiet: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Train vectors on CORPUS: text files (plain, .gz, .xz, .zst), patterns, folders.

    A .bin file is word2vec's; of --method fasttext it is fastText's own, the only one that gives
    words outside the text a vector too.

    \b
    Examples:
      elmo static train news/ -o vectors.safetensors --size 300 --window 2
      elmo static train "news/*.xz" -o fasttext.bin --method fasttext --threads 1
    """
    from elmokit.static.training import TrainingSettings, train_from_files
    from elmokit.text.corpus import CorpusSettings

    settings = TrainingSettings(**{name: one for name, one in flags.items() if one is not None})
    with Words("training", quiet) as progress:
        summary = train_from_files(
            corpus,
            output,
            settings,
            corpus=CorpusSettings(tokenizer, one_sentence_per_line, errors),
            lowercase=lowercase,
            force=force,
            progress=progress,
        )
    click.echo(json.dumps(vars(summary)) if as_json else summary.describe())
