"""`elmo static`: word2vec, fastText and GloVe. Train them, look at them, measure them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from elmokit.cli.options import JSON_OPTION, QUIET_OPTION
from elmokit.cli.progress import Bytes
from elmokit.cli.spelling import EitherSpelling
from elmokit.cli.static_scores import show_scores
from elmokit.cli.static_train import train

if TYPE_CHECKING:
    from elmokit.static.vectors import Neighbour, StaticVectors

top_option = click.option(
    "--top",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    metavar="N",
    help="How many words to show.",
)


@click.group(cls=EitherSpelling)
def static() -> None:
    """Static vectors: one for a word, whatever it means in its sentence.

    FILE is GloVe's or word2vec's text, word2vec's or fastText's .bin, each plain, .gz, .xz or
    .zst, or a .safetensors of ours. Without it: the bundled word2vec.

    \b
    Example:
      elmo static neighbours bank
      elmo static analogy glove.6B.50d.txt.gz "king - man + woman"
      elmo static train news.txt.gz -o vectors.safetensors
    """


static.add_command(train)


@static.command()
@click.argument("arguments", nargs=-1, required=True, metavar="[FILE] WORD")
@top_option
@JSON_OPTION
def neighbours(arguments: tuple[str, ...], top: int, as_json: bool) -> None:
    """The words whose vectors are nearest to WORD's.

    \b
    Example:
      elmo static neighbours glove.6B.50d.txt.gz bank --top 5
    """
    file, (word,) = split_file(arguments, 1)
    found = load(file).neighbours(word, top)
    show_neighbours({"word": word}, found, as_json)


@static.command()
@click.argument("arguments", nargs=-1, required=True, metavar="[FILE] QUESTION")
@top_option
@JSON_OPTION
def analogy(arguments: tuple[str, ...], top: int, as_json: bool) -> None:
    """What words add up to: QUESTION is such as "king - man + woman".

    The words of QUESTION are not among the answers.

    \b
    Example:
      elmo static analogy glove.6B.50d.txt.gz "king - man + woman"
    """
    from elmokit.static.questions import parse_analogy

    file, (question,) = split_file(arguments, 1)
    positive, negative = parse_analogy(question)
    show_neighbours({"question": question}, load(file).analogy(positive, negative, top), as_json)


@static.command()
@click.argument("arguments", nargs=-1, metavar="[FILE] [WORD WORD]")
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="FILE",
    help="Pairs of words that people have judged, instead of WORD WORD. Can be given several "
    "times.",
)
@JSON_OPTION
def similarity(arguments: tuple[str, ...], sets: tuple[str, ...], as_json: bool) -> None:
    """How alike two words are: the cosine of their vectors, 1 for the same direction.

    A set has two words and a score on each line; its answer is Spearman's correlation with them.

    \b
    Examples:
      elmo static similarity glove.6B.50d.txt.gz tiger cat
      elmo static similarity glove.6B.50d.txt.gz --set EN-WS-353-ALL.txt
    """
    if sets:
        file, _ = split_file(arguments, 0)
        show_scores(load(file), sets, (), as_json)
        return
    file, (first, second) = split_file(arguments, 2)
    cosine = load(file).similarity(first, second)
    answer = {"words": [first, second], "cosine": cosine}
    click.echo(json.dumps(answer, ensure_ascii=False) if as_json else f"{cosine:.4f}")


@static.command()
@click.argument("arguments", nargs=-1, metavar="[FILE]")
@click.option(
    "--pairs",
    multiple=True,
    metavar="FILE",
    help="A similarity set: two words and a score on each line. Can be given several times.",
)
@click.option(
    "--analogies",
    multiple=True,
    metavar="FILE",
    help="Questions: four words on each line, in sections. Can be given several times.",
)
@QUIET_OPTION
@JSON_OPTION
def evaluate(
    arguments: tuple[str, ...],
    pairs: tuple[str, ...],
    analogies: tuple[str, ...],
    quiet: bool,
    as_json: bool,
) -> None:
    """Measure vectors on similarity sets and on analogies.

    What has a word without a vector is left out, and counted. Capitals do not count. An analogy
    "a is to b as c is to" is answered by the word nearest to b - a + c, a, b and c excluded.

    \b
    Example:
      elmo static evaluate vectors.bin --pairs EN-WS-353-ALL.txt --analogies questions-words.txt
    """
    if not pairs and not analogies:
        raise click.UsageError("give --pairs or --analogies")
    file, _ = split_file(arguments, 0)
    show_scores(load(file), pairs, analogies, as_json, quiet)


@static.command()
@click.argument("text")
@click.option(
    "--window",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    metavar="N",
    help="Words to a side.",
)
@click.option(
    "--tokenizer",
    type=click.Choice(["default", "whitespace"]),
    default="default",
    show_default=True,
    help="What splits TEXT into sentences and words.",
)
@click.option("--lowercase", is_flag=True, help="Read TEXT in lower case.")
@JSON_OPTION
def pairs(text: str, window: int, tokenizer: str, lowercase: bool, as_json: bool) -> None:
    """Show what skip-gram learns from: each word of TEXT with each in its window.

    \b
    Example:
      elmo static pairs "The quick brown fox jumps over the lazy dog." --window 2
    """
    from elmokit.analysis.occurrence import BRACKETS, with_mark
    from elmokit.static.pairs import centres
    from elmokit.text.tokenizer import load_tokenizer

    sentences = load_tokenizer(tokenizer).sentences(text.lower() if lowercase else text)
    split = [[token.text for token in sentence] for sentence in sentences]
    found = [centre for words in split for centre in centres(words, window)]
    if as_json:
        rows = [
            {"sentence": list(one.words), "position": one.position, "pairs": one.pairs}
            for one in found
        ]
        click.echo(json.dumps(rows, ensure_ascii=False))
        return
    for one in found:
        click.echo(with_mark(one.words, one.position, BRACKETS))
        click.echo("    " + " ".join(f"({word}, {other})" for word, other in one.pairs))


@static.command()
@click.argument("arguments", nargs=-1, required=True, metavar="[FILE] OUTPUT")
@click.option(
    "--to",
    type=click.Choice(["glove", "word2vec", "word2vec-binary", "native"]),
    help="Without it what OUTPUT's name says: .txt and .vec word2vec's text, .bin its binary file, "
    ".safetensors ours. GloVe's has no first line.",
)
@click.option(
    "--words", type=click.IntRange(min=1), metavar="N", help="Keep the first N words (all)."
)
@click.option("--force", is_flag=True, help="Replace OUTPUT if it is there.")
def convert(arguments: tuple[str, ...], to: Any, words: int | None, force: bool) -> None:
    """Write vectors in another format. Subwords of fastText are left behind.

    \b
    Example:
      elmo static convert GoogleNews-vectors-negative300.bin.gz news.safetensors --words 50000
    """
    from elmokit.formats.word_vectors import format_of
    from elmokit.static.training import check_new

    file, (output,) = split_file(arguments, 1)
    if to is None:
        format_of(output)
    check_new(Path(output), force)
    vectors = load(file)
    vectors.save(output, to=to, words=words)
    kept = len(vectors) if words is None else min(words, len(vectors))
    click.echo(f"{output}: {kept:,} words, vectors of {vectors.size}")


def split_file(arguments: Sequence[str], others: int) -> tuple[str | None, list[str]]:
    """The file, if one was named before so many other arguments; and these."""
    if len(arguments) not in (others, others + 1):
        raise click.UsageError(
            f"expected {others} arguments, or {others + 1} with a FILE before; got {len(arguments)}"
        )
    file = arguments[0] if len(arguments) > others else None
    return file, list(arguments[len(arguments) - others :])


def load(file: str | None) -> StaticVectors:
    """The vectors of a file, or the bundled ones."""
    from elmokit.static.vectors import StaticVectors

    with Bytes("reading") as progress:
        return StaticVectors.load(file, progress=progress)


def show_neighbours(asked: dict[str, str], found: list[Neighbour], as_json: bool) -> None:
    """Print words and their cosines, a row each."""
    if as_json:
        answer = {**asked, "words": [one._asdict() for one in found]}
        click.echo(json.dumps(answer, ensure_ascii=False, indent=2))
        return
    for one in found:
        click.echo(f"{one.cosine:7.3f}  {one.word}")
