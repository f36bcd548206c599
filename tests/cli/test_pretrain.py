from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from closeness import assert_close
from helpers import Elmo, Fails, Prints, write_sentences
from pretraining.small_runs import measured, sentences, write_run

from elmokit.pretraining.config import recipes


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def fails(fails: Fails) -> Fails:
    return lambda *arguments: fails(*arguments, "--quiet")


def test_a_run_tells_how_it_goes_and_what_it_came_to(
    elmo: Elmo, tmp_path: Path, every_line: object
) -> None:
    valid = write_sentences(tmp_path / "held-out.txt", sentences(10, seed=2))
    code, out, err = elmo(*write_run(tmp_path), "--valid", valid, "-o", "mine")
    assert code == 0
    assert out.startswith("held out: perplexity ")
    assert out.splitlines()[-1] == f"the model is in {Path('mine') / 'model'}"
    assert "text: 741 words, 84 different ones, in 60 sentences\n" in err
    assert "training: 12 of 12 steps" in err
    assert "epoch 0.7" in err
    assert "reading held-out text: 10 of 10 sentences" in err
    assert "step 12: held-out perplexity" in err
    assert {"checkpoints", "metrics.jsonl", "model"} <= {p.name for p in Path("mine").iterdir()}


@pytest.mark.usefixtures("every_line")
def test_a_sampled_loss_is_shown_as_such(elmo: Elmo, tmp_path: Path) -> None:
    _, _, err = elmo(*write_run(tmp_path, {"training.samples": 20}))
    assert "sampled loss" in err
    assert "perplexity" not in err


def test_a_program_gets_json(prints_only: Prints, tmp_path: Path) -> None:
    out = prints_only(*write_run(tmp_path), "--json", "--quiet")
    result = json.loads(out)
    assert (result["steps"], result["perplexity"]) == (12, None)
    assert Path(result["model"]) == tmp_path / "run" / "model"
    assert result["words"] > 0


def test_perplexity_in_the_metrics_is_what_elmo_perplexity_gives(
    elmo: Elmo, tmp_path: Path
) -> None:
    valid = write_sentences(tmp_path / "held-out.txt", sentences(10, seed=2))
    settings = {"training.optimiser": "adamw", "training.learning_rate": 0.01}
    elmo(*write_run(tmp_path, settings | {"logging.validate_every": 4}), "--valid", valid)
    best = min(measured(tmp_path / "run", "validation"), key=lambda line: line["perplexity"])

    _, out, _ = elmo("perplexity", valid, "--model", str(tmp_path / "run" / "model"), "--json")

    result = json.loads(out)
    assert_close(result["mean"], best["perplexity"])
    assert_close(result["forward"], best["perplexity_forward"])
    assert_close(result["backward"], best["perplexity_backward"])


def test_flags_take_the_place_of_the_file(elmo: Elmo, tmp_path: Path) -> None:
    other = write_sentences(tmp_path / "other.txt", sentences(30, seed=2))
    flags = ["--train", other, "-o", "elsewhere", "--set", "training.steps=2"]
    _, out, _ = elmo(*write_run(tmp_path), *flags, "--json")
    assert json.loads(out)["steps"] == 2
    assert json.loads(out)["model"] == str(Path("elsewhere") / "model")


def test_steps_take_the_place_of_epochs(elmo: Elmo, tmp_path: Path) -> None:
    arguments = write_run(tmp_path)
    run = Path(arguments[1])
    run.write_text(run.read_text().replace("steps = 12", "epochs = 10"))
    _, out, _ = elmo(*arguments, "--set", "training.steps=2", "--json")
    assert json.loads(out)["steps"] == 2


# Text


def test_text_that_is_not_there_is_one_line(fails: Fails, tmp_path: Path) -> None:
    assert "no file matches" in fails(*write_run(tmp_path), "--train", "nowhere/*.gz")
    assert "no file matches" in fails(*write_run(tmp_path), "--valid", "nowhere.txt")
    (tmp_path / "empty.txt").write_text("\n")
    assert "held-out text has no words" in fails(*write_run(tmp_path), "--valid", "empty.txt")
    nothing = write_run(tmp_path, {"corpus.train": []})
    assert "no text to train on; name some: --train" in fails(*nothing)


# Settings


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("training.learning_rte=1", "unknown setting 'learning_rte'; did you mean"),
        ("training.rows=many", "rows is 'many'"),
        ("training.word_vectors=vectors.txt", 'set model.encoder = "words"'),
        ("rows", "'rows' is not a setting; write name=value"),
    ],
)
def test_a_wrong_setting_is_one_line(
    fails: Fails, tmp_path: Path, setting: str, message: str
) -> None:
    assert message in fails(*write_run(tmp_path), "--set", setting)
    assert not (tmp_path / "run").exists()


def test_a_wrong_file_of_settings_is_one_line(fails: Fails, tmp_path: Path) -> None:
    run, *flags = write_run(tmp_path)[1:]
    assert "nowhere.toml: cannot be read" in fails("pretrain", "nowhere.toml", *flags)
    Path(run).write_text("[training\n")
    assert "run.toml: is not TOML" in fails("pretrain", run, *flags)
    Path(run).write_text("[training]\nsteps = 1\nepochs = 1\n")
    assert "run.toml: training: give one of epochs and steps" in fails("pretrain", run, *flags)
    Path(run).write_text("[training]\nsteps = 1\n")
    assert "run.toml: model: settings are incomplete" in fails("pretrain", run, *flags)


def test_a_run_without_a_folder_is_one_line(fails: Fails, tmp_path: Path) -> None:
    run = write_run(tmp_path)[1]
    message = fails("pretrain", run, "--train", str(tmp_path / "text.txt"))
    assert "the run has no folder; name one: --output" in message
    assert "--train" not in message
    assert "--output, or output in the TOML file; and text to train on: --train" in fails(
        "pretrain", "modern"
    )


# Vocabularies and vectors


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (None, "words.txt: cannot be read"),
        ("<S>\n</S>\n<UNK>\nthe\nthe\n", "words.txt, line 5: 'the' is on line 4 too"),
        ("<S>\n</S>\nthe\n", "no <UNK>"),
        (None, "vectors.txt: "),
        ("the 1 2 3\n", "vectors have 3 numbers and the model's 8; set model.token_size"),
        ("aardvark" + " 1" * 8 + "\n", "vectors.txt: has none of the vocabulary's 87 words"),
    ],
)
def test_a_wrong_vocabulary_or_wrong_vectors_are_one_line(
    fails: Fails, tmp_path: Path, contents: str | None, message: str
) -> None:
    for name in ("words.txt", "vectors.txt"):
        if contents is not None:
            (tmp_path / name).write_text(contents)
    settings: dict[str, Any] = {"corpus.vocabulary": "words.txt"}
    if "vectors" in message:
        settings = {"model.encoder": "words", "training.word_vectors": "vectors.txt"}
    assert message in fails(*write_run(tmp_path, settings))


# Folders


def test_resuming_goes_on_or_says_why_not(elmo: Elmo, fails: Fails, tmp_path: Path) -> None:
    arguments = write_run(tmp_path)
    assert "holds no checkpoint to resume from" in fails(*arguments, "--resume")
    assert elmo(*arguments)[0] == 0
    assert "already holds a run; continue with --resume" in fails(*arguments)
    assert elmo(*arguments, "--force")[0] == 0
    message = fails(*arguments, "--resume", "--set", "model.cell_size=16")
    assert "model.cell_size was 12, is 16" in message
    _, out, err = elmo(*arguments, "--resume", "--set", "training.steps=14", "--json")
    assert json.loads(out)["steps"] == 14
    assert "resumed at step 12\n" in err


def test_a_place_that_cannot_be_written_to_is_one_line(fails: Fails, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in ("file", os.path.join("file", "run")):
        assert "file" in fails(*write_run(tmp_path), "-o", place)


def test_recipes_are_in_the_package(fails: Fails, prints_only: Prints) -> None:
    lines = prints_only("pretrain", "--list").splitlines()
    assert [line.split()[0] for line in lines] == ["modern", "paper"]
    for path in recipes().values():
        assert not re.search(r"docs/|runs/|\.\./|\.md", path.read_text())
    assert "the recipes that there are: modern, paper" in fails("pretrain", "moder", "-o", "mine")


def test_too_little_text_for_the_cutoffs_is_told_what_to_do(
    elmo: Elmo, fails: Fails, tmp_path: Path
) -> None:
    text = write_sentences(tmp_path / "text.txt", sentences(20))
    few = ["pretrain", "modern", "--train", text, "-o", "mine"]
    assert "--set model.softmax_cutoffs=" in fails(*few)
    small = ["cell_size=10", "token_size=6", "encoder.filters=[[1, 4]]", "softmax_cutoffs="]
    settings = [part for each in small for part in ("--set", f"model.{each}")]
    settings += [f"--set=training.{each}" for each in ("rows=2", "unroll=5", "steps=1")]
    assert elmo(*few, *settings, "--quiet")[0] == 0
