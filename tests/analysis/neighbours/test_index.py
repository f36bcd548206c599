from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from closeness import assert_close
from small_indexes import built, sentences
from small_models import small_embedder

from elmokit import Embedder
from elmokit.analysis.neighbours.build import IndexSettings
from elmokit.analysis.neighbours.index import Neighbour, NeighbourIndex
from elmokit.errors import ElmoWarning, FormatError, InputError

pytest.importorskip("lancedb", reason="the extra analysis is not installed")

LINES = sentences(120)
QUESTION = ["the", "river", "bank", "of", "light"]
POSITION = 2
CLOSE = 2e-3  # float16 keeps three digits


def places(found: list[Neighbour]) -> list[tuple[tuple[str, ...], int]]:
    return [(one.words, one.position) for one in found]


def by_hand(
    embedder: Embedder, layer: int, form: str | None = None
) -> list[tuple[float, tuple[str, ...], int]]:
    """All occurrences by falling cosine with the question's word."""
    vector = embedder.embed_layers([QUESTION])[0][layer, POSITION]
    found = []
    for words, layers in zip(LINES, embedder.embed_layers(LINES), strict=True):
        for position, word in enumerate(words):
            if form in (None, word.lower()):
                other = layers[layer, position]
                cosine = vector @ other / np.linalg.norm(vector) / np.linalg.norm(other)
                found.append((float(cosine), tuple(words), position))
    return sorted(found, key=lambda one: -one[0])


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return small_embedder()


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, embedder: Embedder) -> NeighbourIndex:
    folder = tmp_path_factory.mktemp("index")
    built(folder, LINES, embedder=embedder, model="tiny")
    return NeighbourIndex.open(folder / "index", embedder)


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_neighbours_are_those_of_the_largest_cosines(index, embedder, layer):
    found = index.query(QUESTION, POSITION, layer=layer, top=7)
    expected = by_hand(embedder, layer)
    assert_close([one.cosine for one in found], [cosine for cosine, _, _ in expected[:7]], CLOSE)
    cosines = {(words, position): cosine for cosine, words, position in expected}
    assert_close([one.cosine for one in found], [cosines[place] for place in places(found)], CLOSE)


def test_without_a_layer_the_last_one_is_asked(index):
    last = index.query(QUESTION, POSITION, layer="2")
    assert places(index.query(QUESTION, POSITION)) == places(last)


def test_same_word_finds_all_its_occurrences_in_capitals_or_not(index, embedder):
    question = ["a", "crane", "of", "light"]
    found = index.query(question, 1, same_word=True, top=1000)
    expected = {
        (tuple(line), position)
        for line in LINES
        for position, word in enumerate(line)
        if word == "Crane"
    }
    assert len(found) == len(expected) > 5
    assert set(places(found)) == expected


def test_the_questions_own_sentence_is_left_out_however_it_is_written(index):
    own = next(line for line in LINES if "bank" in line and len(line) > 4)
    position = own.index("bank")
    for words in (own, [word.upper() for word in own]):
        found = index.query(words, position, top=len(index))
        assert tuple(own) not in {one.words for one in found}
        assert len(found) == len(index) - len(own)


def test_a_vector_index_finds_what_comparing_all_vectors_does(tmp_path, embedder):
    built(tmp_path, LINES, IndexSettings(index_above=100), embedder)
    index = NeighbourIndex.open(tmp_path / "index", embedder)
    assert index.description.vector_index
    indexed = index.query(QUESTION, POSITION, top=10)
    assert places(indexed) == places(index.query(QUESTION, POSITION, top=10, exact=True))
    same = index.query(QUESTION, POSITION, top=500, same_word=True)
    expected = by_hand(embedder, 2, "bank")
    assert set(places(same)) == {(words, position) for _, words, position in expected}
    assert_close([one.cosine for one in same], [cosine for cosine, _, _ in expected], CLOSE)


def test_a_word_that_utf8_cannot_hold_is_found_as_it_is_kept(tmp_path, embedder):
    built(tmp_path, [["a\ufffdb", "bank"], ["of", "the", "bank"]], embedder=embedder)
    index = NeighbourIndex.open(tmp_path / "index", embedder)
    with pytest.warns(ElmoWarning, match="lone surrogates"):
        found = index.query(["the", "a\ud800b"], 1, same_word=True)
    assert [one.word for one in found] == ["a\ufffdb"]
    assert index.senses("a\ud800b").occurrences == 1


def test_threads_that_ask_at_once_get_what_each_would_alone(index):
    questions = [(line, len(line) - 1) for line in LINES[:8]]
    alone = [places(index.query(*question, top=4)) for question in questions]
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(lambda one: places(index.query(*one, top=4)), questions))
    assert together == alone


def test_a_marked_sentence_asks_for_the_word_between_the_stars(index):
    marked = index.query_marked("the river *bank* of light", top=3)
    assert places(marked) == places(index.query(QUESTION, POSITION, top=3))
    assert str(marked[0]).count("*") == 2


def test_an_index_of_another_model_is_refused_with_both_names(index, embedder):
    other = small_embedder(seed=1)
    with pytest.raises(InputError) as raised:
        NeighbourIndex.open(index.path, other, model="huge")
    assert f"tiny ({embedder.fingerprint()[:12]})" in str(raised.value)
    assert f"huge ({other.fingerprint()[:12]})" in str(raised.value)


def test_a_model_in_another_state_is_refused(index):
    with pytest.raises(InputError, match="built in state 'zero', the model is in state 'warm'"):
        NeighbourIndex.open(index.path, small_embedder(state="warm"))


@pytest.mark.parametrize("word", ["bnak", "bankk"])
def test_a_word_that_does_not_occur_is_refused_with_near_forms(index, word):
    with pytest.raises(InputError, match=rf"'{word}' does not occur in it; near forms are .*bank"):
        index.query(["the", word], 1, same_word=True)
    with pytest.raises(InputError, match=r"near forms are .*bank"):
        index.senses(word)


def test_words_that_begin_alike_are_near_forms(index):
    with pytest.raises(InputError, match="does not occur in it; near forms are spring"):
        index.check_word("sp")
    with pytest.raises(InputError, match="does not occur in it; try another word"):
        index.check_word("zzzzzz")


def test_a_word_with_an_apostrophe_is_found(index):
    found = index.query(["five", "o'clock"], 1, same_word=True, top=2)
    assert [one.word for one in found] == ["o'clock"] * 2


def test_bad_questions_are_one_line(index):
    with pytest.raises(InputError, match="layer 7 is not in the index, which keeps 0, 1, 2"):
        index.query(QUESTION, POSITION, layer=7)
    with pytest.raises(InputError, match="position is 5; the sentence has 5 words"):
        index.query(QUESTION, 5)


def test_without_a_model_there_are_senses_but_no_neighbours(index):
    opened = NeighbourIndex.open(index.path)
    assert opened.senses("bank", senses=2).occurrences > 10
    with pytest.raises(InputError, match="was opened without a model"):
        opened.query(QUESTION, POSITION)


def test_senses_hold_every_occurrence_with_its_sentence(index):
    found = index.senses("Bank", layer=1, senses=2)
    expected = sorted(
        (tuple(line), position)
        for line in LINES
        for position, word in enumerate(line)
        if word == "bank"
    )
    assert sorted((point.words, point.position) for point in found.points) == expected
    assert sum(sense.occurrences for sense in found.senses) == len(expected)


def test_of_many_occurrences_some_are_taken_evenly(index, monkeypatch):
    monkeypatch.setattr("elmokit.analysis.neighbours.index.MOST_OCCURRENCES", 10)
    found = index.senses("bank", senses=2)
    assert len(found.points) == 10 < found.occurrences
    numbers = [int(point.words[-1][1:]) for point in found.points]
    assert numbers == sorted(numbers)
    assert numbers[-1] - numbers[0] > 60


def test_an_index_is_opened_without_pytorch(index):
    program = (
        "import sys\n"
        "from elmokit.analysis.neighbours.index import NeighbourIndex\n"
        f"assert len(NeighbourIndex.open({str(index.path)!r})) == {len(index)}\n"
        "print('torch' in sys.modules)\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
    assert done.stderr == ""


def test_what_is_no_index_is_refused(tmp_path):
    with pytest.raises(InputError, match="is not there; name a folder"):
        NeighbourIndex.open(tmp_path / "nothing")
    with pytest.raises(InputError, match="is no index of occurrences"):
        NeighbourIndex.open(tmp_path)


def test_a_damaged_index_is_one_line(tmp_path, embedder):
    built(tmp_path, LINES[:5], embedder=embedder)
    folder = tmp_path / "index"
    for manifest in Path(folder / "sentences.lance" / "_versions").iterdir():
        manifest.unlink()
    with pytest.raises(FormatError, match="its tables cannot be used") as raised:
        NeighbourIndex.open(folder, embedder)
    assert "\n" not in str(raised.value)
    (folder / "index.json").write_text('{"format": "elmokit-neighbours", "version": 99}')
    with pytest.raises(FormatError, match="of version 99, not elmokit-neighbours of version 1"):
        NeighbourIndex.open(folder, embedder)
