"""The presets of the task of semantic roles: settings by table and name."""

from __future__ import annotations

from elmokit.tasks.config import Tables

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
