from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from analysis.neighbours.small_indexes import built, sentences
from closeness import assert_close
from helpers import error_of, loaded_by
from small_models import small_embedder

from elmokit import Embedder
from elmokit.analysis.neighbours.build import IndexSettings
from elmokit.analysis.neighbours.index import Neighbour, NeighbourIndex
from elmokit.bundled import known_versions
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
    quoted = index.query(["five", "o'clock"], 1, same_word=True, top=2)
    assert [one.word for one in quoted] == ["o'clock"] * 2


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


def test_a_marked_sentence_asks_for_the_word_between_the_stars_in_the_last_layer(index):
    marked = index.query_marked("the river *bank* of light", top=3)
    assert places(marked) == places(index.query(QUESTION, POSITION, top=3, layer="2"))
    assert str(marked[0]).count("*") == 2


def test_another_model_or_state_is_an_error_with_both_names(index, embedder, monkeypatch):
    other = small_embedder(seed=1)
    error = error_of(NeighbourIndex.open, index.path, other, model="huge", kind=InputError)
    for name, model in (("tiny", embedder), ("huge", other)):
        assert f"{name} ({model.fingerprint()[:12]})" in error
    for number, model in enumerate((embedder, other), start=1):
        monkeypatch.setitem(known_versions(), model.fingerprint(), f"tiny {number}")
    error = error_of(NeighbourIndex.open, index.path, other, after=index.path)
    assert error == (
        ": was built with tiny 1, this is tiny 2; use the model it was built with (--model), or "
        "build it again"
    )
    error = error_of(NeighbourIndex.open, index.path, small_embedder(state="warm"))
    assert "'zero'" in error
    assert "'warm'" in error


@pytest.mark.parametrize(
    ("word", "advice"),
    [
        ("bnak", "near forms are bank"),
        ("sp", "near forms are spring"),
        ("zzzz", "try another word"),
    ],
)
def test_a_word_that_does_not_occur_is_an_error_with_near_forms(index, word, advice):
    asked = ["the", word]
    for error in (
        error_of(index.query, asked, 1, same_word=True, kind=InputError, after=f"{index.path}: "),
        error_of(index.senses, word, kind=InputError, after=f"{index.path}: "),
    ):
        assert advice in error


def test_bad_questions_are_one_line(index):
    error_of(index.query, QUESTION, POSITION, layer=7, kind=InputError, after="layer 7 is not in")
    error_of(index.query, QUESTION, 5, kind=InputError, after="position is 5; ")


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
        "assert len(NeighbourIndex.open(sys.argv[1])) == int(sys.argv[2])"
    )
    assert not loaded_by(program, ["torch"], index.path, len(index))


def test_a_url_of_object_storage_is_asked_as_a_folder_is(tmp_path, embedder):
    # To LanceDB, this is one more kind of object storage.
    built(tmp_path, LINES, IndexSettings(layers="all", index_above=100), embedder, model="tiny")
    url = f"file://{tmp_path / 'index'}"
    here, there = (NeighbourIndex.open(path, embedder) for path in (tmp_path / "index", url))
    assert there.description == here.description
    for settings in ({}, {"same_word": True}, {"exact": True, "layer": 1}):
        found = there.query(QUESTION, POSITION, **settings)
        assert found
        assert found == here.query(QUESTION, POSITION, **settings)
    assert there.senses("bank", senses=2) == here.senses("bank", senses=2)
    error_of(NeighbourIndex.open, url, small_embedder(seed=1), kind=InputError, after=f"{url}: ")
    nothing = f"{url}/nothing"
    error = error_of(NeighbourIndex.open, nothing, kind=FormatError, after=f"{nothing}: ")
    assert "check the URL, and what gives access" in error


def test_what_is_not_an_index_is_an_error(tmp_path):
    for path in (tmp_path / "nothing", tmp_path):
        error_of(NeighbourIndex.open, path, kind=InputError, after=f"{path}: ")


def test_a_damaged_index_is_one_line(tmp_path, embedder):
    built(tmp_path, LINES[:5], embedder=embedder)
    folder = tmp_path / "index"
    for manifest in Path(folder / "sentences.lance" / "_versions").iterdir():
        manifest.unlink()
    with pytest.raises(FormatError, match="its tables cannot be used"):
        NeighbourIndex.open(folder, embedder)
    (folder / "index.json").write_text('{"format": "elmokit-neighbours", "version": 99}')
    with pytest.raises(FormatError, match="of version 99, not elmokit-neighbours of version 1"):
        NeighbourIndex.open(folder, embedder)
