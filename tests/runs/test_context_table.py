import pytest
from helpers import write
from small_models import small_embedder

from elmokit.analysis.neighbours.index import NeighbourIndex
from runs.context_table import QUESTIONS, TOP, build, table

pytest.importorskip("lancedb", reason="the extra analysis is not installed")


def test_every_question_has_the_sentences_nearest_to_it_from_an_index_of_its_words(tmp_path):
    embedder = small_embedder()
    lines = [f"some {word} n{number}\n" for word in QUESTIONS for number in range(4)]
    text = write(tmp_path / "text.txt", "\n".join(lines))
    build(embedder, [str(text)], str(tmp_path / "index"), "tiny")
    index = NeighbourIndex.open(tmp_path / "index", embedder)
    assert index.description.forms == len(QUESTIONS)
    rows = [line for line in table(index, "1", same_word=True) if line.startswith("| ")]
    found = [row for row in rows if "some **" in row]
    assert len(found) == TOP * sum(map(len, QUESTIONS.values()))
    assert found[0].startswith("| Chico Ruiz made a spectacular **play** on Alusik 's grounder . |")
    assert found[1].startswith("|  | some **play** n")
