"""Listen, serve, and end when told to, after what is being answered."""

from __future__ import annotations

import gc
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import NamedTuple

import uvicorn
from fastapi import FastAPI

from elmokit.errors import InputError
from elmokit.service.application import create_application
from elmokit.service.guard import LOOPBACK
from elmokit.service.keys import Keys
from elmokit.service.limits import Limits
from elmokit.service.logs import log
from elmokit.service.protocol import protocol_with
from elmokit.service.served_model import ServedModel
from elmokit.service.state import Service

SIGNALS = (signal.SIGINT, signal.SIGTERM)
BACKLOG = 2048
KEEP_ALIVE_SECONDS = 75
SWITCH_SECONDS = 0.0005


class DrainingServer(uvicorn.Server):
    """A server that a signal ends in good order, with nothing more to say about it."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Take signals as a wish to stop; they are not raised again when that is done."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class Listening(NamedTuple):
    """A server that has its address, and waits to be run."""

    server: DrainingServer
    listener: socket.socket
    address: str
    failures: list[Exception]  # why the model could not be loaded

    def run(self) -> None:
        """Serve until told to stop."""
        with interpreter_for_serving():
            self.server.run(sockets=[self.listener])
        log(logging.INFO, "stopped", address=self.address)
        if self.failures:
            raise self.failures[0]


def serve(
    load: Callable[[], ServedModel],
    *,
    host: str = "127.0.0.1",
    port: int = 8017,
    limits: Limits | None = None,
    keys: Keys | None = None,
    allowed_hosts: Iterable[str] = (),
    on_ready: Callable[[str, ServedModel], None] | None = None,
) -> Listening:
    """A server of a model; `run` serves until SIGTERM or SIGINT.

    Args:
        load: Gives the model, while the service already tells that it is up.
        host: The address to listen on.
        port: The port; 0 for any that is free.
        limits: What requests may cost.
        keys: The keys that open the service; None where everybody may ask.
        allowed_hosts: Names, beside those of this machine, that it may be asked under.
        on_ready: Told the address and the model when it is loaded.
    """
    limits = limits or Limits()
    listener = listen(host, port)
    address = address_of(listener, host)
    failures: list[Exception] = []

    def loaded(model: ServedModel) -> None:
        log(logging.INFO, "ready", address=address, model=model.name)
        gc.collect()
        gc.freeze()  # the model and its libraries: nothing to look for, a million times over
        if on_ready is not None:
            on_ready(address, model)

    def failed(error: Exception) -> None:
        failures.append(error)
        server.should_exit = True

    service = Service(load, limits, loaded, failed)
    hosts = hosts_of(listener, allowed_hosts, keys)
    server = server_of(create_application(service, keys=keys, hosts=hosts), limits)
    return Listening(server, listener, address, failures)


@contextmanager
def interpreter_for_serving() -> Generator[None, None, None]:
    """Let the model's thread have its turn soon, for the time of a block.

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


def server_of(application: FastAPI, limits: Limits) -> DrainingServer:
    """The server of an application."""
    config = uvicorn.Config(
        application,
        http=protocol_with(limits),
        ws="none",
        backlog=BACKLOG,
        log_config=None,
        log_level=logging.CRITICAL,  # it would quote what clients send
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=round(limits.drain_seconds),
    )
    return DrainingServer(config)


def listen(host: str, port: int) -> socket.socket:
    """A socket that is bound, so that an address that cannot be had is known at once."""
    listener = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        if listener is not None:
            listener.close()
        raise InputError(
            f"{host}, port {port}: cannot be listened on ({error.strerror}); "
            "choose another with --host or --port"
        ) from error
    return listener


def address_of(listener: socket.socket, host: str) -> str:
    """Where a browser finds it."""
    port = listener.getsockname()[1]
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}/"


def hosts_of(
    listener: socket.socket, allowed: Iterable[str], keys: Keys | None
) -> frozenset[str] | None:
    """The names to be asked under: those of this machine, where only this machine can ask.

    Elsewhere, and with a key, any: a page of another site has no key, and cannot be told apart
    from honest names.
    """
    allowed = frozenset(allowed)
    here = listener.getsockname()[0]
    if not allowed and (keys is not None or not is_loopback(here)):
        return None
    return LOOPBACK | {here} | allowed


def is_loopback(address: str) -> bool:
    """Whether an address is of this machine alone."""
    return address == "::1" or address.startswith("127.")
