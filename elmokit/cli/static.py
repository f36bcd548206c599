"""`elmo static`: word2vec, fastText and GloVe. Train them, look at them, measure them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from elmokit.cli.progress import Bytes, Passes, Progress
from elmokit.cli.spelling import EitherSpelling

if TYPE_CHECKING:
    from elmokit.static.evaluation import AnalogyScore, SimilarityScore
    from elmokit.static.vectors import Neighbour, StaticVectors

as_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
quiet_option = click.option("--quiet", is_flag=True, help="Show no progress.")
top_option = click.option(
    "--top",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    metavar="N",
    help="How many words to show.",
)


class Words(Passes):
    """Progress over the words of a text, in several passes."""

    def amount(self, number: int) -> str:
        """A number of words."""
        return f"{number:,} words"


@click.group(cls=EitherSpelling)
def static() -> None:
    """Static vectors: one for a word, whatever it means in its sentence.

    FILE is GloVe's or word2vec's text, word2vec's or fastText's .bin, each plain or .gz, or a
    .safetensors of ours. Without it: the bundled word2vec of English.

    \b
    Example:
      elmo static neighbours glove.6B.50d.txt.gz bank
      elmo static analogy glove.6B.50d.txt.gz "king - man + woman"
      elmo static train news.txt.gz -o vectors.safetensors
    """


@static.command()
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
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    metavar="N",
    help="Without it: one per processor. Only 1 trains the same vectors again.",
)
@click.option("--seed", type=click.IntRange(min=0), metavar="N", help="Of all randomness (1).")
@click.option("--lowercase", is_flag=True, help="Read CORPUS in lower case.")
@click.option(
    "--tokenizer",
    type=click.Choice(["default", "whitespace"]),
    default="default",
    show_default=True,
    help="What splits the text: default for raw text, whitespace for a tokenized sentence per "
    "line.",
)
@click.option(
    "--one-sentence-per-line",
    is_flag=True,
    help="A line of raw text is a sentence. Without it: a paragraph.",
)
@click.option(
    "--errors",
    type=click.Choice(["strict", "replace"]),
    default="strict",
    show_default=True,
    help="What is not UTF-8: refuse it, or read it as U+FFFD.",
)
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@quiet_option
@as_json_option
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


@static.command()
@click.argument("arguments", nargs=-1, required=True, metavar="[FILE] WORD")
@top_option
@as_json_option
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
@as_json_option
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
@as_json_option
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
@quiet_option
@as_json_option
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
@as_json_option
def pairs(text: str, window: int, tokenizer: str, lowercase: bool, as_json: bool) -> None:
    """Show what skip-gram learns from: each word of TEXT with each in its window.

    \b
    Example:
      elmo static pairs "The quick brown fox jumps over the lazy dog." --window 2
    """
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
        marked = [*one.words]
        marked[one.position] = f"[{marked[one.position]}]"
        click.echo(" ".join(marked))
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
    click.echo(f"{output}: {kept:,} words of {vectors.size}")


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


def show_scores(
    vectors: StaticVectors,
    sets: Sequence[str],
    analogies: Sequence[str],
    as_json: bool,
    quiet: bool = False,
) -> None:
    """Measure vectors, and print the scores."""
    from elmokit.static.evaluation import analogy_scores, similarity_score

    similar = [similarity_score(vectors, path) for path in sets]
    with Progress("answering", quiet) as progress:
        answered = [analogy_scores(vectors, path, progress) for path in analogies]
    if as_json:
        answer = {
            "similarity": [one._asdict() for one in similar],
            "analogies": [[analogy_dict(one) for one in scores] for scores in answered],
        }
        click.echo(json.dumps(answer, ensure_ascii=False, indent=2))
        return
    if similar:
        show_similarity(similar)
    for scores in answered:
        show_analogies(scores)


def analogy_dict(score: AnalogyScore) -> dict[str, Any]:
    """A score as plain values for JSON."""
    return {**score._asdict(), "accuracy": score.accuracy}


def show_similarity(scores: Sequence[SimilarityScore]) -> None:
    """Print a row for each similarity set."""
    click.echo(f"{'similarity set':<30}{'Spearman':>10}{'known':>8}{'pairs':>8}")
    for one in scores:
        spearman = "-" if one.spearman is None else f"{one.spearman:.3f}"
        click.echo(f"{one.name:<30}{spearman:>10}{one.known:>8,}{one.pairs:>8,}")


def show_analogies(scores: Sequence[AnalogyScore]) -> None:
    """Print a row for each section, and one for all."""
    from elmokit.static.evaluation import total

    click.echo(f"{'analogies':<30}{'right':>10}{'known':>8}{'asked':>8}")
    for one in (*scores, total(scores)):
        right = "-" if one.accuracy is None else f"{one.accuracy:.1%}"
        click.echo(f"{one.section:<30}{right:>10}{one.known:>8,}{one.questions:>8,}")
