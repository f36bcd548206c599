from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tasks.small_tasks import config, message_of, untrained, write_examples

from elmokit.errors import InputError
from elmokit.tasks.config import FilesConfig
from elmokit.tasks.examples import Labels, PairExample, TaggedSentence, TextExample
from elmokit.tasks.labelling import PairTask, TextTask
from elmokit.tasks.tagging import TagTask, types_of
from elmokit.tasks.task import AnyTask, words_of
from elmokit.tasks.trained import KINDS
from elmokit.text.tokenizer import load_tokenizer

DEFAULT, BLANKS = load_tokenizer("default"), load_tokenizer("whitespace")
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
    assert "there is only the label 'ham'" in message_of(TextTask.labels_of, text)
    nothing = [sentence("a b", "O O")]
    assert message_of(TagTask.labels_of, nothing).startswith(
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
    message = message_of(task.prepare, [example])
    assert message.startswith("here, line 1: label ")
    assert "is unknown; the training data have '" in message


def test_an_unknown_type_of_entity_is_called_by_its_name() -> None:
    message = message_of(tagging(IOB1).prepare, [sentence("Jim", "B-MISC")])
    assert "label 'MISC' is unknown; the training data have 'O', 'LOC', 'PER'" in message


def test_parts_of_speech_are_refused_where_entities_were_learnt() -> None:
    assert message_of(tagging(IOB1).prepare, [SPEECH]).startswith("here, line 1: tag 'DET'")


def test_examples_without_labels_cannot_be_scored() -> None:
    spam = TextTask(config("spam"), Labels(("ham", "spam")))
    assert "has no label" in message_of(spam.prepare, [TextExample(("a",), None, PLACE)])
    assert "has no tags" in message_of(tagging(IOB1).prepare, [sentence("a", None)])


# Reading


@pytest.mark.parametrize(("name", "count"), [("spam", 2), ("ner", 2), ("pos", 2), ("nli", 2)])
def test_every_kind_reads_its_files(name: str, count: int, tmp_path: Path) -> None:
    path = write_examples(tmp_path, name, "train", count)
    examples = KINDS[config(name).kind].read(path, FilesConfig(), DEFAULT)
    assert len(examples) == count
    assert examples[0].labels
    assert examples[0].place.startswith(str(path))


def test_texts_are_split_by_the_tokenizer_that_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("label,text\nham,It can't be.\n")
    split = [TextTask.read(path, FilesConfig(), each)[0] for each in (DEFAULT, BLANKS)]
    assert [example.words for example in split] == [
        ("It", "ca", "n't", "be", "."),
        ("It", "can't", "be."),
    ]


def test_columns_reach_the_reader_of_a_format(tmp_path: Path) -> None:
    path = write_examples(tmp_path, "pos", "train", 2)
    [universal, *_] = TagTask.read(path, FilesConfig(label="4"), DEFAULT)
    assert universal == TagTask.read(path, FilesConfig(), DEFAULT)[0]
    message = message_of(TagTask.read, path, FilesConfig(label="3"), DEFAULT)
    assert "is CoNLL-U, whose tags are upos (column 4) or xpos (column 5), and not '3'" in message


@pytest.mark.parametrize(
    ("name", "file"), [("squad", "a.json"), ("coref", "a.conll"), ("coref", "a.tsv"), ("srl", "a")]
)
def test_formats_without_a_choice_of_columns_refuse_one(name: str, file: str) -> None:
    read = KINDS[config(name).kind].read
    message = message_of(read, file, FilesConfig(label="3", texts=(1,)), DEFAULT)
    assert message.startswith(f"{file}: is read as '")
    assert "no column can be chosen; leave out --label-column and --text-column" in message


def test_columns_of_training_are_no_wish_in_a_format_without_a_choice(tmp_path: Path) -> None:
    files = FilesConfig(label="kind", texts=("body",))
    task = TextTask(replace(config("spam"), files=files), Labels(("2", "3")))
    path = tmp_path / "trees.txt"
    path.write_text("(3 (2 It) (3 works))\n")

    [example] = task.read_after_training(path, files, DEFAULT)
    assert example.words == ("It", "works")
    with pytest.raises(InputError, match="no column can be chosen; leave out --text-column"):
        task.read_after_training(path, replace(files, texts=("other",)), DEFAULT)
    with pytest.raises(InputError, match="no column can be chosen"):
        task.read(path, files, DEFAULT)


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
    given = task.given(text, DEFAULT, PLACE)
    assert [example.words[0] for example in given.examples] == ["Jim", "He"]

    predictions = [
        task._prediction(example, tags, [[0.0] * 9] * len(example.words))
        for example, tags in zip(
            given.examples,
            [("B-PER", "E-PER", "O", "O"), ("O", "O", "S-LOC", "O")],
            strict=True,
        )
    ]
    joined = task.joined(given, predictions)

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
    given = task.given(["the", "dog"], DEFAULT, PLACE)
    joined = task.joined(given, task.predict(untrained(task), given.examples))
    assert (joined.offsets, joined.entities) == (None, None)
    assert set(joined.to_dict()) == {"words", "tags", "probabilities"}


def test_text_without_words_has_no_tags_and_no_class() -> None:
    task = tagging(IOB1)
    assert task.joined(task.given(" ", DEFAULT, PLACE), []).tags == ()
    assert task.joined(task.given([], DEFAULT, PLACE), []).words == ()
    spam = TextTask(config("spam"), Labels(("ham", "spam")))
    assert message_of(spam.given, " ", DEFAULT, PLACE).startswith("here, line 1: has no words")


@pytest.mark.parametrize("item", ["one text", ("a", "b", "c"), 7])
def test_a_pair_is_two_texts(item: Any) -> None:
    task = PairTask(config("nli"), Labels(("no", "yes")))
    assert "not a pair; write (first, second)" in message_of(task.given, item, DEFAULT, PLACE)


def test_a_pair_may_be_texts_or_words() -> None:
    task = PairTask(config("nli"), Labels(("no", "yes")))
    [example] = task.given(("It rains.", ["It", "pours"]), DEFAULT, PLACE).examples
    assert (example.first, example.second) == (("It", "rains", "."), ("It", "pours"))


def test_what_is_neither_a_text_nor_words_is_refused() -> None:
    with pytest.raises(InputError, match="give a text, or a list of words"):
        words_of([1, 2], DEFAULT, PLACE)


@pytest.mark.parametrize("blank", ["", " ", "\t\n"])
def test_words_that_are_blank_are_refused_as_in_training(blank: str) -> None:
    spam = TextTask(config("spam"), Labels(("ham", "spam")))
    message = message_of(spam.given, ["a", blank], DEFAULT, PLACE)
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


def test_types_of_tags() -> None:
    assert types_of(["B-PER", "O", "S-LOC"]) == ("PER", "O", "LOC")


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
    given = task.given(list(UNTYPED.words), DEFAULT, PLACE)
    prediction = task._prediction(
        given.examples[0], ("O", "O", "B", "E", "O", "O"), [[0.2] * 5] * 6
    )
    joined = task.joined(given, [prediction])
    assert joined.tags == ("O", "O", "B", "I", "O", "O")
    assert joined.entities is not None
    assert [(e.type, e.text) for e in joined.entities] == [("entity", "Jim Lee")]


def test_types_of_untyped_tags() -> None:
    assert types_of(["B", "O", "I", "S-LOC"]) == ("entity", "O", "entity", "LOC")
