"""Train a bundled word2vec on the text of a bundled model, and ship it with its card.

    python -m runs.bundled_vectors english-small-word2vec --threads 2
    python -m runs.bundled_vectors korean-small-word2vec --threads 2

The text is that of the model's recipe in runs/, prepared once by `elmo pretrain` or here. What is
measured is what is shipped: the vectors in half precision. The prose of each card is in runs/data.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from benchmarks.machine import one_line_errors, processor
from elmokit.bundled import BUNDLED, ENGLISH_SMALL_WORD2VEC, KOREAN_SMALL_WORD2VEC
from elmokit.cli.progress import Display
from elmokit.errors import InputError
from elmokit.io.files import write_folder_atomically
from elmokit.io.text_files import find_files
from elmokit.pretraining.config import CorpusConfig, read_run
from elmokit.pretraining.corpus import prepare_corpus
from elmokit.pretraining.prepared import PreparedCorpus
from elmokit.static.evaluation import analogy_scores, similarity_score, total
from elmokit.static.files import VECTORS_FILE
from elmokit.static.training import Trained, TrainingSettings, train_vectors
from elmokit.static.vectors import StaticVectors
from elmokit.system import counted
from runs.sentence_vectors import read_sets

WORDSIM = Path("../shared/data/wordsim")
SETS = ("EN-WS-353-ALL", "EN-MEN-TR-3k", "EN-SIMLEX-999", "EN-RW-STANFORD")
ANALOGIES = "questions-words.txt.gz"
PROSE = Path(__file__).parent / "data"


class PreparedSentences:
    """The sentences of a prepared corpus as words, or the first of them."""

    def __init__(self, corpus: PreparedCorpus, most: int | None = None) -> None:
        self._corpus = corpus
        self._words = ["", *corpus.words()]
        self._most = most

    def __iter__(self) -> Iterator[list[str]]:
        return islice(self._all(), self._most)

    def _all(self) -> Iterator[list[str]]:
        for first, last in self._corpus.blocks(1 << 16).tolist():
            sentence: list[str] = []
            for number in self._corpus.tokens[first + 1 : last + 1].tolist():
                if number:
                    sentence.append(self._words[number])
                else:
                    yield sentence
                    sentence = []


class Score(NamedTuple):
    """A row of the card."""

    name: str
    score: str
    known: str


def prepared(corpus: CorpusConfig) -> PreparedCorpus:
    """The training text of a recipe."""
    with Display() as shown:
        return prepare_corpus(find_files(corpus.train), corpus.text, observer=shown)


def measure_english(vectors: StaticVectors, folder: Path = WORDSIM) -> list[Score]:
    """The scores on the similarity sets and the analogies."""
    rows = []
    for name in SETS:
        one = similarity_score(vectors, folder / f"{name}.txt")
        score = "-" if one.spearman is None else f"{one.spearman:.3f}"
        rows.append(Score(name, score, f"{one.known:,} of {one.pairs:,} pairs"))
    answered = total(analogy_scores(vectors, folder / ANALOGIES))
    score = "-" if answered.accuracy is None else f"{answered.accuracy:.1%}"
    known = f"{answered.known:,} of {answered.questions:,} questions"
    return [*rows, Score("Google analogies", score, known)]


def measure_korean(vectors: StaticVectors) -> list[Score]:
    """How well mean vectors of sentences tell how alike these are."""
    rows = []
    for name, pairs in read_sets("korean", "STS").items():
        (score,) = pairs.score(vectors.encode(pairs.left), vectors.encode(pairs.right))
        rows.append(Score(name.rstrip("*"), f"{score:.1f}", f"{len(pairs.left):,}"))
    return rows


class Recipe(NamedTuple):
    """How vectors are made, and measured."""

    text: str  # the recipe of a model
    settings: TrainingSettings
    most_bytes: int
    measure: Callable[[StaticVectors], list[Score]]


SETTINGS = TrainingSettings(
    method="skip-gram", size=128, window=5, max_words=30_000, negative=5, epochs=5, seed=1
)
RECIPES = {
    ENGLISH_SMALL_WORD2VEC: Recipe(
        "runs/english-small.toml", SETTINGS, 10_000_000, measure_english
    ),
    KOREAN_SMALL_WORD2VEC: Recipe(
        "runs/korean-small.toml",
        replace(SETTINGS, size=100, max_words=23_000),
        5_000_000,
        measure_korean,
    ),
}


def make_card(
    name: str,
    trained: Trained,
    settings: TrainingSettings,
    scores: Sequence[Score],
    minutes: float,
) -> str:
    """What the vectors are, and what they reach."""
    return (
        (PROSE / f"{name.replace('-', '_')}_card.md")
        .read_text(encoding="utf-8")
        .format(
            **vars(settings)
            | {
                "words": f"{len(trained.vectors):,}",
                "tokens": f"{trained.words:,}",
                "sentences": f"{trained.sentences:,}",
                "threads": counted(settings.threads, "thread"),
                "minutes": minutes,
                "machine": processor(),
                "scores": "\n".join(
                    f"| {row.name} | {row.score} | {row.known} |" for row in scores
                ),
            }
        )
    )


def ship(
    name: str, output: Path, threads: int, most: int | None = None, train: Sequence[str] = ()
) -> None:
    """Train, measure what is to be shipped, and write it with its card."""
    recipe = RECIPES[name]
    settings = replace(recipe.settings, threads=threads)
    corpus = read_run(recipe.text, {"corpus.train": list(train)} if train else {}).corpus
    sentences = PreparedSentences(prepared(corpus), most)
    started = time.monotonic()
    with Display() as shown:
        tokenizer = corpus.tokenizer
        trained = train_vectors(sentences, settings, tokenizer=tokenizer, observer=shown)
    minutes = (time.monotonic() - started) / 60
    print(f"{trained.words * settings.epochs / minutes / 60:,.0f} words a second", flush=True)
    with write_folder_atomically(output, force=True) as folder:
        file = folder / VECTORS_FILE
        trained.vectors.save(file)
        if file.stat().st_size > recipe.most_bytes:
            raise InputError(
                f"{output}: is larger than {recipe.most_bytes:,} bytes; ask for fewer words"
            )
        scores = recipe.measure(StaticVectors.load(file))
        card = make_card(name, trained, settings, scores, minutes)
        (folder / "README.md").write_text(card, encoding="utf-8")
    print(card)


@one_line_errors()
def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line; say what went wrong in one line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=RECIPES)
    parser.add_argument("--threads", type=int, default=SETTINGS.threads)
    parser.add_argument("--train", nargs="+", default=(), help="other text, to try it")
    parser.add_argument("--most", type=int, help="train on the first sentences only, to try it")
    parser.add_argument("--output", type=Path, help="where to ship to")
    given = parser.parse_args(arguments)
    output = given.output or BUNDLED / given.name
    ship(given.name, output, given.threads, given.most, given.train)


if __name__ == "__main__":
    main()
