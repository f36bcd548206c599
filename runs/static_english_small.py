"""Train the bundled word2vec on the text of the bundled model, and ship it with its card.

    python -m runs.static_english_small --threads 2

The text is that of runs/english-small.toml, prepared once by `elmo pretrain` or here. What is
measured is what is shipped: the vectors in half precision. The prose of the card is in
runs/data/static_english_small_card.md.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from benchmarks.machine import one_line_errors, processor
from elmokit.bundled import BUNDLED, ENGLISH_SMALL_WORD2VEC
from elmokit.cli.progress import Display
from elmokit.errors import InputError
from elmokit.io.files import write_folder_atomically
from elmokit.io.text_files import find_files
from elmokit.pretraining.config import read_run
from elmokit.pretraining.corpus import prepare_corpus
from elmokit.pretraining.prepared import PreparedCorpus
from elmokit.static.evaluation import analogy_scores, similarity_score, total
from elmokit.static.files import VECTORS_FILE
from elmokit.static.training import Trained, TrainingSettings, train_vectors
from elmokit.static.vectors import StaticVectors

RECIPE = "runs/english-small.toml"
WORDSIM = Path("../shared/data/wordsim")
SETS = ("EN-WS-353-ALL", "EN-MEN-TR-3k", "EN-SIMLEX-999", "EN-RW-STANFORD")
ANALOGIES = "questions-words.txt.gz"
MOST_BYTES = 10_000_000
SETTINGS = TrainingSettings(
    method="skip-gram", size=128, window=5, max_words=30_000, negative=5, epochs=5, seed=1
)
PROSE = Path(__file__).parent / "data" / "static_english_small_card.md"


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


def prepared(recipe: str) -> PreparedCorpus:
    """The training text of a recipe."""
    corpus = read_run(recipe).corpus
    with Display() as shown:
        return prepare_corpus(find_files(corpus.train), corpus.text, observer=shown)


def measure(vectors: StaticVectors, folder: Path = WORDSIM) -> list[Score]:
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


def make_card(
    trained: Trained, settings: TrainingSettings, scores: Sequence[Score], minutes: float
) -> str:
    """What the vectors are, and what they reach."""
    return PROSE.read_text(encoding="utf-8").format(
        words=f"{len(trained.vectors):,}",
        size=settings.size,
        method=settings.method,
        tokens=f"{trained.words:,}",
        sentences=f"{trained.sentences:,}",
        window=settings.window,
        negative=settings.negative,
        epochs=settings.epochs,
        learning_rate=settings.learning_rate,
        seed=settings.seed,
        threads=settings.threads,
        minutes=minutes,
        machine=processor(),
        scores="\n".join(f"| {row.name} | {row.score} | {row.known} |" for row in scores),
    )


def ship(output: Path, settings: TrainingSettings, most: int | None) -> None:
    """Train, measure what is to be shipped, and write it with its card."""
    sentences = PreparedSentences(prepared(RECIPE), most)
    started = time.monotonic()
    with Display() as shown:
        trained = train_vectors(sentences, settings, observer=shown)
    minutes = (time.monotonic() - started) / 60
    print(f"{trained.words * settings.epochs / minutes / 60:,.0f} words a second", flush=True)
    with write_folder_atomically(output, force=True) as folder:
        file = folder / VECTORS_FILE
        trained.vectors.save(file)
        if file.stat().st_size > MOST_BYTES:
            raise InputError(f"{output}: is larger than {MOST_BYTES:,} bytes; ask for fewer words")
        card = make_card(trained, settings, measure(StaticVectors.load(file)), minutes)
        (folder / "README.md").write_text(card, encoding="utf-8")
    print(card)


@one_line_errors()
def main() -> None:
    """Read the command line; say what went wrong in one line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=SETTINGS.threads)
    parser.add_argument("--most", type=int, help="train on the first sentences only, to try it")
    parser.add_argument(
        "--output", type=Path, default=BUNDLED / ENGLISH_SMALL_WORD2VEC, help="where to ship"
    )
    arguments = parser.parse_args()
    settings = TrainingSettings(**{**vars(SETTINGS), "threads": arguments.threads})
    ship(arguments.output, settings, arguments.most)


if __name__ == "__main__":
    main()
