"""Dockerfile, compose.yaml and the proxy's configuration, without a Docker engine."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from helpers import ROOT

from elmokit.service.middleware import Limits

NGINX = shutil.which("nginx", path=os.environ["PATH"] + os.pathsep + "/usr/sbin")
PROXY = (ROOT / "deploy" / "nginx.conf").read_text()


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile and what they say, continued lines joined."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(kind, rest) for kind, _, rest in (line.partition(" ") for line in lines)]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def test_the_image_runs_as_somebody_else_than_root_and_copies_what_is_there():
    found = dict(instructions())
    assert int(found["USER"].split(":")[0]) > 0
    assert "/ready" in found["HEALTHCHECK"]
    shown = set(re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(), re.M))
    copied = {
        name
        for kind, rest in instructions()
        if kind == "COPY" and not rest.startswith("--from")
        for name in rest.split()[:-1]
    }
    assert copied == shown
    assert all((ROOT / name).exists() for name in copied)


def test_the_service_is_reached_by_the_proxy_alone_and_their_limits_agree():
    yaml = pytest.importorskip("yaml")
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    assert "ports" not in services["elmo"]
    assert services["elmo"]["expose"] == [dict(instructions())["EXPOSE"]]
    assert all(service["read_only"] for service in services.values())
    [mounted] = services["proxy"]["volumes"]
    assert (ROOT / mounted.split(":")[0]).is_file()
    assert "server elmo:8017;" in PROXY
    assert int(re.search(r"client_max_body_size (\d+)m", PROXY)[1]) * 2**20 == Limits().body_bytes
    waits = int(re.search(r"proxy_read_timeout (\d+)s", PROXY)[1])
    assert waits > Limits().request_seconds


@pytest.mark.slow
def test_the_steps_of_the_dockerfile_make_a_service_that_is_healthy_and_ends(tmp_path):
    source, made, port = tmp_path / "src", tmp_path / "opt", free_port()
    source.mkdir()
    arguments = dict(rest.split("=", 1) for kind, rest in instructions() if kind == "ARG")
    environment = os.environ | arguments | {"TORCH_INDEX": "", "ELMOKIT_CACHE": str(tmp_path)}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    environment.pop("PYTHONPATH", None)
    for kind, rest in instructions():
        if kind == "COPY" and not rest.startswith("--from"):
            for name in rest.split()[:-1]:
                copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
                copy(ROOT / name, source / name)
        elif kind == "RUN":
            step = rest.replace("/opt/elmokit", str(made))
            subprocess.run(["sh", "-euc", step], cwd=source, env=environment, check=True)
    found = dict(instructions())
    environment["PATH"] = f"{made / 'bin'}{os.pathsep}{environment['PATH']}"
    command = [*json.loads(found["ENTRYPOINT"]), *json.loads(found["CMD"]), "--port", str(port)]
    process = subprocess.Popen(command, cwd=tmp_path, env=environment)
    try:
        check = json.loads(found["HEALTHCHECK"].partition("CMD ")[2].replace("8017", str(port)))
        healthy = wait_until_healthy(check, environment)
        body = json.dumps({"model": "english-small", "input": ["The river bank."]}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/v1/embeddings", body, {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=30) as response:
            answer = json.load(response)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
    assert healthy
    assert len(answer["data"][0]["embedding"]) == 256


def wait_until_healthy(check: list[str], environment: dict[str, str]) -> bool:
    """Whether the health check passes within a minute."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        done = subprocess.run(check, env=environment, capture_output=True, check=False)
        if done.returncode == 0:
            return True
        time.sleep(0.5)
    return False


class Service(BaseHTTPRequestHandler):
    """Stands for the service: says how many bytes came."""

    def do_POST(self) -> None:
        size = len(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(str(size).encode())

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def proxied(tmp_path: Path) -> Iterator[int]:
    """The proxy with its timeouts a tenth, in front of a stand-in; gives its port."""
    server, port = ThreadingHTTPServer(("127.0.0.1", 0), Service), free_port()
    Thread(target=server.serve_forever, daemon=True).start()
    text = PROXY.replace("elmo:8017", f"127.0.0.1:{server.server_port}")
    text = text.replace("listen 8080", f"listen 127.0.0.1:{port}").replace("/tmp", str(tmp_path))
    text = text.replace("_timeout 10s", "_timeout 1s").replace(
        "worker_processes auto", "worker_processes 1"
    )
    (tmp_path / "nginx.conf").write_text(text)
    command = [str(NGINX), "-c", str(tmp_path / "nginx.conf"), "-e", str(tmp_path / "error.log")]
    process = subprocess.Popen([*command, "-g", "daemon off;"])
    try:
        end = time.monotonic() + 20
        while not connects(port):
            assert time.monotonic() < end
            assert process.poll() is None, (tmp_path / "error.log").read_text()
            time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait(20)
        server.shutdown()
        server.server_close()


def connects(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def status(port: int, *pieces: str) -> str:
    """How a connection that sends these pieces and then nothing is answered; "" if just closed."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        for piece in pieces:
            client.sendall(piece.encode())
        try:
            found = client.recv(4096).decode()
        except ConnectionResetError:
            return ""
        return found.split(" ")[1] if found else ""


@pytest.mark.slow
@pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
def test_the_proxy_passes_requests_on_and_ends_those_that_come_slowly(tmp_path):
    head = "POST /embed HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\nConnection: close\r\n"
    with proxied(tmp_path) as port:
        assert status(port, head.format(2), "\r\n", "ab") == "200"
        started = time.monotonic()
        assert status(port, head.format(2)) in ("", "408")
        assert status(port, head.format(2), "\r\n", "a") in ("", "408")
        assert 1 < time.monotonic() - started < 10
        assert status(port, head.format(5 * 2**20), "\r\n") == "413"
        assert status(port, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n") == "404"
        many = [socket.create_connection(("127.0.0.1", port)) for _ in range(32)]
        for client in many:  # nginx counts a connection from the head of its request on
            client.sendall((head.format(2) + "\r\na").encode())
        time.sleep(0.3)
        assert status(port, head.format(2), "\r\n", "ab") == "429"
        for client in many:
            client.close()
