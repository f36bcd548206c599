"""Clients of the service: some that never read their responses, and honest ones beside them."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx


def ask_and_stall(address: str, body: object, path: str = "/embed") -> socket.socket:
    """Ask, with hardly a buffer for the response, and read none of it."""
    place = urlsplit(address)
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(30)
    connection.connect((place.hostname, place.port))
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    connection.sendall(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)
    return connection


@contextmanager
def stalled(address: str, count: int, body: object) -> Iterator[None]:
    """So many clients that ask and do not read, and ask again when they will have been cut off."""
    done = threading.Event()

    def stall(number: int) -> None:
        while not done.is_set():
            try:
                with ask_and_stall(address, body):
                    done.wait(20 + number % 20)
            except OSError:
                done.wait(0.2)

    threads = [threading.Thread(target=stall, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()


@contextmanager
def honest(address: str, count: int) -> Iterator[tuple[Counter[str], list[float]]]:
    """So many clients that ask again and again; their statuses, and the seconds of each request."""
    done, statuses, seconds = threading.Event(), Counter[str](), list[float]()

    def ask(number: int) -> None:
        body = {"texts": [f"Client {number} asks. It has a question about the river bank."]}
        with httpx.Client(base_url=address, timeout=90) as client:
            while not done.is_set():
                started = time.monotonic()
                try:
                    found = str(client.post("/embed", json=body).status_code)
                except httpx.HTTPError as error:
                    found = type(error).__name__
                statuses[found] += 1
                seconds.append(time.monotonic() - started)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield statuses, seconds
    finally:
        done.set()
        for thread in threads:
            thread.join()
