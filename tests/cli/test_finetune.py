from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers import Elmo, Fails, Prints, write_sentences
from pretraining.small_runs import sentences, small_run, train

from elmokit.formats.native import read_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run of `elmo pretrain`, whose model is trained on."""
    folder = tmp_path_factory.mktemp("model")
    return str(train(small_run(folder)).model)


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    lines = [[*words[:3], "engine", *words[3:]] for words in sentences(40, seed=2)]
    return write_sentences(tmp_path / "domain.txt", lines)


@pytest.fixture
def fails(fails: Fails) -> Fails:
    return lambda *arguments: fails("finetune", *arguments, "--processes=1", "--quiet")


def test_what_was_gained_is_told(elmo: Elmo, model: str, text: str) -> None:
    rate = ["--set", "training.learning_rate=0.03"]
    code, out, err = elmo("finetune", model, text, "--valid", text, "-o", "mine", *rate)
    assert code == 0
    first, before, after, last = out.splitlines()
    assert first == "perplexity of the held-out text:"
    assert before.startswith("  before  perplexity ")
    assert after.startswith("  after   perplexity ")
    assert last == f"the model is in {Path('mine') / 'model'}"
    assert "step " in err


def test_every_flag_reaches_the_library(prints_only: Prints, model: str, text: str) -> None:
    flags = ["--epochs", "2", "--new-words", "1", "--set", "training.rows=4", "--processes", "1"]
    out = prints_only("finetune", model, text, "-o", "mine", *flags, "--json", "--quiet")
    result = json.loads(out)
    targets = sum(len(line.split()) + 1 for line in Path(text).read_text().splitlines())
    assert result["steps"] == -(-2 * targets // (4 * 20))
    assert result["after"]["mean"] < result["before"]["mean"]
    assert result["held_out"] is False
    vocabulary = read_model(result["model"]).vocabulary
    assert vocabulary is not None
    assert vocabulary.words[-1] == "engine"


def test_a_stopped_run_is_resumed(elmo: Elmo, fails: Fails, model: str, text: str) -> None:
    arguments = ["finetune", model, text, "-o", "mine", "--json"]
    assert elmo(*arguments)[0] == 0
    assert "already holds a run" in fails(*arguments[1:])
    assert elmo(*arguments, "--force")[0] == 0
    code, out, err = elmo(*arguments, "--epochs", "2", "--resume")
    assert code == 0
    assert "resumed at step" in err
    assert json.loads(out)["steps"] > 5


@pytest.mark.parametrize("name", ["my-bilm", "my-bilm/model", "link"])
def test_force_does_not_remove_the_model_that_is_trained_on(
    name: str, fails: Fails, text: str, tmp_path: Path
) -> None:
    trained = train(small_run(tmp_path, {"output": "my-bilm"})).model
    (tmp_path / "link").symlink_to(trained.absolute())
    assert "choose another --output" in fails(name, text, "-o", "my-bilm", "--force")
    read_model(trained)
