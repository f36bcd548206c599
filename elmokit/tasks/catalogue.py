"""The tasks by name, with the presets of their settings."""

from __future__ import annotations

from collections.abc import Mapping
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

SMALL_SPAM: Tables = {
    "inputs": {"elmo_dropout": 0.1},
    "network": {"name": "pooled", "hidden": 256, "dropout": 0.2},
    "training": {"epochs": 15, "patience": 4, "batch_examples": 60},
}
# The well-known tutorial's: a dense layer of 256, batches of 60, one epoch.
PAPER_SPAM: Tables = {
    "inputs": {"elmo_dropout": 0.0},
    "network": {"name": "pooled", "hidden": 256, "dropout": 0.0},
    "training": {"epochs": 1, "batch_examples": 60, "batch_tokens": 100_000},
}
SMALL_SST: Tables = {
    # With as little dropout as this a network this small learns most (docs/log.md).
    "inputs": {"elmo_dropout": 0.2, "dropout": 0.1, "mix_penalty": 0.001},
    "network": {"name": "biattentive", "hidden": 100, "dropout": 0.1},
    "training": {"epochs": 8, "patience": 3, "batch_examples": 32, "rate_factor": 0.5},
}
PAPER_SST: Tables = {
    "files": {"phrases": True, "shortest_phrase": 4},
    "inputs": {"elmo": "both", "mix_penalty": 0.001},
    "network": {"name": "biattentive", "hidden": 300, "dropout": 0.5, "dense": "relu"},
    "training": {"epochs": 20, "patience": 5, "learning_rate": 0.0001},
}
SMALL_NLI: Tables = {
    "inputs": {"elmo_dropout": 0.3, "mix_penalty": 0.001},
    "network": {"name": "esim", "hidden": 100, "dropout": 0.3},
    "training": {"epochs": 15, "patience": 4, "rate_factor": 0.5},
}
PAPER_NLI: Tables = {
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
}


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
SMALL_POS: Tables = {**SMALL_TAGGER, "network": {**SMALL_TAGGER["network"], **NO_CRF}}
PAPER_POS: Tables = {**PAPER_TAGGER, "network": {**PAPER_TAGGER["network"], **NO_CRF}}


SMALL_READER: Tables = {
    # The network itself drops what it reads. Only with ELMo at its output too, where the question
    # and the text meet, does it learn soon to look for the words of the question (docs/log.md).
    "inputs": {"characters": True, "elmo": "both", "elmo_dropout": 0.2, "mix_penalty": 0.001},
    "network": {"name": "reader", "hidden": 64, "dropout": 0.2, "answer_lstms": False},
    "training": {
        "epochs": 8,
        "patience": 2,
        "batch_tokens": 2048,
        "batch_examples": 16,
        "learning_rate": 0.002,
        "rate_factor": 0.5,
    },
}
PAPER_READER: Tables = {
    "inputs": {"characters": True, "elmo": "both"},
    "network": {"name": "reader", "hidden": 90, "dropout": 0.2, "answer_lstms": False},
    "training": {
        "epochs": 40,
        "patience": 5,
        "batch_tokens": 4096,
        "batch_examples": 9,
        "rate_factor": 0.5,
    },
}


SMALL_SRL: Tables = {
    "inputs": {"elmo_dropout": 0.3, "dropout": 0.1, "mix_penalty": 0.001},
    "network": {"name": "highway", "hidden": 100, "layers": 4, "dropout": 0.1},
    "training": {
        "epochs": 12,
        "patience": 3,
        "batch_tokens": 2048,
        "batch_examples": 32,
        "learning_rate": 0.002,
        "rate_factor": 0.5,
    },
}
PAPER_SRL: Tables = {
    "inputs": {"static_trainable": True, "elmo_dropout": 0.1},
    "network": {"name": "highway", "hidden": 300, "layers": 8, "dropout": 0.1},
    "training": {
        "epochs": 500,
        "patience": 200,
        "batch_tokens": 4096,
        "batch_examples": 20,
        "clip": 1.0,
    },
}


SMALL_COREF: Tables = {
    "inputs": {"characters": True, "elmo_dropout": 0.3, "dropout": 0.3, "mix_penalty": 0.001},
    "network": {"name": "coref", "hidden": 100, "dropout": 0.3},
    "coref": {
        "spans_per_word": 0.3,
        "antecedents": 40,
        "span_size": 150,
        "scorer_size": 100,
        "mention_loss": 1.0,
    },
    "training": {"epochs": 12, "patience": 3, "batch_tokens": 1024, "batch_examples": 16},
}
PAPER_COREF: Tables = {
    "inputs": {"characters": True, "dropout": 0.5},
    "network": {"name": "coref", "hidden": 200, "dropout": 0.2},
    "coref": {"antecedents": 250},
    "training": {"epochs": 150, "patience": 20, "batch_tokens": 1024, "batch_examples": 1},
}


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
