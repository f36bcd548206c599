from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from tasks.small_coref import SMALL, write_documents
from tasks.small_tasks import train, write_bilm

Elmo = Callable[..., tuple[int, str, str]]
Fails = Callable[..., str]


def test_the_command_line_trains_evaluates_and_brackets(elmo: Elmo, tmp_path: Path) -> None:
    bilm = str(write_bilm(tmp_path / "bilm"))
    files = [str(write_documents(tmp_path, part, 12)) for part in ("train", "dev")]
    sets = [
        text for name, value in (SMALL | {"training.epochs": 3}).items()
        for text in ("--set", f"{name}={str(value).lower()}")
    ]  # fmt: skip
    folder = str(tmp_path / "out")
    code, out, err = elmo(
        "task", "train", "coref", "--train", files[0], "--dev", files[1], "--model", bilm,
        "-o", folder, *sets,
    )  # fmt: skip
    assert code == 0, err
    assert "mean F1" in out
    code, out, err = elmo("task", "evaluate", folder, files[1])
    assert code == 0, err
    assert "CEAFφ4" in out
    story = tmp_path / "story.txt"
    story.write_text("Zoë Ek sees it.\nAnd she sees QQQ.\n\nThe end.\n", encoding="utf-8")
    code, out, err = elmo("task", "predict", folder, str(story))
    assert code == 0, err
    [answer] = map(json.loads, out.splitlines())
    assert answer["text"].startswith("Zoë Ek sees it.\nAnd")
    for mention in (each for cluster in answer["clusters"] for each in cluster):
        assert answer["text"][mention["start"] : mention["end"]] == mention["text"]
    code, out, err = elmo("task", "predict", folder, str(story), "--as", "text")
    assert code == 0, err
    assert out.count("[") == sum(map(len, answer["clusters"]))
    assert re.sub(r"\[\d+ |\]", "", out) == f"{answer['text']}\n"


def test_the_answers_of_another_task_are_no_text(fails: Fails, tmp_path: Path) -> None:
    settings = {"inputs.elmo": "none", "inputs.characters": True, "training.epochs": 1}
    folder = train(tmp_path, "spam", settings, bilm=None).folder
    text = tmp_path / "some.txt"
    text.write_text("see you\n")
    assert "leave out --as text" in fails("task", "predict", str(folder), str(text), "--as", "text")
