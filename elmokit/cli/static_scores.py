"""What static vectors score on similarity sets and analogies, as tables or JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from elmokit.cli.progress import Progress

if TYPE_CHECKING:
    from elmokit.static.evaluation import AnalogyScore, SimilarityScore
    from elmokit.static.vectors import StaticVectors


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
