"""Middleware: what is checked before a request is read: API keys, limits, the host."""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
import time
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import ip_address
from pathlib import Path
from secrets import token_hex

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elmokit.config import Count, Number, Settings
from elmokit.errors import InputError
from elmokit.io.files import read_text
from elmokit.service.errors import RequestError
from elmokit.service.monitoring import ServiceMetrics, log, log_failure

ENVIRONMENT_VARIABLE = "ELMO_API_KEY"
SHORTEST_KEY = 8


class Keys:
    """The API keys of the service; none of them is stored, only its hash.

    >>> keys = Keys(["correct-horse"])
    >>> keys.allow("Bearer correct-horse"), keys.allow("Bearer battery"), keys.allow("")
    (True, False, False)
    """

    def __init__(self, keys: Iterable[str]) -> None:
        self._hashes = [sha256(key.encode()).digest() for key in keys]

    def allow(self, authorization: str) -> bool:
        """Whether the header of a request holds one of the keys."""
        key = key_of(authorization)
        given = sha256(key.encode()).digest()
        # Every key is compared, so that time does not tell which one was near.
        matches = [hmac.compare_digest(given, known) for known in self._hashes]
        return key != "" and any(matches)


def key_of(authorization: str) -> str:
    """The key in the header of a request; empty where there is none."""
    scheme, _, key = authorization.partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


def read_keys(file: str | Path | None, variable: str | None) -> Keys | None:
    """The keys of a file, one per line, else those of an environment variable; None without."""
    text = variable if file is None else read_text(file)
    if text is None:
        return None
    source = file or ENVIRONMENT_VARIABLE
    keys = [line.strip() for line in text.splitlines() if line.strip()]
    if not keys:
        raise InputError(f"{source}: holds no API key; write at least one")
    for number, key in enumerate(keys, start=1):
        if len(key) < SHORTEST_KEY:
            raise InputError(
                f"{source}: key {number} has {len(key)} characters; use at least {SHORTEST_KEY}"
            )
    return Keys(keys)


@dataclass(frozen=True)
class Limits(Settings):
    """Bounds that hold whatever clients send; more is an HTTP error, never cut."""

    # Of one request
    body_bytes: Count = 4 * 2**20
    sentences: Count = 2048  # or texts
    words_per_sentence: Count = 2048
    words: Count = 65536  # of all sentences
    characters: Count = 400_000  # of all texts: they are split before words can be counted
    answer_values: Count = 4 * 2**20  # numbers of its response
    # Of all requests together
    requests: Count = 1024
    buffered_bytes: Count = 64 * 2**20  # of bodies
    answering_bytes: Count = 256 * 2**20  # of responses that clients have not taken in full
    waiting_words: Count = 262_144  # that the model has not come to
    waiting_values: Count = 64 * 2**20  # numbers of the responses
    searches: Count = 32  # questions to the index
    # Times
    gather_seconds: Number = 0.004  # the first request waits for others to be computed with
    request_seconds: Number = 60.0  # until a request has taken its response, or an error
    write_seconds: Number = 20.0  # until a client has taken the next `PIECE` of its response
    drain_seconds: Number = 30.0  # until it ends when it is told to stop

    def allow(self, name: str, more: int, taken: int) -> bool:
        """Whether a request may take more: alone always, else half of what is left to others."""
        return not taken or 2 * more <= getattr(self, name) - taken


PIECE = 1 << 16
"""Bytes of a response that are sent at once; the next when the client has taken those before."""


SECURITY_HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
]
CLIENT_GONE = 499  # the status that is written down where the client has gone before its response

HOST = re.compile(r"(?:\[(?P<address>[^\[\]]+)\]|(?P<name>[^:\[\]]+))(?::[0-9]*)?")
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
OPEN_ROUTES = frozenset({"/", "/docs", "/openapi.json", "/health", "/ready"})
OPEN_FOLDER = "/page/"
BODY_METHODS = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class Guard:
    """Checks requests before the application sees them, and sends and notes what comes of them.

    What nobody waits for is cancelled. `keys` are None where everybody may ask. `hosts` are the
    names that it responds to, None for any: a page of another site whose name points here would be
    let in by the browser, but sends its own name. `root_path` is what a proxy has before every
    path; it may take that away or not.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        metrics: ServiceMetrics,
        limits: Limits,
        keys: Keys | None = None,
        hosts: Iterable[str] | None = None,
        root_path: str = "",
    ) -> None:
        self.app = app
        self.root_path = root_path.strip("/") and f"/{root_path.strip('/')}"
        self.metrics = metrics
        self.limits = limits
        self.keys = keys
        self.hosts = None if hosts is None else frozenset(map(host_name, hosts))
        self.requests = 0
        self.buffered = 0  # bytes of their bodies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request on, or send an HTTP error; what else fails is status 500."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path = scope["path"].removeprefix(self.root_path)
        inside = path if path[:1] in ("", "/") else scope["path"]
        scope.update(root_path=self.root_path, path=self.root_path + inside)
        number = token_hex(8)
        headers = [*SECURITY_HEADERS, (b"x-request-id", number.encode())]
        status, sent = CLIENT_GONE, 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *headers]
            sent += len(message.get("body", b""))
            async with asyncio.timeout(self.limits.write_seconds):
                await send(message)

        started = time.perf_counter()
        try:
            self._check(scope)
            pass_on = self._with_body if scope["method"] in BODY_METHODS else self.app
            await pass_on(scope, receive, send_with_headers)
        except Exception as error:
            expected = isinstance(error, RequestError | TimeoutError)
            if expected and status != CLIENT_GONE:  # it does not take the rest of its response
                status = CLIENT_GONE
                return
            if not isinstance(error, RequestError):
                log_failure("failure", error, request=number)
                message = f"something went wrong; the log knows it as {number}"
                error = RequestError("failure", message, number=number)
            if status == CLIENT_GONE:
                await error.response()(scope, receive, send_with_headers)
        finally:
            self._note(scope, number, status, sent, time.perf_counter() - started)

    def _check(self, scope: Scope) -> None:
        """Check the name that the request is for, and its key."""
        headers = {name: value.decode("utf-8", "replace") for name, value in scope["headers"]}
        if self.hosts is not None and host_name(headers.get(b"host", "")) not in self.hosts:
            problem = "this name is not known here; start the service with --allow-host NAME"
            raise RequestError("unknown_host", problem)
        path = scope["path"].removeprefix(self.root_path)
        if self.keys is None or path in OPEN_ROUTES or path.startswith(OPEN_FOLDER):
            return
        authorization = headers.get(b"authorization", "")
        if not self.keys.allow(authorization):
            problem = "the API key is wrong" if key_of(authorization) else "an API key is needed"
            problem += "; send one as 'Authorization: Bearer KEY'"
            raise RequestError("invalid_api_key", problem)

    async def _with_body(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the complete body, then respond unless the client leaves or the time is up."""
        if self.requests >= self.limits.requests:
            raise RequestError("overloaded", "too many requests at once; try again later")
        self.requests += 1
        seconds = self.limits.request_seconds
        body: bytes | None = None
        try:
            async with asyncio.timeout(seconds):
                body = await self._read(receive)
                if body is not None:
                    self.buffered += len(body)
                    await unless_gone(receive, self.app(scope, replay(body), send))
        except TimeoutError:
            unread = body is None
            late = "the body did not arrive" if unread else "no response"
            message = f"{late} within {seconds:g} s; send less or try later"
            raise RequestError("timeout", message, close=unread, seconds=seconds) from None
        finally:
            self.requests -= 1
            self.buffered -= len(body or b"")

    async def _read(self, receive: Receive) -> bytes | None:
        """The body, read no further than the limits; None where the client has gone."""
        body, more = bytearray(), True
        try:
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return None
                chunk = message.get("body", b"")
                body += chunk
                self.buffered += len(chunk)
                self._check_body(len(body))
                more = message.get("more_body", False)
            return bytes(body)
        finally:
            self.buffered -= len(body)

    def _check_body(self, size: int) -> None:
        """Check what has come of a body, by itself and together with all others."""
        most = self.limits.body_bytes
        if size > most:
            message = f"the body is longer than {most:,} bytes; send it in parts"
            raise RequestError("body_too_long", message, close=True, most=most)
        if self.buffered > max(self.limits.buffered_bytes, size):  # one alone always passes
            message = "too many large bodies at once; try again later"
            raise RequestError("overloaded", message, close=True)

    def _note(self, scope: Scope, number: str, status: int, sent: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "other")
        self.metrics.request(route, status, seconds)
        log(
            logging.INFO,
            "request",
            request=number,
            method=scope["method"],
            route=route,
            status=status,
            milliseconds=round(1000 * seconds, 1),
            bytes=sent,
        )


def replay(body: bytes) -> Receive:
    """Give a body that was read already."""

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


async def unless_gone(receive: Receive, response: Awaitable[None]) -> None:
    """Respond, until the client closes its connection: then nobody wants the response."""

    async def until_gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    responding, gone = asyncio.ensure_future(response), asyncio.create_task(until_gone())
    try:
        await asyncio.wait((responding, gone), return_when=asyncio.FIRST_COMPLETED)
        if responding.done():
            await responding  # raises what it has raised
    finally:
        responding.cancel()
        gone.cancel()


def host_name(text: str) -> str:
    """The name or the IP address of a `Host` header or an `--allow-host`, without its port.

    >>> host_name("LocalHost:8017"), host_name("[::1]:8017"), host_name("0:0::1")
    ('localhost', '::1', '::1')
    >>> host_name("[::1]evil"), host_name("localhost:evil")  # neither is a name of this machine
    ('[::1]evil', 'localhost:evil')
    """
    name = text.strip().lower()
    if found := HOST.fullmatch(name):
        name = found["address"] or found["name"]
    try:
        return str(ip_address(name))
    except ValueError:
        return name
