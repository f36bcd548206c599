from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from urllib.parse import urlsplit

import httpx
import pytest
from helpers import error_of, loaded_by
from service.small_services import running

from elmokit.errors import InputError
from elmokit.service.middleware import Guard, Limits
from elmokit.service.server import ModelServer, hosts_of, listen


def test_a_client_that_goes_frees_its_place(model):
    body = json.dumps({"sentences": [["the", "cat"] * 500] * 60, "pool": "mean"}).encode()
    head = b"POST /embed HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    request = head + b"content-length: %d\r\n\r\n" % len(body) + body
    with running(lambda: model) as address:
        place = urlsplit(address)
        with socket.create_connection((place.hostname, place.port), timeout=10) as connection:
            connection.sendall(request)
            until(lambda: gauge(address, "waiting_requests") == 1)
        until(lambda: gauge(address, "waiting_words") == 0)
        counted = httpx.get(f"{address}/metrics").text
        assert 'route="/embed",status="499"} 1.0' in counted
        assert gauge(address, "words_total") < 60_000


def until(condition, seconds: float = 20) -> None:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def gauge(address: str, name: str) -> int:
    """A number of the metrics."""
    for line in httpx.get(f"{address}/metrics").text.splitlines():
        if line.startswith(f"elmo_{name} "):
            return int(float(line.split()[1]))
    raise AssertionError(name)


def test_a_model_that_cannot_be_loaded_ends_the_service():
    def load():
        raise InputError("there is no such model")

    assert "no such model" in error_of(ModelServer(load, port=0).run, kind=InputError)


LOADING_FOR_EVER = """
import threading
from elmokit.service.server import ModelServer

def load():
    print("loading", flush=True)
    threading.Event().wait()

def waits(requests):
    print("waits", requests, flush=True)

ModelServer(load, port=0, on_stopping=waits).run()
"""


def test_a_second_ctrl_c_leaves_at_once():
    command = [sys.executable, "-c", LOADING_FOR_EVER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "loading\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "waits 0\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130


def test_a_port_that_is_taken_is_one_line():
    taken = listen("127.0.0.1", 0)
    with pytest.raises(InputError, match=r"cannot be listened on .* choose another"):
        listen("127.0.0.1", taken.getsockname()[1])
    taken.close()
    assert "cannot be listened on" in error_of(listen, "no.such.host.invalid", 0, kind=InputError)


def test_only_a_service_for_this_machine_minds_the_name():
    here, anywhere = listen("127.0.0.1", 0), listen("0.0.0.0", 0)
    assert {"localhost", "127.0.0.1"} < hosts_of(here, (), None)
    assert "name.example" in hosts_of(here, ["name.example"], None)
    assert hosts_of(anywhere, (), None) is None
    here.close()
    anywhere.close()


@pytest.mark.parametrize("name", ["fd00::7", "[fd00::7]", "[fd00::7]:8000", "FD00:0::7"])
def test_an_ipv6_address_can_be_allowed(name):
    here = listen("127.0.0.1", 0)
    hosts = hosts_of(here, [name], None)
    guard = Guard(None, metrics=None, limits=Limits(), hosts=hosts)
    here.close()
    assert {"fd00::7", "::1", "127.0.0.1"} < guard.hosts


def test_elmo_help_imports_neither_torch_nor_fastapi():
    program = "from elmokit.cli import elmo; elmo(['serve', '-h'], standalone_mode=False)"
    assert not loaded_by(program, ["torch", "fastapi", "pydantic", "uvicorn"])
