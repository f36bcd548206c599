from __future__ import annotations

import asyncio
import io
import json
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
from closeness import assert_close
from safetensors.numpy import load
from service.small_services import SmallIndex

from elmokit.analysis.comparison import compare_occurrences
from elmokit.model.scalar_mix import DirectionalMix, ScalarMix
from elmokit.service.middleware import Limits
from elmokit.static.vectors import StaticVectors

WORDS = [["the", "cat", "sat"], [], ["bank"], ["the", "river", "bank", "."]]


@pytest.mark.parametrize("layers", ["average", "top", "all", 0, 1, 2])
def test_vectors_are_the_librarys(post, model, layers):
    response = post("/embed", {"sentences": WORDS, "layers": layers}).json()
    assert [sentence["words"] for sentence in response["sentences"]] == WORDS
    for sentence, expected in zip(
        response["sentences"], model.embedder.embed(WORDS, layers), strict=True
    ):
        found = np.array(sentence["vectors"], np.float32).reshape(expected.shape)
        assert_close(found, expected)


def test_texts_are_split_as_the_library_does(post, model):
    texts = ["The cat sat. It's on the mat!", ""]
    response = post("/split", {"texts": texts}).json()
    assert response == {"texts": [model.embedder.split(text) for text in texts]}


def test_raw_texts_are_split_and_numbered(post, model):
    response = post("/embed", {"texts": ["The cat. The mat.", "A bank"], "pool": "mean"}).json()
    assert [sentence["text"] for sentence in response["sentences"]] == [0, 0, 1]
    words = [sentence["words"] for sentence in response["sentences"]]
    assert words == [["The", "cat", "."], ["The", "mat", "."], ["A", "bank"]]
    means = [vectors.mean(0) for vectors in model.embedder.embed(words)]
    found = [sentence["vectors"] for sentence in response["sentences"]]
    assert_close(found, means)


@pytest.mark.parametrize(
    ("mix", "kind"),
    [
        ({"weights": [0.5, -1, 2], "gamma": 0.7}, ScalarMix),
        ({"weights": [1, 2, 3, 4, -5.0], "gamma": 2.0, "directions": True}, DirectionalMix),
    ],
)
def test_a_mix_is_the_librarys(post, model, mix, kind):
    trained = kind(3, weights=mix["weights"])
    with torch.no_grad():
        trained.gamma.fill_(mix["gamma"])
    response = post("/embed", {"sentences": WORDS[:1], "mix": mix}).json()
    expected = model.embedder.embed(WORDS[:1], trained)[0]
    assert_close(response["sentences"][0]["vectors"], expected)


def test_arrays_come_as_numpy_writes_them(converse):
    async def talk(client):
        bodies = ({"pool": "max"}, {"sentences": WORDS[:1], "layers": "all"}, {})
        accept = {"accept": "application/x-npy"}
        sent = [
            await client.post("/embed", json={"sentences": WORDS} | body, headers=accept)
            for body in bodies
        ]
        return *sent, (await client.get("/metrics")).text

    pooled, one, several, metrics = converse(talk)
    assert pooled.headers["content-type"] == "application/x-npy"
    found = np.load(io.BytesIO(pooled.content), allow_pickle=False)
    assert found.shape == (4, 12)
    assert (found[1] == 0).all()
    assert np.load(io.BytesIO(one.content)).shape == (3, 3, 12)
    assert several.status_code == 406
    assert "application/x-safetensors" in several.json()["error"]["message"]
    assert "elmo_items_total 5.0\n" in metrics  # what would not be one array is not computed


def test_arrays_come_as_safetensors_with_their_words(post, model):
    accept = {"accept": "application/x-safetensors"}
    response = post("/embed", {"sentences": WORDS}, accept).content
    arrays = load(response)
    for number, expected in enumerate(model.embedder.embed(WORDS)):
        assert_close(arrays[str(number)], expected)
    header = json.loads(response[8 : 8 + int.from_bytes(response[:8], "little")])
    assert json.loads(header["__metadata__"]["words"]) == WORDS


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/embed", {"texts": ["the cat sat"] * 500, "pool": "mean"}),
        ("/predict", {"text": "the cat sat " * 500}),
    ],
)
def test_much_text_is_split_while_others_are_answered(post, model, monkeypatch, path, body):
    threads = set()
    tokenizer = type(model.embedder.tokenizer)
    for name in ("sentences", "words", "each_sentence"):
        split = getattr(tokenizer, name)

        def noting(self, text, split=split):
            threads.add(threading.current_thread().name)
            return split(self, text)

        monkeypatch.setattr(tokenizer, name, noting)
    assert post(path, body).status_code == 200
    assert {name.rpartition("_")[0] for name in threads} == {"splitter"}


def test_batch_mates_change_no_vector(converse, model):
    sentences = [["the"] * (n % 17) + ["cat"] for n in range(48)]

    async def talk(client):
        layers = ["average", "top", 1]
        calls = [
            client.post("/embed", json={"sentences": [words], "layers": layers[n % 3]})
            for n, words in enumerate(sentences)
        ]
        return [response.json() for response in await asyncio.gather(*calls)]

    for n, response in enumerate(converse(talk)):
        expected = model.embedder.embed([sentences[n]], ["average", "top", 1][n % 3])[0]
        assert_close(response["sentences"][0]["vectors"], expected)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "send texts (raw) or sentences"),
        ({"sentences": [["a"]], "texts": ["a"]}, "texts and sentences are given"),
        ({"sentences": []}, "the list is empty"),
        ({"sentences": ["the cat"]}, "sentences.0: Input should be a valid list"),
        ({"sentences": [["a"]], "layer": 1}, "layer: there is no such field; did you mean layers?"),
        ({"sentences": [["a"]], "pool": "sum"}, "pool: Input should be 'none', 'mean' or 'max'"),
        ({"sentences": [["a"]], "mix": {"weights": [1]}}, "1 mix weights were given for 3"),
        ({"sentences": [["a"]], "layers": 1, "mix": {"weights": [1, 1, 1]}}, "send one of them"),
        ({"sentences": [["a"]], "mix": {"weights": ["1"] * 3}}, "mix.weights.0: "),
    ],
)
def test_what_cannot_be_embedded_is_said_in_a_line(refusal, body, message):
    assert message in refusal("/embed", body)


@pytest.mark.parametrize("layers", [3, -1, "best", 1.0, True, None, [0], {}])
def test_layers_that_there_are_not_are_answered_with_those_that_there_are(post, layers):
    response = post("/embed", {"sentences": [["a"]], "layers": layers})
    assert response.status_code == 400
    error = response.json()["error"]
    assert "use 'average', 'sum', 'top', 'all', 0 to 2, or a mix" in error["message"]
    assert error["param"] == "layers"


@pytest.mark.parametrize(
    ("limits", "body", "message"),
    [
        ({"sentences": 2}, {"sentences": [["a"]] * 3}, "3 sentences; send 2 at most"),
        ({"words_per_sentence": 3}, {"sentences": [["a"], ["a"] * 4]}, "sentence 2 has 4 words"),
        ({"words_per_sentence": 3}, {"texts": ["a b c d"]}, "sentence 1 has 4 words"),
        ({"words": 5}, {"sentences": [["a"] * 3] * 2}, "6 words; send 5 at most"),
        ({"characters": 5}, {"texts": ["abcdef"]}, "6 characters; send 5 at most"),
        ({"answer_values": 20}, {"sentences": [["a", "b"]]}, "would be 24 numbers"),
        ({"body_bytes": 20}, {"sentences": [["a", "b"]]}, "longer than 20 bytes"),
    ],
)
def test_more_than_the_limits_is_an_error(post, limits, body, message):
    response = post("/embed", body, limits=Limits(**limits))
    assert response.status_code == 413
    assert message in response.json()["error"]["message"]
    assert ("connection" in response.headers) == ("body_bytes" in limits)


def test_compare_is_what_the_command_gives(post, model):
    sentences = ["A river bank.", "The Bank lends.", "bank"]
    response = post("/compare", {"word": "bank", "sentences": sentences}).json()
    expected = compare_occurrences(model.embedder, "bank", sentences).to_dict()
    assert expected.pop("word") == "bank"
    cosines, found = expected.pop("cosines"), response.pop("cosines")
    assert response == expected
    assert list(found) == list(cosines)
    assert_close(list(found.values()), list(cosines.values()))


def test_compare_shows_static_vectors_first_and_maps_every_word(post, model):
    static = StaticVectors(["river", "bank"], [[1.0, 0.0], [0.0, 1.0]], name="word2vec")
    body = {"sentences": ["a river bank", "the bank"], "positions": [1, 1], "maps": True}
    response = post("/compare", body, model=replace(model, static=static)).json()
    (maps,) = response["maps"]
    name, *layers = response["cosines"]
    assert (name, response["cosines"][name]) == ("word2vec (static)", [0.0])
    assert list(maps) == layers
    for layer in layers:
        assert np.shape(maps[layer]) == (3, 2)
        assert_close(maps[layer][1][1], response["cosines"][layer][0])
    unknown = post("/compare", body | {"positions": [0, 1]}, model=replace(model, static=static))
    assert unknown.json()["cosines"][name] == [None]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"word": "a", "sentences": ["a"]}, "1 sentence; compare a word in 2 to 16"),
        ({"sentences": ["a", "a"]}, "either the word"),
        ({"word": "bank", "sentences": ["bank", "no such"]}, "is not a word of sentence 2"),
        ({"sentences": ["a", "a"], "positions": [0]}, "one position for each"),
        (
            {"sentences": ["a", "a"], "positions": [0, 1]},
            "position is 1, but sentence 2 has 1 word",
        ),
    ],
)
def test_what_cannot_be_compared_is_said_in_a_line(refusal, body, message):
    assert message in refusal("/compare", body)


@pytest.mark.parametrize(
    ("path", "body"),
    [("/neighbours", {"sentence": "a bank", "position": 1}), ("/senses", {"word": "bank"})],
)
def test_without_an_index_it_says_how_to_give_one(refusal, path, body):
    assert refusal(path, body, 404) == "no index is loaded; start with --index"


def test_the_word_whose_neighbours_are_wanted_may_be_marked(post, refusal, model):
    indexed = replace(model, index=SmallIndex())
    response = post("/neighbours", {"text": "A river *bank*.", "top": 1}, model=indexed).json()
    assert (response["words"], response["position"]) == (["A", "river", "bank", "."], 2)
    for body in ({"text": "no mark"}, {"text": "a *b*", "position": 1}, {"sentence": "a"}, {}):
        assert "stars around" in refusal("/neighbours", body, model=indexed)
