"""`elmo static`: word2vec, fastText and GloVe. Train them, look at them, measure them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from elmokit.cli import EitherSpelling, options
from elmokit.cli.progress import Display
from elmokit.system import counted

if TYPE_CHECKING:
    from elmokit.static.vectors import StaticVectors, WordNeighbour


WRITTEN = "Where to write: .safetensors (half precision), .txt or .vec, .glove, or .bin."


def show_scores(
    vectors: StaticVectors,
    sets: Sequence[str],
    analogies: Sequence[str],
    as_json: bool,
    quiet: bool = False,
) -> None:
    """Measure vectors, and print the scores."""
    from elmokit.static.evaluation import analogy_scores, similarity_score, total

    similar = [similarity_score(vectors, path) for path in sets]
    with Display(quiet).stage("answering", "question") as progress:
        answered = [analogy_scores(vectors, path, progress) for path in analogies]
    if as_json:
        answer = {
            "similarity": [one._asdict() for one in similar],
            "analogies": [
                [{**one._asdict(), "accuracy": one.accuracy} for one in scores]
                for scores in answered
            ],
        }
        click.echo(json.dumps(answer, ensure_ascii=False, indent=2))
        return
    if similar:
        click.echo(f"{'similarity set':<30}{'Spearman':>10}{'known':>8}{'pairs':>8}")
    for one in similar:
        spearman = "-" if one.spearman is None else f"{one.spearman:.3f}"
        click.echo(score_row(one.name, spearman, one.known, one.pairs))
    for scores in answered:
        click.echo(f"{'analogies':<30}{'right':>10}{'known':>8}{'asked':>8}")
        for section in (*scores, total(scores)):
            right = "-" if section.accuracy is None else f"{section.accuracy:.1%}"
            click.echo(score_row(section.section, right, section.known, section.questions))


def score_row(name: str, score: str, known: int, asked: int) -> str:
    """A row of a table of scores."""
    return f"{name:<30}{score:>10}{known:>8,}{asked:>8,}"


@click.command()
@click.argument("corpus", nargs=-1, required=True)
@options.output("FILE", WRITTEN)
@options.choice(
    "--method",
    ("skip-gram", "cbow", "fasttext"),
    "Predict the words around a word; a word from those around it; skip-gram on subwords.",
    default="skip-gram",
)
@options.number("--size", "Of a vector (100).")
@options.number("--window", "Words to a side (5).")
@options.number("--min-count", "Leave out rarer words (5).")
@options.number("--max-words", "Keep the most frequent (all).")
@options.number("--negative", "Random words beside each (5).")
@options.number("--epochs", "Readings of CORPUS (5).")
@options.number("--buckets", "Vectors of subwords (200000).")
@options.threads_option(pass_on=True, more=" Only 1 trains the same vectors again.")
@options.number("--seed", "Of all randomness (1).", least=0)
@options.flag("--lowercase", "Read CORPUS in lower case.")
@options.corpus
@options.flag("--force", "Replace FILE if it is there.")
@options.quiet
@options.as_json
def train(corpus: tuple[str, ...], output: str, quiet: bool, as_json: bool, **flags: Any) -> None:
    """Train vectors on CORPUS: text files (plain, .gz, .bz2, .xz, .zst), patterns, folders.

    A .bin file is word2vec's; of --method fasttext it is fastText's own, the only one that gives
    words outside the text a vector too.

    \b
    Examples:
      elmo static train news/ -o vectors.safetensors --size 300 --window 2
      elmo static train "news/*.xz" -o fasttext.bin --method fasttext --threads 1
    """
    from elmokit.static.training import TrainingSettings, train_from_files

    read = {"text": options.corpus_text(flags), "lowercase": flags.pop("lowercase")}
    force = flags.pop("force")
    settings = TrainingSettings(**{name: one for name, one in flags.items() if one is not None})
    with Display(quiet) as shown:
        trained = train_from_files(corpus, output, settings, **read, force=force, observer=shown)
    vectors, sentences, words, _ = trained
    size = vectors.vector_size
    if as_json:
        counts = {"sentences": sentences, "words": words, "kept": len(vectors), "size": size}
        click.echo(json.dumps({"output": output, "method": settings.method, **counts}))
        return
    click.echo(
        f"{output}: {len(vectors):,} words, vectors of {size}, by {settings.method} from "
        f"{words:,} words in {counted(sentences, 'sentence')}"
    )


@click.command(cls=options.ModelCommand)
@click.argument("corpus", nargs=-1, required=True)
@options.output("FILE", WRITTEN)
@options.value("--layers", "LAYER", "average, sum, top, or a number.", default="average")
@options.number("--min-count", "Leave out rarer words.", default=5)
@options.number("--max-words", "Keep the most frequent (all).")
@options.model
@options.encoding
@options.device
@options.flag("--force", "Replace FILE if it is there.")
@options.quiet
def from_model(corpus: tuple[str, ...], output: str, quiet: bool, **flags: Any) -> None:
    """Make vectors out of a biLM: the mean of a word's vectors wherever CORPUS has it.

    \b
    Examples:
      elmo static from-model news/ -o elmo.safetensors
      elmo static from-model "news/*.xz" -o elmo.glove --layers 1 --max-words 50000
    """
    from elmokit.static.training import model_vectors

    names = ("model", "weights", "vocabulary", "tokenizer", "device")
    load = partial(options.load_embedder, quiet=quiet, **{name: flags.pop(name) for name in names})
    with Display(quiet) as shown:
        vectors = model_vectors(corpus, output, load, observer=shown, **flags)
    click.echo(f"{output}: {len(vectors):,} words, vectors of {vectors.vector_size}")


top_option = options.number("--top", "How many words to show.", default=10)


@click.group(cls=EitherSpelling)
def static() -> None:
    """Static vectors: one for a word, whatever it means.

    FILE is GloVe's or word2vec's text, word2vec's or fastText's .bin, each plain, .gz, .bz2, .xz or
    .zst, or a .safetensors of ours. Without it: the bundled word2vec.

    \b
    Example:
      elmo static neighbours bank
      elmo static analogy glove.6B.50d.txt.gz "king - man + woman"
      elmo static train news.txt.gz -o vectors.safetensors
      elmo static from-model news.txt.gz -o elmo.safetensors
    """


static.add_command(train)
static.add_command(from_model)


@static.command()
@click.argument("arguments", nargs=-1, required=True, metavar="[FILE] WORD")
@top_option
@options.as_json
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
@options.as_json
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
@options.value(
    "--set",
    "FILE",
    "Pairs of words that people have judged, instead of WORD WORD. Can be given several times.",
    called="sets",
    multiple=True,
)
@options.as_json
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
@options.value(
    "--pairs",
    "FILE",
    "A similarity set: two words and a score on each line. Can be given several times.",
    multiple=True,
)
@options.value(
    "--analogies",
    "FILE",
    "Questions: four words on each line, in sections. Can be given several times.",
    multiple=True,
)
@options.quiet
@options.as_json
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
@options.number("--window", "Words to a side.", default=2)
@options.choice(
    "--tokenizer",
    options.TOKENIZERS,
    "What splits TEXT into sentences and words.",
    default="default",
)
@options.flag("--lowercase", "Read TEXT in lower case.")
@options.as_json
def pairs(text: str, window: int, tokenizer: str, lowercase: bool, as_json: bool) -> None:
    """Show what skip-gram learns from: each word of TEXT with each in its window.

    \b
    Example:
      elmo static pairs "The quick brown fox jumps over the lazy dog." --window 2
    """
    from elmokit.analysis.senses import BRACKETS, with_mark
    from elmokit.static.training import skip_gram_pairs
    from elmokit.text.tokenizer import load_tokenizer

    sentences = load_tokenizer(tokenizer).sentences(text.lower() if lowercase else text)
    split = [[token.text for token in sentence] for sentence in sentences]
    found = [
        (words, position, pairs)
        for words in split
        for position, pairs in enumerate(skip_gram_pairs(words, window))
    ]
    if as_json:
        names = ("sentence", "position", "pairs")
        rows = [dict(zip(names, one, strict=True)) for one in found]
        click.echo(json.dumps(rows, ensure_ascii=False))
        return
    for words, position, pairs in found:
        click.echo(with_mark(words, position, BRACKETS))
        click.echo("    " + " ".join(f"({word}, {other})" for word, other in pairs))


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

    with Display().stage("reading", "byte") as progress:
        return StaticVectors.load(file, progress=progress)


def show_neighbours(asked: dict[str, str], found: list[WordNeighbour], as_json: bool) -> None:
    """Print words and their cosines, a row each."""
    if as_json:
        answer = {**asked, "words": [one._asdict() for one in found]}
        click.echo(json.dumps(answer, ensure_ascii=False, indent=2))
        return
    for one in found:
        click.echo(f"{one.cosine:7.3f}  {one.word}")
