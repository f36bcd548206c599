"""The tables of examples and of typing mistakes that cards of bundled models have."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from helpers import error_of, write
from small_models import write_language_model

from runs import examples, mistakes
from runs.examples import Examples
from runs.mistakes import FIRST_SYLLABLE, mistakes_of

TEXT = ["The cat sat on the river bank. A dog sat on the mat, said the bank.", "Bad."] * 3


@pytest.fixture
def asked(tmp_path: Path) -> list[str]:
    """The arguments of a script: a small model, and a text."""
    return [
        *("--model", write_language_model(tmp_path / "model")),
        *("--text", str(write(tmp_path / "text.txt", TEXT))),
    ]


def test_examples_rank_candidates_begin_sentences_and_find_neighbours(
    asked: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("lancedb", reason="LanceDB is an extra: elmokit[analysis]")
    shown = Examples("The cat sat on the ___ .", ("mat", "pool"), "bank", ("A *bank* .",))
    monkeypatch.setattr(examples, "ENGLISH", shown)
    examples.main(asked)
    out = capsys.readouterr().out
    assert "| pool | not in the vocabulary |" in out
    assert out.index("| mat | ") < out.index("| pool | ")
    assert "The first words of 9 held-out sentences cost" in out
    assert "Among 2 occurrences" in out  # sentences that come again are kept once
    assert "| A **bank** . | " in out
    assert "the river **bank** . | " in out


def test_mistakes_are_made_of_every_kind_and_looked_for(
    asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    mistakes.main(asked)
    out = capsys.readouterr().out
    rows = [line for line in out.splitlines() if line.startswith(("| a ", "| no ", "| two "))]
    assert len(rows) == 6
    assert "Among 6 sentences." in out
    bad = write(Path(asked[1]) / "short.txt", ["Bad."])
    said = error_of(mistakes.main, [*asked[:2], "--text", str(bad)], kind=SystemExit)
    assert "fewer than two sentences" in said


@pytest.mark.parametrize(
    ("hangul", "text"),
    [(False, "Somebody found another letter there"), (True, "사람들이 학교에서 나무를 심었다")],
)
def test_a_mistake_changes_one_word_or_its_spaces(hangul: bool, text: str) -> None:
    for kind, mistake in mistakes_of(hangul).items():
        for seed in range(20):
            changed = mistake(text, random.Random(seed))
            if "space" in kind:
                assert changed.replace(" ", "") == text.replace(" ", "")
                words = {"a space left out": -1, "a space too many": 1}
                assert len(changed.split()) == len(text.split()) + words.get(
                    kind, 1 - len(text.split())
                )
            else:
                pairs = zip(changed.split(), text.split(), strict=True)
                assert sum(one != other for one, other in pairs) <= 1
            if kind == "another final consonant":
                assert len(changed) == len(text)
                assert all(letter == " " or ord(letter) >= FIRST_SYLLABLE for letter in changed)


def test_a_sentence_without_a_word_for_a_mistake_stays() -> None:
    assert mistakes_of(False)["a letter dropped"]("a b 12345", random.Random(0)) == "a b 12345"
