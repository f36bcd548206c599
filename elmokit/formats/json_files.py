"""Settings kept as a JSON object."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from elmokit.errors import FormatError


def read_object(path: str | Path) -> dict[str, Any]:
    """Read a file that holds one JSON object."""
    try:
        values = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise FormatError(
            f"{path}, line {error.lineno}: is not valid JSON ({error.msg})"
        ) from error
    except (ValueError, RecursionError) as error:  # digits or brackets beyond Python's limits
        raise FormatError(f"{path}: is not valid JSON ({error})") from error
    if not isinstance(values, dict):
        raise FormatError(f"{path}: holds a JSON {type(values).__name__}; it must hold an object")
    return values


def read_text(path: str | Path) -> str:
    """Read a UTF-8 file that must not be empty."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: is not UTF-8 text ({error.reason})") from error
    if not text.strip():
        raise FormatError(f"{path}: is empty")
    return text


def write_object(values: Mapping[str, Any], path: Path, *, indent: int | None = 2) -> None:
    """Write a JSON object that people can read; without indent, one that is long."""
    path.write_text(json.dumps(values, indent=indent) + "\n", encoding="utf-8")
