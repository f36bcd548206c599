"""The tasks by name, with the presets of their settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NamedTuple, get_args

from elmokit.config import check_choice
from elmokit.errors import ConfigError
from elmokit.settings import change_setting
from elmokit.tasks.config import TABLES, Kind, Preset, Tables, TaskConfig
from elmokit.tasks.coref.presets import PAPER_COREF, SMALL_COREF
from elmokit.tasks.labelling.presets import (
    PAPER_NLI,
    PAPER_SPAM,
    PAPER_SST,
    SMALL_NLI,
    SMALL_SPAM,
    SMALL_SST,
)
from elmokit.tasks.reading.presets import PAPER_READER, SMALL_READER
from elmokit.tasks.srl.presets import PAPER_SRL, SMALL_SRL
from elmokit.tasks.tagging.presets import PAPER_POS, PAPER_TAGGER, SMALL_POS, SMALL_TAGGER


class NamedTask(NamedTuple):
    """One task of the catalogue."""

    kind: Kind
    presets: Mapping[Preset, Tables]


CATALOGUE: dict[str, NamedTask] = {
    "spam": NamedTask("text", {"small": SMALL_SPAM, "paper": PAPER_SPAM}),
    "sst": NamedTask("text", {"small": SMALL_SST, "paper": PAPER_SST}),
    "ner": NamedTask("tags", {"small": SMALL_TAGGER, "paper": PAPER_TAGGER}),
    "pos": NamedTask("tags", {"small": SMALL_POS, "paper": PAPER_POS}),
    "nli": NamedTask("pair", {"small": SMALL_NLI, "paper": PAPER_NLI}),
    "squad": NamedTask("reading", {"small": SMALL_READER, "paper": PAPER_READER}),
    "coref": NamedTask("coref", {"small": SMALL_COREF, "paper": PAPER_COREF}),
    "srl": NamedTask("srl", {"small": SMALL_SRL, "paper": PAPER_SRL}),
}
"""The tasks by name. `paper` follows the ELMo paper's supplement for sst, ner and nli, with the
differences that docs/tasks.md names; `small` trains in minutes on two cores."""


def task_config(
    name: str, preset: Preset = "small", settings: Mapping[str, Any] | None = None
) -> TaskConfig:
    """The settings of a named task; `settings`, by dotted name, take the place of the preset's.

    >>> task_config("ner", settings={"network.hidden": 50}).network.hidden
    50
    """
    check_choice("task", name, tuple(CATALOGUE))
    check_choice("preset", preset, get_args(Preset))
    task = CATALOGUE[name]
    tables: dict[str, Any] = {table: dict(values) for table, values in task.presets[preset].items()}
    for setting, value in (settings or {}).items():
        if setting in ("name", "kind"):
            raise ConfigError(
                f"{setting} cannot be set: the task's name, here {name!r}, says what it is; "
                "give another name"
            )
        check_has_table(setting)
        if setting.split(".")[0] == "coref" != task.kind:
            raise ConfigError(f"{setting} is a setting of coreference; {name} has none of its own")
        change_setting(tables, setting.split("."), value)
    return TaskConfig.from_dict({**tables, "name": name, "kind": task.kind})


def check_has_table(setting: str) -> None:
    """Refuse a setting without the name of its table, naming it in full."""
    if "." in setting or setting in TABLES:
        return
    near = [
        f"{table}.{setting}"
        for table, kind in TABLES.items()
        if setting in {each.name for each in fields(kind)}
    ]
    if near:
        raise ConfigError(f"unknown setting {setting!r}; did you mean {near[0]!r}?")
