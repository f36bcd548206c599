"""Archives of models (.zip, .tar.gz, .tar.bz2): their files, unpacked into the cache when read."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import os
import re
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from elmokit.errors import ElmoError, FormatError
from elmokit.io.fetch import cache_folder
from elmokit.io.files import disk_errors, write_atomically, write_folder_atomically

ZIP, TARS = b"PK\x03\x04", (b"\x1f\x8b", b"BZh")
MOST_FOLD = 20
"""Weights hardly shrink: an archive that would grow more than so many times is none of a model."""
ALWAYS_ALLOWED = 64 << 20
ENCRYPTED = 1
BLOCK = 1 << 20
OUTSIDE = re.compile(r"^[/\\]|^[A-Za-z]:|(^|[/\\])\.\.([/\\]|$)")
DAMAGE = (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, NotImplementedError)


def is_archive(path: Path) -> bool:
    """Whether a file begins as an archive does."""
    return begins_with(path, (ZIP, *TARS))


def begins_with(path: Path, marks: tuple[bytes, ...]) -> bool:
    """Whether the first bytes of a file are one of some marks."""
    with disk_errors(path, "read"), open(path, "rb") as file:
        return file.read(8).startswith(marks)


class Archive:
    """The files of an archive, by the last parts of their names; what is read is unpacked once.

    Names of an archive are never used as paths. What is unpacked stays in the cache, in a folder
    that belongs to this archive as it is now.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        status = path.stat()
        self._room = max(MOST_FOLD * status.st_size, ALWAYS_ALLOWED)
        identity = f"{os.path.realpath(path)}|{status.st_size}|{status.st_mtime_ns}"
        name = f"{hashlib.sha256(identity.encode()).hexdigest()[:16]}-{path.name}"
        self.folder = cache_folder() / "unpacked" / name
        with self._damage():
            if zipfile.is_zipfile(path):
                with zipfile.ZipFile(path) as file:
                    found = [member.filename for member in file.infolist() if not member.is_dir()]
                self._members = self._by_last_part(found)
            else:
                self._members = self._unpack_tar()
        self.names = list(self._members)

    def get(self, name: str) -> Path:
        """The path of one of its files, which is unpacked if it was not before."""
        members, target = self._members[name], self.folder / name
        if len(members) > 1:
            raise FormatError(
                f"{self.path}: has {' and '.join(members[:2])}: is this more than one model? "
                "unpack it, and name the folder of one"
            )
        if not target.exists():
            with self._damage(), zipfile.ZipFile(self.path) as file:
                member = file.getinfo(members[0])
                if member.flag_bits & ENCRYPTED or member.compress_type == zipfile.ZIP_LZMA:
                    raise FormatError(
                        f"{self.path}: is encrypted, or compressed by LZMA; unpack it"
                    )
                self._take(member.file_size)
                with write_atomically(target) as temporary, file.open(member) as contents:
                    copy(contents, temporary)
        return target

    def _unpack_tar(self) -> dict[str, list[str]]:
        """Unpack all files of a tar, which has no table of them, in one pass."""
        if not self.folder.exists():
            opener = gzip.open if begins_with(self.path, TARS[:1]) else bz2.open
            with (
                opener(self.path) as stream,
                write_folder_atomically(self.folder) as temporary,
                tarfile.open(fileobj=Counted(stream, self._take), mode="r|") as file,  # type: ignore[call-overload,arg-type]
            ):
                for member in file:
                    plain = member.isfile() and not member.issparse()
                    for name in self._by_last_part([member.name] if plain else []):
                        contents = file.extractfile(member)
                        # Of files of one name the first stays.
                        if contents is not None and not (temporary / name).exists():
                            copy(contents, temporary / name)
        return {path.name: [path.name] for path in self.folder.iterdir()}

    def _by_last_part(self, members: Iterable[str]) -> dict[str, list[str]]:
        """Members by the last parts of their names, without hidden ones."""
        found: dict[str, list[str]] = {}
        for member in members:
            if OUTSIDE.search(member) or "\0" in member:
                raise FormatError(
                    f"{self.path}: has a file named {member[:60]!r}, outside of the archive; it is "
                    "not unpacked"
                )
            parts = PurePosixPath(member.replace("\\", "/")).parts
            if not any(part.startswith((".", "__MACOSX")) for part in parts):
                found.setdefault(parts[-1], []).append(member)
        return found

    def _take(self, size: int) -> None:
        """Count what is unpacked against what an archive of this size may hold."""
        self._room -= size
        if self._room < 0:
            raise FormatError(
                f"{self.path}: would grow more than {MOST_FOLD} times when unpacked, which no "
                "model does; is it a zip bomb? unpack it by other means if you trust it"
            )

    @contextmanager
    def _damage(self) -> Iterator[None]:
        """Say in one line what keeps an archive from being read."""
        try:
            yield
        except ElmoError:
            raise
        except (*DAMAGE, ValueError) as error:
            why = " ".join(str(error).split()) or type(error).__name__
            raise FormatError(
                f"{self.path}: is damaged or incomplete ({why}); copy or download it again"
            ) from error


class Counted:
    """A stream that tells how much is read of it: a tar's own words about that may be wrong."""

    def __init__(self, stream: IO[bytes], count: Callable[[int], None]) -> None:
        self._stream, self._count = stream, count

    def read(self, size: int) -> bytes:
        """Read so many bytes, or all that are left."""
        try:
            block = self._stream.read(size)
        except (OSError, EOFError, zlib.error) as error:
            raise tarfile.ReadError(str(error)) from error
        self._count(len(block))
        return block


def copy(contents: IO[bytes], target: Path) -> None:
    """Write what is read, block by block."""
    with open(target, "wb") as file:
        shutil.copyfileobj(contents, file, BLOCK)
