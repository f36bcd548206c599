"""The server: makes the FastAPI application, listens, serves, stops after requests in progress."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager
from ipaddress import ip_address
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from elmokit import __version__
from elmokit.errors import ConfigError, InputError
from elmokit.service.errors import RequestError, error_response
from elmokit.service.middleware import LOOPBACK, Guard, Keys, Limits
from elmokit.service.monitoring import log
from elmokit.service.routes import routers
from elmokit.service.schemas import Error
from elmokit.service.state import ServedModel, Service
from elmokit.service.tasks import task_router

DESCRIPTION = (
    "Contextual word vectors and word probabilities of a bidirectional language model, and answers "
    "of tasks that were trained on its vectors."
)
ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": Error, "description": "What was wrong with the request."},
    "5XX": {"model": Error, "description": "Too much at once, or not ready: try again later."},
}
NO_TELEMETRY: Any = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}
"""FastAPI would otherwise tell any collector of this process about invalid bodies."""


def create_application(service: Service, **guarding: Any) -> FastAPI:
    """Make the application that starts and stops a service; see `Guard` for the others."""

    @asynccontextmanager
    async def lifespan(application: FastAPI) -> AsyncIterator[None]:
        async with service.running():
            yield

    application = FastAPI(
        title="elmokit",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,  # FastAPI's page loads its scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
        responses=ERRORS,
        telemetry=NO_TELEMETRY,
    )
    application.state.service = service
    for router in (*routers, task_router):
        application.include_router(router)
    for kind in (RequestError, InputError, ConfigError, RequestValidationError, HTTPException):
        application.add_exception_handler(kind, error_response)
    application.add_middleware(Guard, metrics=service.metrics, limits=service.limits, **guarding)
    return application


BACKLOG = 2048
ALL_ADDRESSES = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""What stands for all addresses of a machine, and one of them that can be opened there."""


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens, so that an address that cannot be had is known at once."""
    listener = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        if listener is not None:
            listener.close()
        raise InputError(
            f"{host}, port {port}: cannot be listened on ({error.strerror}); "
            "choose another with --host or --port"
        ) from error
    return listener


def url_of(listener: socket.socket, host: str) -> str:
    """The URL to open in a browser."""
    here, port = listener.getsockname()[:2]
    name = ALL_ADDRESSES.get(here, host)
    return f"http://[{name}]:{port}/" if ":" in name else f"http://{name}:{port}/"


def is_loopback(listener: socket.socket) -> bool:
    """Whether only this machine can reach it."""
    return ip_address(listener.getsockname()[0]).is_loopback


SIGNALS = (signal.SIGINT, signal.SIGTERM)
KEEP_ALIVE_SECONDS = 75
SWITCH_SECONDS = 0.0005
TICKS_PER_SECOND = 10  # of uvicorn
SHARE_OF_DRAINING = 0.8  # of the time to end: for requests in progress, and clients that read
INTERRUPTED = 130  # the exit code after a second Ctrl-C


class ModelServer(uvicorn.Server):
    """A server of a model at `url`; `run` serves until SIGTERM or SIGINT.

    It finishes its requests after a signal; a second Ctrl-C ends it at once. While `load` gets the
    model, it tells already that it is up. Port 0 is any that is free. `on_stopping` is called with
    the number of requests it waits for, 0 for the model to be loaded. The rest is as of `Guard`.
    """

    def __init__(
        self,
        load: Callable[[], ServedModel],
        *,
        host: str = "127.0.0.1",
        port: int = 8017,
        limits: Limits | None = None,
        keys: Keys | None = None,
        allowed_hosts: Iterable[str] = (),
        root_path: str = "",
        on_ready: Callable[[ModelServer], None] = lambda server: None,
        on_stopping: Callable[[int], None] = lambda requests: None,
    ) -> None:
        self.listener = listen(host, port)
        self.url = url_of(self.listener, host)
        self.on_ready, self.on_stopping = on_ready, on_stopping
        self.service = Service(load, limits or Limits(), self.loaded)
        hosts = hosts_of(self.listener, allowed_hosts, keys)
        application = create_application(self.service, keys=keys, hosts=hosts, root_path=root_path)
        self._ending: set[Any] = set()
        super().__init__(config_of(application, self.service.limits))

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until told to stop; raise where the model cannot be loaded."""
        with interpreter_for_serving():
            super().run(sockets or [self.listener])
        if self.service.failure is not None:
            raise self.service.failure
        log(logging.INFO, "stopped", address=self.url)

    def loaded(self) -> None:
        """Tell that the model is there, or stop where it cannot be loaded."""
        if not self.service.ready:
            self.should_exit = True
            return
        log(logging.INFO, "ready", address=self.url, model=self.service.model.name)
        gc.collect()
        gc.freeze()  # the model and its libraries: nothing to look for, a million times over
        self.on_ready(self)

    async def on_tick(self, counter: int) -> bool:
        """Look, every `write_seconds`, for connections that end but whose rest nobody reads."""
        ticks = round(self.service.limits.write_seconds * TICKS_PER_SECOND)
        if counter % max(ticks, 1) == 0:
            every = [connection.transport for connection in self.server_state.connections]
            ending = {transport for transport in every if transport.is_closing()}
            for transport in ending & self._ending:
                transport.abort()
            self._ending = ending
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, and wait for the requests in progress."""
        requests = len(self.server_state.tasks)
        if requests or not (self.service.ready or self.service.failure):
            self.on_stopping(requests)
        self.service.gatherer.ending = True
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            connection.transport.abort()  # nobody reads what is left
        await asyncio.sleep(0)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop; the second Ctrl-C leaves without the model's thread, which cannot be ended."""
        if self.should_exit and sig == signal.SIGINT:
            os._exit(INTERRUPTED)
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Take signals as stop requests; they are not raised again when that is done."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def interpreter_for_serving() -> Generator[None, None, None]:
    """Let the model's thread run soon, for the time of a block.

    After each of its products it waits for the interpreter, which the event loop would keep for
    5 ms at a time: then the model stands still while requests come in.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
        gc.unfreeze()


def config_of(application: FastAPI, limits: Limits) -> uvicorn.Config:
    """How uvicorn serves an application."""
    return uvicorn.Config(
        application,
        http="httptools",
        ws="none",
        backlog=BACKLOG,
        log_config=None,
        log_level=logging.CRITICAL,  # it would quote what clients send
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        # The rest is for what cannot be interrupted: a batch, a slice of a text, a search.
        timeout_graceful_shutdown=round(SHARE_OF_DRAINING * limits.drain_seconds),
    )


def hosts_of(
    listener: socket.socket, allowed: Iterable[str], keys: Keys | None
) -> frozenset[str] | None:
    """The host names to respond to: those of this machine, where only this machine can ask.

    Elsewhere, and with a key, any: a page of another site has no key, and cannot be told apart
    from honest names.
    """
    allowed = frozenset(allowed)
    if not allowed and (keys is not None or not is_loopback(listener)):
        return None
    return LOOPBACK | {listener.getsockname()[0]} | allowed
