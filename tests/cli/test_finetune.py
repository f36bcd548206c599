from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pretraining.small_runs import draw_no_curves, sentences, small_run, train, write_text
from small_models import small_bilm

from elmokit.formats.native import SavedModel, read_model, write_model

Elmo = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run of `elmo pretrain`, whose model is trained on."""
    folder = tmp_path_factory.mktemp("model")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ELMOKIT_CACHE", str(folder / "cache"))
        draw_no_curves(patch)
        return str(train(small_run(folder)).model)


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("ELMOKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    draw_no_curves(monkeypatch)
    lines = [[*words[:3], "engine", *words[3:]] for words in sentences(40, seed=2)]
    return write_text(tmp_path / "domain.txt", lines)


def fails(elmo: Elmo, *arguments: str) -> str:
    """Run a command that must fail as a user can fix; give its one line."""
    code, out, err = elmo("finetune", *arguments, "--processes=1", "--quiet")
    assert (code, out) == (1, "")
    assert err.startswith("elmo: ")
    assert err.count("\n") == 1
    return err


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


def test_every_flag_reaches_the_library(elmo: Elmo, model: str, text: str) -> None:
    flags = ["--epochs", "2", "--new-words", "1", "--set", "training.rows=4", "--processes", "1"]
    code, out, err = elmo("finetune", model, text, "-o", "mine", *flags, "--json", "--quiet")
    assert (code, err) == (0, "")
    result = json.loads(out)
    targets = sum(len(line.split()) + 1 for line in Path(text).read_text().splitlines())
    assert result["steps"] == -(-2 * targets // (4 * 20))
    assert result["after"]["mean"] < result["before"]["mean"]
    assert result["held_out"] is False
    vocabulary = read_model(result["model"]).vocabulary
    assert vocabulary is not None
    assert vocabulary.words[-1] == "engine"


def test_steps_take_the_place_of_epochs(elmo: Elmo, model: str, text: str) -> None:
    flags = ["--set", "training.steps=3", "--json", "--quiet"]
    _, out, _ = elmo("finetune", model, text, "-o", "mine", *flags)
    assert json.loads(out)["steps"] == 3


def test_a_stopped_run_is_resumed(elmo: Elmo, model: str, text: str) -> None:
    arguments = ["finetune", model, text, "-o", "mine", "--json"]
    assert elmo(*arguments)[0] == 0
    assert "already holds a run" in fails(elmo, *arguments[1:])
    code, out, err = elmo(*arguments, "--epochs", "2", "--resume")
    assert code == 0
    assert "resumed at step" in err
    assert json.loads(out)["steps"] > 5


def test_a_model_that_cannot_be_trained_on_is_one_line(
    elmo: Elmo, text: str, tmp_path: Path
) -> None:
    bilm = small_bilm()
    write_model(tmp_path / "plain", SavedModel(bilm.config, bilm.state_dict(), "default", None))
    message = fails(elmo, "plain", text, "-o", "mine")
    assert "this model has no softmax or no vocabulary" in message
    assert "nowhere" in fails(elmo, "nowhere", text, "-o", "mine")
    assert not Path("mine").exists()


def test_wrong_text_or_settings_are_one_line(elmo: Elmo, model: str, text: str) -> None:
    assert "no file matches" in fails(elmo, model, "nowhere.txt", "-o", "mine")
    message = fails(elmo, model, text, "-o", "mine", "--set", "training.learning_rte=1")
    assert "did you mean 'learning_rate'?" in message
    Path("empty.txt").write_text("\n")
    assert "there are no words" in fails(elmo, model, "empty.txt", "-o", "mine")
    assert not Path("mine").exists()


def test_another_model_is_not_resumed(elmo: Elmo, model: str, text: str, tmp_path: Path) -> None:
    assert elmo("finetune", model, text, "-o", "mine")[0] == 0
    other = train(small_run(tmp_path / "other", {"model.cell_size": 16})).model
    message = fails(elmo, str(other), text, "-o", "mine", "--resume")
    assert "model.cell_size was 12, is 16" in message


def test_number_that_cannot_work_is_wrong_usage(elmo: Elmo, model: str, text: str) -> None:
    code, _, err = elmo("finetune", model, text, "-o", "mine", "--new-words", "-1")
    assert code == 2
    assert "--new-words" in err
