from __future__ import annotations

from dataclasses import replace

import pytest

from elmokit.tasks.coref import documents
from elmokit.tasks.coref.documents import (
    Document,
    PronounQuestion,
    Span,
    cut_places,
    make_clusters,
    segments,
)

SENTENCES = (("Ann", "sleeps", "."), ("She", "dreams", "."), ("So", "does", "her", "dog", "."))
ANN, SHE, HER, HER_DOG = Span(0, 1), Span(3, 4), Span(8, 9), Span(8, 10)


def document(*clusters: tuple[Span, ...]) -> Document:
    return Document(SENTENCES, clusters, "here, line 1", "a")


def test_a_span_of_two_clusters_stays_in_the_first() -> None:
    assert make_clusters([[HER, ANN], [HER, SHE]]) == ((ANN, HER), (SHE,))


def test_a_span_named_twice_is_one_mention_and_a_cluster_of_none_is_gone() -> None:
    assert make_clusters([[ANN, ANN], [ANN]]) == ((ANN,),)


def test_a_document_that_is_short_enough_is_one_segment() -> None:
    whole = document((ANN, SHE, HER))
    assert segments(whole, 11) == [whole]


def test_segments_count_words_from_their_own_beginning() -> None:
    first, second = segments(document((ANN, SHE, HER), (HER_DOG,)), 6)
    assert first.sentences + second.sentences == SENTENCES
    assert first.clusters == ((ANN, SHE),)
    assert second.clusters == ((Span(2, 3),), (Span(2, 4),))
    assert second.words[2:4] == ("her", "dog")


def test_a_mention_over_a_cut_is_lost() -> None:
    over = Span(5, 7)
    assert [part.clusters for part in segments(document((ANN, over)), 6)] == [((ANN,),), ()]


def test_segments_of_unknown_clusters_are_unknown() -> None:
    unknown = Document(SENTENCES, None, "here")
    assert [part.clusters for part in segments(unknown, 5)] == [None, None, None]


def test_a_sentence_that_is_too_long_is_cut() -> None:
    parts = segments(document((ANN, SHE, HER), (HER_DOG,)), 4)
    assert [part.sentences for part in parts] == [
        (SENTENCES[0],), (SENTENCES[1],), (SENTENCES[2][:4],), (SENTENCES[2][4:],),
    ]  # fmt: skip
    assert parts[2].clusters == ((Span(2, 3),), (Span(2, 4),))


def test_no_sentence_is_longer_than_can_be_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "LONGEST_SENTENCE", 2)
    [whole] = segments(document((ANN, SHE, HER), (HER_DOG,)), 100)
    assert whole.words == document().words
    assert max(map(len, whole.sentences)) == 2
    assert whole.clusters == ((ANN, SHE, HER), (HER_DOG,))


def test_parts_of_a_document_belong_together() -> None:
    one, other = (replace(document(), name=f"a; part 00{n}") for n in range(2))
    assert one.identity == other.identity == document().identity
    assert replace(one, name="").identity == SENTENCES


def test_what_a_question_is_about_is_not_cut() -> None:
    question = PronounQuestion(SHE, ANN, HER_DOG, True, False, True)
    asked = Document(SENTENCES, ((ANN, SHE),), "here", question=question)
    assert segments(asked, 3) == [asked]


@pytest.mark.parametrize("most", [30, 45, 60, 1000])
def test_segments_are_within_the_limit(most: int) -> None:
    lengths = [7, 1, 30, 12, 12, 5, 9, 2, 2, 21]
    cuts = list(cut_places(lengths, most))
    assert [n for first, end in cuts for n in range(first, end)] == list(range(len(lengths)))
    assert all(sum(lengths[a:b]) <= most for a, b in cuts)


def test_segments_are_about_equally_long() -> None:
    sizes = [b - a for a, b in cut_places([1] * 1100, 1000)]
    assert sizes == [550, 550]
