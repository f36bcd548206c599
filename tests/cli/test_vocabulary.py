from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from elmokit.cli import elmo
from elmokit.cli.progress import Passes
from elmokit.errors import InputError

TEXT = "A dog sat. A cat sat.\nA dog!\n"


@pytest.fixture
def text(tmp_path: Path, monkeypatch) -> str:
    monkeypatch.setenv("ELMOKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text(TEXT)
    return "text.txt"


def run(*arguments: str) -> str:
    """Run the command; give what it prints."""
    result = CliRunner().invoke(elmo, ["vocabulary", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_words_are_written_with_their_counts_and_summed_up(text):
    out = run(text, "-o", "vocabulary.txt", "--processes", "1")
    lines = Path("vocabulary.txt").read_text().splitlines()
    assert lines == [
        *("<S>\t3", "</S>\t3", "<UNK>\t0"),
        *("A\t3", ".\t2", "dog\t2", "sat\t2", "!\t1", "cat\t1"),
    ]
    assert "vocabulary.txt: 9 words" in out
    assert "11 words in 3 sentences, 6 of them different" in out
    assert "100.00 %" in out


def test_every_flag_reaches_the_library(text):
    Path("text.txt").write_bytes(b"a. b c\xe9\na. a.\n")
    flags = ["--tokenizer", "whitespace", "--errors", "replace", "--min-count", "2"]
    run(text, "-o", "v.txt", *flags, "--cache", "prepared", "--quiet", "--one-sentence-per-line")
    assert Path("v.txt").read_text() == "<S>\t2\n</S>\t2\n<UNK>\t2\na.\t3\n"
    assert Path("prepared").is_dir()
    assert not Path("cache").exists()


def test_json_is_for_programs(text):
    out = run(text, "-o", "v.txt", "--max-size", "5", "--json")
    assert json.loads(out) == {
        "output": "v.txt",
        "sentences": 3,
        "words": 11,
        "types": 6,
        "kept": 5,
        "coverage": 5 / 11,
    }


def test_output_is_replaced_only_by_force(text):
    Path("v.txt").write_text("old\n")
    with pytest.raises(InputError, match=r"v\.txt: is there already"):
        run(text, "-o", "v.txt")
    assert Path("v.txt").read_text() == "old\n"
    run(text, "-o", "v.txt", "--force")
    assert Path("v.txt").read_text().startswith("<S>\t3\n")


@pytest.mark.parametrize("flags", [["--max-size", "3"], ["--min-count", "0"], ["--processes", "0"]])
def test_number_that_cannot_work_is_wrong_usage(text, flags):
    assert CliRunner().invoke(elmo, ["vocabulary", text, "-o", "v.txt", *flags]).exit_code == 2


def test_help_has_examples():
    out = run("--help")
    assert "elmo vocabulary news/ -o vocabulary.txt --max-size 100000" in out


def test_counting_words_imports_no_torch(text):
    program = (
        "import sys\n"
        "from elmokit.cli.pretrain import vocabulary\n"
        "vocabulary(['text.txt', '-o', 'v.txt'], standalone_mode=False)\n"
        "sys.exit('torch' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_rate_is_that_of_the_pass(monkeypatch, capsys):
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    progress = Passes("preparing")
    now = 100.0
    progress(100_000_000, 100_000_000)
    now = 110.0
    progress(0, 100_000_000)
    now = 120.0
    progress(20_000_000, 100_000_000)
    assert capsys.readouterr().err.splitlines()[-1] == (
        "preparing: 20.0 MB of 100.0 MB, 2.0 MB/s, 40 s left"
    )
