from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from helpers import Heard, error_of, write
from tasks.small_tasks import GOOD, ONE_EPOCH, config, embedder, train, write_examples

from elmokit.errors import InputError
from elmokit.jobs.progress import Observer
from elmokit.tasks.examples import (
    NAMES_SHOWN,
    Labels,
    PairExample,
    TaggedSentence,
    TextExample,
    hold_out,
)
from elmokit.tasks.run import Data, read_data, train_task
from elmokit.tasks.task import AnyTask


def test_every_example_gives_its_sentences_and_its_labels():
    text = TextExample(("Free", "entry"), "spam", "a.csv, line 2")
    tagged = TaggedSentence(("Jim", "runs"), ("I-PER", "O"), "b.conll, line 1")
    pair = PairExample(("A", "dog"), ("An", "animal"), "entailment", "c.tsv, line 9")

    assert text.sentences == (("Free", "entry"),)
    assert tagged.sentences == (("Jim", "runs"),)
    assert pair.sentences == (("A", "dog"), ("An", "animal"))
    assert (text.labels, tagged.labels, pair.labels) == (("spam",), ("I-PER", "O"), ("entailment",))


def test_example_that_is_to_be_predicted_has_no_labels():
    unlabelled: list[TextExample | TaggedSentence | PairExample] = [
        TextExample(("a",), None, "here"),
        TaggedSentence(("a",), None, "here"),
        PairExample(("a",), ("b",), None, "here"),
    ]
    assert [example.labels for example in unlabelled] == [(), (), ()]


# Labels


def text(label: str, line: int = 1) -> TextExample:
    return TextExample(("word",), label, f"train.csv, line {line}")


def test_names_have_the_numbers_of_their_order_and_back():
    labels = Labels(("spam", "ham"))
    assert len(labels) == 2
    assert labels.numbers(["ham", "spam", "ham"], "here") == [1, 0, 1]
    assert [labels.names[number] for number in (1, 0)] == ["ham", "spam"]


def test_labels_of_examples_are_sorted_whatever_their_order():
    assert Labels.from_examples([text("spam"), text("ham"), text("spam")]).names == ("ham", "spam")
    tagged = [TaggedSentence(("a", "b", "c"), ("O", "I-PER", "B-LOC"), "here")]
    assert Labels.from_examples(tagged).names == ("B-LOC", "I-PER", "O")
    pairs = [PairExample(("a",), ("b",), label, "here") for label in ("no", "NO")]
    assert Labels.from_examples(pairs).names == ("NO", "no")


def test_unknown_label_is_one_line_with_its_place_and_the_known_ones():
    with pytest.raises(InputError) as caught:
        Labels(("ham", "spam")).number("Spam", "test.csv, line 3")
    assert str(caught.value) == (
        "test.csv, line 3: label 'Spam' is unknown; the training data have 'ham', 'spam': write it "
        "'spam'"
    )
    with pytest.raises(InputError, match=r"^label 'x' is unknown.*: give a file of the same task"):
        Labels(("ham", "spam")).number("x")


def test_of_many_known_labels_only_some_are_listed():
    names = tuple(f"tag{number:03}" for number in range(NAMES_SHOWN + 1))
    with pytest.raises(InputError, match=rf"'tag{NAMES_SHOWN - 1:03}' and 1 more: give") as caught:
        Labels(names).number("x", "here")
    assert names[-1] not in str(caught.value)


def test_texts_in_place_of_labels_are_cut_and_the_column_is_asked_for():
    texts = tuple(f"{number} a long review of a film " * 30 for number in range(100))
    with pytest.raises(InputError, match=r"and 92 more: is it the text\? --label-column") as caught:
        Labels(texts).number("another long review " * 30, "dev.csv, line 2")
    assert len(str(caught.value)) < 600


def test_one_class_only_is_refused():
    with pytest.raises(InputError, match=r"^train\.csv, line 2 and after: there is only the label"):
        Labels.from_examples([text("ham", line=2), text("ham", line=3)])


# Data


def data_of(path: Path, name: str, settings: Any = None, **more: Any) -> tuple[AnyTask, Data]:
    return read_data(
        config(name, settings), [path], [more["dev"]] if "dev" in more else [], [], Observer()
    )


def labelled(folder: Path, rows: Iterable[str]) -> Path:
    return write(folder / "some.csv", ["label,text", *rows])


def test_without_a_dev_file_a_tenth_is_held_out(tmp_path: Path) -> None:
    result = train(tmp_path, "spam", ONE_EPOCH, dev=None)
    assert result.examples == {"train": 54, "dev": 6, "test": 0}


def test_pairs_of_one_first_sentence_are_held_out_together(tmp_path: Path) -> None:
    labels = ["entailment", "neutral", "contradiction"]
    rows = [f"{label}\tpremise {n}\t{label} {n}" for n in range(20) for label in labels]
    _, data = data_of(write(tmp_path / "a.tsv", ["label\tpremise\thypothesis", *rows]), "nli")
    assert (len(data.train), len(data.dev)) == (54, 6)
    assert not {pair.first for pair in data.train} & {pair.first for pair in data.dev}


def test_a_label_that_is_held_out_alone_is_known(tmp_path: Path) -> None:
    [held] = hold_out(range(10))[1]
    rows = [f"{'rare' if n == held else 'ham' if n % 2 else 'spam'},go {n}" for n in range(10)]
    task, data = data_of(labelled(tmp_path, rows), "spam")
    assert task.labels.names == ("ham", "rare", "spam")
    assert [example.label for example in data.dev] == ["rare"]


def test_texts_that_come_again_are_on_one_side(tmp_path: Path) -> None:
    rows = [f"{'ham' if n % 2 else 'spam'},we go {n % 25}" for n in range(100)]
    _, data = data_of(labelled(tmp_path, rows), "spam")
    assert len(data.dev) == 8
    assert not {each.words for each in data.dev} & {each.words for each in data.train}


@pytest.mark.parametrize(
    ("settings", "examples"), [({}, 2), ({"training.fraction": 0.05}, 20)], ids=["dev", "fraction"]
)
def test_one_label_that_is_left_to_train_on_is_refused(
    settings: dict[str, Any], examples: int, tmp_path: Path
) -> None:
    rows = [f"{'ham' if n % 2 else 'spam'},we go {n}" for n in range(examples)]
    with pytest.raises(InputError, match=rf"^left to .* {examples} examples: 1, .*only the label"):
        data_of(labelled(tmp_path, rows), "spam", settings)


def test_the_shortest_phrase_concerns_trees_alone(tmp_path: Path) -> None:
    path = write_examples(tmp_path, "spam", "train")
    settings = {"files.phrases": True, "files.shortest_phrase": 4}
    _, data = data_of(path, "sst", settings)
    assert (len(data.train), len(data.dev)) == (54, 6)


def test_a_fraction_keeps_all_labels_and_dev(tmp_path: Path) -> None:
    result = train(tmp_path, "sst", ONE_EPOCH | {"training.fraction": 0.05})
    assert result.examples == {"train": 3, "dev": 30, "test": 0}
    assert result.trained.labels.names == ("0", "1", "2")


def test_phrases_are_trained_on_and_sentences_scored(tmp_path: Path) -> None:
    whole = train(tmp_path, "sst", ONE_EPOCH, output=tmp_path / "whole")
    settings = ONE_EPOCH | {"files.phrases": True, "files.shortest_phrase": 2}
    phrases = train(tmp_path, "sst", settings, output=tmp_path / "phrases")
    assert phrases.examples["train"] > whole.examples["train"]
    assert phrases.examples["dev"] == whole.examples["dev"]
    with pytest.raises(InputError, match="give a dev file"):
        train(tmp_path, "sst", settings, output=tmp_path / "no-dev", dev=None)


@pytest.mark.parametrize(
    ("name", "file", "contents", "message"),
    [
        ("spam", "a.csv", b"label,text\nham,a\nham,b\n", "there is only the label 'ham'"),
        ("spam", "a.csv", "label,text\nham,caf\xe9\n".encode("latin-1"), "line 2: is not UTF-8"),
        ("ner", "a.conll", b"Jim B-PER\nsat\n", "line 2: has 1 column"),
    ],
)
def test_bad_training_files_are_one_line(
    name: str, file: str, contents: bytes, message: str, tmp_path: Path
) -> None:
    path = write(tmp_path / file, contents)
    files = {"train": path, "dev": path, "bilm": embedder()}
    assert message in error_of(train_task, config(name), tmp_path / "run", after=path, **files)
    assert not (tmp_path / "run" / "config.json").exists()


def test_the_tokenizer_of_the_bilm_is_recorded(tmp_path: Path) -> None:
    result = train(tmp_path, "spam", ONE_EPOCH)
    assert result.config.files.tokenizer == "default"
    assert GOOD[0] == "$$$"  # which the default tokenizer cuts into three words
    given = result.trained.task.parse_input("$$$", result.trained.tokenizer, "here")
    assert given.examples[0].words == ("$", "$", "$")


@pytest.mark.parametrize("slip", ["b-PER", "doc1"])
def test_one_slip_among_the_tags_of_entities_is_refused(slip: str, tmp_path: Path) -> None:
    contents = f"Jim B-PER\nLee I-PER\n\nOslo B-LOC\n\n# {slip}\nBo B-PER\n"
    path = write(tmp_path / "slip.conll", contents)
    said = error_of(data_of, path, "ner", dev=path, after=f"{path}, line 6: ")
    assert f"'#', has the tag '{slip}'" in said


def test_tags_without_any_entity_are_of_words(tmp_path: Path) -> None:
    path = write(tmp_path / "words.conll", "Jim NOUN\nruns O\n\nO B\nx L\n")
    task, _ = data_of(path, "ner", dev=path)
    assert task.labels.names == ("B", "L", "NOUN", "O")


def test_nearly_as_many_labels_as_examples_are_told(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", ["text,label", *(f"ham,we go {n}" for n in range(20))])
    told = Heard()
    read_data(config("spam"), [path], [path], [], told)
    assert told.notes[0].startswith(
        "there are nearly as many labels, 20, as examples: is the column"
    )
