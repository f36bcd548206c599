"""The presets of the task of coreference: settings by table and name."""

from __future__ import annotations

from elmokit.tasks.config import Tables

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
