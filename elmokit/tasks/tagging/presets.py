"""The presets of the tasks that tag words: settings by table and name."""

from __future__ import annotations

from elmokit.tasks.config import Tables

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
