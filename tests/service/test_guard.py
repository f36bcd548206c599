from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from elmokit.service.middleware import Guard, Keys, Limits, RequestError
from elmokit.service.schemas import BoundedResponse

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
        guard = Guard(app, limits=limits or Limits(), **settings)
        await asyncio.wait_for(guard(exchange.scope, exchange.receive, exchange.send), 10)
        assert (guard.requests, guard.buffered) == (0, 0)
        return exchange

    return asyncio.run(run())


def test_a_body_in_chunks_arrives_whole():
    exchange = ask(lambda: Exchange(b"ab", b"", b"cd"))
    assert exchange.sent[1]["body"] == b"abcd"


def test_a_body_that_says_it_is_too_long_is_not_read():
    exchange = ask(lambda: Exchange(b"x", content_length="1000"), limits=Limits(body_bytes=999))
    assert exchange.status == 413
    assert len(exchange.messages) == 1
    assert (b"connection", b"close") in exchange.sent[0]["headers"]


def test_a_body_that_does_not_say_is_read_no_further_than_the_limit():
    exchange = ask(lambda: Exchange(*[b"x" * 10] * 100), limits=Limits(body_bytes=35))
    assert exchange.status == 413
    assert len(exchange.messages) == 96


@pytest.mark.parametrize("length", ["nonsense", "-1", "9" * 5000])
def test_a_length_that_is_none_is_no_failure(length):
    assert ask(lambda: Exchange(b"x", content_length=length)).status in (200, 413)


def test_bodies_of_all_requests_together_are_bounded():
    async def run() -> Exchange:
        guard = Guard(never, limits=Limits(buffered_bytes=15))
        first, second = Exchange(b"x" * 10), Exchange(b"x" * 10)
        waiting = asyncio.create_task(guard(first.scope, first.receive, first.send))
        await asyncio.sleep(0.01)
        await guard(second.scope, second.receive, second.send)
        first.gone.set()
        await waiting
        return second

    assert asyncio.run(run()).status == 503


def test_requests_at_once_are_bounded():
    async def run() -> Exchange:
        guard = Guard(never, limits=Limits(requests=1))
        first, second = Exchange(), Exchange()
        waiting = asyncio.create_task(guard(first.scope, first.receive, first.send))
        await asyncio.sleep(0.01)
        await guard(second.scope, second.receive, second.send)
        first.gone.set()
        await waiting
        return second

    exchange = asyncio.run(run())
    assert exchange.status == 503
    assert (b"retry-after", b"1") in exchange.sent[0]["headers"]


def test_responses_that_clients_do_not_take_are_bounded():
    async def run() -> tuple[Exchange, int]:
        service = SimpleNamespace(unsent_bytes=0, limits=Limits(answering_bytes=15))
        slow, late = Exchange(), Exchange()
        for exchange in (slow, late):
            exchange.scope["app"] = SimpleNamespace(state=SimpleNamespace(service=service))
        taken = asyncio.Event()

        async def take_slowly(message: dict[str, Any]) -> None:
            await slow.send(message)
            await taken.wait()

        response = BoundedResponse(b"x" * 10)
        waiting = asyncio.create_task(response(slow.scope, slow.receive, take_slowly))
        await asyncio.sleep(0.01)
        with pytest.raises(RequestError, match="too many large responses") as error:
            await response(late.scope, late.receive, late.send)
        taken.set()
        await waiting
        assert late.sent == []
        assert service.unsent_bytes == 0
        return slow, error.value.status

    slow, status = asyncio.run(run())
    assert (slow.status, status) == (200, 503)


def test_a_response_that_there_is_no_room_for_is_an_error(converse):
    async def talk(client):
        service = client._transport.app.state.service
        service.unsent_bytes = 1
        return await client.get("/health")

    response = converse(talk, limits=Limits(answering_bytes=2))
    assert response.status_code == 503
    assert response.headers["retry-after"] == "1"


def test_when_the_client_goes_its_work_is_left():
    left = []

    async def work(scope, receive, send):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            left.append(True)
            raise

    def make() -> Exchange:
        exchange = Exchange(b"x")
        exchange.gone.set()
        return exchange

    assert ask(make, work).sent == []
    assert left == [True]


def test_a_client_that_goes_in_the_middle_of_its_body_is_forgotten():
    def make() -> Exchange:
        exchange = Exchange(b"x", b"y")
        exchange.messages.pop()
        exchange.gone.set()
        return exchange

    assert ask(make).sent == []


def test_an_answer_that_takes_too_long_is_given_up():
    exchange = ask(Exchange, never, Limits(request_seconds=0.02))
    assert exchange.status == 503
    assert "no response within 0.02 s" in exchange.error


def test_a_body_that_never_ends_is_given_up():
    def make() -> Exchange:
        exchange = Exchange(b"x", b"y")
        exchange.messages.pop()
        return exchange

    exchange = ask(make, limits=Limits(request_seconds=0.02))
    assert exchange.status == 408
    assert "did not arrive in time" in exchange.error


def test_whoever_cancels_the_service_itself_is_heard():
    async def run() -> None:
        exchange = Exchange()
        guard = Guard(never, limits=Limits())
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
        ("Bearer ", 401),
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
        ("", 421),
    ],
)
def test_only_known_names_are_answered_to(host, status):
    hosts = ["localhost", "[::1]"]
    assert ask(lambda: Exchange(host=host), hosts=hosts).status == status
