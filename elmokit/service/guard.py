"""What is let in: who asks, under which name, and with how large a body."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elmokit.service.keys import Keys, key_of
from elmokit.service.limits import Limits
from elmokit.service.refusals import Refusal

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
OPEN_ROUTES = frozenset({"/", "/docs", "/openapi.json", "/health", "/ready"})
OPEN_FOLDER = "/page/"
BODY_METHODS = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class Guard:
    """Refuses what the application should not see, and leaves what nobody waits for any more.

    Args:
        app: The application behind.
        limits: How large a body may be, and how long an answer may take.
        keys: The keys that open it; None where everybody may ask.
        hosts: The names it may be asked under; None for any. A page of another site whose name
            points here would be let in by the browser, but sends its own name.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        limits: Limits,
        keys: Keys | None = None,
        hosts: Iterable[str] | None = None,
    ) -> None:
        self.app = app
        self.limits = limits
        self.keys = keys
        self.hosts = None if hosts is None else frozenset(host.lower() for host in hosts)
        self.requests = 0
        self.buffered = 0
        self.answering = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answer = Answer(self, send)
        try:
            self._check(scope)
            if scope["method"] in BODY_METHODS:
                await self._with_body(scope, receive, answer)
            else:
                await self.app(scope, receive, answer)
        except Refusal as refusal:
            if not answer.started:
                await send_refusal(refusal, answer, close=refusal.status in (408, 413))

    def _check(self, scope: Scope) -> None:
        headers = dict(scope["headers"])
        if self.hosts is not None and host_of(headers.get(b"host", b"")) not in self.hosts:
            raise Refusal(
                421, "this name is not known here; start the service with --allow-host NAME"
            )
        path = scope["path"]
        if self.keys is None or path in OPEN_ROUTES or path.startswith(OPEN_FOLDER):
            return
        authorization = headers.get(b"authorization", b"").decode("utf-8", "replace")
        if not self.keys.allow(authorization):
            given = key_of(authorization)
            problem = "the API key is wrong" if given else "an API key is needed"
            raise Refusal(401, f"{problem}; send one as 'Authorization: Bearer KEY'")

    async def _with_body(self, scope: Scope, receive: Receive, answer: Answer) -> None:
        """Read the body whole, then answer unless the client goes or the time is up."""
        if self.requests >= self.limits.requests:
            raise Refusal(503, "too many requests at once; try again later", retry_after=1)
        self.requests += 1
        reader = BodyReader(self, receive)
        try:
            async with asyncio.timeout(self.limits.request_seconds):
                body = await reader.read(scope)
                if body is None:
                    return
                async with left_when_gone(receive):
                    await self.app(scope, replay(body, receive), answer)
        except TimeoutError:
            if not reader.whole:
                raise Refusal(408, "the body did not arrive in time; send it faster") from None
            raise Refusal(
                503,
                f"not answered within {self.limits.request_seconds:g} s; send less or try later",
                retry_after=1,
            ) from None
        finally:
            self.requests -= 1
            self.buffered -= reader.held


class Answer:
    """Passes an answer on, unless too many others wait for their clients to take them."""

    def __init__(self, guard: Guard, send: Send) -> None:
        self.guard = guard
        self.send = send
        self.head: Message | None = None
        self.started = False

    async def __call__(self, message: Message) -> None:
        """Pass one message on; the head waits for the body, whose size decides."""
        if message["type"] == "http.response.start":
            self.head = message
            return
        size = len(message.get("body", b""))
        if not self.started and not self._has_room(size):
            self.head = None
            self.started = True
            refusal = Refusal(503, "too many large answers at once; try later", retry_after=1)
            await send_refusal(refusal, self.send, close=False)
        elif self.head is not None:
            await self._pass_on(message, size)

    def _has_room(self, size: int) -> bool:
        waiting = self.guard.answering
        return not waiting or waiting + size <= self.guard.limits.answering_bytes

    async def _pass_on(self, message: Message, size: int) -> None:
        self.guard.answering += size
        try:
            if not self.started:
                self.started = True
                assert self.head is not None
                await self.send(self.head)
            await self.send(message)
        finally:
            self.guard.answering -= size


class BodyReader:
    """Reads the body of a request into memory, no further than the limits go."""

    def __init__(self, guard: Guard, receive: Receive) -> None:
        self.guard = guard
        self.receive = receive
        self.held = 0
        self.whole = False

    async def read(self, scope: Scope) -> bytes | None:
        """The body; None where the client has gone."""
        self._expect(dict(scope["headers"]).get(b"content-length", b"0"))
        chunks = []
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                return None
            chunk = message.get("body", b"")
            self._hold(len(chunk))
            chunks.append(chunk)
            if not message.get("more_body"):
                self.whole = True
                return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def _expect(self, length: bytes) -> None:
        """Refuse what says itself that it is too long, before it comes."""
        if length.isdigit() and int(length[:20]) > self.guard.limits.body_bytes:
            self._refuse()

    def _hold(self, count: int) -> None:
        """Account for so many bytes more."""
        limits = self.guard.limits
        self.held += count
        self.guard.buffered += count
        if self.held > limits.body_bytes:
            self._refuse()
        if self.guard.buffered > limits.buffered_bytes:
            raise Refusal(503, "too much is being sent at once; try again later", retry_after=1)

    def _refuse(self) -> None:
        most = self.guard.limits.body_bytes
        raise Refusal(413, f"the body is longer than {most:,} bytes; send it in parts")


def replay(body: bytes, receive: Receive) -> Receive:
    """A body that was read already, then whatever comes after it."""
    read = False

    async def receive_again() -> Message:
        nonlocal read
        if read:
            return await receive()
        read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


@asynccontextmanager
async def left_when_gone(receive: Receive) -> AsyncIterator[None]:
    """Leave the block when the client closes its connection: nobody wants the answer."""
    waiting = asyncio.current_task()
    assert waiting is not None
    gone = False

    async def watch() -> None:
        nonlocal gone
        while (await receive())["type"] != "http.disconnect":
            pass
        gone = True
        waiting.cancel()

    watcher = asyncio.create_task(watch())
    try:
        yield
    except asyncio.CancelledError:
        if not gone:
            raise
        waiting.uncancel()
    finally:
        watcher.cancel()


def host_of(header: bytes) -> str:
    """The name in a `Host` header, without its port.

    >>> host_of(b"LocalHost:8017"), host_of(b"[::1]:8017")
    ('localhost', '[::1]')
    """
    text = header.decode("latin-1").lower()
    return text.partition("]")[0] + "]" if text.startswith("[") else text.partition(":")[0]


async def send_refusal(refusal: Refusal, send: Send, *, close: bool) -> None:
    """Answer with a refusal; `close` where the rest of the body will not be read."""
    await send_json(send, refusal.status, refusal.body(), refusal.headers, close=close)


async def send_json(
    send: Send, status: int, content: Any, headers: dict[str, str], *, close: bool = False
) -> None:
    """Answer with JSON, outside of the application."""
    body = json.dumps(content).encode()
    fields = {"content-type": "application/json", "content-length": str(len(body))} | headers
    if close:
        fields["connection"] = "close"
    encoded = [(name.encode(), value.encode()) for name, value in fields.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})
