from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers import Elmo, Fails, Prints, set_flags
from tasks.small_reading import QUICK, paragraph, train_reader, write_questions, write_squad
from tasks.small_tasks import write_bilm

from elmokit.tasks.trained import BilmReference

TEXT = "we see $$$ at it\nMOTHER was on the go\n"


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text(TEXT)


@pytest.fixture(scope="module")
def squad(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("trained")
    bilm = BilmReference(str(write_bilm(folder / "bilm")))
    return str(train_reader(folder, {"training.epochs": 12}, bilm=bilm).folder)


def test_training_and_evaluating_a_reader(elmo: Elmo, prints: Prints, tmp_path: Path) -> None:
    files = [str(write_questions(tmp_path, part)) for part in ("train", "dev", "test")]
    sets = set_flags(QUICK | {"training.epochs": 1, "inputs.characters": False})
    train, dev, test = files

    code, out, err = elmo(
        "task", "train", "squad", "--train", train, "--train", dev, "--dev", dev, "--test", test,
        "--model", str(write_bilm(tmp_path / "bilm")), *sets, "-o", "mine",
    )  # fmt: skip

    assert code == 0, err
    assert out.startswith("dev: F1 ")
    assert "exact match" in out
    assert "75 examples to train on, 15 for dev, 15 for test\n" in err
    out = prints("task", "evaluate", "mine", test, "--quiet")
    assert "exact match  questions" in out
    assert out.splitlines()[-1].split()[-1] == "30"


def test_questions_as_arguments_about_a_text_file(prints_only: Prints, squad: str) -> None:
    out = prints_only(
        "task", "predict", squad, "--context", "text.txt", "--question", "HOW MUCH", "--question",
        "who", "--quiet",
    )  # fmt: skip
    answers = [json.loads(line) for line in out.splitlines()]
    assert [(each["question"], each["answer"]) for each in answers] == [
        ("HOW MUCH", "$$$"),
        ("who", "MOTHER"),
    ]
    for each in answers:
        assert list(each) == ["question", "answer", "start", "end"]
        assert TEXT[each["start"] : each["end"]] == each["answer"]


def test_questions_of_files_are_answered_alike(prints: Prints, squad: str, tmp_path: Path) -> None:
    (tmp_path / "q.txt").write_text("HOW MUCH\n\nwho\n")
    objects = [
        {"question": "HOW MUCH", "context": TEXT, "n": 1},
        {"question": "who", "context": TEXT},
    ]
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, objects)))
    (tmp_path / "q.csv").write_text("id,question\n7,HOW MUCH\n8,who\n")
    flat = TEXT.replace("\n", " ")
    (tmp_path / "tabs.txt").write_text(f"HOW MUCH\t{flat}\nwho\t{flat}\n")

    found = {}
    for name in ("q.txt", "q.jsonl", "q.csv", "tabs.txt"):
        context = ["--context", "text.txt"] if name in ("q.txt", "q.csv") else []
        out = prints("task", "predict", squad, name, *context, "--quiet")
        found[name] = [json.loads(line) for line in out.splitlines()]

    for answers in found.values():
        assert [each["answer"] for each in answers] == ["$$$", "MOTHER"]
    assert found["q.jsonl"][0]["n"] == 1
    assert [each["id"] for each in found["q.csv"]] == ["7", "8"]


def test_what_cannot_be_asked_is_one_line(fails: Fails, squad: str, tmp_path: Path) -> None:
    ask = ("task", "predict", squad)
    (tmp_path / "q.txt").write_text("who\n")
    (tmp_path / "q.jsonl").write_text('{"question": "who"}\n')
    (tmp_path / "no.jsonl").write_text('{"question": " ", "context": "a"}\n')
    (tmp_path / "bare.jsonl").write_text('{"question": "who", "context": ""}\n')
    (tmp_path / "empty.txt").write_text(" \n")
    assert "question 1: has no words" in fails(*ask, "--question", " ", "--context", "text.txt")
    assert "(--context FILE)" in fails(*ask, "q.txt")
    message = fails(*ask, "q.jsonl")
    assert "q.jsonl, line 1: has a question and no 'context'" in message
    assert "(--context FILE)" in message
    assert "bare.jsonl, line 1: has a 'context' of its own" in fails(
        *ask, "bare.jsonl", "--context", "text.txt"
    )
    assert "no.jsonl, line 1: the question has no words" in fails(*ask, "no.jsonl")
    assert "bare.jsonl, line 1: asks about a text that has no words" in fails(*ask, "bare.jsonl")
    assert "empty.txt: holds no text" in fails(*ask, "--question", "who", "--context", "empty.txt")


def test_input_and_questions_exclude_each_other(elmo: Elmo, squad: str) -> None:
    ask = ("task", "predict", squad, "--context", "text.txt")
    code, _, err = elmo(*ask)
    assert (code, "give INPUT, a file or - for standard input" in err) == (2, True)
    code, _, err = elmo(*ask, "text.txt", "--question", "who")
    assert (code, "give INPUT or --question, and not both" in err) == (2, True)


def test_what_is_asked_about_is_never_replaced(fails: Fails, squad: str, tmp_path: Path) -> None:
    (tmp_path / "q.txt").write_text("who\n")
    ask = ("task", "predict", squad, "q.txt", "--context", "text.txt", "--force", "-o")
    for name in ("q.txt", "text.txt"):
        before = (tmp_path / name).read_text()
        assert f"{name}: is what is read" in fails(*ask, name)
        assert (tmp_path / name).read_text() == before
    assert "squad: is a folder" in fails(*ask, squad)


def test_the_questions_of_squad_are_answered_by_their_ids(
    prints: Prints, fails: Fails, squad: str, tmp_path: Path
) -> None:
    unanswered = paragraph(TEXT, ("HOW MUCH", "$$$"), ("who", "MOTHER"), name="x")
    for question in unanswered["qas"]:
        del question["answers"]
    write_squad(tmp_path / "ask.json", unanswered)
    out = prints("task", "predict", squad, "ask.json", "--quiet")
    answers = [json.loads(line) for line in out.splitlines()]
    assert {each["id"]: each["answer"] for each in answers} == {"x1": "$$$", "x2": "MOTHER"}
    (tmp_path / "broken.json").write_text('{"data":\n [}')
    assert "broken.json, line 2: is not JSON" in fails("task", "predict", squad, "broken.json")
