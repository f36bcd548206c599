"""Film reviews in Korean by TF-IDF and logistic regression: what a text task needs no network for.

    python -m runs.nsmc_tfidf

Characters in n-grams of 1 to 4, and Kiwi's morphemes in n-grams of 1 and 2, each weighted by TF-IDF
(logarithmic counts; what stands in one review alone is left out). C is chosen on dev, for each part
of the training reviews, which are those that `training.fraction` of a task chooses. Seconds: of
splitting, weighting, and fitting with the C that was chosen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from sklearn.feature_extraction.text import TfidfVectorizer  # type: ignore[import-untyped]
from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]

from benchmarks.machine import command_line, one_line_errors, table
from elmokit.io.tables import table_rows
from elmokit.io.text_files import read_lines
from elmokit.tasks.examples import fixed_part
from elmokit.text.tokenizer import load_tokenizer
from runs.task_rows import DATA, NSMC

PARTS = (1.0, 0.15)  # of the training reviews: 40,000 and 6,000
COSTS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
HEADER = ("features", "training reviews", "number of features", "C", "dev", "test", "seconds")


class Reviews(NamedTuple):
    """Texts and their labels."""

    texts: list[str]
    labels: list[str]

    def part(self, share: float) -> Reviews:
        """A fixed choice of them."""
        numbers = fixed_part(len(self.texts), share)
        return Reviews([self.texts[n] for n in numbers], [self.labels[n] for n in numbers])


class Fitted(NamedTuple):
    """A classifier, and how much of dev it gets right."""

    dev: float
    cost: float
    classifier: Any
    seconds: float


def read_reviews(file: str) -> Reviews:
    """A part of NSMC."""
    rows = list(table_rows(read_lines(DATA / file), "tsv", labelled=True))
    return Reviews([row.value("document") for row in rows], [row.value("label") for row in rows])


def morphemes(text: str) -> list[str]:
    """A review as Kiwi splits it."""
    return [token.text for token in load_tokenizer("kiwi").words(text)]


def weighting(**settings: Any) -> Any:
    """TF-IDF of n-grams."""
    return TfidfVectorizer(sublinear_tf=True, min_df=2, lowercase=False, **settings)


FEATURES: dict[str, Callable[[], Any]] = {
    "characters, 1 to 4": lambda: weighting(analyzer="char", ngram_range=(1, 4)),
    "morphemes, 1 and 2": lambda: weighting(
        tokenizer=morphemes, token_pattern=None, ngram_range=(1, 2)
    ),
}


def rows(name: str, parts: Sequence[Reviews]) -> Iterator[list[str]]:
    """A row of the table for each part of the training reviews."""
    reviews, dev, test = parts
    for share in PARTS:
        started = time.perf_counter()
        train, vectorizer = reviews.part(share), FEATURES[name]()
        weighted = vectorizer.fit_transform(train.texts)
        seconds = time.perf_counter() - started
        of_dev = vectorizer.transform(dev.texts)
        best = max(fits(weighted, train.labels, of_dev, dev.labels), key=lambda one: one.dev)
        right = best.classifier.score(vectorizer.transform(test.texts), test.labels)
        shown = [f"{100 * each:.2f}" for each in (best.dev, right)]
        numbers = [f"{len(train.texts):,}", f"{weighted.shape[1]:,}", f"{best.cost:g}"]
        yield [name, *numbers, *shown, f"{seconds + best.seconds:.1f}"]


def fits(
    weighted: Any, labels: Sequence[str], of_dev: Any, dev_labels: Sequence[str]
) -> Iterator[Fitted]:
    """A classifier for each C."""
    for cost in COSTS:
        started = time.perf_counter()
        classifier = LogisticRegression(C=cost, solver="liblinear").fit(weighted, labels)
        seconds = time.perf_counter() - started
        yield Fitted(classifier.score(of_dev, dev_labels), cost, classifier, seconds)


@one_line_errors()
def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table."""
    parts = [read_reviews(file) for file in NSMC]
    print(table(HEADER, [row for name in FEATURES for row in rows(name, parts)]))
    print("\n" + command_line("runs.nsmc_tfidf", arguments))


if __name__ == "__main__":
    main()
