"""The service under clients that stall: honest ones are served, memory and time are bounded."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest
from chaos.stalling import ask_and_stall, honest, stalled
from service.small_services import small_served_model

from elmokit.service.middleware import Limits
from elmokit.service.server import ModelServer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks the system about sockets")

WORDS = {"sentences": [["the", "cat"] * 20] * 200, "layers": "all"}
"""6 MB of JSON from 1.5 MB of arrays, more than the system takes in for a client."""


def wait_until(condition, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_responses_that_nobody_reads_are_bounded_and_cut() -> None:
    limits = Limits(answering_bytes=8 << 20, write_seconds=0.5, drain_seconds=5)
    ready = threading.Event()
    server = ModelServer(
        small_served_model, port=0, limits=limits, on_ready=lambda server: ready.set()
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        assert ready.wait(60)
        address, service = server.url.rstrip("/"), server.service
        readers = [ask_and_stall(address, WORDS) for _ in range(6)]
        wait_until(lambda: service.unsent_bytes > 3 << 20)
        assert service.unsent_bytes <= limits.answering_bytes
        assert httpx.post(f"{address}/embed", json={"texts": ["a cat"]}).status_code == 200
        connections = server.server_state.connections
        wait_until(
            lambda: (
                not service.unsent_bytes
                and not any(one.transport.get_write_buffer_size() for one in list(connections))
            )
        )
        last = ask_and_stall(address, WORDS)  # who is there when it ends
        wait_until(lambda: service.unsent_bytes > 0)
    finally:
        started = time.monotonic()
        server.should_exit = True
        thread.join(60)
    assert time.monotonic() - started < limits.drain_seconds + 10
    for connection in (*readers, last):
        connection.close()


@pytest.mark.chaos
def test_fifty_stalled_readers_harm_no_honest_client() -> None:
    seconds = float(os.environ.get("ELMO_CHAOS_SECONDS", 120))
    model = ["-m", "elmokit", "serve", "--port", "0", "--quiet"]
    with subprocess.Popen([sys.executable, *model], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            found = re.match(r"(http://\S+)/ ", server.stdout.readline())
            assert found is not None
            address, status = found[1], Path(f"/proc/{server.pid}/status")

            def megabytes() -> float:
                return int(re.search(r"VmRSS:\s+(\d+)", status.read_text())[1]) / 1024

            idle, peak, end = megabytes(), 0.0, time.monotonic() + seconds
            shape = httpx.get(f"{address}/model").json()
            count = 4 * 2**20 // shape["layers"] // shape["vector_size"] // 20
            long = {"sentences": [["bank", "river"] * 10] * count, "layers": "all"}
            with honest(address, 16) as (statuses, latencies), stalled(address, 50, long):
                while time.monotonic() < end:
                    peak = max(peak, megabytes())
                    time.sleep(0.2)
            late = [ask_and_stall(address, long) for _ in range(10)]
            time.sleep(5)
            started = time.monotonic()
            server.send_signal(signal.SIGTERM)
            code, ending = server.wait(60), time.monotonic() - started
        finally:
            server.kill()
    for connection in late:
        connection.close()
    latencies.sort()
    print(  # noqa: T201
        f"{len(latencies)} honest requests: {dict(statuses)}, the slowest {latencies[-1]:.2f} s, "
        f"the median {latencies[len(latencies) // 2]:.3f} s; {idle:.0f} MB before, {peak:.0f} at "
        f"most; ended {ending:.1f} s after SIGTERM"
    )
    assert set(statuses) == {"200"}
    assert peak - idle < MEMORY_MEGABYTES
    assert (code, ending < 30) == (0, True)


MEMORY_MEGABYTES = 576 + 128
"""What docs/background/service.md states beside the model, and the batch that is being computed."""
