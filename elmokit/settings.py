"""Settings by name: tables of a file, changed one by one from the command line."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

from elmokit.config import make
from elmokit.errors import ConfigError, InputError


def make_table(kind: type, name: str, values: object) -> Any:
    """Build the config of one table, naming the table in what is wrong with it."""
    if not isinstance(values, Mapping):
        raise ConfigError(f"{name} is {values!r}; it must be a table of settings: [{name}]")
    try:
        return make(kind, values)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None


def change_setting(values: dict[str, Any], names: list[str], value: Any) -> None:
    """Change one setting of nested tables in place, None taking it away."""
    for name in names[:-1]:
        values = values.setdefault(name, {})
        if not isinstance(values, dict):
            raise ConfigError(f"{'.'.join(names)}: {name} is not a table of settings")
    if value is None:
        values.pop(names[-1], None)
    else:
        values[names[-1]] = value


def parse_setting(text: str, example: str = "training.rows=64") -> tuple[str, Any]:
    """A setting from the command line, its value read as TOML, or as a text where that fails.

    No value takes the setting away. `example` is what an error shows.

    >>> parse_setting("training.rows=64"), parse_setting("training.schedule=cosine")
    (('training.rows', 64), ('training.schedule', 'cosine'))
    """
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InputError(f"{text!r} is not a setting; write name=value, as in {example}")
    try:
        return name.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return name.strip(), value.strip() or None
