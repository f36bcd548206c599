"""The address that is listened on, had before PyTorch and a model are loaded for nothing."""

from __future__ import annotations

import socket

from elmokit.errors import InputError

BACKLOG = 2048
ALL_ADDRESSES = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""For what listens on all addresses of a machine: the one to open there."""


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


def address_of(listener: socket.socket, host: str) -> str:
    """Where a browser finds it."""
    here, port = listener.getsockname()[:2]
    name = ALL_ADDRESSES.get(here, host)
    return f"http://[{name}]:{port}/" if ":" in name else f"http://{name}:{port}/"


def is_everywhere(listener: socket.socket) -> bool:
    """Whether it listens on all addresses of this machine."""
    return listener.getsockname()[0] in ALL_ADDRESSES


def is_loopback(listener: socket.socket) -> bool:
    """Whether only this machine can reach it."""
    address: str = listener.getsockname()[0]
    return address == "::1" or address.startswith("127.")
