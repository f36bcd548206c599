from __future__ import annotations

import hashlib
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO

import pytest
from helpers import error_of

from elmokit.errors import CutShortError, DiskError, FetchError, FormatError, InputError
from elmokit.io import fetch
from elmokit.io.fetch import cache_path, local_path

BODY = bytes(range(256)) * 4096  # 1 MiB: several blocks
HALF = len(BODY) // 2
SUM = hashlib.sha256(BODY).hexdigest()


class Server(ThreadingHTTPServer):
    """A server on this machine that can misbehave in the ways servers do."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.body = BODY
        self.headers: dict[str, str] = {"ETag": '"one"'}
        self.ranges = True
        self.cut_after: int | None = None
        self.stall_after: int | None = None
        self.status: int | None = None
        self.says_length = True
        self.chunked = False
        self.shift = 0
        self.delay = 0.0
        self.redirect: str | None = None
        self.requests: list[dict[str, str]] = []
        self.released = threading.Event()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/models/weights.hdf5"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is part of the tests."""


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        server = self.server
        server.requests.append(dict(self.headers))
        time.sleep(server.delay)
        if server.status is not None:
            return self.send_error(server.status)
        if server.redirect is not None and self.path.startswith("/models"):
            return self.answer(302, b"", {"Location": server.redirect})
        start = self.first_byte()
        if start is None:
            return self.answer(200, server.body, server.headers)
        if start >= len(server.body):
            return self.send_error(416)
        span = f"bytes {start + server.shift}-{len(server.body) - 1}/{len(server.body)}"
        return self.answer(206, server.body[start:], {**server.headers, "Content-Range": span})

    def first_byte(self) -> int | None:
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        unchanged = self.headers.get("If-Range") in self.server.headers.values()
        return int(asked[1]) if asked and unchanged and self.server.ranges else None

    def answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        server = self.server
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if server.chunked:
            self.send_header("Transfer-Encoding", "chunked")
            body = f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
        elif server.says_length:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: server.cut_after or server.stall_after])
        if server.stall_after is not None:
            server.released.wait(30)


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.released.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ELMOKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return tmp_path / "cache"


def endings(cache: Path) -> set[str]:
    return {path.name.partition("weights.hdf5")[2] for path in cache.iterdir()}


def fetch_half(server: Server) -> None:
    server.cut_after = HALF
    error_of(local_path, server.address, kind=CutShortError)
    server.cut_after = None


# Paths


def test_path_that_exists_is_returned_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "weights.hdf5").touch()

    assert local_path(tmp_path / "weights.hdf5") == tmp_path / "weights.hdf5"
    assert local_path(str(tmp_path / "weights.hdf5")) == tmp_path / "weights.hdf5"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no/such/nothing.hdf5", r"nothing\.hdf5: there is no such file"),
        ("file:///etc/hosts", "only http:// and https:// URLs"),
        ("s3://bucket/a", "only http:// and https:// URLs"),
        ("http://[half/weights.hdf5", "is not a valid URL"),
    ],
)
def test_neither_a_file_nor_a_url_that_can_be_fetched(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        local_path(name)


# The cache


def test_address_is_fetched_once(server: Server, cache: Path) -> None:
    first = local_path(server.address)
    second = local_path(server.address)

    assert first == second
    assert first.parent == cache
    assert first.read_bytes() == BODY
    assert len(server.requests) == 1
    assert server.requests[0]["User-Agent"] == "elmokit"
    assert endings(cache) == {"", ".lock", ".json"}


def test_name_in_the_cache_tells_urls_apart_and_stays_in_the_cache(cache: Path) -> None:
    one = cache_path("https://example.org/one/weights.hdf5?download=true")
    two = cache_path("https://example.org/two/weights.hdf5")
    long = cache_path("https://example.org/..%2f..%2fetc/%2e%2e%2f" + "long" * 100 + ".json")

    assert one != two
    assert one.name.endswith("-weights.hdf5")
    assert two.name.endswith("-weights.hdf5")
    assert cache_path("https://example.org/").name.endswith("-file")
    assert (long.parent, long.suffix) == (cache, ".json")
    assert len(long.name) < 200


def test_cache_is_in_the_home_folder_unless_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ELMOKIT_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert fetch.cache_folder() == tmp_path / ".cache" / "elmokit"

    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert fetch.cache_folder() == tmp_path / ".cache" / "elmokit"

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert fetch.cache_folder() == tmp_path / "xdg" / "elmokit"

    monkeypatch.setenv("ELMOKIT_CACHE", "~/mine")
    assert fetch.cache_folder() == tmp_path / "mine"


def test_machine_without_a_home_folder_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("ELMOKIT_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", nowhere)

    assert "set ELMOKIT_CACHE" in error_of(fetch.cache_folder, kind=InputError)


def test_cache_that_cannot_be_made_is_one_line(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("ELMOKIT_CACHE", str(tmp_path / "file" / "cache"))

    assert "cannot be made" in error_of(local_path, server.address)


# Progress and sums


def test_progress_goes_from_nothing_to_all(server: Server) -> None:
    calls: list[tuple[int, int | None]] = []

    local_path(server.address, progress=lambda done, total: calls.append((done, total)))

    assert calls[0] == (0, len(BODY))
    assert calls[-1] == (len(BODY), len(BODY))
    assert calls == sorted(calls)


@pytest.mark.parametrize("chunked", [True, False])
def test_length_that_the_server_does_not_say_is_none(server: Server, chunked: bool) -> None:
    server.says_length, server.chunked = False, chunked
    totals: set[int | None] = set()

    path = local_path(server.address, progress=lambda _, total: totals.add(total))

    assert path.read_bytes() == BODY
    assert totals == {None}


def test_a_known_sum_is_accepted_and_another_names_both_and_publishes_nothing(
    server: Server, cache: Path
) -> None:
    assert f"what came has the SHA-256 {SUM}, not 0" in refusal(server.address, sha256="0" * 64)
    assert endings(cache) == {".lock"}
    assert local_path(server.address, sha256=SUM).read_bytes() == BODY


@pytest.mark.parametrize("other", [BODY[:-1], BODY[:-1] + b"x"])
def test_a_file_that_has_changed_since_it_was_fetched_is_noticed(
    server: Server, other: bytes
) -> None:
    path = local_path(server.address)
    path.write_bytes(other)

    with pytest.raises(FormatError, match=f"{path.name}: is not what .*{SUM}.*remove it") as error:
        local_path(server.address)
    assert server.address in str(error.value)

    path.unlink()
    assert local_path(server.address).read_bytes() == BODY


def test_a_file_put_into_the_cache_by_hand_is_compared_with_a_known_sum_alone(
    server: Server, cache: Path
) -> None:
    cache.mkdir()
    cache_path(server.address).write_bytes(b"other")

    assert local_path(server.address).read_bytes() == b"other"
    with pytest.raises(FormatError, match="remove it, and run again to fetch it"):
        local_path(server.address, sha256=SUM)
    assert server.requests == []


# Continuing


@pytest.mark.parametrize("chunked", [False, True])
def test_cut_connection_publishes_nothing_and_says_to_run_again(
    server: Server, cache: Path, chunked: bool
) -> None:
    server.chunked, server.cut_after = chunked, HALF
    said = "run again" if chunked else f"after {HALF} of {len(BODY)} bytes; run again"

    with pytest.raises(CutShortError, match=said):
        local_path(server.address)

    assert endings(cache) == {".lock", ".part", ".part.version"}


def test_next_run_asks_only_for_the_rest(server: Server, cache: Path) -> None:
    fetch_half(server)
    calls: list[tuple[int, int | None]] = []

    path = local_path(server.address, progress=lambda *call: calls.append(call))

    assert path.read_bytes() == BODY
    assert server.requests[1]["Range"] == f"bytes={HALF}-"
    assert server.requests[1]["If-Range"] == '"one"'
    assert calls[0] == (HALF, len(BODY))
    assert endings(cache) == {"", ".lock", ".json"}


def test_file_without_etag_continues_by_its_date(server: Server) -> None:
    date = "Wed, 01 Aug 2018 00:00:00 GMT"
    server.headers = {"ETag": 'W/"weak"', "Last-Modified": date}
    fetch_half(server)

    assert local_path(server.address).read_bytes() == BODY
    assert server.requests[1]["If-Range"] == date


@pytest.mark.parametrize("change", ["no version", "no ranges", "another version"])
def test_a_part_that_may_not_be_continued_starts_again(server: Server, change: str) -> None:
    server.headers = {} if change == "no version" else server.headers
    server.ranges = change != "no ranges"
    fetch_half(server)
    if change == "another version":
        server.headers["ETag"] = '"two"'
        server.body = BODY[::-1]

    assert local_path(server.address).read_bytes() == server.body
    assert len(server.requests) == 2
    assert ("Range" in server.requests[1]) == (change != "no version")


def test_second_cut_after_a_change_continues_with_the_new_version(server: Server) -> None:
    fetch_half(server)
    server.headers["ETag"] = '"two"'
    server.body = BODY[::-1]
    fetch_half(server)

    assert local_path(server.address).read_bytes() == BODY[::-1]
    assert server.requests[2]["If-Range"] == '"two"'


def test_part_longer_than_the_file_starts_again(server: Server) -> None:
    fetch_half(server)
    server.body = BODY[:100]

    assert local_path(server.address).read_bytes() == BODY[:100]
    assert "Range" not in server.requests[2]


def test_wrong_rest_is_never_appended(server: Server) -> None:
    fetch_half(server)
    server.shift = 1

    assert "run again" in error_of(local_path, server.address, kind=CutShortError)

    assert local_path(server.address).read_bytes() == BODY


def test_interrupt_keeps_what_came(server: Server) -> None:
    def interrupt(done: int, _: int | None) -> None:
        if done:
            raise KeyboardInterrupt

    error_of(local_path, server.address, progress=interrupt, kind=KeyboardInterrupt)

    assert local_path(server.address).read_bytes() == BODY
    assert "Range" in server.requests[1]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs the device that is always full")
def test_full_disk_is_one_line_and_publishes_nothing(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk(_: Path, mode: str) -> IO[bytes]:
        return open("/dev/full", mode)

    monkeypatch.setattr(fetch, "open", full_disk, raising=False)

    with pytest.raises(DiskError, match=r"cannot be written .*No space left"):
        local_path(server.address)

    assert "" not in endings(cache)


# Several at once


def start_process(address: str) -> subprocess.Popen[bytes]:
    program = "import sys; from elmokit.io.fetch import local_path; print(local_path(sys.argv[1]))"
    root = Path(fetch.__file__).parents[2]
    command = [sys.executable, "-c", program, address]
    return subprocess.Popen(command, cwd=root, env=dict(os.environ), stdout=subprocess.PIPE)


def test_processes_that_fetch_at_once_fetch_once(server: Server) -> None:
    server.delay = 0.5
    processes = [start_process(server.address) for _ in range(3)]
    paths = {process.communicate()[0].decode().strip() for process in processes}

    assert paths == {str(cache_path(server.address))}
    assert cache_path(server.address).read_bytes() == BODY
    assert len(server.requests) == 1


def test_killed_process_leaves_a_part_that_the_next_one_continues(
    server: Server, cache: Path
) -> None:
    server.stall_after = HALF
    part = cache_path(server.address).with_name(cache_path(server.address).name + ".part")
    with start_process(server.address) as process:
        deadline = time.monotonic() + 30
        while not (part.exists() and part.stat().st_size == HALF) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.kill()
    server.stall_after = None

    assert local_path(server.address).read_bytes() == BODY
    assert server.requests[1]["Range"] == f"bytes={HALF}-"


# What cannot be fetched


def refusal(address: str, **arguments: str) -> str:
    """What is said of a file that cannot be fetched, which tells what to do."""
    message = error_of(local_path, address, kind=FetchError, **arguments)
    assert address in message
    assert message.endswith(f"put it at {cache_path(address)}")
    return message


@pytest.mark.parametrize("status", [403, 404, 500])
def test_an_http_error_is_one_line_that_says_what_to_do(server: Server, status: int) -> None:
    server.status = status

    assert f"HTTP {status}" in refusal(server.address)


def test_refused_connection_is_one_line_that_says_what_to_do() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}/weights.hdf5"

    assert "refused" in refusal(address)


def test_server_that_does_not_answer_is_one_line_that_says_what_to_do(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "TIMEOUT_SECONDS", 0.1)
    server.delay = 0.5

    assert "timed out" in refusal(server.address)


def test_server_that_falls_silent_is_a_cut(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "TIMEOUT_SECONDS", 0.2)
    server.stall_after = HALF

    assert "run again" in error_of(local_path, server.address, kind=CutShortError)


def test_address_with_a_space_is_one_line() -> None:
    with pytest.raises(FetchError, match="control characters"):
        local_path("http://127.0.0.1/my weights.hdf5")


def test_redirect_is_followed(server: Server) -> None:
    server.redirect = server.address.replace("models", "moved")

    assert local_path(server.address).read_bytes() == BODY


@pytest.mark.parametrize("scheme", ["file", "ftp"])
def test_redirect_to_anything_but_http_is_refused(server: Server, scheme: str) -> None:
    server.redirect = f"{scheme}://127.0.0.1/etc/hosts"

    with pytest.raises(FetchError, match=scheme):
        local_path(server.address)
