from __future__ import annotations

import json
import re
from pathlib import Path

from helpers import Fails, Prints, set_flags
from tasks.small_coref import SMALL, write_documents
from tasks.small_tasks import train, write_bilm


def test_the_command_line_trains_evaluates_and_brackets(prints: Prints, tmp_path: Path) -> None:
    bilm = str(write_bilm(tmp_path / "bilm"))
    files = [str(write_documents(tmp_path, part, 12)) for part in ("train", "dev")]
    folder = str(tmp_path / "out")
    out = prints(
        "task", "train", "coref", "--train", files[0], "--dev", files[1], "--model", bilm,
        "-o", folder, *set_flags(SMALL | {"training.epochs": 3}),
    )  # fmt: skip
    assert "mean F1" in out
    out = prints("task", "evaluate", folder, files[1])
    assert "CEAFφ4" in out
    story = tmp_path / "story.txt"
    story.write_text("Zoë Ek sees it.\nAnd she sees QQQ.\n\nThe end.\n", encoding="utf-8")
    out = prints("task", "predict", folder, str(story))
    [answer] = map(json.loads, out.splitlines())
    assert answer["text"].startswith("Zoë Ek sees it.\nAnd")
    for mention in (each for cluster in answer["clusters"] for each in cluster):
        assert answer["text"][mention["start"] : mention["end"]] == mention["text"]
    out = prints("task", "predict", folder, str(story), "--as", "text")
    assert out.count("[") == sum(map(len, answer["clusters"]))
    assert re.sub(r"\[\d+ |\]", "", out) == f"{answer['text']}\n"


def test_a_label_is_text_and_no_column(prints: Prints, fails: Fails, tmp_path: Path) -> None:
    settings = {"inputs.elmo": "none", "inputs.characters": True, "training.epochs": 1}
    folder = str(train(tmp_path, "spam", settings, bilm=None).folder)
    text = tmp_path / "some.txt"
    text.write_text("see you\n")
    out = prints("task", "predict", folder, str(text), "--as", "text", "--quiet")
    assert re.fullmatch(r"(ham |spam)  +\d+\.\d%  see you\n", out)
    assert "leave out --as conll" in fails("task", "predict", folder, str(text), "--as", "conll")
