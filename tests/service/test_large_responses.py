"""Responses of many numbers: written as their client reads, in pieces that hold nobody up."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from elmokit.service.middleware import PIECE
from elmokit.service.schemas import json_parts, json_response

LARGE = {"sentences": [["the", "cat"] * 20] * 60, "layers": "all"}


def test_a_large_response_is_the_same_in_pieces(post, model):
    response = post("/embed", LARGE)
    assert "content-length" not in response.headers
    expected = model.embedder.embed(LARGE["sentences"], layers="all")
    for row, array in zip(response.json()["sentences"], expected, strict=True):
        np.testing.assert_allclose(row["vectors"], array, atol=1e-5)
        assert row["words"] == LARGE["sentences"][0]
    assert "content-length" in post("/embed", {"sentences": [["a"]]}).headers


@pytest.mark.parametrize(
    "value",
    [
        {"maps": [{"0": np.ones((2, 3), np.float32)}] * 2, "pairs": [(0, 1)], "text": None},
        {"a": np.zeros((3, 0, 2)), "b": np.zeros((0, 2)), "c": [], "d": {}, "e": 'a"b'},
        {"data": [{"embedding": np.arange(4.0)}, {}], "배": [["를"], []]},
    ],
)
def test_parts_of_json_are_those_of_the_whole(value):
    plain = json.loads(json.dumps(value, default=np.ndarray.tolist))
    assert json.loads(b"".join(json_parts(value))) == plain


def test_others_have_their_turn_between_the_pieces_of_a_response():
    """What waits for its client is the arrays, not their JSON, and the event loop goes on."""
    array = np.random.default_rng(0).standard_normal((3, 200, 100), np.float32)
    service = SimpleNamespace(check_room=lambda size: None, unsent_bytes=0)
    turns, sent = [0], []

    async def tick():
        while True:
            turns[0] += 1
            await asyncio.sleep(0)

    async def send(message):
        sent.append((message.get("body", b""), turns[0], service.unsent_bytes))

    async def respond():
        ticking = asyncio.create_task(tick())
        scope = {"app": SimpleNamespace(state=SimpleNamespace(service=service))}
        await json_response({"vectors": array}, [array])(scope, None, send)
        ticking.cancel()

    asyncio.run(respond())
    bodies, at, unsent = zip(*sent[1:], strict=True)
    assert json.loads(b"".join(bodies)) == {"vectors": array.tolist()}
    assert len(bodies) > 10
    assert max(map(len, bodies)) < 1.1 * PIECE
    assert all(later > earlier for earlier, later in pairwise(at))
    assert (set(unsent), service.unsent_bytes) == ({array.nbytes}, 0)
