from __future__ import annotations

from typing import Any

import pytest
from helpers import error_of
from tasks.small_tasks import config, untrained

from elmokit.errors import ElmoWarning, InputError
from elmokit.tasks.examples import (
    Labels,
    PairExample,
    TaggedSentence,
    TextExample,
    words_between,
)
from elmokit.tasks.labelling import PairTask, TagTask, TextTask
from elmokit.tasks.reading.questions import read_passage
from elmokit.tasks.task import AnyTask, sentences_of, words_of
from elmokit.tasks.trained import TrainedTask
from elmokit.tasks.trainer import evaluate
from elmokit.text.tokenizer import Tokenizer, load_tokenizer

DEFAULT = load_tokenizer("default")
PLACE = "here, line 1"


def sentence(words: str, tags: str | None) -> TaggedSentence:
    given = None if tags is None else tuple(tags.split())
    return TaggedSentence(tuple(words.split()), given, PLACE)


IOB1 = sentence("Jim Lee saw Oslo Rome", "I-PER I-PER O I-LOC B-LOC")
SPEECH = sentence("the dog runs", "DET NOUN VERB")


def tagging(*examples: TaggedSentence, **settings: Any) -> TagTask:
    return TagTask(config("ner", settings), TagTask.labels_of(examples))


# Labels


def test_entities_have_every_tag_of_the_networks_scheme() -> None:
    names = tagging(IOB1).labels.names
    assert names == ("O", *(f"{mark}-{kind}" for kind in ("LOC", "PER") for mark in "BIES"))


def test_parts_of_speech_are_labels_as_they_are() -> None:
    assert tagging(SPEECH).labels.names == ("DET", "NOUN", "VERB")


def test_entities_are_converted_and_parts_of_speech_are_not() -> None:
    [prepared] = tagging(IOB1).prepare([IOB1])
    assert prepared.tags == ("B-PER", "E-PER", "O", "S-LOC", "S-LOC")
    assert tagging(SPEECH).prepare([SPEECH]) == [SPEECH]


def test_one_class_alone_cannot_be_learnt() -> None:
    text = [TextExample(("a",), "ham", PLACE)] * 2
    assert "there is only the label 'ham'" in error_of(TextTask.labels_of, text)
    nothing = [sentence("a b", "O O")]
    assert error_of(TagTask.labels_of, nothing).startswith(
        "here, line 1 and after: there is only the label 'O'"
    )


@pytest.mark.parametrize(
    ("task", "example"),
    [
        (TextTask(config("spam"), Labels(("ham", "spam"))), TextExample(("a",), "neutral", PLACE)),
        (
            PairTask(config("nli"), Labels(("neutral", "entailment"))),
            PairExample(("a",), ("b",), "spam", PLACE),
        ),
        (tagging(IOB1), sentence("Jim", "B-MISC")),
        (tagging(SPEECH), sentence("the", "ADJ")),
    ],
)
def test_an_unknown_label_is_refused_with_its_place_and_those_that_are_known(
    task: AnyTask, example: Any
) -> None:
    message = error_of(task.prepare, [example])
    assert message.startswith("here, line 1: label ")
    assert "is unknown; the training data have '" in message
    if example.labels == ("B-MISC",):
        assert "label 'MISC' is unknown; the training data have 'O', 'LOC', 'PER'" in message


def test_parts_of_speech_are_refused_where_entities_were_learnt() -> None:
    assert error_of(tagging(IOB1).prepare, [SPEECH]).startswith("here, line 1: tag 'DET'")


# Predicting


def test_probabilities_of_classes_sum_to_one() -> None:
    task = TextTask(config("spam"), Labels(("ham", "spam", "other")))
    examples = [TextExample(("a", "b"), None, PLACE), TextExample(("c",), None, PLACE)]
    for prediction in task.predict(untrained(task), examples):
        assert sum(prediction.probabilities.values()) == pytest.approx(1)
        assert prediction.label == max(prediction.probabilities, key=prediction.probabilities.get)


@pytest.mark.parametrize("crf", [True, False])
@pytest.mark.parametrize("example", [IOB1, SPEECH])
def test_probabilities_of_each_words_tags_sum_to_one(example: TaggedSentence, crf: bool) -> None:
    task = tagging(example, **{"network.crf": crf})
    [prediction] = task.predict(untrained(task), [example])
    assert len(prediction.tags) == len(prediction.probabilities) == len(example.words)
    for each in prediction.probabilities:
        assert sum(each.values()) == pytest.approx(1, abs=1e-5)


def test_entities_are_predicted_as_bio() -> None:
    task = tagging(IOB1)
    [prediction] = task.predict(untrained(task), [IOB1])
    assert set(prediction.probabilities[0]) == {"O", "B-LOC", "I-LOC", "B-PER", "I-PER"}
    assert set(prediction.tags) <= set(prediction.probabilities[0])


def test_guesses_of_entities_are_legal_however_bad_the_network() -> None:
    task = tagging(IOB1)
    [guess] = task.guess(untrained(task), [IOB1])
    assert task.prepare([TaggedSentence(IOB1.words, guess, PLACE)])[0].tags == guess


def test_raw_text_is_tagged_sentence_by_sentence_and_entities_know_their_place() -> None:
    text = "Jim Lee left.  He saw Oslo!"
    task = tagging(IOB1)
    given = task.parse_input(text, DEFAULT, PLACE)
    assert [example.words[0] for example in given.examples] == ["Jim", "He"]

    predictions = [
        task._prediction(example, tags, [[0.0] * 9] * len(example.words))
        for example, tags in zip(
            given.examples, [("B-PER", "E-PER", "O", "O"), ("O", "O", "S-LOC", "O")], strict=True
        )
    ]
    joined = task.merge_predictions(given, predictions)

    assert joined.entities is not None
    assert [text[e.start : e.end] for e in joined.entities] == ["Jim Lee", "Oslo"]
    assert [(e.type, e.text, e.first_word, e.end_word) for e in joined.entities] == [
        ("PER", "Jim Lee", 0, 2),
        ("LOC", "Oslo", 6, 7),
    ]
    assert joined.offsets is not None
    assert [text[start:end] for start, end in joined.offsets] == list(joined.words)


def test_words_have_no_offsets_and_parts_of_speech_no_entities() -> None:
    task = tagging(SPEECH)
    given = task.parse_input(["the", "dog"], DEFAULT, PLACE)
    joined = task.merge_predictions(given, task.predict(untrained(task), given.examples))
    assert (joined.offsets, joined.entities) == (None, None)
    assert set(joined.to_dict()) == {"words", "tags", "probabilities"}


def test_text_without_words_has_no_tags_and_no_class() -> None:
    task = tagging(IOB1)
    assert task.merge_predictions(task.parse_input(" ", DEFAULT, PLACE), []).tags == ()
    assert task.merge_predictions(task.parse_input([], DEFAULT, PLACE), []).words == ()
    spam = TextTask(config("spam"), Labels(("ham", "spam")))
    assert error_of(spam.parse_input, " ", DEFAULT, PLACE).startswith("here, line 1: has no words")


@pytest.mark.parametrize("item", ["one text", ("a", "b", "c"), 7])
def test_a_pair_is_two_texts(item: Any) -> None:
    task = PairTask(config("nli"), Labels(("no", "yes")))
    assert "not a pair; write (first, second)" in error_of(task.parse_input, item, DEFAULT, PLACE)


def test_a_pair_may_be_texts_or_words() -> None:
    task = PairTask(config("nli"), Labels(("no", "yes")))
    [example] = task.parse_input(("It rains.", ["It", "pours"]), DEFAULT, PLACE).examples
    assert (example.first, example.second) == (("It", "rains", "."), ("It", "pours"))


def test_what_is_neither_a_text_nor_words_is_refused() -> None:
    with pytest.raises(InputError, match="give a text, or a list of words"):
        words_of([1, 2], DEFAULT, PLACE)


@pytest.mark.parametrize("blank", ["", " ", "\t\n"])
def test_words_that_are_blank_are_refused_as_in_training(blank: str) -> None:
    spam = TextTask(config("spam"), Labels(("ham", "spam")))
    message = error_of(spam.parse_input, ["a", blank], DEFAULT, PLACE)
    assert message == f"here, line 1: word 1, from 0, is blank ({blank!r}); leave it out"
    assert words_of(["a", "\u00a0"], DEFAULT, PLACE) == ("a", "\u00a0")


# Scores


def test_entities_are_scored_as_spans_and_confused_by_type() -> None:
    task = tagging(IOB1)
    [prepared] = task.prepare([IOB1])
    guess = ("B-PER", "E-PER", "O", "S-PER", "O")

    assert task.score([prepared], [guess]).main == pytest.approx(0.4)  # 1 right of 2, of 3 there
    confusion = task.confusion([prepared], [guess])
    assert confusion.names == ("O", "LOC", "PER")
    assert confusion.matrix == ((1, 0, 0), (1, 0, 1), (0, 0, 2))


# Entities whose tags name no type


UNTYPED = sentence("we see Jim Lee at Oslo", "O O B I O B")


def test_entities_without_a_type_are_scored_and_confused_as_entities() -> None:
    task = tagging(UNTYPED)
    [prepared] = task.prepare([UNTYPED])
    guess = ("O", "O", "B", "E", "S", "O")

    score = task.score([prepared], [guess])
    assert score.to_dict()["by_type"]["entity"]["correct"] == 1
    confusion = task.confusion([prepared], [guess])
    assert confusion.names == ("O", "entity")
    assert confusion.matrix == ((2, 1), (1, 2))


def test_entities_without_a_type_are_shown_as_entities() -> None:
    task = tagging(UNTYPED)
    given = task.parse_input(list(UNTYPED.words), DEFAULT, PLACE)
    prediction = task._prediction(
        given.examples[0], ("O", "O", "B", "E", "O", "O"), [[0.2] * 5] * 6
    )
    joined = task.merge_predictions(given, [prediction])
    assert joined.tags == ("O", "O", "B", "I", "O", "O")
    assert joined.entities is not None
    assert [(e.type, e.text) for e in joined.entities] == [("entity", "Jim Lee")]


def test_nothing_to_score_is_an_error() -> None:
    task = tagging(IOB1)
    assert "no examples to score" in error_of(evaluate, task, untrained(task), [], kind=InputError)


# Korean


@pytest.fixture
def kiwi() -> Tokenizer:
    pytest.importorskip("kiwipiepy", reason="the extra [korean] is not installed")
    return load_tokenizer("kiwi")


def test_words_in_one_syllable_have_its_place_and_a_span_is_from_first_to_last(
    kiwi: Tokenizer,
) -> None:
    parsed = sentences_of("배가 고파서 학교에 갔다", kiwi, PLACE)
    [words] = parsed.examples
    assert words == ("배", "가", "고프", "어서", "학교", "에", "가", "었", "다")
    places = [parsed.locate(words, *span) for span in ((2, 4), (4, 5), (6, 8), (7, 9))]
    assert [place.text for place in places] == ["고파서", "학교", "갔", "갔다"]
    assert all(place.text == parsed.text[place.start : place.end] for place in places)


def test_the_answer_in_a_text_is_the_words_that_it_touches(kiwi: Tokenizer) -> None:
    text = "배가 고파서 학교에 갔다"
    offsets = read_passage(text, kiwi, PLACE).offsets
    for answer, words in (("고파서", (2, 4)), ("학교", (4, 5)), ("갔다", (6, 9))):
        start = text.index(answer)
        assert words_between(offsets, start, start + len(answer)) == words


def test_raw_text_for_a_task_on_given_words_is_warned_of_once(kiwi: Tokenizer) -> None:
    trained = TrainedTask(task := tagging(SPEECH), untrained(task), tokenizer=kiwi)
    assert trained.predict([["학교에", "갔다"]])
    with pytest.warns(ElmoWarning, match="if the words that this task was trained on are not Kiwi"):
        [prediction] = trained.predict(["학교에 갔다"])
    assert prediction.to_dict()["offsets"] == [[0, 2], [2, 3], [4, 5], [4, 5], [5, 6]]
    assert trained.predict(["학교에 갔다"])
    labelling = TextTask(config("spam"), Labels(("ham", "spam")))
    assert TrainedTask(labelling, untrained(labelling), tokenizer=kiwi).predict(["학교에 갔다"])
