from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from urllib.parse import urlsplit

import httpx
import pytest

from elmokit.service import reading
from elmokit.service.middleware import Limits
from elmokit.text.tokenizer import Token

JSON = {"content-type": "application/json"}
MILLION = 10**6
MEMORY = "process_resident_memory_bytes "
LITTLE = 48 * 2**20
"""Bytes: much less than what is sent, more than what a process takes for its own reasons."""
PATHS = ("/v1/embeddings", "/embed", "/compare", "/predict", "/score", "/neighbours", "/senses")
TASKS = ("/tasks/spam", "/tasks/nli", "/tasks/srl")
BODIES = {
    "nothing": b"",
    "one byte": b"x",
    "a number": b"1",
    "null": b"null",
    "a list": b"[]",
    "half an object": b'{"input": "a',
    "not UTF-8": b'{"input": "\xff\xfe", "texts": ["\xff"], "text": "\xff"}',
    "deep lists": b'{"input": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "a long number": b'{"top": ' + b"9" * 100_000 + b"}",
    "NaN": b'{"sentences": [["a"]], "mix": {"weights": [NaN, 1, 1]}, "text": "a", "top": NaN}',
    "infinity": b'{"sentences": [["a"]], "mix": {"weights": [1e999, 1, 1]}, "input": 1e999}',
    "a lone surrogate": b'{"texts": ["\\ud800"], "text": "\\ud800", "input": "\\ud800"}',
    "a surrogate as a name": b'{"\\ud800": 1}',
    "line breaks in a name": b'{"a\\fb\\n\\u2028": 1}',
    "many wrong entries": json.dumps({"texts": [1] * MILLION, "sentences": 1}).encode(),
    "a million words": json.dumps({"texts": ["a " * MILLION], "text": "a " * MILLION}).encode(),
    "a million words, apart": json.dumps({"sentences": [["a"] * (MILLION // 2)]}).encode(),
    "many sentences": json.dumps({"sentences": [["a"]] * 20_000, "input": ["a"] * 20_000}).encode(),
    "too long": b'{"input": "' + b"a" * (5 * MILLION) + b'"}',
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_a_hard_body_is_an_error_and_the_next_honest_one_has_its_response(
    converse, answering, name
):
    async def talk(client):
        paths = (*PATHS, *TASKS)
        hard = [await client.post(path, content=BODIES[name], headers=JSON) for path in paths]
        return hard, await client.post("/embed", json={"texts": ["an honest question"]})

    hard, honest = converse(talk, model=answering)
    for response in hard:
        assert 400 <= response.status_code < 500, response.text
        message = response.json()["error"]["message"]
        assert message
        assert len(message) < 500
        assert "\n" not in message
    assert honest.status_code == 200


@pytest.mark.parametrize("word", ["", "\0", "a\0b", "\u202e", "😀" * 50, "<S>", " "])
def test_odd_words_have_vectors_like_others(post, word):
    response = post("/embed", {"sentences": [[word, "a"]]})
    assert response.status_code == 200
    assert response.json()["sentences"][0]["words"] == [word, "a"]
    assert post("/embed", {"texts": [f"a {word} b"]}).status_code == 200


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded"])
def test_what_a_form_of_another_site_could_send_is_an_error(converse, kind):
    headers = {} if kind is None else {"content-type": kind}
    body = b'{"texts": ["a"]}'
    response = converse(lambda client: client.post("/embed", content=body, headers=headers))
    assert response.status_code == 400
    assert "with the header Content-Type: application/json" in response.json()["error"]["message"]


def resident_bytes(address: str) -> int:
    """Memory of the process that serves, as it tells."""
    lines = httpx.get(f"{address}/metrics").text.splitlines()
    return next(int(float(line.split()[1])) for line in lines if line.startswith(MEMORY))


def send_raw(address: str, request: bytes, more: bytes = b"", times: int = 0) -> bytes:
    """Send bytes as long as the server takes them; gives its response."""
    place = urlsplit(address)
    with socket.create_connection((place.hostname, place.port), timeout=20) as connection:
        try:
            connection.sendall(request)
            for _ in range(times):
                connection.sendall(more)
        except OSError:
            pass  # it has closed: that is its response
        try:
            return connection.recv(65536)
        except OSError:
            return b""


def test_a_hundred_megabytes_are_not_taken_in(address):
    head = b"POST /embed HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    megabyte = b"x" * 2**20
    before = resident_bytes(address)
    told = send_raw(address, head + b"content-length: 104857600\r\n\r\n", megabyte, 100)
    assert told.startswith(b"HTTP/1.1 413") or not told
    chunk = b"100000\r\n" + megabyte + b"\r\n"
    untold = send_raw(address, head + b"transfer-encoding: chunked\r\n\r\n", chunk, 100)
    assert untold.startswith(b"HTTP/1.1 413") or not untold
    assert resident_bytes(address) - before < LITTLE
    assert httpx.get(f"{address}/health").status_code == 200


@pytest.mark.parametrize("host", ["[::1]evil", "localhost:evil", "[::1", "evil.example"])
def test_the_name_of_another_site_is_refused_as_it_comes(address, host):
    request = f"GET /health HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"
    assert send_raw(address, request.encode()).startswith(b"HTTP/1.1 421")


def test_texts_are_split_in_turn_and_no_further_than_the_words_allowed(converse, monkeypatch):
    done = threading.Event()

    def each_sentence(text, tokenizer):
        while text == "endless":
            yield [Token("a", 0, 1)]
        while text == "long" and not done.wait(0.001):
            yield []
        yield [Token(word, 0, 1) for word in text.split()]

    async def in_turn(client):
        long = asyncio.create_task(client.post("/split", json={"texts": ["long"]}))
        await asyncio.sleep(0.1)
        short = await client.post("/split", json={"texts": ["a cat"]})
        healthy = await client.get("/health")
        beside = not long.done()
        done.set()
        endless = await client.post("/split", json={"texts": ["endless"]})
        return short, healthy, beside, await long, endless

    monkeypatch.setattr(reading, "each_sentence", each_sentence)
    found = converse(lambda client: asyncio.wait_for(in_turn(client), 30), limits=Limits(words=99))
    short, healthy, beside, long, endless = found
    assert short.json() == {"texts": [[["a", "cat"]]]}
    assert (healthy.status_code, beside, long.status_code) == (200, True, 200)
    assert endless.status_code == 413
    assert endless.json()["error"]["code"] == "too_many_words"


@pytest.mark.parametrize(("name", "size"), [("default", 129), ("kiwi", 1)])
def test_a_tokenizer_that_stands_still_holds_nobody(converse, model, monkeypatch, name, size):
    done = threading.Event()

    def each_sentence(text, tokenizer):
        done.wait(20)
        yield [Token(text, 0, len(text))]

    async def beside(client):
        slow = asyncio.create_task(client.post("/split", json={"texts": ["x" * size]}))
        await asyncio.sleep(0.1)
        healthy = await client.get("/health")
        waiting = not slow.done()
        done.set()
        return healthy.status_code, waiting, (await slow).status_code

    monkeypatch.setattr(type(model.embedder.tokenizer), "name", name)
    monkeypatch.setattr(reading, "each_sentence", each_sentence)
    assert converse(beside) == (200, True, 200)


def test_texts_that_take_long_to_split_hold_nobody(address):
    split = []

    def send():
        split.append(
            httpx.post(f"{address}/split", json={"texts": ["(a) " * 1000] * 20}, timeout=60)
        )

    seconds, thread = [], threading.Thread(target=send)
    thread.start()
    while thread.is_alive():
        started = time.monotonic()
        assert httpx.get(f"{address}/health").status_code == 200
        seconds.append(time.monotonic() - started)
    assert split[0].status_code == 200
    assert max(seconds) < 1, "the event loop waited"


def test_many_different_texts_are_split_in_one_request(converse):
    texts = [f"cat {number}" for number in range(1200)]
    found = converse(lambda client: client.post("/split", json={"texts": texts}))
    assert found.json() == {"texts": [[text.split()] for text in texts]}
