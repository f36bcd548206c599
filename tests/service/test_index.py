from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from analysis.neighbours.small_indexes import built, sentences

from elmokit.analysis.neighbours.index import NeighbourIndex
from elmokit.errors import FormatError
from elmokit.service.middleware import Limits
from elmokit.service.state import ServedModel

pytest.importorskip("lancedb", reason="the extra analysis is not installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, model) -> Path:
    place = tmp_path_factory.mktemp("of-mine")
    built(place, sentences(40), embedder=model.embedder)
    return place / "index"


@pytest.fixture(scope="module")
def indexed(folder, model) -> ServedModel:
    return replace(model, index=NeighbourIndex.open(folder, model.embedder))


def test_neighbours_are_the_librarys(post, folder, indexed):
    body = {"sentence": "the river bank", "position": 2, "top": 3, "same_word": True}
    response = post("/neighbours", body, model=indexed).json()
    library = NeighbourIndex.open(folder, indexed.embedder)
    expected = library.query(["the", "river", "bank"], 2, top=3, same_word=True)
    assert response["neighbours"] == [one.to_dict() for one in expected]
    assert {one["word"] for one in response["neighbours"]} == {"bank"}


def test_senses_are_the_librarys(post, folder, indexed):
    response = post("/senses", {"word": "Bank", "senses": 2}, model=indexed).json()
    expected = NeighbourIndex.open(folder, indexed.embedder).senses("bank", senses=2).to_dict()
    assert [sense["number"] for sense in response["senses"]] == [1, 2]
    assert response["occurrences"] == expected["occurrences"]
    assert len(response["points"]) == len(expected["points"])


def test_a_word_that_does_not_occur_is_an_error_without_saying_where_the_index_is(
    post, folder, indexed
):
    response = post("/senses", {"word": "aardvark"}, model=indexed)
    assert response.status_code == 400
    error = response.json()["error"]
    assert "does not occur" in error["message"]
    assert (error["code"], error["values"]["word"]) == ("word_not_in_index", "aardvark")
    assert folder.parent.name not in response.text


def test_an_unusual_word_is_looked_up_without_a_word_about_it(post, indexed, recwarn):
    body = {"sentence": f"a secret-{'x' * 500} word", "position": 1, "top": 1}
    assert post("/neighbours", body, model=indexed).status_code == 200
    assert not recwarn.list


def test_a_sentence_is_as_long_as_all_of_its_text(refusal, indexed):
    text = "the river. the bank. a cat."
    for path, body in (
        ("/neighbours", {"sentence": text, "position": 0}),
        ("/compare", {"sentences": ["the cat", text], "word": "cat"}),
    ):
        said = refusal(path, body, 413, model=indexed, limits=Limits(words_per_sentence=8))
        assert "has 9 words; send 8 at most" in said


class DamagedIndex:
    """Its files are not what they were."""

    def query(self, words, position, *, top, same_word):
        raise FormatError("/home/of/mine: its tables cannot be used (/home/of/mine/table: gone)")

    senses = query


def test_an_index_that_is_damaged_meanwhile_is_our_failure_and_told_without_its_place(post, model):
    body = {"sentence": "a bank", "position": 1}
    response = post("/neighbours", body, model=replace(model, index=DamagedIndex()))
    assert response.status_code == 500
    assert "/home" not in response.text


class ThreadIndex:
    """What it finds says in which thread it was written as a dictionary."""

    def senses(self, word, *, senses):
        return SimpleNamespace(to_dict=lambda: {"thread": threading.get_ident()})

    def query(self, words, position, *, top, same_word):
        return [self.senses("", senses=None)]


def test_large_results_hold_up_no_other_request(post, model):
    indexed = replace(model, index=ThreadIndex())
    senses = post("/senses", {"word": "bank"}, model=indexed).json()
    response = post("/neighbours", {"sentence": "a bank", "position": 1}, model=indexed).json()
    for found in (senses, *response["neighbours"]):
        assert found["thread"] != threading.get_ident()


class SlowIndex:
    """Finds senses when told to."""

    def __init__(self) -> None:
        self.begun, self.go = threading.Event(), threading.Event()

    def senses(self, word, *, senses):
        self.begun.set()
        self.go.wait(10)
        return SimpleNamespace(to_dict=dict)


def test_searches_that_wait_are_bounded_and_hold_up_no_vectors(converse, model):
    index = SlowIndex()

    async def talk(client):
        first = asyncio.create_task(client.post("/senses", json={"word": "bank"}))
        while not index.begun.is_set():
            await asyncio.sleep(0.001)
        second = await client.post("/senses", json={"word": "bank"})
        vectors = await client.post("/embed", json={"texts": ["a bank"]})
        index.go.set()
        return [response.status_code for response in (await first, second, vectors)]

    slow = replace(model, index=index)
    assert converse(talk, limits=Limits(searches=1), model=slow) == [200, 503, 200]
