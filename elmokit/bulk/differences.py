"""In what two runs differ, for people: what it was, what it is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

VALUE_SHOWN = 60
MISSING = object()


def difference(before: Any, now: Any) -> str:
    """The first thing in which two values differ, of plain ones as JSON has them.

    >>> difference(2, 1)
    'was 2, is 1'
    >>> difference({"settings": {"split": False}}, {"settings": {"split": True}})
    'settings.split was false, is true'
    """
    was, here = dict(_flat(before)), dict(_flat(now))
    for name in (*was, *here):
        values = was.get(name, MISSING), here.get(name, MISSING)
        if values[0] != values[1]:
            shown = "was {}, is {}".format(*map(_shown, values))
            return f"{name} {shown}" if name else shown
    return "was the same"


def _flat(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Values by their dotted names; those of a list of objects are numbered from 1."""
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        value = {str(number): item for number, item in enumerate(value, start=1)}
    if not isinstance(value, Mapping):
        yield prefix, value
        return
    for name, item in value.items():
        yield from _flat(item, f"{prefix}.{name}" if prefix else name)


def _shown(value: Any) -> str:
    if value is MISSING:
        return "not there"
    if isinstance(value, list):
        return ", ".join(_shown(item) for item in value if item is not None)
    text = value if isinstance(value, str) else json.dumps(value)
    # Paths and checksums tell themselves apart by their ends.
    return text if len(text) <= VALUE_SHOWN else f"…{text[1 - VALUE_SHOWN :]}"
