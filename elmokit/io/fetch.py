"""Files that live at an address: fetched once into the cache, continued after a cut."""

from __future__ import annotations

import hashlib
import os
import re
import urllib.request as web
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit

from elmokit.errors import CutShortError, FetchError, FormatError, InputError
from elmokit.io.files import check_sha256, disk_errors, one_at_a_time, publish

Progress = Callable[[int, int | None], None]
"""Told the bytes that are there and the bytes in all, None where the server does not say."""

TIMEOUT_SECONDS = 30.0
BLOCK_BYTES = 1 << 18
HEADERS = {"User-Agent": "elmokit", "Accept-Encoding": "identity"}
PARTIAL_CONTENT, RANGE_NOT_SATISFIABLE = 206, 416


def local_path(
    location: str | Path, *, sha256: str | None = None, progress: Progress | None = None
) -> Path:
    """Give the path of the file at a path or at an http(s) address, fetching an address once."""
    if isinstance(location, Path) or "://" not in location:
        return _existing(Path(location), sha256)
    if not location.lower().startswith(("http://", "https://")):
        raise InputError(f"{location}: only http:// and https:// addresses can be fetched")
    entry = _Entry(location, cache_path(location))
    if not os.path.exists(entry.target):
        with disk_errors(entry.target.parent, "made"):
            entry.target.parent.mkdir(parents=True, exist_ok=True)
        with one_at_a_time(entry.beside(".lock")):
            # Another process may have fetched it while this one waited.
            if not os.path.exists(entry.target):
                _fetch(entry, sha256, progress or (lambda done, total: None))
                return entry.target
    if sha256 is not None:
        _check_or_remove(entry.target, sha256)
    return entry.target


def cache_path(address: str) -> Path:
    """Where the file at an address is kept, or is to be put by hand."""
    try:
        name = unquote(urlsplit(address).path).rpartition("/")[2]
    except ValueError as error:
        raise InputError(f"{address}: is not a valid address ({error})") from None
    safe_name = re.sub(r"[^\w.-]", "_", name, flags=re.ASCII)[-120:] or "file"
    return cache_folder() / f"{hashlib.sha256(address.encode()).hexdigest()[:16]}-{safe_name}"


def cache_folder() -> Path:
    """`ELMOKIT_CACHE`, or else `elmokit` in the user's cache folder."""
    try:
        if chosen := os.environ.get("ELMOKIT_CACHE"):
            return Path(chosen).expanduser()
        general = Path(os.environ.get("XDG_CACHE_HOME", ""))
        # The XDG specification has relative paths ignored.
        return (general if general.is_absolute() else Path.home() / ".cache") / "elmokit"
    except RuntimeError:
        raise InputError("there is no home folder; set ELMOKIT_CACHE to a cache folder") from None


@dataclass(frozen=True)
class _Entry:
    """An address, and the files that the cache keeps for it."""

    address: str
    target: Path

    def beside(self, ending: str) -> Path:
        return self.target.with_name(self.target.name + ending)

    @property
    def part(self) -> Path:
        """What has come so far."""
        return self.beside(".part")

    @property
    def version(self) -> Path:
        """The ETag or date of the file that the part belongs to."""
        return self.beside(".part.version")

    def length(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def begin(self, version: str) -> None:
        """Start an empty part; a version never stands beside a part of another version."""
        self.forget()
        with disk_errors(self.part, "written"):
            self.part.touch()
            self.version.write_text(version, encoding="latin-1")

    def append(self, block: bytes) -> None:
        # Closed after each block, so that a full disk is noticed here and a kill loses nothing.
        with disk_errors(self.part, "written"), open(self.part, "ab") as part:
            part.write(block)

    def forget(self) -> None:
        with disk_errors(self.part, "removed"):
            self.version.unlink(missing_ok=True)
            self.part.unlink(missing_ok=True)

    def unreachable(self, reason: object) -> FetchError:
        why = " ".join(str(reason).split()) or type(reason).__name__
        by_hand = f"download it by other means and put it at {self.target}"
        return FetchError(f"{self.address} cannot be fetched ({why}); {by_hand}")

    def cut_short(self, done: int, total: int | None) -> CutShortError:
        far = f"{done} bytes" if total is None else f"{done} of {total} bytes"
        return CutShortError(f"{self.address}: cut off after {far}; run again to continue")


def _existing(path: Path, sha256: str | None) -> Path:
    if not os.path.exists(path):
        raise InputError(f"{path}: there is no such file or folder")
    if sha256 is not None:
        check_sha256(path, sha256)
    return path


def _check_or_remove(path: Path, sha256: str) -> None:
    """Refuse a file of the cache with the wrong contents, and let the next run fetch it again."""
    try:
        check_sha256(path, sha256)
    except FormatError as error:
        with disk_errors(path, "removed"):
            path.unlink(missing_ok=True)
        raise FormatError(f"{error}; removed from the cache, run again to fetch it") from None


def _fetch(entry: _Entry, sha256: str | None, progress: Progress) -> None:
    """Download to the part, check it, and give it its name."""
    with _open(entry) as response:
        _receive(response, entry, progress)
    if sha256 is not None:
        _check_or_remove(entry.part, sha256)
    with disk_errors(entry.target, "written"):
        publish(entry.part, entry.target)
    entry.forget()


def _open(entry: _Entry) -> HTTPResponse:
    """Ask for the file, or for the rest of it where a part is there."""
    resume = _resume_headers(entry)
    try:
        request = web.Request(entry.address, headers=HEADERS | resume)
        return _opener().open(request, timeout=TIMEOUT_SECONDS)
    except HTTPError as error:
        error.close()
        if error.code == RANGE_NOT_SATISFIABLE and resume:
            entry.forget()
            return _open(entry)
        raise entry.unreachable(f"HTTP {error.code} {error.reason}") from error
    except URLError as error:
        raise entry.unreachable(error.reason) from error
    except (OSError, HTTPException, ValueError) as error:
        raise entry.unreachable(error) from error


def _opener() -> web.OpenerDirector:
    """An opener of http and https alone, so that no redirect leads to file: or ftp:."""
    opener = web.OpenerDirector()
    for protocol in (web.ProxyHandler, web.HTTPHandler, web.HTTPSHandler, web.UnknownHandler):
        opener.add_handler(protocol())
    for answer in (web.HTTPErrorProcessor, web.HTTPDefaultErrorHandler, web.HTTPRedirectHandler):
        opener.add_handler(answer())
    return opener


def _resume_headers(entry: _Entry) -> dict[str, str]:
    """Ask for the rest if the file is still the one the part belongs to, else for all of it."""
    with disk_errors(entry.part, "read"):
        length = entry.length()
        version = entry.version.read_text(encoding="latin-1") if entry.version.exists() else ""
    return {"Range": f"bytes={length}-", "If-Range": version} if version and length else {}


def _receive(response: HTTPResponse, entry: _Entry, progress: Progress) -> None:
    """Append what comes to the part, until it is as long as the server said."""
    done = _begin_or_continue(response, entry)
    total = None if response.length is None else done + response.length
    progress(done, total)
    for block in _blocks(response, entry, done, total):
        entry.append(block)
        done += len(block)
        progress(done, total)


def _begin_or_continue(response: HTTPResponse, entry: _Entry) -> int:
    """Where in the file the response starts: 0 unless the server sends just the rest."""
    if response.status != PARTIAL_CONTENT:
        # Only a strong ETag, or else a date, may be compared by If-Range.
        etag = response.headers.get("ETag", "")
        date = response.headers.get("Last-Modified", "")
        entry.begin(etag if etag.startswith('"') else date)
        return 0
    start = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    if start is None or int(start[1]) != entry.length():
        entry.forget()
        raise CutShortError(f"{entry.address}: the server sent another part than asked; run again")
    return entry.length()


def _blocks(response: HTTPResponse, entry: _Entry, done: int, total: int | None) -> Iterator[bytes]:
    """Yield the response as it comes, refusing one that ends before `total`."""
    while done != total:
        try:
            block = response.read1(BLOCK_BYTES if total is None else min(BLOCK_BYTES, total - done))
        except (OSError, HTTPException) as error:
            raise entry.cut_short(done, total) from error
        if not block:
            break
        done += len(block)
        yield block
    if total is not None and done < total:
        raise entry.cut_short(done, total)
