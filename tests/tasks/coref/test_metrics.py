from __future__ import annotations

import random
import warnings
from itertools import permutations

import pytest
from closeness import EXACT

from elmokit.tasks.coref.documents import Cluster, Span
from elmokit.tasks.coref.scores import Shares, b_cubed, ceaf, mentions, muc, score_clusters


def clusters(*words: str) -> list[Cluster]:
    """Each word is a cluster, each of its letters a mention."""
    return [tuple(Span(ord(letter), ord(letter) + 1) for letter in word) for word in words]


def numbers_of(shares: Shares) -> list[float]:
    return [round(number, 4) for number in (shares.precision, shares.recall, shares.f1)]


# The example of Pradhan et al. (2014), where all measures differ.
KEY, RESPONSE = clusters("abc", "defg"), clusters("ab", "cd", "fghi")


def test_the_worked_example_of_the_reference_scorer() -> None:
    assert numbers_of(muc(KEY, RESPONSE)) == [0.4, 0.4, 0.4]
    assert numbers_of(b_cubed(KEY, RESPONSE)) == [0.5, 0.4167, 0.4545]
    assert numbers_of(ceaf(KEY, RESPONSE)) == [0.4333, 0.65, 0.52]
    assert numbers_of(mentions(KEY, RESPONSE)) == [0.75, 0.8571, 0.8]


def test_all_in_one_cluster_is_all_that_links_recall_asks_for() -> None:
    key, response = clusters("ab", "cd", "ef"), clusters("abcdef")
    assert numbers_of(muc(key, response)) == [0.6, 1.0, 0.75]
    assert numbers_of(b_cubed(key, response)) == [0.3333, 1.0, 0.5]
    assert numbers_of(ceaf(key, response)) == [0.5, 0.1667, 0.25]


def test_links_do_not_see_singletons_and_the_others_do() -> None:
    key, response = clusters("ab", "c", "d"), clusters("ab", "c")
    assert numbers_of(muc(key, response)) == [1.0, 1.0, 1.0]
    assert numbers_of(b_cubed(key, response)) == [1.0, 0.75, 0.8571]
    assert numbers_of(ceaf(key, response)) == [1.0, 0.6667, 0.8]


def test_an_entity_is_compared_with_one_other_alone() -> None:
    key, response = clusters("abcd"), clusters("ab", "cd")
    assert numbers_of(muc(key, response)) == [1.0, 0.6667, 0.8]
    assert numbers_of(b_cubed(key, response)) == [1.0, 0.5, 0.6667]
    assert numbers_of(ceaf(key, response)) == [0.3333, 0.6667, 0.4444]


@pytest.mark.parametrize("measure", [muc, b_cubed, ceaf, mentions])
def test_the_right_clusters_are_right_and_none_are_not(measure: object) -> None:
    assert callable(measure)
    assert numbers_of(measure(KEY, KEY)) == [1.0, 1.0, 1.0]
    assert numbers_of(measure(KEY, [])) == [0.0, 0.0, 0.0]
    assert numbers_of(measure([], RESPONSE)) == [0.0, 0.0, 0.0]
    assert numbers_of(measure([], [])) == [0.0, 0.0, 0.0]


def test_documents_are_counted_together_and_not_averaged() -> None:
    """One perfect document of two mentions, and one of four of which nothing is found."""
    found = score_clusters([clusters("ab"), clusters("cdef")], [clusters("ab"), []])
    assert found.by_measure["MUC"].recall == pytest.approx(1 / 4, abs=EXACT)
    assert found.by_measure["B³"].recall == pytest.approx(2 / 6, abs=EXACT)
    assert found.by_measure["CEAFφ4"].recall == pytest.approx(1 / 2, abs=EXACT)
    assert found.main == pytest.approx((2 / 5 + 1 / 2 + 2 / 3) / 3, abs=EXACT)


def test_a_score_says_all_its_parts() -> None:
    found = score_clusters([KEY], [RESPONSE])
    assert found.describe() == (
        "mean F1 45.82% (MUC 40.00%, B³ 45.45%, CEAFφ4 52.00%); mentions 80.00%"
    )
    assert found.table().splitlines()[3].split() == ["CEAFφ4", "43.33%", "65.00%", "52.00%"]
    plain = found.to_dict()
    assert plain["f1"] == found.main
    assert plain["ceaf_phi4"]["recall"] == pytest.approx(0.65)


def random_clusters(numbers: random.Random, most: int) -> list[Cluster]:
    spans = [Span(n, n + 1) for n in range(most) if numbers.random() < 0.8]
    groups: dict[int, list[Span]] = {}
    for span in spans:
        groups.setdefault(numbers.randint(0, most // 2), []).append(span)
    return [tuple(group) for group in groups.values()]


def best_by_trying_all(key: list[Cluster], response: list[Cluster]) -> float:
    few, many = sorted((key, response), key=len)
    return max(
        sum(
            2 * len(set(one) & set(other)) / (len(one) + len(other))
            for one, other in zip(few, chosen, strict=True)
        )
        for chosen in permutations(many, len(few))
    )


@pytest.mark.parametrize("seed", range(15))
def test_entities_are_paired_as_trying_all_ways_does(seed: int) -> None:
    numbers = random.Random(seed)
    key, response = random_clusters(numbers, 10), random_clusters(numbers, 10)
    best = best_by_trying_all(key, response)
    assert ceaf(key, response).recalled == pytest.approx(best, abs=EXACT)


@pytest.mark.parametrize("seed", range(15))
def test_all_measures_equal_those_of_an_independent_scorer(seed: int) -> None:
    scorch = pytest.importorskip("scorch.scores", reason="scorch is a test dependency")
    numbers = random.Random(seed)
    key, response = random_clusters(numbers, 40), random_clusters(numbers, 40)
    sets = [set(cluster) for cluster in key], [set(cluster) for cluster in response]
    for mine, theirs in ((muc, "muc"), (b_cubed, "b_cubed"), (ceaf, "ceaf_e")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its own
            recall, precision, f1 = getattr(scorch, theirs)(*sets)
        found = mine(key, response)
        assert [found.recall, found.precision, found.f1] == pytest.approx([recall, precision, f1])
