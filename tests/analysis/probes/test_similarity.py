from __future__ import annotations

import pytest
from helpers import write
from small_models import small_embedder
from static.small_vectors import small_vectors

from elmokit.analysis.probes.probes import probe_similarity
from elmokit.static.evaluation import similarity_score
from elmokit.static.vectors import cosine

PAIRS = [("king", "queen", 9), ("king", "man", 5), ("queen", "river", 1), ("doggy", "dog", 8)]


@pytest.fixture
def pairs(tmp_path):
    return write(tmp_path / "EN-toy.txt", "".join(f"{a}\t{b}\t{c}\n" for a, b, c in PAIRS))


def layer_0(count: int) -> float:
    """Spearman of the first pairs, by hand."""
    embedder = small_embedder()
    vectors = [embedder.embed([[first], [second]], layers=0) for first, second, _ in PAIRS]
    cosines = [cosine(first[0], second[0]) for first, second in vectors]
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    return float(stats.spearmanr(cosines[:count], [score for _, _, score in PAIRS][:count])[0])


def test_layer_0_has_a_vector_for_every_word(pairs):
    report = probe_similarity(small_embedder(), [pairs])
    assert report.columns == ("layer 0",)
    assert report.scores == {"EN-toy": (pytest.approx(layer_0(4)),)}
    assert report.notes == {"EN-toy": "4 pairs"}


def test_beside_static_vectors_layer_0_is_shown_for_the_pairs_they_know(pairs):
    static = small_vectors()
    report = probe_similarity(small_embedder(), [pairs], static)
    assert report.columns == ("static vectors (static)", "layer 0, known pairs", "layer 0")
    expected = [similarity_score(static, pairs).spearman, layer_0(3), layer_0(4)]
    assert report.scores["EN-toy"] == tuple(map(pytest.approx, expected))
    assert report.notes == {"EN-toy": "4 pairs, 3 known"}
    assert report.details["sets"]["layer 0, known pairs"][0]["known"] == 3


def test_a_set_without_a_known_word_has_no_score(tmp_path):
    path = write(tmp_path / "a.txt", "doggy dog 3\nkitty cat 4\n")
    report = probe_similarity(small_embedder(), [path], small_vectors())
    assert report.scores["a"][:2] == (None, None)
