"""Scores of static vectors, beside gensim's and SciPy's."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import error_of, write
from static.small_vectors import random_vectors, small_vectors

from elmokit.errors import FormatError, InputError
from elmokit.static.evaluation import (
    AnalogyScore,
    analogy_scores,
    parse_analogy,
    read_judgements,
    read_questions,
    similarity_score,
    total,
)
from elmokit.static.vectors import StaticVectors

ROUNDING = 1e-9


def gensim_of(vectors: StaticVectors) -> Any:
    keyedvectors = pytest.importorskip("gensim.models.keyedvectors", reason="the extra static")
    keyed = keyedvectors.KeyedVectors(vectors.vector_size)
    keyed.add_vectors(vectors.words, vectors.rows(range(len(vectors))))
    return keyed


def arithmetic_vectors() -> StaticVectors:
    """Words whose analogies hold as often as not, some of them in two forms."""
    noise = np.random.default_rng(3)
    kinds, forms = noise.standard_normal((2, 12, 10))
    words = [f"k{kind}f{form}" for kind in range(12) for form in range(4)]
    table = [kinds[kind] + 2 * forms[form] for kind in range(12) for form in range(4)]
    table = np.array(table) + 1.2 * noise.standard_normal((48, 10))
    capitals = [word.upper() for word in words[:10]]
    near = table[:10] + 0.1 * noise.standard_normal((10, 10))
    return StaticVectors(
        [*capitals[:5], *words, *capitals[5:]],
        np.concatenate([near[:5], table, near[5:]]).astype(np.float32),
    )


def write_questions(path: Path) -> Path:
    chosen = random.Random(5)
    lines = []
    for section in ("one", "two"):
        lines.append(f": {section}")
        for _ in range(80):
            (first, second), (form, other) = (chosen.sample(range(n), 2) for n in (12, 4))
            words = [f"k{first}f{form}", f"k{first}f{other}", f"k{second}f{form}"]
            lines.append(" ".join([*words, f"k{second}f{other}"]))
        lines.append("k1f1 unknown k2f1 k2f2")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_analogies_equal_gensim_s(tmp_path: Path) -> None:
    vectors, path = arithmetic_vectors(), write_questions(tmp_path / "questions.txt")
    accuracy, sections = gensim_of(vectors).evaluate_word_analogies(str(path))
    calls: list[tuple[int, int | None]] = []
    scores = analogy_scores(vectors, path, lambda *call: calls.append(call))
    assert calls == [(81, 162), (162, 162)]
    theirs = [(one["section"], len(one["correct"])) for one in sections]
    assert [(one.section, one.right) for one in (*scores, total(scores))] == [
        *theirs[:-1],
        ("total", theirs[-1][1]),
    ]
    assert total(scores).accuracy == pytest.approx(accuracy, abs=ROUNDING)
    assert 0.2 < accuracy < 0.95  # so that both right and wrong answers were compared
    assert total(scores).known == 160
    assert total(scores).questions == 162


def test_the_words_of_a_question_are_no_answers(tmp_path: Path) -> None:
    (tmp_path / "q.txt").write_text(": s\nman king woman queen\nMan KING woman Queen\n")
    assert analogy_scores(small_vectors(), tmp_path / "q.txt") == [AnalogyScore("s", 2, 2, 2)]


def test_a_section_of_unknown_words_has_no_accuracy(tmp_path: Path) -> None:
    (tmp_path / "q.txt").write_text(": s\na b c d\n")
    (score,) = analogy_scores(small_vectors(), tmp_path / "q.txt")
    assert (score.known, score.questions, score.accuracy) == (0, 1, None)


def write_judgements(path: Path) -> Path:
    chosen = random.Random(2)
    lines = [
        f"w{chosen.randrange(330)}\tW{chosen.randrange(330)}\t{chosen.randrange(10)}"
        for _ in range(300)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_similarity_equals_scipy_s_and_gensim_s(tmp_path: Path) -> None:
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    vectors, path = random_vectors(), write_judgements(tmp_path / "SET-300.txt")
    score = similarity_score(vectors, path)
    by_capitals = {word.upper(): row for row, word in reversed(list(enumerate(vectors.words)))}
    cosines, judged = [], []
    for line in path.read_text().splitlines():
        first, second, value = line.upper().split("\t")
        if first in by_capitals and second in by_capitals:
            one, two = vectors.rows([by_capitals[first], by_capitals[second]])
            cosines.append(float(one @ two / np.linalg.norm(one) / np.linalg.norm(two)))
            judged.append(float(value))
    assert score.spearman == pytest.approx(stats.spearmanr(cosines, judged)[0], abs=1e-6)
    assert (score.name, score.known, score.pairs) == ("SET-300", len(judged), 300)
    theirs = gensim_of(vectors).evaluate_word_pairs(str(path))
    assert score.spearman == pytest.approx(theirs[1][0], abs=1e-6)
    assert 100 - 100 * score.known / score.pairs == pytest.approx(theirs[2])


@pytest.mark.parametrize("other", ["a b 1", "king man 2", "queen queen 1"])
def test_a_correlation_of_nothing_is_none(tmp_path: Path, other: str) -> None:
    (tmp_path / "set.txt").write_text(f"king king 2\n{other}\n")
    score = similarity_score(small_vectors(), tmp_path / "set.txt")
    assert (score.spearman, score.known, score.pairs) == (None, 2 - (other[0] == "a"), 2)


# What is read


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
    assert "write it as 'king - man + woman'" in error_of(parse_analogy, question, kind=InputError)


def test_judgements_are_read_by_tabs_or_blanks_without_remarks(tmp_path: Path) -> None:
    path = tmp_path / "set.txt.gz"
    path.write_bytes(gzip.compress(b"# a remark\ntiger\tcat\t7.35\n\ntiger tiger 10\n"))
    assert read_judgements(path) == [("tiger", "cat", 7.35), ("tiger", "tiger", 10.0)]


def test_questions_have_sections(tmp_path: Path) -> None:
    (tmp_path / "all.txt").write_text("a b c d\n: family\nboy girl man woman\n")
    questions = read_questions(tmp_path / "all.txt")
    assert questions == {"all": ["a b c d"], "family": ["boy girl man woman"]}


@pytest.mark.parametrize(
    ("read", "line", "expected"),
    [
        (read_judgements, "tiger cat", "two words"),
        (read_judgements, "tiger cat x", "two words"),
        (read_judgements, "a b 1 2", "two words"),
        (read_questions, "boy girl man", "four words"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, read: Any, line: str, expected: str) -> None:
    good = "a b 1" if read is read_judgements else ": family"
    path = write(tmp_path / "set.txt", [good, "", line])
    said = f"{path}, line 3: '{line}' is not {expected}"
    error_of(read, path, kind=FormatError, after=said)


@pytest.mark.parametrize("read", [read_judgements, read_questions])
def test_a_file_of_nothing_is_refused(tmp_path: Path, read: Any) -> None:
    (tmp_path / "all.txt").write_text("\n")
    assert "all.txt: has no " in error_of(read, tmp_path / "all.txt", kind=FormatError)
