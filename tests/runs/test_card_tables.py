"""The tables of examples and of typing mistakes that cards of bundled models have."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from helpers import error_of, write
from small_models import write_language_model

from runs import examples, mistakes
from runs.examples import Examples
from runs.mistakes import FIRST_SYLLABLE, mistakes_of, nearness

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
    rows = [line for line in out.splitlines() if " space" in line or " letter" in line]
    assert len(rows) == 6
    assert "Among 2 sentences." in out  # those that come again are left out
    bad = write(Path(asked[1]) / "short.txt", ["Bad."])
    said = error_of(mistakes.main, [*asked[:2], "--text", str(bad)], kind=SystemExit)
    assert "fewer than two sentences" in said


@pytest.mark.parametrize(
    ("hangul", "text"),
    [
        (False, "Somebody found another letter there today"),
        (True, "사람들이 모두 학교에서 나무를 많이 심었다"),
    ],
)
def test_mistakes_are_in_a_third_of_the_words_or_of_the_spaces(hangul: bool, text: str) -> None:
    words = text.split()
    for kind, mistake in mistakes_of(hangul).items():
        for seed in range(20):
            changed = mistake(text, random.Random(seed))
            if "space" in kind:
                assert changed.replace(" ", "") == text.replace(" ", "")
                more = {"spaces left out": -2, "spaces too many": 2}.get(kind, 1 - len(words))
                assert len(changed.split()) == len(words) + more
                continue
            pairs = zip(changed.split(), words, strict=True)
            assert sum(one != other for one, other in pairs) <= 2
            if kind == "another final consonant":
                assert len(changed) == len(text)
                assert all(letter == " " or ord(letter) >= FIRST_SYLLABLE for letter in changed)


def test_a_sentence_without_a_word_for_a_mistake_stays() -> None:
    assert mistakes_of(False)["a letter dropped"]("a b 12345", random.Random(0)) == "a b 12345"


def test_nearness_is_all_for_the_same_vector_and_none_for_another_text() -> None:
    clean = np.array([[1.0, 1, 0], [1, 0, 0], [1, 0, 1]])
    assert nearness(clean, clean[1:] * 3, [1, 2]) == pytest.approx(1)
    far = (2 * 0.5**0.5 + 0.5) / 3  # of those that are not the same
    assert nearness(clean, clean[[1]], [0]) == pytest.approx((0.5**0.5 - far) / (1 - far))
