"""The tasks by name, with the presets of their settings."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from elmokit.config import change_setting, check_choice, checked, hints_of, tables_of
from elmokit.errors import ConfigError
from elmokit.tasks.config import (
    FILES,
    OF_ALL_NETWORKS,
    OF_NETWORK,
    Kind,
    NetworkConfig,
    Preset,
    Tables,
    TaskConfig,
)


class NamedTask(NamedTuple):
    """One task of the catalogue."""

    kind: Kind
    presets: Mapping[Preset, Tables]


_FILE = Path(__file__).with_name("catalogue.toml")
CATALOGUE = {
    name: NamedTask(task.pop("kind"), task)
    for name, task in tomllib.loads(_FILE.read_text(encoding="utf-8")).items()
}
"""The tasks by name."""


def task_config(
    name: str, preset: Preset = "small", settings: Mapping[str, Any] | None = None
) -> TaskConfig:
    """The settings of a named task; `settings`, by dotted name, take the place of the preset's.

    >>> task_config("ner", settings={"network.hidden": 50}).network.hidden
    50
    """
    check_choice("task", name, tuple(CATALOGUE))
    checked("preset", preset, Preset)
    task = CATALOGUE[name]
    tables: dict[str, Any] = {table: dict(values) for table, values in task.presets[preset].items()}
    for setting, value in (settings or {}).items():
        if setting in ("name", "kind"):
            raise ConfigError(
                f"{setting} cannot be set: the task's name, here {name!r}, says what it is; "
                "give another name"
            )
        check_has_table(setting)
        change_setting(tables, setting.split("."), value)
    for setting in settings or {}:
        check_is_read(setting, name, tables)
    return TaskConfig.from_dict({**tables, "name": name, "kind": task.kind})


def check_is_read(setting: str, name: str, tables: Mapping[str, Any]) -> None:
    """Raise where a setting is of another network than the task has."""
    table, _, key = setting.partition(".")
    if table == "coref" != CATALOGUE[name].kind:
        raise ConfigError(f"{setting} is a setting of coreference; {name} has none of its own")
    if table != "network" or key not in hints_of(NetworkConfig):
        return
    network = tables["network"].get("name")
    known = (*OF_ALL_NETWORKS, *OF_NETWORK.get(network, hints_of(NetworkConfig)))
    if key not in known:
        raise ConfigError(
            f"{setting} is not a setting of {network!r}, the network of {name}; "
            f"it has {', '.join(known)}"
        )


def check_has_table(setting: str) -> None:
    """Raise for a setting without the name of its table, naming it in full."""
    names = {table: set(hints_of(kind)) for table, kind in tables_of(TaskConfig).items()}
    names["files"] = set(FILES)
    if "." in setting or setting in names:
        return
    near = [f"{table}.{setting}" for table, known in names.items() if setting in known]
    if near:
        raise ConfigError(f"unknown setting {setting!r}; did you mean {near[0]!r}?")
