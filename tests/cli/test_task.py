from __future__ import annotations

import io
import json
import signal
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from closeness import assert_close
from helpers import Elmo, Fails, Prints, set_flags
from tasks.small_tasks import FAST, Interrupting, weights, write_bilm, write_examples

from elmokit import TrainedTask
from elmokit.tasks.catalogue import CATALOGUE

QUICK = FAST | {"training.epochs": 2}


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def command(name: str, folder: Path, **settings: Any) -> list[str]:
    """A training command on small files in `folder`."""
    bilm = folder / "bilm"
    if not bilm.exists():
        write_bilm(bilm)
    files = [str(write_examples(folder, name, part)) for part in ("train", "dev")]
    files = ["--train", files[0], "--dev", files[1], "--model", str(bilm)]
    return ["task", "train", name, *files, *set_flags(QUICK | settings)]


@pytest.fixture(scope="module")
def spam(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a task that has learnt."""
    from tasks.small_tasks import train

    from elmokit.tasks.trained import BilmReference

    folder = tmp_path_factory.mktemp("trained")
    bilm = BilmReference(str(write_bilm(folder / "bilm")))
    return train(folder, "spam", bilm=bilm).folder


# Training


def test_training_tells_how_it_goes_and_what_it_came_to(elmo: Elmo, tmp_path: Path) -> None:
    test = str(write_examples(tmp_path, "ner", "test"))
    code, out, err = elmo(*command("ner", tmp_path), "--test", test, "-o", "mine")

    assert code == 0
    assert out.startswith("dev: F1 ")
    assert "\ntest: F1 " in out
    assert "ELMo at the input: gamma" in out
    assert out.endswith("the trained task is in mine\n")
    assert "60 examples to train on, 30 for dev, 20 for test; 2 types of entities" in err
    assert "epoch 1: loss" in err
    assert "the best so far" not in err  # no entity was found yet


def test_a_program_gets_json_and_nothing_else(prints_only: Prints, tmp_path: Path) -> None:
    out = prints_only(*command("pos", tmp_path), "-o", "mine", "--json", "--quiet")
    result = json.loads(out)
    assert result["task"] == "pos"
    assert result == json.loads((tmp_path / "mine" / "results.json").read_text())


def test_without_dev_it_is_said_what_is_held_out(elmo: Elmo, tmp_path: Path) -> None:
    arguments = command("spam", tmp_path)
    place = arguments.index("--dev")
    del arguments[place : place + 2]
    _, _, err = elmo(*arguments, "-o", "mine")
    assert "no dev file: held out of the training examples, a tenth: 6" in err


def test_flags_take_the_place_of_settings(elmo: Elmo, tmp_path: Path) -> None:
    (tmp_path / "vectors.txt").write_text("the 0.1 0.2\nwe 0.3 0.4\n")
    flags = [
        "--static", "vectors.txt", "--elmo", "both", "--layers", "1", "--seed", "9",
        "--fraction", "0.5", "--tokenizer", "whitespace", "--cache", "none",
    ]  # fmt: skip
    _, out, _ = elmo(*command("spam", tmp_path), *flags, "-o", "mine", "--json", "--quiet")

    result = json.loads(out)
    inputs, training = result["config"]["inputs"], result["config"]["training"]
    assert (inputs["static"], inputs["elmo"], inputs["layers"]) == ("vectors.txt", "both", 1)
    assert (training["seed"], training["fraction"]) == (9, 0.5)
    assert result["config"]["files"]["tokenizer"] == "whitespace"
    assert result["examples"]["train"] == 30
    assert len(result["mixes"]) == 2


def test_flags_of_the_bilm_and_of_presets(elmo: Elmo, tmp_path: Path) -> None:
    flags = ["--per-direction", "--finetune-bilm", "--preset", "paper", "-o", "mine"]
    _, out, _ = elmo(*command("spam", tmp_path), *flags, "--json", "--quiet")
    settings = json.loads(out)["config"]
    assert settings["inputs"]["per_direction"]
    assert settings["inputs"]["finetune_bilm"]
    assert settings["training"]["batch_examples"] == 60
    assert (tmp_path / "mine" / "bilm").is_dir()


def test_the_learnt_mixes_are_files_that_embed_reads(elmo: Elmo, tmp_path: Path) -> None:
    both = command("sst", tmp_path, **{"inputs.elmo": "both"})
    assert elmo(*both, "--output", "task")[0] == 0
    trained = TrainedTask.load("task").model.inputs
    Path("text.txt").write_text("the boy sits .\n", encoding="utf-8")
    for mix, name in zip(trained.mixes, ["mix.json", "mix-output.json"], strict=True):
        output = name.replace("json", "npz")
        embed = ["embed", "text.txt", "-o", output, "--model", "bilm", "--layers", "mix"]
        assert elmo(*embed, f"task/{name}")[0] == 0
        assert trained.elmo is not None
        vectors, mask = trained.elmo([["the", "boy", "sits", "."]])
        assert_close(np.load(output)["0"], mix(vectors, mask)[0].detach().numpy())
    embed[3] = "folder.npz"
    assert elmo(*embed, "task")[0] == 0
    assert np.array_equal(np.load("folder.npz")["0"], np.load("mix.npz")["0"])
    assert "bilm/mix.json: cannot be read" in elmo(*embed, "bilm", "--force")[2]


def test_a_task_on_one_layer_has_no_mix_to_embed_with(elmo: Elmo, tmp_path: Path) -> None:
    assert elmo(*command("spam", tmp_path), "--layers", "top", "--output", "task")[0] == 0
    assert not (tmp_path / "task" / "mix.json").exists()


def test_phrases_are_trained_on_where_asked(elmo: Elmo, tmp_path: Path) -> None:
    counts = []
    for flags in (["--phrases"], []):
        arguments = [*command("sst", tmp_path), *flags, "-o", f"mine{len(counts)}"]
        counts.append(json.loads(elmo(*arguments, "--json", "--quiet")[1])["examples"])
    phrases, sentences = counts
    assert phrases["train"] > sentences["train"]
    assert phrases["dev"] == sentences["dev"]


def test_a_baseline_takes_no_model(prints: Prints, tmp_path: Path) -> None:
    arguments = [*command("spam", tmp_path, **{"inputs.characters": True}), "--no-elmo"]
    out = prints(*arguments, "-o", "mine", "--quiet")
    assert "ELMo" not in out


def test_files_in_other_words_and_columns_can_be_read(
    elmo: Elmo, prints: Prints, tmp_path: Path
) -> None:
    rows = ["caf\xe9 $$$;spam", "caf\xe9 home;ham"] * 6
    (tmp_path / "mine.txt").write_bytes("\n".join(rows).replace(";", "\t").encode("latin-1"))
    arguments = command("spam", tmp_path)
    arguments[arguments.index("--train") + 1] = arguments[arguments.index("--dev") + 1] = "mine.txt"
    flags = ["--format", "tsv", "--encoding", "latin-1", "--no-header", "--quiet", "--json"]
    columns = ["--label-column", "2", "--text-column", "1"]

    out = prints(*arguments, *flags, *columns, "-o", "mine")
    assert json.loads(out)["dev"]["labels"] == ["ham", "spam"]
    _, out, _ = elmo("task", "evaluate", "mine", "mine.txt", "--json")
    assert json.loads(out)["total"] == 12
    (tmp_path / "with.tsv").write_text("text\tlabel\ncaf\tham\n")
    _, out, _ = elmo("task", "evaluate", "mine", "with.tsv", "--header", "--json")
    assert json.loads(out)["total"] == 1


def test_ctrl_c_saves_says_how_to_go_on_and_that_is_exact(
    elmo: Elmo, prints: Prints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = [*command("spam", tmp_path, **{"network.dropout": 0.3}), "--quiet"]
    elmo(*arguments, "-o", "whole")
    with monkeypatch.context() as interrupted:
        stop = Interrupting(2, 2, lambda: signal.raise_signal(signal.SIGINT))
        interrupted.setattr(
            sys.modules["elmokit.cli.task"], "Display", lambda quiet: nullcontext(stop)
        )
        code, out, err = elmo(*arguments, "-o", "cut")
    assert (code, out) == (130, "")
    assert err.count("\n") == 1
    assert "everything is saved in cut/checkpoints; to resume, run the same command with" in err

    prints(*arguments, "-o", "cut", "--resume")
    found, expected = weights(tmp_path / "cut"), weights(tmp_path / "whole")
    assert all(bool((found[name] == expected[name]).all()) for name in expected)


def test_a_run_is_replaced_only_by_force(elmo: Elmo, fails: Fails, tmp_path: Path) -> None:
    arguments = [*command("spam", tmp_path), "-o", "mine", "--quiet"]
    elmo(*arguments)
    assert "already holds a run; continue with --resume" in fails(*arguments)
    assert elmo(*arguments, "--force")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--no-elmo"], "give a file of static vectors (--static FILE)"),
        (["--seed", str(2**63)], "use a smaller number"),
        (["--device", "meta"], "device 'meta' holds no numbers"),
        (["--model", "nowhere", "--test", "none.csv"], "none.csv: cannot be read"),
        (["-o", "nowhere/mine"], "nowhere/mine: there is no folder nowhere to write it into"),
        (["--set", "kind=pair"], "kind cannot be set"),
        (["--set", "epochs=3"], "unknown setting 'epochs'; did you mean 'training.epochs'?"),
        (["-o", "spam.train.csv"], "spam.train.csv: is a file; give the name of a folder"),
        (["--set", "name=sst"], "name cannot be set: the task's name, here 'spam'"),
        (["--static", "none.txt"], "none.txt: "),
        (["--resume"], "holds no checkpoint to resume from"),
    ],
)
def test_what_cannot_work_is_one_line(
    arguments: list[str], message: str, fails: Fails, tmp_path: Path
) -> None:
    assert message in fails(*command("spam", tmp_path), "-o", "mine", *arguments, "--quiet")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--label-column", "3"], "is CoNLL-U, whose tags are upos (column 4) or xpos (column 5)"),
        (["--text-column", "3"], "is CoNLL-U, whose words are column 2, and not '3'"),
        (["--format", "columns", "--label-column", "upos"], "which have no names such as 'upos'"),
        (["--label-column", "5"], "pos.train.conllu, line 1: 'the' has no xpos tag, only '_'"),
    ],
)
def test_columns_that_a_tagged_file_does_not_have_are_one_line(
    arguments: list[str], message: str, fails: Fails, tmp_path: Path
) -> None:
    assert message in fails(*command("pos", tmp_path), "-o", "mine", *arguments, "--quiet")


def test_contradicting_flags_and_unknown_tasks_are_wrong_usage(elmo: Elmo, tmp_path: Path) -> None:
    code, _, err = elmo(*command("spam", tmp_path), "-o", "mine", "--no-elmo", "--elmo", "both")
    assert code == 2
    assert "contradict each other" in err
    code, _, err = elmo("task", "train", "translation", "--train", "a", "-o", "b")
    assert (code, ", ".join(map(repr, CATALOGUE)) in err) == (2, True)
    assert "spam learns any classes of texts" in err


# Evaluating


def test_evaluation_prints_scores_class_by_class(
    prints_only: Prints, spam: Path, tmp_path: Path
) -> None:
    path = str(write_examples(tmp_path, "spam", "dev"))
    out = prints_only("task", "evaluate", str(spam), path)
    assert out.startswith("accuracy ")
    assert "right \\ predicted" in out


def test_a_folder_of_something_else_is_one_line(fails: Fails, tmp_path: Path) -> None:
    bilm = str(write_bilm(tmp_path / "bilm"))
    for folder in (bilm, str(tmp_path)):
        message = fails("task", "evaluate", folder, "a.csv")
        assert "elmo task train" in message


# Predicting


def test_raw_text_becomes_json_lines_with_probabilities(
    prints_only: Prints, spam: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "you $$$ 1000.\n\nwe see MOTHER.\n"
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text.encode())))
    out = prints_only("task", "predict", str(spam), "-", "--probabilities")
    first, second = map(json.loads, out.splitlines())
    assert (first["text"], first["label"]) == ("you $$$ 1000.", "spam")
    assert (second["text"], second["label"]) == ("we see MOTHER.", "ham")
    assert sum(first["probabilities"].values()) == pytest.approx(1)


def test_json_lines_keep_what_else_they_hold_and_go_to_a_file(
    elmo: Elmo, spam: Path, tmp_path: Path
) -> None:
    lines = [{"id": n, "words": ["you", "$$$"], "label": "mine"} for n in range(3)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    code, out, err = elmo("task", "predict", str(spam), "in.jsonl", "-o", "out.jsonl")

    assert (code, out, err) == (0, "", "3 answers in out.jsonl\n")
    answers = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [answer["id"] for answer in answers] == [0, 1, 2]
    assert {answer["label"] for answer in answers} == {"spam"}
    assert {answer["given_label"] for answer in answers} == {"mine"}


def test_a_table_is_asked_about_its_text_column(
    prints_only: Prints, spam: Path, tmp_path: Path
) -> None:
    (tmp_path / "in.csv").write_bytes(
        "id,message\n7,you $$$ \xe9\n8,we see MOTHER\n".encode("latin-1")
    )
    flags = ["--text-column", "message", "--encoding", "latin-1"]
    out = prints_only("task", "predict", str(spam), "in.csv", *flags)
    first, second = map(json.loads, out.splitlines())
    assert (first["id"], first["message"], first["label"]) == ("7", "you $$$ \xe9", "spam")
    assert (second["id"], second["label"]) == ("8", "ham")


@pytest.mark.filterwarnings("default::elmokit.errors.ElmoWarning")
def test_tables_are_asked_about_what_was_trained_on(
    elmo: Elmo, prints_only: Prints, fails: Fails, tmp_path: Path
) -> None:
    rows = ["kind,text,body", *["spam,x,you $$$ 1000", "ham,x,we see MOTHER"] * 12]
    (tmp_path / "mine.txt").write_text("\n".join(rows))
    arguments = command("spam", tmp_path, **{"training.epochs": 12})
    arguments[arguments.index("--train") + 1] = arguments[arguments.index("--dev") + 1] = "mine.txt"
    flags = ["--format", "csv", "--label-column", "kind", "--text-column", "body", "--quiet"]
    assert elmo(*arguments, *flags, "-o", "mine")[0] == 0

    code, out, err = elmo("task", "predict", "mine", "mine.txt")
    assert (code, err.count("\n")) == (0, 1)
    assert err.startswith("elmo: note: mine.txt: is read as csv, as the training files were")
    answers = [json.loads(line) for line in out.splitlines()]
    assert [answer["label"] for answer in answers] == [answer["kind"] for answer in answers]
    _, out, _ = elmo("task", "predict", "mine", "mine.txt", "--format", "text")
    assert json.loads(out.splitlines()[0])["text"] == "kind,text,body"

    objects = [{"text": "we see MOTHER", "body": "you $$$ 1000"}, {"message": "we see MOTHER"}]
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, objects)))
    out = prints_only("task", "predict", "mine", "in.jsonl")
    assert [json.loads(line)["label"] for line in out.splitlines()] == ["spam", "ham"]

    (tmp_path / "trees.txt").write_text("(ham (ham we) (ham see))\n")
    evaluate = ["task", "evaluate", "mine", "trees.txt", "--format", "trees", "--json", "--quiet"]
    assert json.loads(elmo(*evaluate)[1])["total"] == 1
    message = fails(*evaluate, "--text-column", "text")
    assert "trees.txt: is read as 'trees', in which no column can be chosen" in message


def test_a_file_of_answers_is_replaced_only_by_force(
    elmo: Elmo, fails: Fails, spam: Path, tmp_path: Path
) -> None:
    (tmp_path / "in.txt").write_text("we go\n")
    (tmp_path / "out.jsonl").write_text("precious")
    arguments = ["task", "predict", str(spam), "in.txt", "-o", "out.jsonl", "--quiet"]
    assert "out.jsonl: is there already" in fails(*arguments)
    assert (tmp_path / "out.jsonl").read_text() == "precious"
    assert elmo(*arguments, "--force")[0] == 0
    assert json.loads((tmp_path / "out.jsonl").read_text())["text"] == "we go"


def test_a_bad_line_leaves_no_file(fails: Fails, spam: Path, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"text": "a"}\n{"text": 7}\n')
    message = fails("task", "predict", str(spam), "in.jsonl", "-o", "out.jsonl", "--quiet")
    assert "in.jsonl, line 2: is 7 (int); give a text, or a list of words" in message
    assert not (tmp_path / "out.jsonl").exists()
    (tmp_path / "in.jsonl").write_text('{"words": ["a", ""]}\n')
    message = fails("task", "predict", str(spam), "in.jsonl", "--quiet")
    assert "in.jsonl, line 1: word 1, from 0, is blank (''); leave it out" in message


def test_a_stream_is_answered_before_its_last_line(answers_at_once: Any, spam: Path) -> None:
    arguments = ["task", "predict", str(spam), "-", "--quiet"]
    found = answers_at_once("free money", "at last", *arguments)
    assert (found[0]["text"], found[-1]["text"]) == ("free money", "at last")


def test_a_file_of_tagged_words_is_no_text(
    elmo: Elmo, fails: Fails, spam: Path, tmp_path: Path
) -> None:
    (tmp_path / "in.conll").write_text("Jim B-PER\n")
    message = fails("task", "predict", str(spam), "in.conll")
    assert "in.conll: is a file of labelled examples by its name" in message
    assert elmo("task", "predict", str(spam), "in.conll", "--format", "text")[0] == 0


@pytest.mark.parametrize("line", ["-DOCSTART- -X- O O", "(3 (2 It) (4 works))"])
def test_labelled_lines_are_no_text(line: str, fails: Fails, spam: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text(f"\n{line}\n")
    message = fails("task", "predict", str(spam), "in.txt")
    assert message.startswith("elmo: in.txt, line 2: is labelled")


# Help
