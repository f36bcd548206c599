from __future__ import annotations

from tasks.small_coref import coref_config

from elmokit.tasks.coref.documents import Cluster, Document, Span
from elmokit.tasks.coref.task import CorefPrediction, CorefTask
from elmokit.tasks.examples import Labels
from elmokit.tasks.task import ParsedInput, TextSpan

TEXT = "Ann's dog barks.\nIt sees  Ann."
WORDS = ("Ann", "'s", "dog", "barks", ".", "It", "sees", "Ann", ".")
OFFSETS = (
    (0, 3), (3, 5), (6, 9), (10, 15), (15, 16), (17, 19), (20, 24), (26, 29), (29, 30),
)  # fmt: skip
CLUSTERS = ((Span(0, 2), Span(7, 8)), (Span(0, 3), Span(5, 6)))


def prediction(
    text: str | None = None,
    words: tuple[str, ...] = WORDS,
    clusters: tuple[Cluster, ...] = CLUSTERS,
) -> CorefPrediction:
    task = CorefTask(coref_config(), Labels(()))
    document = Document((words,), None, "here")
    return task.merge_predictions(ParsedInput([document], text, OFFSETS), [clusters])


def test_mentions_have_their_places_in_the_raw_text() -> None:
    found = prediction(TEXT)
    for mention in (each for cluster in found.clusters for each in cluster):
        assert TEXT[mention.start : mention.end] == mention.text
    assert [mention.text for mention in found.clusters[1]] == ["Ann's dog", "It"]


def test_without_a_raw_text_mentions_are_their_words() -> None:
    assert prediction().clusters[1][0] == TextSpan("Ann 's dog", 0, 3, None, None)


def test_json_has_words_and_clusters() -> None:
    plain = prediction(TEXT).to_dict()
    assert plain["words"] == list(WORDS)
    assert plain["clusters"][0][1] == {
        "text": "Ann", "first_word": 7, "end_word": 8, "start": 26, "end": 29,
    }  # fmt: skip


def test_brackets_are_within_one_another_and_the_text_is_left_as_it_is() -> None:
    assert prediction(TEXT).to_text() == "[2 [1 Ann's] dog] barks.\n[2 It] sees  [1 Ann]."


def test_words_are_joined_by_blanks_where_there_is_no_text() -> None:
    assert prediction().to_text() == "[2 [1 Ann 's] dog] barks . [2 It] sees [1 Ann] ."


def test_two_brackets_that_end_together_and_the_next_that_begins_there() -> None:
    clusters = ((Span(0, 2), Span(2, 3)), (Span(1, 2), Span(3, 4)))
    assert prediction(None, tuple("abcd"), clusters).to_text() == "[1 a [2 b]] [1 c] [2 d]"
