from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers import Elmo, Fails, Prints
from tasks.small_srl import train_srl, write_roles
from tasks.small_tasks import train, write_bilm

from elmokit.tasks.trained import BilmReference


class Folders:
    """A task of roles and one of parts of speech, whose verbs are among the sums."""

    def __init__(self, folder: Path) -> None:
        bilm = BilmReference(str(write_bilm(folder / "bilm")))
        self.roles = str(train_srl(folder, bilm=bilm).folder)
        self.tagger = str(train(folder, "pos", bilm=bilm).folder)
        self.entities = str(train(folder, "ner", {"training.epochs": 1}, bilm=bilm).folder)
        self.test = str(write_roles(folder, "test"))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return Folders(tmp_path_factory.mktemp("trained"))


def answer(prints_only: Prints, *arguments: str) -> Any:
    out = prints_only("task", "predict", *arguments, "--quiet")
    [line] = out.splitlines()
    return json.loads(line)


@pytest.fixture
def text(tmp_path: Path) -> str:
    path = tmp_path / "text.txt"
    path.write_text("We 777 MOTHER. the dog runs\n", encoding="utf-8")
    return str(path)


def test_predicates_are_found_and_their_arguments_printed(
    prints_only: Prints, folders: Folders, text: str
) -> None:
    found = answer(prints_only, folders.roles, text, "--probabilities")
    assert found["text"] == "We 777 MOTHER. the dog runs"
    first = found["predicates"][0]
    assert (first["text"], first["start"], first["end"]) == ("777", 3, 6)
    assert {"role", "text", "start", "end", "probability"} <= set(first["arguments"][0])


def test_predicates_are_those_words_that_are_named(
    prints_only: Prints, folders: Folders, text: str
) -> None:
    found = answer(prints_only, folders.roles, text, "--predicates", "Runs, mother")
    assert [each["text"] for each in found["predicates"]] == ["MOTHER", "runs"]


def test_predicates_are_what_a_tagger_takes_for_verbs(
    prints_only: Prints, folders: Folders, text: str
) -> None:
    flags = ("--tagger", folders.tagger, "--probabilities")
    found = answer(prints_only, folders.roles, text, *flags)
    assert "runs" in [each["text"] for each in found["predicates"]]
    assert {each["probability"] for each in found["predicates"]} == {None}


def test_predicates_that_a_line_names_count_more_than_those_of_a_tagger(
    prints_only: Prints, folders: Folders, tmp_path: Path
) -> None:
    path = tmp_path / "lines.jsonl"
    line = json.dumps({"words": ["the", "dog", "runs"], "predicates": [0], "id": 7})
    path.write_text(line, encoding="utf-8")
    found = answer(prints_only, folders.roles, str(path), "--tagger", folders.tagger)
    assert [each["word"] for each in found["predicates"]] == [0]
    assert (found["given_predicates"], found["id"]) == ([0], 7)


def test_answers_can_be_read_as_text(prints: Prints, folders: Folders, text: str) -> None:
    out = prints("task", "predict", folders.roles, text, "--as", "text", "--quiet")
    assert "[V 777]" in out.splitlines()[0]


def test_a_trained_task_is_evaluated(prints: Prints, folders: Folders) -> None:
    out = prints("task", "evaluate", folders.roles, folders.test, "--quiet")
    assert "predicates found with F1" in out.splitlines()[0]


def test_predicates_that_cannot_be_found_are_one_line(
    fails: Fails, folders: Folders, text: str
) -> None:
    for folder, kind in ((folders.entities, "'tags'"), (folders.roles, "'srl'")):
        message = fails("task", "predict", folders.roles, text, "--tagger", folder)
        assert f"the tagger is a task of kind {kind} without a tag for verbs" in message
    for flags in (["--predicates", "runs"], ["--tagger", folders.tagger]):
        message = fails("task", "predict", folders.tagger, text, *flags)
        assert "knows no predicates" in message
    message = fails("task", "predict", folders.roles, text, "--predicates", " , ")
    assert "--predicates has no words" in message
    message = fails("task", "predict", folders.roles, "--question", "Who?")
    assert "answers no questions" in message


@pytest.mark.filterwarnings("default::elmokit.errors.ElmoWarning")
def test_a_text_without_the_predicates_that_are_named_is_shown_as_it_is(
    elmo: Elmo, folders: Folders, text: str
) -> None:
    flags = ("--predicates", "nowhere", "--as", "text")
    code, out, err = elmo("task", "predict", folders.roles, text, *flags)
    assert code == 0
    assert "the predicate 'nowhere' occurs nowhere" in err
    assert all(line and "[V" not in line for line in out.splitlines())
    assert out


def test_words_and_a_tagger_contradict_each_other(elmo: Elmo, folders: Folders, text: str) -> None:
    code, _, err = elmo(
        "task", "predict", folders.roles, text, "--predicates", "a", "--tagger", folders.tagger
    )
    assert code == 2
    assert "give --predicates or --tagger, and not both" in err
