"""What can go wrong, and what to tell the person it happened to.

Errors are of Python's own kinds too, so that what catches `ValueError` or `FileNotFoundError` for
other libraries does so for this one.
"""

from __future__ import annotations

from typing import Any

LONGEST_MESSAGE = 1000  # characters: a message may quote a file, which may say anything


class ElmoError(Exception):
    """Base of every error that the person running the program can fix.

    The message is one line: where, what was found, what to do. For programs, `code` says what went
    wrong, empty where none has asked yet, and `values` has what the message names.
    """

    def __init__(self, message: str = "", code: str = "", **values: Any) -> None:
        if len(message) > LONGEST_MESSAGE:  # where it is stands first, what to do last
            message = f"{message[: LONGEST_MESSAGE // 2]} … {message[-LONGEST_MESSAGE // 3 :]}"
        super().__init__(message)
        self.code = code
        self.values = values


class ConfigError(ElmoError, ValueError):
    """A setting that cannot work: a negative size, an unknown activation, a misspelt key."""


class FormatError(ElmoError):
    """A file that is damaged, incomplete, or not what its name says."""


class InputError(ElmoError, ValueError):
    """An argument that is not what the call expects."""


class DiskError(ElmoError):
    """The disk does not allow it: no space left, no permission, no such folder."""


class MissingFileError(InputError, FormatError, DiskError, FileNotFoundError):
    """A file or folder that is not there: an error of whichever kind its reader raises."""


class FetchError(ElmoError):
    """A URL whose file could not be fetched: offline, not allowed, not there."""


class CutShortError(FetchError):
    """A connection that ended too early; what came is stored, and running again resumes."""


class DivergedError(ElmoError):
    """Training whose loss is not a number any more."""


class StoppedError(ElmoError):
    """Work that was asked to stop: says what is saved and how to resume."""


class ElmoWarning(UserWarning):
    """Something was accepted that its owner should know about."""


def unreadable(kind: type[ElmoError], path: object, error: OSError, advice: str = "") -> ElmoError:
    """The error about a file that the system does not let us read."""
    if isinstance(error, FileNotFoundError):
        kind = MissingFileError
    return kind(f"{path}: cannot be read ({error.strerror or error}){advice}")
