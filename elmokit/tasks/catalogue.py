"""The tasks by name, with the presets of their settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NamedTuple, get_args

from elmokit.config import check_choice
from elmokit.errors import ConfigError
from elmokit.settings import change_setting
from elmokit.tasks.config import TABLES, Kind, Preset, Tables, TaskConfig
from elmokit.tasks.presets_coref import PAPER_COREF, SMALL_COREF
from elmokit.tasks.presets_reading import PAPER_READER, SMALL_READER
from elmokit.tasks.presets_srl import PAPER_SRL, SMALL_SRL


class NamedTask(NamedTuple):
    """One task of the catalogue."""

    kind: Kind
    presets: Mapping[Preset, Tables]


SMALL_TAGGER: Tables = {
    "inputs": {"characters": True, "elmo_dropout": 0.3, "dropout": 0.3, "mix_penalty": 0.01},
    "network": {"name": "tagger", "hidden": 100, "dropout": 0.3},
    "training": {"epochs": 12, "patience": 3, "batch_tokens": 1024, "batch_examples": 32},
}
PAPER_TAGGER: Tables = {
    "inputs": {
        "characters": True,
        "static_trainable": True,
        "elmo_dropout": 0.5,
        "dropout": 0.5,
        "variational": True,
        "mix_penalty": 0.1,
    },
    "network": {"name": "tagger", "hidden": 200, "layers": 2, "dropout": 0.5},
    "training": {"epochs": 75, "patience": 25, "batch_tokens": 4096, "batch_examples": 64},
}
NO_CRF = {"crf": False}

CATALOGUE: dict[str, NamedTask] = {
    "spam": NamedTask(
        "text",
        {
            "small": {
                "inputs": {"elmo_dropout": 0.1},
                "network": {"name": "pooled", "hidden": 256, "dropout": 0.2},
                "training": {"epochs": 15, "patience": 4, "batch_examples": 60},
            },
            # The well-known tutorial's: a dense layer of 256, batches of 60, one epoch.
            "paper": {
                "inputs": {"elmo_dropout": 0.0},
                "network": {"name": "pooled", "hidden": 256, "dropout": 0.0},
                "training": {"epochs": 1, "batch_examples": 60, "batch_tokens": 100_000},
            },
        },
    ),
    "sst": NamedTask(
        "text",
        {
            "small": {
                # With as little dropout as this a network this small learns most (docs/log.md).
                "inputs": {"elmo_dropout": 0.2, "dropout": 0.1, "mix_penalty": 0.001},
                "network": {"name": "biattentive", "hidden": 100, "dropout": 0.1},
                "training": {
                    "epochs": 8,
                    "patience": 3,
                    "batch_examples": 32,
                    "rate_factor": 0.5,
                },
            },
            "paper": {
                "files": {"phrases": True, "shortest_phrase": 4},
                "inputs": {"elmo": "both", "mix_penalty": 0.001},
                "network": {
                    "name": "biattentive",
                    "hidden": 300,
                    "dropout": 0.5,
                    "dense": "relu",
                },
                "training": {"epochs": 20, "patience": 5, "learning_rate": 0.0001},
            },
        },
    ),
    "ner": NamedTask(
        "tags",
        {"small": SMALL_TAGGER, "paper": PAPER_TAGGER},
    ),
    "pos": NamedTask(
        "tags",
        {
            "small": {**SMALL_TAGGER, "network": {**SMALL_TAGGER["network"], **NO_CRF}},
            "paper": {**PAPER_TAGGER, "network": {**PAPER_TAGGER["network"], **NO_CRF}},
        },
    ),
    "nli": NamedTask(
        "pair",
        {
            "small": {
                "inputs": {"elmo_dropout": 0.3, "mix_penalty": 0.001},
                "network": {"name": "esim", "hidden": 100, "dropout": 0.3},
                "training": {"epochs": 15, "patience": 4, "rate_factor": 0.5},
            },
            "paper": {
                "inputs": {
                    "elmo": "both",
                    "mix_penalty": 0.001,
                    "layer_norm": True,
                    "dropout": 0.5,
                    "variational": True,
                },
                "network": {"name": "esim", "hidden": 300, "dropout": 0.5},
                "training": {
                    "epochs": 75,
                    "patience": 5,
                    "batch_tokens": 4096,
                    "batch_examples": 32,
                    "learning_rate": 0.0004,
                    "rate_factor": 0.5,
                    "weight_decay": 0.0001,
                },
            },
        },
    ),
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
