from __future__ import annotations

import json
from typing import Any

import pytest
from helpers import error_of

from elmokit.config import hints_of
from elmokit.io.text_files import TextSettings
from elmokit.tasks.catalogue import CATALOGUE, task_config
from elmokit.tasks.config import OF_ALL_NETWORKS, OF_NETWORK, NetworkConfig, TaskConfig

EVERY = pytest.mark.parametrize("name", list(CATALOGUE))


@EVERY
@pytest.mark.parametrize("preset", ["small", "paper"])
def test_every_task_has_both_presets_and_they_survive_json(name: str, preset: Any) -> None:
    config = task_config(name, preset)

    assert config.name == name
    assert TaskConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_paper_has_the_sizes_of_the_supplement() -> None:
    ner, sst, nli = (task_config(name, "paper") for name in ("ner", "sst", "nli"))

    assert (ner.network.hidden, ner.network.layers, ner.network.crf) == (200, 2, True)
    assert (ner.inputs.elmo, ner.inputs.mix_penalty) == ("input", 0.1)
    assert (sst.network.hidden, sst.training.learning_rate) == (300, 0.0001)
    assert (sst.files.phrases, sst.files.shortest_phrase) == (True, 4)
    assert (nli.network.hidden, nli.training.batch_examples) == (300, 32)
    assert (sst.inputs.elmo, nli.inputs.elmo) == ("both", "both")
    assert (sst.network.dense, nli.inputs.layer_norm) == ("relu", True)
    for config in (ner, nli):
        assert (config.inputs.dropout, config.inputs.variational) == (0.5, True)


def test_settings_take_the_place_of_the_presets_and_leave_it_as_it_was() -> None:
    changed = task_config("spam", settings={"network.hidden": 8, "training.clip": None})

    assert (changed.network.hidden, changed.training.clip) == (8, 5.0)  # None takes a setting away
    assert task_config("spam").network.hidden == 256


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"network.hiden": 8}, "network: unknown setting 'hiden'; did you mean 'hidden'"),
        ({"coref.antecedents": 8}, "coref.antecedents is a setting of coreference; spam has none"),
        ({"network.crf": False}, "network.crf is not a setting of 'pooled', the network of spam"),
        ({"network.name": "biattentive", "network.pool": "max"}, "it has name, hidden, dropout, d"),
        ({"trainig.seed": 8}, "unknown setting 'trainig'; did you mean 'training'"),
        ({"training.epochs": 0}, "training: epochs is 0"),
        ({"inputs.layers": "bottom"}, "layers is 'bottom'; use 'mix', 'top', or the number"),
        ({"inputs.layers": "top", "inputs.per_direction": True}, "per_direction weighs all layers"),
        ({"inputs.elmo": "none"}, "give a file of static vectors (--static FILE)"),
        (
            {"inputs.elmo": "none", "inputs.characters": True, "inputs.finetune_bilm": True},
            "finetune_bilm is true but elmo is 'none'",
        ),
        ({"inputs.elmo": "output"}, "words need vectors of their own"),
        ({"network.name": "tagger"}, "'tagger', which does not learn spam; use 'pooled' or"),
        ({"files.texts": [True]}, "files: text_column is [True]; give the name of a column"),
        ({"files.lable": "kind"}, "files: unknown setting 'lable'; did you mean 'label'"),
    ],
)
def test_what_cannot_work_is_refused_in_one_line(settings: dict[str, Any], message: str) -> None:
    assert message in error_of(task_config, name="spam", settings=settings)


def test_every_setting_of_a_network_is_of_some_network_and_presets_set_no_others() -> None:
    read = {*OF_ALL_NETWORKS, *(name for names in OF_NETWORK.values() for name in names)}
    assert read == set(hints_of(NetworkConfig))
    for task in CATALOGUE.values():
        for tables in task.presets.values():
            names = (*OF_ALL_NETWORKS, *OF_NETWORK[tables["network"]["name"]])
            assert set(tables["network"]) <= set(names)


def test_unknown_task_and_preset_are_refused_with_those_there_are() -> None:
    assert ", ".join(map(repr, CATALOGUE)) in error_of(task_config, name="translation")
    assert "'small', 'paper'" in error_of(task_config, name="spam", preset="tiny")


def test_how_files_are_read_is_text_settings_under_the_names_of_its_table() -> None:
    config = task_config("spam", settings={"files.texts": "v2", "files.label": 1})
    assert config.files == TextSettings(text_column="v2", label_column=1, tokenizer=None)
    written = config.to_dict()["files"]
    assert (written["texts"], written["label"]) == (("v2",), 1)
    assert TaskConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
