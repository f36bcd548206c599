"""From what each span refers back to, to clusters."""

from __future__ import annotations

from collections.abc import Sequence

from elmokit.tasks.coref.documents import Cluster, Span, make_clusters


def linked_clusters(
    spans: Sequence[Span], antecedents: Sequence[int | None], alone: Sequence[bool] | None = None
) -> tuple[Cluster, ...]:
    """Clusters of the spans that antecedents link.

    Args:
        spans: In the order of the document.
        antecedents: The number of the earlier span that each refers back to; None for none.
        alone: Whether each span is a mention even if nothing is linked to it. Without it none is.

    >>> spans = [Span(0, 1), Span(2, 3), Span(4, 5)]
    >>> linked_clusters(spans, [None, None, 0])
    ((Span(start=0, end=1), Span(start=4, end=5)),)
    """
    cluster_of: list[int] = []
    members: list[list[int]] = []
    for number, antecedent in enumerate(antecedents):
        if antecedent is None:
            cluster_of.append(len(members))
            members.append([number])
        else:
            cluster_of.append(cluster_of[antecedent])
            members[cluster_of[antecedent]].append(number)
    kept = (some for some in members if len(some) > 1 or (alone is not None and alone[some[0]]))
    return make_clusters([spans[number] for number in some] for some in kept)


def cluster_numbers(clusters: Sequence[Cluster], spans: Sequence[Span]) -> list[int]:
    """The number of each span's cluster, -1 where it has none."""
    numbers = {span: number for number, cluster in enumerate(clusters) for span in cluster}
    return [numbers.get(span, -1) for span in spans]
