from __future__ import annotations

import random

import pytest

from elmokit.tasks.coref.documents import Span
from elmokit.tasks.coref.task import cluster_numbers, linked_clusters

SPANS = [Span(n, n + 1) for n in range(7)]


def connected_by_definition(links: list[tuple[int, int]], count: int) -> set[frozenset[int]]:
    """What can be reached from what, by trying every link until nothing changes."""
    reached = [{number} for number in range(count)]
    changed = True
    while changed:
        changed = False
        for one, other in links:
            both = reached[one] | reached[other]
            for number in both:
                changed |= reached[number] != both
                reached[number] = both
    return {frozenset(some) for some in reached}


@pytest.mark.parametrize("seed", range(20))
def test_clusters_are_what_links_connect(seed: int) -> None:
    numbers = random.Random(seed)
    antecedents = [numbers.choice([None, *range(number)]) for number in range(len(SPANS))]
    links = [(n, before) for n, before in enumerate(antecedents) if before is not None]
    found = linked_clusters(SPANS, antecedents)
    assert {frozenset(span.start for span in cluster) for cluster in found} == {
        some for some in connected_by_definition(links, len(SPANS)) if len(some) > 1
    }


def test_a_span_without_links_is_a_cluster_only_on_wish() -> None:
    antecedents = [None, 0, None, None]
    assert linked_clusters(SPANS[:4], antecedents) == ((SPANS[0], SPANS[1]),)
    alone = [False, False, True, False]
    assert linked_clusters(SPANS[:4], antecedents, alone) == ((SPANS[0], SPANS[1]), (SPANS[2],))


def test_spans_of_no_cluster_have_no_number() -> None:
    clusters = [(SPANS[0], SPANS[3]), (SPANS[2],)]
    assert cluster_numbers(clusters, SPANS[:4]) == [0, -1, 1, 0]
