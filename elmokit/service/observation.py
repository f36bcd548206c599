"""Around every answer: its headers, its place in the metrics and in the log."""

from __future__ import annotations

import logging
import time
from secrets import token_hex

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elmokit.service.guard import send_json
from elmokit.service.logs import log, log_failure
from elmokit.service.metrics import Metrics
from elmokit.service.refusals import refusal_body

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
SECURITY_HEADERS = [
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
]
LEFT = 499
"""What is written down where the client has gone before its answer."""


class Observation:
    """Gives each request a number, and notes what became of it.

    Args:
        app: The application behind.
        metrics: Where requests are counted.
    """

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        number = token_hex(8)
        headers = [*SECURITY_HEADERS, (b"x-request-id", number.encode())]
        status, sent = LEFT, 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *headers]
            else:
                sent += len(message.get("body", b""))
            await send(message)

        started = time.perf_counter()
        try:
            await self.app(scope, receive, send_with_headers)
        except Exception as error:
            log_failure("failure", error, request=number)
            if status == LEFT:
                message = f"something went wrong here; the log knows it as {number}"
                await send_json(send_with_headers, 500, refusal_body(500, message), {})
        finally:
            self._note(scope, number, status, sent, time.perf_counter() - started)

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
