"""The presets of the tasks with one label an example: settings by table and name."""

from __future__ import annotations

from elmokit.tasks.config import Tables

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
