"""`elmo vocabulary`: the words of a corpus, counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from elmokit.cli.options import corpus_options
from elmokit.cli.progress import Passes


@click.command()
@click.argument("corpus", nargs=-1, required=True)
@click.option("-o", "--output", required=True, metavar="FILE", help="Where to write the words.")
@click.option(
    "--max-size",
    type=click.IntRange(min=4),
    metavar="N",
    help="Keep the most frequent words: N in all, <S>, </S> and <UNK> among them.",
)
@click.option(
    "--min-count",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Leave out words that come less often.",
)
@corpus_options
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many split the text. Without it: one per CPU.",
)
@click.option(
    "--cache",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Where the prepared text is kept for training. Without it: corpora in ELMOKIT_CACHE.",
)
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def vocabulary(
    corpus: tuple[str, ...], output: str, quiet: bool, as_json: bool, **settings: Any
) -> None:
    """Count the words of CORPUS, and write those that a model is to predict.

    CORPUS is any number of text files (plain, .gz, .xz, .zst), patterns such as "news/**/*.gz",
    and folders. Each line of FILE is a word and its count, the most frequent first, after <S>,
    </S> and <UNK>. The text is prepared for `elmo pretrain` at the same time; where that was cut
    off, it goes on when run again.

    \b
    Examples:
      elmo vocabulary news/ -o vocabulary.txt --max-size 100000
      elmo vocabulary "tokenized/*.txt.xz" -o vocabulary.txt --tokenizer whitespace --min-count 3
    """
    from elmokit.pretraining.counting import write_corpus_vocabulary

    with Passes("preparing", quiet) as progress:
        summary = write_corpus_vocabulary(corpus, output, **settings, progress=progress)
    click.echo(json.dumps(summary.to_dict()) if as_json else summary.describe())
