from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

TEXT = "A dog sat. A cat sat.\nA dog!\n"


@pytest.fixture
def text(tmp_path: Path, monkeypatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text(TEXT)
    return "text.txt"


def test_words_are_written_with_their_counts_and_summed_up(prints, text):
    out = prints("vocabulary", text, "-o", "vocabulary.txt", "--processes", "1")
    lines = Path("vocabulary.txt").read_text().splitlines()
    assert lines == [
        *("<S>\t3", "</S>\t3", "<UNK>\t0"),
        *("A\t3", ".\t2", "dog\t2", "sat\t2", "!\t1", "cat\t1"),
    ]
    assert "vocabulary.txt: 9 words" in out
    assert "11 words in 3 sentences, 6 of them different" in out
    assert "100.00 %" in out


def test_every_flag_reaches_the_library(prints, text):
    Path("text.txt").write_bytes(b"a. b c\xe9\na. a.\n")
    flags = ["--tokenizer", "whitespace", "--errors", "replace", "--min-count", "2"]
    flags += ["--cache", "prepared", "--quiet", "--one-sentence-per-line"]
    prints("vocabulary", text, "-o", "v.txt", *flags)
    assert Path("v.txt").read_text() == "<S>\t2\n</S>\t2\n<UNK>\t2\na.\t3\n"
    assert Path("prepared").is_dir()
    assert not Path(os.environ["ELMOKIT_CACHE"]).exists()


def test_json_is_for_programs(prints, text):
    out = prints("vocabulary", text, "-o", "v.txt", "--max-size", "5", "--json")
    assert json.loads(out) == {
        "output": "v.txt",
        "sentences": 3,
        "words": 11,
        "types": 6,
        "kept": 5,
        "coverage": 5 / 11,
    }


def test_output_is_replaced_only_by_force(prints, fails, text):
    Path("v.txt").write_text("old\n")
    assert "v.txt: is there already" in fails("vocabulary", text, "-o", "v.txt")
    assert Path("v.txt").read_text() == "old\n"
    prints("vocabulary", text, "-o", "v.txt", "--force")
    assert Path("v.txt").read_text().startswith("<S>\t3\n")


@pytest.mark.parametrize("flags", [["--max-size", "3"], ["--min-count", "0"], ["--processes", "0"]])
def test_number_that_cannot_work_is_wrong_usage(elmo, text, flags):
    assert elmo("vocabulary", text, "-o", "v.txt", *flags)[0] == 2
