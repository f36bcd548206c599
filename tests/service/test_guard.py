from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from elmokit.errors import ElmoError
from elmokit.service.middleware import Guard, Keys, Limits, read_keys
from elmokit.service.monitoring import ServiceMetrics

KEY = "correct-horse"


class Exchange:
    """One request to an ASGI application, its body in chunks."""

    def __init__(self, *chunks: bytes, path: str = "/embed", method: str = "POST", **headers: str):
        self.scope: dict[str, Any] = {
            "type": "http",
            "method": method,
            "path": path,
            "headers": [
                (name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()
            ],
        }
        self.messages = [
            {"type": "http.request", "body": chunk, "more_body": n < len(chunks) - 1}
            for n, chunk in enumerate(chunks or (b"",))
        ]
        self.gone = asyncio.Event()
        self.sent: list[dict[str, Any]] = []

    async def receive(self) -> dict[str, Any]:
        if self.messages:
            return self.messages.pop(0)
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    @property
    def status(self) -> int:
        return self.sent[0]["status"]

    @property
    def error(self) -> str:
        return json.loads(self.sent[1]["body"])["error"]["message"]


async def echo(scope, receive, send):
    """Answers with the body."""
    body = (await receive())["body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


async def never(scope, receive, send):
    """Answers never."""
    await receive()
    await asyncio.sleep(60)


def ask(make, app=echo, limits: Limits | None = None, **settings: Any) -> Exchange:
    """Send one request through a guard."""

    async def run() -> Exchange:
        exchange = make()
        guard = Guard(app, metrics=ServiceMetrics(), limits=limits or Limits(), **settings)
        await asyncio.wait_for(guard(exchange.scope, exchange.receive, exchange.send), 10)
        assert (guard.requests, guard.buffered) == (0, 0)
        return exchange

    return asyncio.run(run())


def test_a_body_in_chunks_arrives_whole():
    exchange = ask(lambda: Exchange(b"ab", b"", b"cd"))
    assert exchange.sent[1]["body"] == b"abcd"


def test_a_body_is_read_no_further_than_the_limit():
    exchange = ask(lambda: Exchange(*[b"x" * 10] * 100), limits=Limits(body_bytes=35))
    assert exchange.status == 413
    assert len(exchange.messages) == 96
    assert (b"connection", b"close") in exchange.sent[0]["headers"]


@pytest.mark.parametrize("chunks", [1, 2])  # of which one comes
@pytest.mark.parametrize(
    ("limits", "closed"), [({"requests": 1}, False), ({"buffered_bytes": 15}, True)]
)
def test_requests_and_bodies_at_once_are_bounded(chunks, limits, closed):
    async def run() -> Exchange:
        guard = Guard(never, metrics=ServiceMetrics(), limits=Limits(**limits))
        first, second = Exchange(*[b"x" * 20] * chunks), Exchange(b"x" * 10)  # alone all may come
        del first.messages[1:]
        waiting = asyncio.create_task(guard(first.scope, first.receive, first.send))
        await asyncio.sleep(0.01)
        await guard(second.scope, second.receive, second.send)
        first.gone.set()
        await waiting
        assert guard.buffered == 0
        return second

    exchange = asyncio.run(run())
    assert exchange.status == 503
    assert (b"retry-after", b"1") in exchange.sent[0]["headers"]
    assert ((b"connection", b"close") in exchange.sent[0]["headers"]) == closed


def test_responses_that_clients_have_not_taken_are_bounded(converse):
    async def talk(client):
        service = client._transport.app.state.service
        service.unsent_bytes = 1
        late = await client.get("/health")
        service.unsent_bytes = 0
        alone = await client.get("/health")
        return late, alone, service.unsent_bytes

    late, alone, unsent = converse(talk, limits=Limits(answering_bytes=2))
    assert (late.status_code, alone.status_code, unsent) == (503, 200, 0)
    assert late.headers["retry-after"] == "1"


@pytest.mark.parametrize(("chunks", "left"), [([b"x"], [True]), ([b"x", b"y"], [])])
def test_when_the_client_goes_its_work_is_left(chunks, left):
    found = []

    async def work(scope, receive, send):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            found.append(True)
            raise

    def make() -> Exchange:
        exchange = Exchange(*chunks)
        exchange.messages = exchange.messages[:1]
        exchange.gone.set()
        return exchange

    assert ask(make, work).sent == []
    assert found == left


@pytest.mark.parametrize(
    ("chunks", "late"), [([b"x"], "no response"), ([b"x", b"y"], "the body did not arrive")]
)
def test_a_response_or_a_body_that_takes_too_long_is_given_up(chunks, late):
    def make() -> Exchange:
        exchange = Exchange(*chunks)
        exchange.messages = exchange.messages[:1]
        return exchange

    exchange = ask(make, never, Limits(request_seconds=0.02))
    assert exchange.status == 503
    assert f"{late} within 0.02 s" in exchange.error
    closed = (b"connection", b"close") in exchange.sent[0]["headers"]
    assert closed == (len(chunks) == 2)


def test_whoever_cancels_the_service_itself_is_heard():
    async def run() -> None:
        exchange = Exchange()
        guard = Guard(never, metrics=ServiceMetrics(), limits=Limits())
        task = asyncio.create_task(guard(exchange.scope, exchange.receive, exchange.send))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        (f"Bearer {KEY}", 200),
        (f"bearer {KEY}", 200),
        ("Bearer 열려라-참깨-열려라", 200),
        (f"Basic {KEY}", 401),
        (f"Bearer {KEY}x", 401),
        ("\xff\xfe", 401),
    ],
)
def test_only_the_key_opens(authorization, status):
    def make() -> Exchange:
        return Exchange(authorization=authorization)

    exchange = ask(make, keys=Keys([KEY, "열려라-참깨-열려라"]))
    assert exchange.status == status
    if status == 401:
        wrong = authorization == f"Bearer {KEY}x"
        assert exchange.error.startswith(
            "the API key is wrong" if wrong else "an API key is needed"
        )
    assert KEY not in str(exchange.sent[1]["body"])


@pytest.mark.parametrize(
    ("path", "status"),
    [("/", 200), ("/health", 200), ("/page/app.js", 200), ("/metrics", 401), ("/model", 401)],
)
def test_the_page_and_health_need_no_key(path, status):
    exchange = ask(lambda: Exchange(path=path, method="GET"), keys=Keys([KEY]))
    assert exchange.status == status


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8017", 200),
        ("LOCALHOST", 200),
        ("[::1]:8000", 200),
        ("[0:0::1]", 200),
        ("evil.example", 421),
        ("[::2]:8000", 421),
        ("[::1]evil", 421),
        ("localhost:evil", 421),
        ("", 421),
    ],
)
def test_only_known_host_names_have_a_response(host, status):
    hosts = ["localhost", "[::1]"]
    assert ask(lambda: Exchange(host=host), hosts=hosts).status == status


def test_each_line_of_a_file_is_a_key(tmp_path):
    file = tmp_path / "keys.txt"
    file.write_text("first-key-of-two\n\n  second-key-of-two \n")
    keys = read_keys(file, "not-used-at-all")
    assert keys is not None
    assert keys.allow("Bearer first-key-of-two")
    assert keys.allow("Bearer second-key-of-two")
    assert not keys.allow("Bearer not-used-at-all")
    assert "first" not in repr(keys) + str(vars(keys))


def test_without_a_file_the_variable_counts_and_without_both_nothing():
    keys = read_keys(None, "from-environment")
    assert keys is not None
    assert keys.allow("Bearer from-environment")
    assert read_keys(None, None) is None


@pytest.mark.parametrize(
    ("contents", "message"),
    [(b"", "is empty"), (b"short", "at least 8"), (b"\xff\xfe\xff\xfe", "not UTF-8")],
)
def test_a_file_without_good_keys_is_an_error_unquoted(tmp_path, contents, message):
    file = tmp_path / "keys.txt"
    file.write_bytes(contents)
    with pytest.raises(ElmoError, match=message) as error:
        read_keys(file, None)
    assert "short" not in str(error.value)
    with pytest.raises(ElmoError, match="cannot be read"):
        read_keys(tmp_path / "none.txt", None)
