import pytest
from small_indexes import built
from small_models import small_embedder

from elmokit.analysis.neighbours.index import NeighbourIndex
from runs.context_table import QUESTIONS, TOP, build, table

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


def test_an_index_that_is_not_there_is_built_of_the_words_alone(tmp_path):
    embedder = small_embedder()
    text = tmp_path / "text.txt"
    text.write_text("".join(f"Some {word} here .\nAnother {word} .\n\n" for word in QUESTIONS))
    build(embedder, [str(text)], str(tmp_path / "index"), "tiny")
    index = NeighbourIndex.open(tmp_path / "index", embedder)
    assert index.description.forms == len(QUESTIONS)
    assert index.description.layers == ("0", "1", "2")
    assert index.senses("bank").occurrences == 2
