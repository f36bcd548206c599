"""The programs of the pages on Keras and scikit-learn, run as they stand on a few messages."""

from __future__ import annotations

import csv
import os
import re
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("KERAS_BACKEND", "torch")
pytest.importorskip("keras", reason="Keras is an extra: elmokit[keras]")
pytest.importorskip("sklearn", reason="scikit-learn is an extra: elmokit[sklearn]")

# Keras makes arrays of tensors in a way that NumPy wants otherwise.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

DOCS = Path(__file__).resolve().parents[2] / "docs"
GUIDES = ("use-in-keras.md", "use-in-scikit-learn.md")
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
HAM, SPAM = "See you at {} o'clock, love", "WIN {}000 pounds now! Text FREE to claim"


def programs(folder: str) -> list[str]:
    """The programs of both pages."""
    pages = [(DOCS / folder / guide).read_text(encoding="utf-8") for guide in GUIDES]
    return [program for page in pages for program in BLOCK.findall(page)]


def write_messages(path: Path, count: int) -> None:
    """Messages in the columns of the widespread file; every third is spam."""
    rows = [
        ("ham" if number % 3 else "spam", (HAM if number % 3 else SPAM).format(number), "", "", "")
        for number in range(count)
    ]
    with open(path, "w", encoding="latin-1", newline="") as file:
        csv.writer(file).writerows([("v1", "v2", "", "", ""), *rows])


def test_both_languages_have_the_same_programs() -> None:
    english, korean = programs("how-to"), programs("ko/how-to")
    assert len(english) == 5
    assert [code_of(program) for program in english] == [code_of(program) for program in korean]


def code_of(program: str) -> str:
    """A program without its comments."""
    return re.sub(r" *# .*", "", program)


def test_the_programs_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_messages(tmp_path / "spam.csv", 36)
    monkeypatch.chdir(tmp_path)
    program = "\n".join(programs("how-to"))
    assert "slice(0, 4457), slice(4457, None)" in program
    names: dict[str, Any] = {}
    exec(program.replace("4457", "27"), names)

    assert (tmp_path / "spam.keras").is_file()
    texts, labels = names["messages"][names["test"]], names["labels"][names["test"]]
    assert names["classifier"].score(texts, labels) == 1.0
    assert names["search"].best_score_ > 0.9
