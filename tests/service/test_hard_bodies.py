from __future__ import annotations

import json
import socket
from urllib.parse import urlsplit

import httpx
import pytest

from elmokit.errors import ConfigError
from elmokit.service.middleware import Limits, resident_bytes

JSON = {"content-type": "application/json"}
MILLION = 10**6
LITTLE = 48 * 2**20
"""Bytes: much less than what is sent, more than what a process takes for its own reasons."""
PATHS = ("/v1/embeddings", "/embed", "/compare", "/predict", "/score", "/neighbours", "/senses")
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
    "many wrong entries": json.dumps({"texts": [1] * MILLION, "sentences": 1}).encode(),
    "a million words": json.dumps({"texts": ["a " * MILLION], "text": "a " * MILLION}).encode(),
    "a million words, apart": json.dumps({"sentences": [["a"] * (MILLION // 2)]}).encode(),
    "many sentences": json.dumps({"sentences": [["a"]] * 20_000, "input": ["a"] * 20_000}).encode(),
    "too long": b'{"input": "' + b"a" * (5 * MILLION) + b'"}',
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_a_hard_body_is_refused_and_the_next_honest_one_answered(converse, name):
    async def talk(client):
        hard = [await client.post(path, content=BODIES[name], headers=JSON) for path in PATHS]
        return hard, await client.post("/embed", json={"texts": ["an honest question"]})

    hard, honest = converse(talk)
    for answer in hard:
        assert 400 <= answer.status_code < 500, answer.text
        message = answer.json()["error"]["message"]
        assert message
        assert len(message) < 500
        assert "\n" not in message
    assert honest.status_code == 200


@pytest.mark.parametrize("word", ["", "\0", "a\0b", "\u202e", "😀" * 50, "<S>", " "])
def test_odd_words_have_vectors_like_others(post, word):
    answer = post("/embed", {"sentences": [[word, "a"]]})
    assert answer.status_code == 200
    assert answer.json()["sentences"][0]["words"] == [word, "a"]
    assert post("/embed", {"texts": [f"a {word} b"]}).status_code == 200


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded"])
def test_what_a_form_of_another_site_could_send_is_refused(converse, kind):
    headers = {} if kind is None else {"content-type": kind}
    body = b'{"texts": ["a"]}'
    answer = converse(lambda client: client.post("/embed", content=body, headers=headers))
    assert answer.status_code == 400
    assert "with the header Content-Type: application/json" in answer.json()["error"]["message"]


def send_raw(address: str, request: bytes, more: bytes = b"", times: int = 0) -> bytes:
    """Send bytes as long as the server takes them; gives what it answers."""
    place = urlsplit(address)
    with socket.create_connection((place.hostname, place.port), timeout=20) as connection:
        try:
            connection.sendall(request)
            for _ in range(times):
                connection.sendall(more)
        except OSError:
            pass  # it has closed: that is its answer
        try:
            return connection.recv(65536)
        except OSError:
            return b""


def test_a_hundred_megabytes_are_not_taken_in(address):
    head = b"POST /embed HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    megabyte = b"x" * 2**20
    before = resident_bytes()
    told = send_raw(address, head + b"content-length: 104857600\r\n\r\n", megabyte, 100)
    assert told.startswith(b"HTTP/1.1 413") or not told
    chunk = b"100000\r\n" + megabyte + b"\r\n"
    untold = send_raw(address, head + b"transfer-encoding: chunked\r\n\r\n", chunk, 100)
    assert untold.startswith(b"HTTP/1.1 413") or not untold
    assert resident_bytes() - before < LITTLE
    assert httpx.get(f"{address}/health").status_code == 200


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: localhost\r\n" + b"x: y\r\n" * 30_000,
        b"GET / HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
    ],
)
def test_what_is_no_request_does_no_harm(address, request_bytes):
    send_raw(address, request_bytes)
    assert httpx.get(f"{address}/health").status_code == 200


def test_ten_thousand_connections_opened_and_dropped_do_no_harm(address):
    place = urlsplit(address)
    before = resident_bytes()
    for _ in range(100):
        opened = []
        for _ in range(100):
            connection = socket.create_connection((place.hostname, place.port), timeout=20)
            opened.append(connection)
        opened[0].sendall(b"POST /embed HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n{")
        for connection in opened:
            connection.close()
    answer = httpx.post(f"{address}/embed", json={"texts": ["an honest question"]}, timeout=20)
    assert answer.status_code == 200
    assert resident_bytes() - before < LITTLE


def test_limits_refuse_what_is_no_limit():
    for wrong in ({"words": 0}, {"request_seconds": -1}, {"sentences": 1.5}):
        with pytest.raises(ConfigError):
            Limits(**wrong)
