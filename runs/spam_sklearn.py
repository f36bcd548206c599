"""The spam classifier of a well-known Keras tutorial in three lines of scikit-learn.

    python -m runs.spam_sklearn
    python -m runs.spam_sklearn --folds 5    # how layer and pool were chosen

The split is that of `runs.spam_keras`; nothing else here is random. Seconds are those of training:
loading the model, reading the messages, fitting. With folds the messages are read once for all.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import product
from typing import Any

from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]
from sklearn.pipeline import make_pipeline  # type: ignore[import-untyped]
from sklearn.preprocessing import StandardScaler  # type: ignore[import-untyped]

from benchmarks.machine import one_line_errors
from elmokit.adaptors.sklearn import ElmoVectorizer
from runs.spam_data import Messages, Result, Row, parser_of, parts_of, print_table, sizes_of

BEST = ("all", "mean+max")
CHOICES = tuple(product(("average", "top", "all"), ("mean", "max", "mean+max")))


def build(model: str | None, layer: Any, pool: Any) -> Any:
    """The pipeline."""
    vectorizer = ElmoVectorizer(model, layers=layer, pool=pool)
    return make_pipeline(vectorizer, StandardScaler(), LogisticRegression(C=0.1, max_iter=1000))


def train_and_test(train: Messages, test: Messages, pipeline: Any) -> Result:
    """Fit the pipeline, and test it."""
    started = time.perf_counter()
    pipeline.fit(*train)
    seconds = time.perf_counter() - started
    return Result(pipeline.score(*test), seconds, seconds)


@one_line_errors()
def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line; print a table, or in one line what went wrong."""
    parsed = parser_of(__doc__.splitlines()[0]).parse_args(arguments)
    rows = []
    parts = parts_of(parsed)
    for layer, pool in [BEST] if parsed.folds is None else CHOICES:
        pipeline = build(parsed.model, layer, pool)
        results = [train_and_test(train, test, pipeline) for train, test in parts]
        rows.append(Row(f"scikit-learn, {layer}, {pool}", sizes_of(parts), "", results))
    print_table("spam_sklearn", arguments, rows)


if __name__ == "__main__":
    main()
