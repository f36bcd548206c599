"""The presets of the task that reads: settings by table and name."""

from __future__ import annotations

from elmokit.tasks.config import Tables

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
