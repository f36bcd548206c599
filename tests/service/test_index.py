from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from small_indexes import built, sentences

from elmokit.analysis.neighbours.index import NeighbourIndex
from elmokit.errors import FormatError
from elmokit.service.middleware import Limits
from elmokit.service.state import CorpusIndex, ServedModel

pytest.importorskip("lancedb", reason="the extra analysis is not installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, model) -> Path:
    place = tmp_path_factory.mktemp("of-mine")
    built(place, sentences(40), embedder=model.embedder)
    return place / "index"


@pytest.fixture(scope="module")
def indexed(folder, model) -> ServedModel:
    return replace(model, index=CorpusIndex(NeighbourIndex.open(folder, model.embedder)))


def test_neighbours_are_the_librarys(post, folder, indexed):
    body = {"sentence": "the river bank", "position": 2, "top": 3, "same_word": True}
    answer = post("/neighbours", body, model=indexed).json()
    library = NeighbourIndex.open(folder, indexed.embedder)
    expected = library.query(["the", "river", "bank"], 2, top=3, same_word=True)
    assert answer["neighbours"] == [one.to_dict() for one in expected]
    assert {one["word"] for one in answer["neighbours"]} == {"bank"}


def test_senses_are_the_librarys(post, folder, indexed):
    answer = post("/senses", {"word": "Bank", "senses": 2}, model=indexed).json()
    expected = NeighbourIndex.open(folder, indexed.embedder).senses("bank", senses=2).to_dict()
    assert [sense["number"] for sense in answer["senses"]] == [1, 2]
    assert answer["occurrences"] == expected["occurrences"]
    assert len(answer["points"]) == len(expected["points"])


def test_a_word_that_does_not_occur_is_refused_without_saying_where_the_index_is(
    post, folder, indexed
):
    answer = post("/senses", {"word": "aardvark"}, model=indexed)
    assert answer.status_code == 400
    assert "does not occur" in answer.json()["error"]["message"]
    assert folder.parent.name not in answer.text


def test_an_unusual_word_is_looked_up_without_a_word_about_it(post, indexed, recwarn):
    body = {"sentence": f"a secret-{'x' * 500} word", "position": 1, "top": 1}
    assert post("/neighbours", body, model=indexed).status_code == 200
    assert not recwarn.list


def test_a_sentence_is_as_long_as_all_of_its_text(post, indexed):
    text = "the river. the bank. a cat."
    for path, body in (
        ("/neighbours", {"sentence": text, "position": 0}),
        ("/compare", {"sentences": ["the cat", text], "word": "cat"}),
    ):
        answer = post(path, body, model=indexed, limits=Limits(words_per_sentence=8))
        assert answer.status_code == 413, path
        assert "has 9 words; send 8 at most" in answer.json()["error"]["message"]


class DamagedIndex:
    """Its files are not what they were."""

    def query(self, words, position, top, same_word):
        raise FormatError("/home/of/mine: its tables cannot be used (/home/of/mine/table: gone)")

    senses = query


def test_an_index_that_is_damaged_meanwhile_is_our_failure_and_told_without_its_place(post, model):
    body = {"sentence": "a bank", "position": 1}
    answer = post("/neighbours", body, model=replace(model, index=DamagedIndex()))
    assert answer.status_code == 500
    assert "/home" not in answer.text


class SlowIndex:
    """Answers when told to."""

    def __init__(self) -> None:
        self.begun, self.go = threading.Event(), threading.Event()

    def query(self, words, position, top, same_word):
        pytest.fail("only senses are asked for")

    def senses(self, word, senses):
        self.begun.set()
        self.go.wait(10)
        return {"word": word}


def test_searches_that_wait_are_bounded_and_hold_up_no_vectors(converse, model):
    index = SlowIndex()

    async def talk(client):
        first = asyncio.create_task(client.post("/senses", json={"word": "bank"}))
        while not index.begun.is_set():
            await asyncio.sleep(0.001)
        second = await client.post("/senses", json={"word": "bank"})
        vectors = await client.post("/embed", json={"texts": ["a bank"]})
        index.go.set()
        return [answer.status_code for answer in (await first, second, vectors)]

    slow = replace(model, index=index)
    assert converse(talk, limits=Limits(searches=1), model=slow) == [200, 503, 200]
