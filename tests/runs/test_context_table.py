from __future__ import annotations

import pytest
from small_indexes import built
from small_models import small_embedder

from elmokit.analysis.neighbours.index import NeighbourIndex
from runs.context_table import QUESTIONS, TOP, table

pytest.importorskip("lancedb", reason="the extra analysis is not installed")


def test_every_question_has_its_three_nearest_sentences(tmp_path):
    embedder = small_embedder()
    lines = [["some", word, f"n{number}"] for word in QUESTIONS for number in range(4)]
    built(tmp_path, lines, embedder=embedder)
    index = NeighbourIndex.open(tmp_path / "index", embedder)
    rows = [line for line in table(index, "1", same_word=True) if line.startswith("| ")]
    found = [row for row in rows if "some **" in row]
    assert len(found) == TOP * sum(map(len, QUESTIONS.values()))
    assert found[0].startswith("| Chico Ruiz made a spectacular **play** on Alusik 's grounder . |")
    assert found[1].startswith("|  | some **play** n")


@pytest.mark.parametrize("word", QUESTIONS)
def test_every_question_marks_its_word(word):
    assert all(f" *{word}* " in sentence for sentence in QUESTIONS[word])
