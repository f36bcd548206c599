from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
import time
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest
from closeness import assert_close
from small_services import running

from elmokit.errors import InputError
from elmokit.service.middleware import Guard, Limits
from elmokit.service.server import hosts_of, listen, serve


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_curl_gets_an_array(address, model, tmp_path):
    out = tmp_path / "vectors.npy"
    body = json.dumps({"texts": ["the river bank", "a bank"], "pool": "mean"})
    command = ["curl", "-sS", f"{address}/embed", "-H", "content-type: application/json"]
    command += ["-H", "accept: application/x-npy", "-d", body, "-o", str(out)]
    subprocess.run(command, check=True, timeout=30)
    expected = [vectors.mean(0) for vectors in model.embedder.embed([["the", "river", "bank"]])]
    assert_close(np.load(out)[:1], expected)


def test_a_classifier_learns_from_vectors_that_it_fetches(address):
    linear_model = pytest.importorskip("sklearn.linear_model")
    pipeline = pytest.importorskip("sklearn.pipeline")
    preprocessing = pytest.importorskip("sklearn.preprocessing")

    def fetch(texts):
        answer = httpx.post(f"{address}/v1/embeddings", json={"input": list(texts)})
        return np.array([entry["embedding"] for entry in answer.json()["data"]])

    texts = ["the cat sat", "a cat", "cat cat", "river bank", "the river", "a river bank"]
    labels = [0, 0, 0, 1, 1, 1]
    classifier = pipeline.make_pipeline(
        preprocessing.FunctionTransformer(fetch),
        linear_model.LogisticRegression(C=1e5, max_iter=1000),
    )
    assert classifier.fit(texts, labels).score(texts, labels) == 1.0


def connected(address: str) -> socket.socket:
    """A connection to a server."""
    place = urlsplit(address)
    return socket.create_connection((place.hostname, place.port), timeout=10)


def test_a_client_that_goes_frees_its_place(model):
    body = json.dumps({"sentences": [["the", "cat"] * 500] * 60, "pool": "mean"}).encode()
    head = b"POST /embed HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    request = head + b"content-length: %d\r\n\r\n" % len(body) + body
    with running(lambda: model) as address:
        with connected(address) as connection:
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

    with pytest.raises(InputError, match="no such model"):
        serve(load, port=0).run()


LOADING_FOR_EVER = """
import threading
from elmokit.service.server import serve

def load():
    print("loading", flush=True)
    threading.Event().wait()

serve(load, port=0, on_stopping=lambda requests: print("waits", requests, flush=True)).run()
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
    with pytest.raises(InputError, match="cannot be listened on"):
        listen("no.such.host.invalid", 0)


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
    guard = Guard(None, limits=Limits(), hosts=hosts_of(here, [name], None))
    here.close()
    assert {"fd00::7", "::1", "127.0.0.1"} < guard.hosts


def test_elmo_help_imports_neither_torch_nor_fastapi():
    code = (
        "import sys; from elmokit.cli import elmo; elmo(['serve', '-h'], standalone_mode=False);"
        "print([one for one in ('torch', 'fastapi', 'pydantic', 'uvicorn') if one in sys.modules])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]"
