"""Downloads: files at URLs, fetched once into the cache, resumed after a cut, checked."""

from __future__ import annotations

import hashlib
import os
import re
import urllib.request as web
from collections.abc import Callable
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit

from elmokit.errors import CutShortError, FetchError, FormatError, InputError, MissingFileError
from elmokit.io.files import claim, disk_errors, publish, read_object, sha256_of, write_json

Progress = Callable[[int, int | None], None]
"""Told the bytes that are there and the bytes in all, None where the server does not say."""

TIMEOUT_SECONDS = 30.0
BLOCK_BYTES = 1 << 18
HEADERS = {"User-Agent": "elmokit", "Accept-Encoding": "identity"}
PARTIAL_CONTENT, RANGE_NOT_SATISFIABLE = 206, 416


def local_path(
    location: str | Path, *, sha256: str | None = None, progress: Progress | None = None
) -> Path:
    """The path of the file at a path or at an http(s) URL, which is fetched once.

    A file from the cache is compared with `sha256`, else with what was recorded when it was
    fetched; one that was put there by hand has no record.
    """
    if isinstance(location, Path) or "://" not in location:
        if not os.path.exists(location):
            raise MissingFileError(f"{location}: there is no such file or folder")
        return Path(location)
    if not location.lower().startswith(("http://", "https://")):
        raise InputError(f"{location}: only http:// and https:// URLs can be fetched")
    entry = _Entry(location)
    if not os.path.exists(entry.target):
        with disk_errors(entry.target.parent, "made"):
            entry.target.parent.mkdir(parents=True, exist_ok=True)
        with claim(entry.lock, wait=True):
            # Another process may have fetched it while this one waited.
            if not os.path.exists(entry.target):
                _fetch(entry, sha256, progress or (lambda done, total: None))
                return entry.target
    _check_cached(entry, sha256)
    return entry.target


def cache_path(url: str) -> Path:
    """Where the file of a URL is stored, or is to be put by hand."""
    try:
        name = unquote(urlsplit(url).path).rpartition("/")[2]
    except ValueError as error:
        raise InputError(f"{url}: is not a valid URL ({error})") from None
    safe_name = re.sub(r"[^\w.-]", "_", name, flags=re.ASCII)[-120:] or "file"
    return cache_folder() / f"{hashlib.sha256(url.encode()).hexdigest()[:16]}-{safe_name}"


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


class _Entry:
    """A URL, and the files that the cache has for it.

    What has come so far is in `part`, of the file with the ETag or date in `version`; `record` has
    the size and the SHA-256 of what was fetched.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.target = cache_path(url)
        endings = (".lock", ".part", ".part.version", ".json")
        beside = (self.target.with_name(self.target.name + ending) for ending in endings)
        self.lock, self.part, self.version, self.record = beside

    def length(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def forget(self) -> None:
        with disk_errors(self.part, "removed"):
            self.version.unlink(missing_ok=True)
            self.part.unlink(missing_ok=True)

    def unreachable(self, reason: object) -> FetchError:
        why = " ".join(str(reason).split()) or type(reason).__name__
        by_hand = f"download it by other means and put it at {self.target}"
        return FetchError(f"{self.url} cannot be fetched ({why}); {by_hand}")

    def cut_short(self, done: int, total: int | None) -> CutShortError:
        far = f"{done} bytes" if total is None else f"{done} of {total} bytes"
        return CutShortError(f"{self.url}: cut off after {far}; run again to continue")


def _check_cached(entry: _Entry, sha256: str | None) -> None:
    """Raise where a file of the cache is not the one that was fetched, or is known."""
    recorded = read_object(entry.record) if entry.record.exists() else {}
    expected = sha256 or recorded.get("sha256")
    if expected is not None and sha256_of(entry.target) != expected:
        raise FormatError(
            f"{entry.target}: is not what {entry.url} has, with the SHA-256 {expected}; remove it, "
            "and run again to fetch it"
        )


def _fetch(entry: _Entry, sha256: str | None, progress: Progress) -> None:
    """Download to the part, check it, record what came, and give it its name."""
    with _open(entry) as response:
        _receive(response, entry, progress)
    found = sha256_of(entry.part)
    if sha256 not in (None, found):
        entry.forget()
        raise entry.unreachable(f"what came has the SHA-256 {found}, not {sha256}")
    write_json(entry.record, {"url": entry.url, "bytes": entry.length(), "sha256": found})
    with disk_errors(entry.target, "written"):
        publish(entry.part, entry.target)
    entry.forget()


def _open(entry: _Entry) -> HTTPResponse:
    """Ask for the file, or for the rest of it where a part is there."""
    resume = _resume_headers(entry)
    try:
        request = web.Request(entry.url, headers=HEADERS | resume)
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
    for handler in (web.HTTPErrorProcessor, web.HTTPDefaultErrorHandler, web.HTTPRedirectHandler):
        opener.add_handler(handler())
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
    while done != total:
        try:
            block = response.read1(BLOCK_BYTES)
        except (OSError, HTTPException) as error:
            raise entry.cut_short(done, total) from error
        if not block and total is None:
            return
        if not block:
            raise entry.cut_short(done, total)
        # Closed after each block, so that a full disk is noticed here and a kill loses nothing.
        with disk_errors(entry.part, "written"), open(entry.part, "ab") as part:
            part.write(block)
        done += len(block)
        progress(done, total)


def _begin_or_continue(response: HTTPResponse, entry: _Entry) -> int:
    """Where in the file the response starts: 0 unless the server sends just the rest."""
    length = entry.length()
    if response.status == PARTIAL_CONTENT:
        start = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
        if start is not None and int(start[1]) == length:
            return length
        entry.forget()
        raise CutShortError(f"{entry.url}: the server sent another part than asked; run again")
    entry.forget()  # first: a version never stands beside a part of another version
    etag = response.headers.get("ETag", "")
    with disk_errors(entry.part, "written"):
        entry.part.touch()
        # Only a strong ETag, or else a date, may be compared by If-Range.
        version = etag if etag.startswith('"') else response.headers.get("Last-Modified", "")
        entry.version.write_text(version, encoding="latin-1")
    return 0
