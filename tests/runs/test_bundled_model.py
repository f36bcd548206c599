import json
import re
import subprocess

import pytest
from helpers import error_of
from small_models import COUNTED, small_saved_model

from elmokit import Embedder
from elmokit.bundled import BUNDLED, known_versions
from elmokit.errors import InputError
from elmokit.formats.native import read_model, write_model
from runs import bundled_model
from runs.bundled_model import (
    CARDS,
    NAMES,
    commands,
    make_card,
    remember,
    settings_table,
    ship,
    training_table,
    version_for,
)

CARD = """# A model

| | |
|---|---|
| LSTM | 2 layers |

## Training

| | |
|---|---|
| steps | 5 |
| held-out text | perplexity 7 |
"""
SAVED = small_saved_model(vocabulary=COUNTED, softmax_words=len(COUNTED))._replace(card=CARD)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ending", CARDS.values())
def test_every_table_finds_its_place(name, ending):
    tables = {table: f"# Title\n\n## Part\n\n| {table} |" for table in commands(name, "model")}
    card = make_card(name, SAVED._replace(version=f"{name} 3"), tables, ending)
    for table in tables:
        assert f"| {table} |" in card
    assert "| steps | 5 |" in card
    assert f"| version | {name} 3 |" in card
    assert "{" not in card


@pytest.mark.parametrize("name", NAMES)
def test_history_of_training_is_that_of_a_run_or_of_a_shipped_card(name):
    of_run = training_table(CARD)
    assert of_run.splitlines()[-1] == "| steps | 5 |"
    shipped = training_table((BUNDLED / name / "README.md").read_text(encoding="utf-8"))
    assert re.search(r"^\| words read \| [\d,]{9,} \|$", shipped, re.MULTILINE)
    assert error_of(training_table, "# A card", kind=InputError)


@pytest.mark.parametrize("ending", CARDS.values())
def test_the_english_card_tells_of_its_own_version_and_settings(ending, tmp_path):
    saved = SAVED._replace(version="english-small 7")
    tables = dict.fromkeys(commands("english-small", "model"), "")
    assert settings_table(tmp_path) == ""
    record = tmp_path / "checkpoints" / "step-000000005" / "state.json"
    record.parent.mkdir(parents=True)
    training = {"optimiser": "muon", "betas": [0.9, 0.99], "seed": 1}  # the default
    record.write_text(json.dumps({"values": {"settings": {"training": training}}}))
    card = make_card("english-small", saved, tables, ending, settings_table(tmp_path))
    assert re.findall(r"(?:version|버전) (\d+)", card) == ["7"]
    assert re.findall(r"`training\.(\w+)` \| (.*) \|", card) == [
        ("optimiser", '"muon"'),
        ("betas", "[0.9, 0.99]"),
    ]


LINK = re.compile(r"\]\((?!\w+:)([^)\s#]+)")


def test_every_link_between_cards_leads_to_a_file():
    for folder in (path for path in BUNDLED.iterdir() if (path / "README.md").exists()):
        for card in folder.glob("*.md"):
            for target in LINK.findall(card.read_text(encoding="utf-8")):
                assert (folder / target).exists(), (card, target)
    for name in NAMES:  # a template's are those of the folder that it is written into
        shipped = {*CARDS, "config.json", "vocabulary.txt"}
        for ending in CARDS.values():
            template = bundled_model.PROSE / f"{name.replace('-', '_')}{ending}"
            assert {*LINK.findall(template.read_text(encoding="utf-8"))} <= shipped


def test_a_table_is_made_once_for_its_weights_and_command(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text('{"weights": {"sha256": "0123456789"}}')
    known = {"one": ["calendar", str(tmp_path)], "two": ["this"]}
    monkeypatch.setattr(bundled_model, "commands", lambda name, model: known)
    monkeypatch.setattr(bundled_model, "recipe", lambda name: tmp_path / "config.json")
    ran = []

    def printed(command, **_):
        ran.append(command[2:])
        return subprocess.CompletedProcess(command, 0, f"{len(ran)}\n")

    monkeypatch.setattr(bundled_model.subprocess, "run", printed)

    def measured(only=None):
        return bundled_model.measure("english-small", tmp_path, tmp_path, only)

    assert measured(["two"]) == {"two": "1"}
    assert measured() == {"one": "2", "two": "1"}
    known["two"].append("--more")
    assert measured() == {"one": "2", "two": "3"}
    (tmp_path / "config.json").write_text('{"weights": {"sha256": "9876543210"}}')
    assert measured() == {"one": "4", "two": "5"}
    assert ran[0] == ["this"]
    assert ran[2] == ran[4] == ["this", "--more"]


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """Ships a small model into a folder as english-small; gives the folder and its versions."""
    output = tmp_path / "english-small"

    def answer(command, **_):
        return subprocess.CompletedProcess(command, 0, f"# {command[2]}\n\n## of {command[2]}\n")

    monkeypatch.setattr(bundled_model.subprocess, "run", answer)
    monkeypatch.setattr(bundled_model, "command_line", lambda *command: "by hand")
    monkeypatch.setattr(bundled_model, "BUNDLED", tmp_path)
    write_model(tmp_path / "run" / "model", SAVED)
    versions = tmp_path / "versions.json"
    versions.write_text(json.dumps(known_versions()))
    ship("english-small", tmp_path / "run", output, versions=versions)
    return output, json.loads(versions.read_text())


def test_a_shipped_model_has_cards_in_both_languages_and_the_next_version(shipped):
    output, versions = shipped
    before = [one for one in known_versions().values() if one.startswith("english-small")]
    version = f"english-small {len(before) + 1}"
    assert read_model(output).version == version
    assert versions == known_versions() | {Embedder.load(output).fingerprint(): version}
    for card in CARDS:
        text = (output / card).read_text(encoding="utf-8")
        assert f"| version | {version} |" in text
        for module in ("runs.heldout", "runs.examples", "runs.mistakes", "elmokit"):
            assert f"of {module}\n" in text
    assert (output / "README.md").read_text(encoding="utf-8").startswith("---\nlibrary_name")
    names = {"README.md", "README.ko.md", "config.json", "model.safetensors", "vocabulary.txt"}
    assert {path.name for path in output.iterdir()} == names


def test_weights_keep_the_version_that_they_had_unless_another_is_asked_for(tmp_path):
    known, version = next(iter(known_versions().items()))
    assert version_for("english-small", known, None) == version == "english-small 1"
    assert version_for("english-small", known, 7) == "english-small 7"
    path = tmp_path / "versions.json"
    path.write_text(json.dumps({"a": "tiny 1", "b": "tiny 2"}))
    remember("tiny 2", "c", path)  # a trial is replaced
    assert json.loads(path.read_text()) == {"a": "tiny 1", "c": "tiny 2"}
