"""HTTP over one connection, as uvicorn speaks it, with an end to what may be left unsaid."""

from __future__ import annotations

import asyncio
from asyncio import TimerHandle

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from elmokit.service.limits import Limits


def protocol_with(limits: Limits) -> type[asyncio.Protocol]:
    """The protocol of a server that drops connections which never say what they want."""

    class BoundedProtocol(HttpToolsProtocol):
        """Closes a connection whose head takes too long, or is too long."""

        head_bytes = 0
        deadline: TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._expect_head()

        def data_received(self, data: bytes) -> None:
            if self._is_idle():
                if self.deadline is None:
                    self._expect_head()
                self.head_bytes += len(data)
            super().data_received(data)
            if not self._is_idle():
                self._forget_head()
            elif self.head_bytes > limits.header_bytes:
                self.transport.close()

        def connection_lost(self, exc: Exception | None) -> None:
            self._forget_head()
            super().connection_lost(exc)

        def _is_idle(self) -> bool:
            """Whether the head of a request is awaited."""
            return self.cycle is None or self.cycle.response_complete

        def _expect_head(self) -> None:
            self.deadline = self.loop.call_later(limits.header_seconds, self._close_if_idle)

        def _forget_head(self) -> None:
            self.head_bytes = 0
            if self.deadline is not None:
                self.deadline.cancel()
                self.deadline = None

        def _close_if_idle(self) -> None:
            self.deadline = None
            if self._is_idle():
                self.transport.close()

    return BoundedProtocol
