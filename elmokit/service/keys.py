"""Who may ask: keys that are compared without telling how much of one was right."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from elmokit.errors import InputError

ENVIRONMENT_VARIABLE = "ELMO_API_KEY"
SHORTEST_KEY = 8


class Keys:
    """The keys that open the service; none of them is kept, only what they hash to.

    >>> keys = Keys(["correct-horse"])
    >>> keys.allow("Bearer correct-horse"), keys.allow("Bearer battery"), keys.allow(None)
    (True, False, False)
    """

    def __init__(self, keys: Iterable[str]) -> None:
        self._hashes = [sha256(key.encode()).digest() for key in keys]
        if not self._hashes:
            raise InputError("there is no API key; give at least one")

    def __repr__(self) -> str:
        return f"Keys({len(self._hashes)} of them)"

    def allow(self, authorization: str | None) -> bool:
        """Whether the header of a request holds one of the keys."""
        key = key_of(authorization)
        given = sha256(key.encode()).digest()
        # Every key is compared, so that time does not tell which one was near.
        matches = [hmac.compare_digest(given, known) for known in self._hashes]
        return key != "" and any(matches)


def key_of(authorization: str | None) -> str:
    """The key in the header of a request; empty where there is none."""
    scheme, _, key = (authorization or "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


def read_keys(file: str | Path | None, variable: str | None) -> Keys | None:
    """The keys of a file, one per line, else that of an environment variable; None without.

    Args:
        file: Its name, where one was given.
        variable: What `ELMO_API_KEY` holds.
    """
    if file is not None:
        found = keys_of_lines(text_of(file), str(file))
    elif variable is not None:
        found = keys_of_lines(variable, ENVIRONMENT_VARIABLE)
    else:
        return None
    return Keys(found)


def text_of(file: str | Path) -> str:
    """The text of a file of keys; what is wrong with it never quotes it."""
    try:
        return Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError:
        raise InputError(f"{file}: is not UTF-8; write a key per line") from None


def keys_of_lines(text: str, source: str) -> list[str]:
    """Each line that is not blank, as a key."""
    keys = [line.strip() for line in text.splitlines() if line.strip()]
    if not keys:
        raise InputError(f"{source}: holds no API key; write at least one")
    for number, key in enumerate(keys, start=1):
        if len(key) < SHORTEST_KEY:
            raise InputError(
                f"{source}: key {number} has {len(key)} characters; use at least {SHORTEST_KEY}"
            )
    return keys
