from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from elmokit.errors import FormatError, InputError
from elmokit.static.evaluation import parse_analogy, read_judgements, read_questions


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        ("king - man + woman", (["king", "woman"], ["man"])),
        ("king", (["king"], [])),
        ("- man + king", (["king"], ["man"])),
        ("well-known - well", (["well-known"], ["well"])),
    ],
)
def test_signs_between_blanks_sort_the_words(
    question: str, parts: tuple[list[str], list[str]]
) -> None:
    assert parse_analogy(question) == parts


@pytest.mark.parametrize(
    "question", ["", "  ", "king man", "king -", "king - + woman", "+", "a +b"]
)
def test_what_is_no_question_is_refused(question: str) -> None:
    with pytest.raises(InputError, match=r"write it as 'king - man \+ woman'"):
        parse_analogy(question)


def test_judgements_are_read_by_tabs_or_blanks_without_remarks(tmp_path: Path) -> None:
    path = tmp_path / "set.txt.gz"
    path.write_bytes(gzip.compress(b"# a remark\ntiger\tcat\t7.35\n\ntiger tiger 10\n"))
    assert read_judgements(path) == [("tiger", "cat", 7.35), ("tiger", "tiger", 10.0)]


@pytest.mark.parametrize("line", ["tiger cat", "tiger cat x", "a b 1 2"])
def test_a_bad_judgement_is_named_by_its_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "set.txt").write_text(f"a b 1\n\n{line}\n")
    with pytest.raises(FormatError, match=rf"set\.txt, line 3: '{line}' is not two words"):
        read_judgements(tmp_path / "set.txt")


def test_questions_have_sections(tmp_path: Path) -> None:
    (tmp_path / "all.txt").write_text("a b c d\n: family\nboy girl man woman\n")
    questions = read_questions(tmp_path / "all.txt")
    assert questions == [("all", *"abcd"), ("family", "boy", "girl", "man", "woman")]


def test_a_bad_question_is_named_by_its_line(tmp_path: Path) -> None:
    (tmp_path / "all.txt").write_text(": family\nboy girl man\n")
    with pytest.raises(FormatError, match=r"all\.txt, line 2: 'boy girl man' is not four words"):
        read_questions(tmp_path / "all.txt")


@pytest.mark.parametrize("read", [read_judgements, read_questions])
def test_a_file_of_nothing_is_refused(tmp_path: Path, read) -> None:
    (tmp_path / "all.txt").write_text("\n")
    with pytest.raises(FormatError, match=r"all\.txt: has no "):
        read(tmp_path / "all.txt")
