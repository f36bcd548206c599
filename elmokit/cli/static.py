"""`elmo static`: word2vec, fastText and GloVe. Train them, look at them, measure them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from elmokit.cli.options import (
    JSON_OPTION,
    QUIET_OPTION,
    EitherSpelling,
    Function,
    corpus_options,
    corpus_text,
    threads_option,
)
from elmokit.cli.progress import DownloadProgress, Passes, ProgressLine

if TYPE_CHECKING:
    from elmokit.static.evaluation import AnalogyScore, SimilarityScore
    from elmokit.static.training import Trained
    from elmokit.static.vectors import StaticVectors, WordNeighbour


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
    with ProgressLine("answering", quiet) as progress:
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


def number_option(name: str, text: str, **settings: Any) -> Callable[[Function], Function]:
    """A flag that takes a number from 1 on."""
    return click.option(name, type=click.IntRange(min=1), metavar="N", help=text, **settings)


class PassesProgress(Passes):
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
@number_option("--size", "Of a vector (100).")
@number_option("--window", "Words to a side (5).")
@number_option("--min-count", "Leave out rarer words (5).")
@number_option("--max-words", "Keep the most frequent (all).")
@number_option("--negative", "Random words beside each (5).")
@number_option("--epochs", "Readings of CORPUS (5).")
@number_option("--buckets", "Vectors of subwords (200000).")
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

    text = corpus_text(flags)
    settings = TrainingSettings(**{name: one for name, one in flags.items() if one is not None})
    with PassesProgress("training", quiet) as progress:
        trained = train_from_files(
            corpus,
            output,
            settings,
            text=text,
            lowercase=lowercase,
            force=force,
            progress=progress,
        )
    show_trained(trained, output, as_json)


top_option = number_option("--top", "How many words to show.", default=10, show_default=True)


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
    from elmokit.static.evaluation import parse_analogy

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
@number_option("--window", "Words to a side.", default=2, show_default=True)
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
    from elmokit.analysis.senses import BRACKETS, with_mark
    from elmokit.static.training import centres
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


def show_trained(trained: Trained, output: str, as_json: bool) -> None:
    """Print what was trained on, and what it came to."""
    if not as_json:
        click.echo(f"{output}: {trained.describe()}")
        return
    vectors, method, sentences, words, _ = trained
    counts = {"sentences": sentences, "words": words, "kept": len(vectors), "size": vectors.size}
    click.echo(json.dumps({"output": output, "method": method, **counts}))


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

    with DownloadProgress("reading") as progress:
        return StaticVectors.load(file, progress=progress)


def show_neighbours(asked: dict[str, str], found: list[WordNeighbour], as_json: bool) -> None:
    """Print words and their cosines, a row each."""
    if as_json:
        answer = {**asked, "words": [one._asdict() for one in found]}
        click.echo(json.dumps(answer, ensure_ascii=False, indent=2))
        return
    for one in found:
        click.echo(f"{one.cosine:7.3f}  {one.word}")
