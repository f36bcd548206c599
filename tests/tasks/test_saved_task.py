from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tasks.small_tasks import (
    GOOD,
    NAMES,
    assert_same_predictions,
    config,
    draw_nothing,
    embedder,
    train,
    write_bilm,
    write_examples,
)

from elmokit import Embedder
from elmokit.errors import ElmoError, ElmoWarning, InputError
from elmokit.jobs.checkpoints import Checkpoint, Checkpoints
from elmokit.tasks import static_vectors
from elmokit.tasks import trained as saved_task
from elmokit.tasks.examples import hold_out
from elmokit.tasks.run import read_data, train_task
from elmokit.tasks.trained import BilmReference, TrainedTask
from elmokit.tasks.watcher import Watcher

ASKED: dict[str, list[Any]] = {
    "spam": ["we see $$$", ["you", "MOTHER"], "win $$$ at home!"],
    "sst": ["it 1000 .", ["the", "BOO", "."]],
    "ner": ["we see Jim Lee at Oslo. You continue.", ["see", "Rome"], ""],
    "pos": ["the dog runs", ["a", "cat"]],
    "nli": [("the dog runs now", "a dog !NOT! runs"), (["the", "cat"], "a cat sits")],
}
ONE_EPOCH = {"training.epochs": 1}


@pytest.fixture(autouse=True)
def _no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    draw_nothing(monkeypatch)


def refusal(folder: Path, **arguments: Any) -> str:
    with pytest.raises(ElmoError) as caught:
        TrainedTask.load(folder, **arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture(scope="module")
def spam(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained task, to be copied before it is changed."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        draw_nothing(monkeypatch)
        folder = tmp_path_factory.mktemp("spam")
        bilm = BilmReference(str(write_bilm(folder / "bilm")))
        return train(folder, "spam", ONE_EPOCH, bilm=bilm).folder


@pytest.fixture
def copy(spam: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(spam, tmp_path / "copy"))


# The same before and after


@pytest.mark.parametrize("name", list(NAMES))
def test_predictions_after_load_are_those_before_save(name: str, tmp_path: Path) -> None:
    result = train(tmp_path, name, ONE_EPOCH)
    loaded = TrainedTask.load(result.folder, bilm=embedder())
    assert_same_predictions(loaded.predict(ASKED[name]), result.trained.predict(ASKED[name]))


def test_predictions_do_not_depend_on_what_else_is_asked(spam: Path) -> None:
    trained = TrainedTask.load(spam)
    alone = [trained.predict([item])[0] for item in ASKED["spam"]]
    assert_same_predictions(alone, trained.predict(ASKED["spam"]))


def test_it_is_told_how_many_words_are_read(spam: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_task, "ITEMS_AT_ONCE", 2)
    told: list[tuple[int, int | None]] = []
    items = ["a b c", "d", "e f"]
    found = TrainedTask.load(spam).predictions(items, progress=lambda *done: told.append(done))
    assert len(list(found)) == 3
    assert told == [(0, None), (4, None), (4, None), (6, None)]


def test_items_are_read_as_they_are_answered(spam: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_task, "FIRST_ITEMS", 2)
    monkeypatch.setattr(saved_task, "ITEMS_AT_ONCE", 8)
    read: list[str] = []

    def items() -> Iterator[str]:
        for number in range(100):
            read.append(f"word{number}")
            yield read[-1]

    ahead = [
        len(read) - number for number, _ in enumerate(TrainedTask.load(spam).predictions(items()))
    ]
    assert len(ahead) == 100
    assert ahead[0] == 2
    assert max(ahead) == 8


def test_saving_again_gives_the_same_files(spam: Path, tmp_path: Path) -> None:
    TrainedTask.load(spam).save(tmp_path / "again")
    for name in ("config.json", "labels.json", "weights.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (spam / name).read_bytes()


def test_a_finetuned_bilm_is_inside_the_folder(tmp_path: Path) -> None:
    settings = ONE_EPOCH | {"inputs.finetune_bilm": True, "training.bilm_learning_rate": 0.01}
    result = train(tmp_path, "spam", settings)
    moved = result.folder.rename(tmp_path / "moved")

    loaded = TrainedTask.load(moved)

    assert_same_predictions(loaded.predict(ASKED["spam"]), result.trained.predict(ASKED["spam"]))
    frozen = TrainedTask.load(moved)
    assert not any(p.requires_grad and "bilm" in n for n, p in frozen.model.named_parameters())


def test_the_folder_holds_what_it_should(tmp_path: Path) -> None:
    result = train(tmp_path, "ner", ONE_EPOCH)
    names = {path.name for path in result.folder.iterdir()}
    assert names == {
        "checkpoints", "config.json", "labels.json", "metrics.jsonl", "report.txt",
        "results.json", "weights.safetensors",
    }  # fmt: skip
    results = json.loads((result.folder / "results.json").read_text())
    assert results["dev"]["f1"] == result.dev.score.main
    assert results["config"]["inputs"]["elmo"] == "input"


# Static vectors


def write_vectors(path: Path, words: list[str]) -> Path:
    random = np.random.default_rng(0)
    path.write_text("".join(f"{w} {' '.join(map(str, random.normal(size=4)))}\n" for w in words))
    return path


def test_static_vectors_of_new_words_are_found_in_their_file(tmp_path: Path) -> None:
    vectors = write_vectors(tmp_path / "vectors.txt", ["the", "we", "MOTHER", "$", "new"])
    settings = ONE_EPOCH | {"inputs.elmo": "none", "inputs.static": str(vectors)}
    folder = train(tmp_path, "spam", settings, bilm=None).folder

    known, unknown = TrainedTask.load(folder).predict([["new"], ["newer"]])
    assert known != unknown

    vectors.unlink()
    with pytest.warns(ElmoWarning, match="is gone, or is another file"):
        one, other = TrainedTask.load(folder).predict([["new"], ["newer"]])
    assert one == other == unknown


def test_the_file_of_static_vectors_is_read_once_for_all_items(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = write_vectors(tmp_path / "vectors.txt", ["the", "we", "one", "other"])
    settings = ONE_EPOCH | {"inputs.elmo": "none", "inputs.static": str(vectors)}
    trained = TrainedTask.load(train(tmp_path, "spam", settings, bilm=None).folder)
    monkeypatch.setattr(saved_task, "ITEMS_AT_ONCE", 1)
    read = static_vectors.read_word_vectors
    calls = []

    def counted(*arguments: Any) -> Any:
        calls.append(arguments)
        return read(*arguments)

    monkeypatch.setattr(static_vectors, "read_word_vectors", counted)
    one, other, neither = trained.predict([["one"], ["other"], ["neither"]])
    assert len(calls) == 1
    assert one != other != neither


# State and precision


def test_a_task_wants_its_bilm_in_the_state_that_it_was_trained_with(tmp_path: Path) -> None:
    bilm = write_bilm(tmp_path / "bilm")
    warm = Embedder.load(bilm, state="warm", warm_runs=3)
    result = train(tmp_path, "spam", ONE_EPOCH, bilm=warm)

    message = refusal(result.folder, bilm=Embedder.load(bilm))
    assert "whose state was ['warm', 3]" in message
    loaded = TrainedTask.load(result.folder, bilm=BilmReference(str(bilm)))
    assert loaded.bilm is not None
    assert (loaded.bilm.embedder.state, loaded.bilm.embedder.warm_runs) == ("warm", 3)
    assert_same_predictions(loaded.predict(ASKED["spam"]), result.trained.predict(ASKED["spam"]))
    fast = Embedder.load(bilm, state="warm", warm_runs=3, precision="fast")
    assert "whose precision was exact" in refusal(result.folder, bilm=fast)


# Evaluating


def test_evaluation_of_the_dev_file_is_what_training_measured(spam: Path, tmp_path: Path) -> None:
    results = json.loads((spam / "results.json").read_text())
    found = TrainedTask.load(spam).evaluate(write_examples(tmp_path, "spam", "dev"))
    assert found.score.to_dict() == results["dev"]


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ("label,text\nneutral,we go\n", "line 2: label 'neutral' is unknown"),
        ("", "holds no text"),
        ("label,text\nham,a,b,c\n", "line 2: "),
        ("text\nwe go\n", "too few columns"),
    ],
)
def test_files_that_cannot_be_evaluated(
    contents: str, message: str, spam: Path, tmp_path: Path
) -> None:
    (tmp_path / "bad.csv").write_text(contents)
    with pytest.raises(ElmoError) as caught:
        TrainedTask.load(spam).evaluate(tmp_path / "bad.csv")
    assert str(tmp_path / "bad.csv") in str(caught.value)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_of_another_task_is_refused(spam: Path, tmp_path: Path) -> None:
    with pytest.raises(ElmoError, match=r"nli.dev.tsv, line 1: there is no column that usually"):
        TrainedTask.load(spam).evaluate(write_examples(tmp_path, "nli", "dev"))
    with pytest.raises(ElmoError, match=r"pos.dev.conllu"):
        TrainedTask.load(spam).evaluate(write_examples(tmp_path, "pos", "dev"))


# Refusals


def test_one_text_is_not_a_list_of_texts(spam: Path) -> None:
    with pytest.raises(InputError, match=r"write \['win"):
        TrainedTask.load(spam).predict("win $$$")


def test_items_are_named_by_their_number_or_their_place(spam: Path) -> None:
    trained = TrainedTask.load(spam)
    with pytest.raises(InputError, match="item 2: has no words"):
        trained.predict(["a", ""])
    with pytest.raises(InputError, match=r"in.txt, line 9: has no words"):
        trained.predict([""], places=["in.txt, line 9"])


def test_folders_of_other_things_are_refused(spam: Path, tmp_path: Path) -> None:
    assert "holds no trained task" in refusal(tmp_path)
    bilm = write_bilm(tmp_path / "bilm")
    assert "format is 'elmokit-bilm', not 'elmokit-task'" in refusal(bilm)
    (tmp_path / "begun" / "checkpoints").mkdir(parents=True)
    assert "its training is not finished; continue with --resume" in refusal(tmp_path / "begun")


@pytest.mark.parametrize("name", ["labels.json", "weights.safetensors"])
def test_a_file_of_another_task_in_the_folder_is_noticed(
    name: str, copy: Path, tmp_path: Path
) -> None:
    other = train(tmp_path, "pos", ONE_EPOCH).folder
    shutil.copy(other / name, copy / name)
    assert f"{name}: is damaged, or of another task" in refusal(copy)


def test_a_missing_file_is_named(copy: Path) -> None:
    (copy / "labels.json").unlink()
    assert "labels.json: is missing" in refusal(copy)


def test_a_newer_version_is_refused(copy: Path) -> None:
    values = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(values | {"version": 2}))
    assert "version is 2; this elmokit reads version 1" in refusal(copy)


def test_a_misspelt_setting_is_refused(copy: Path) -> None:
    values = json.loads((copy / "config.json").read_text())
    values["task"]["network"]["hiden"] = 3
    (copy / "config.json").write_text(json.dumps(values))
    assert "config.json: network: unknown setting 'hiden'" in refusal(copy)


def test_another_bilm_is_refused(spam: Path, tmp_path: Path) -> None:
    other = write_bilm(tmp_path / "other", seed=3)
    message = refusal(spam, bilm=BilmReference(str(other)))
    assert message == (
        f"{spam}: was trained with another biLM than {other}; name its own (--model)"
    )
    assert "than the one given" in refusal(spam, bilm=embedder(3))


def test_a_bilm_may_have_moved(spam: Path, tmp_path: Path) -> None:
    same = write_bilm(tmp_path / "same")
    moved = TrainedTask.load(spam, bilm=BilmReference(str(same)))
    expected = TrainedTask.load(spam).predict(["we go"])
    assert_same_predictions(moved.predict(["we go"]), expected)


def test_a_bilm_made_in_memory_must_be_given_again(tmp_path: Path) -> None:
    folder = train(tmp_path, "spam", ONE_EPOCH).folder
    assert "was made in memory and not saved; give it again" in refusal(folder)


def test_a_baseline_takes_no_bilm(tmp_path: Path) -> None:
    settings = ONE_EPOCH | {"inputs.elmo": "none", "inputs.characters": True}
    folder = train(tmp_path, "spam", settings, bilm=None).folder
    assert "was trained without ELMo; give no model" in refusal(folder, bilm=embedder())
    assert TrainedTask.load(folder).predict(["we go"])[0].to_dict()["label"] in ("ham", "spam")


# What a folder holds already


def test_a_run_is_not_written_over_unless_forced(tmp_path: Path) -> None:
    first = train(tmp_path, "spam", ONE_EPOCH)
    with pytest.raises(InputError, match="already holds a run; continue with --resume, replace it"):
        train(tmp_path, "spam", ONE_EPOCH)
    (first.folder / "mine.txt").write_text("kept")

    second = train(tmp_path, "spam", ONE_EPOCH | {"training.seed": 2}, force=True)

    assert (second.folder / "mine.txt").read_text() == "kept"
    assert len((second.folder / "metrics.jsonl").read_text().splitlines()) == 2
    TrainedTask.load(second.folder, bilm=embedder())


def test_force_keeps_the_old_run_where_the_new_one_cannot_begin(tmp_path: Path) -> None:
    old = train(tmp_path, "spam", ONE_EPOCH).folder
    with pytest.raises(ElmoError, match=r"none\.csv"):
        train(tmp_path, "spam", ONE_EPOCH, train=tmp_path / "none.csv", force=True)
    TrainedTask.load(old, bilm=embedder())


def test_a_folder_of_a_bilm_is_never_written_into(tmp_path: Path) -> None:
    bilm = write_bilm(tmp_path / "bilm")
    before = sorted(bilm.iterdir())
    with pytest.raises(InputError, match="holds something else, not a task"):
        train(tmp_path, "spam", ONE_EPOCH, output=bilm, force=True)
    assert sorted(bilm.iterdir()) == before


def write_pretraining_checkpoint(folder: Path) -> None:
    values = {"progress": {"step": 3}, "settings": {"model": {}, "training": {"rows": 8}}}
    Checkpoints(folder / "checkpoints").save(Checkpoint(3, {"w": torch.ones(2)}, values))
    (folder / "metrics.jsonl").write_text('{"step": 3}\n')


@pytest.mark.parametrize("flag", ["force", "resume"])
def test_a_run_of_pretraining_is_neither_replaced_nor_resumed(flag: str, tmp_path: Path) -> None:
    folder = tmp_path / "pretraining"
    write_pretraining_checkpoint(folder)
    with pytest.raises(InputError, match="holds something else, not a task"):
        train(tmp_path, "spam", ONE_EPOCH, output=folder, **{flag: True})
    assert Checkpoints(folder / "checkpoints").steps() == [3]
    assert (folder / "metrics.jsonl").read_text() == '{"step": 3}\n'


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("name", ["results.json", "metrics.jsonl", "bilm/mine", "checkpoints/mine"])
def test_a_folder_with_files_of_others_in_the_way_is_refused(
    name: str, force: bool, tmp_path: Path
) -> None:
    mine = tmp_path / "spam" / name
    mine.parent.mkdir(parents=True, exist_ok=True)
    mine.write_text('{"mine": 1}\n')
    with pytest.raises(InputError, match="which no task's run wrote, and which would be"):
        train(tmp_path, "spam", ONE_EPOCH, force=force)
    assert mine.read_text() == '{"mine": 1}\n'


def test_files_that_are_not_in_the_way_stay(tmp_path: Path) -> None:
    mine = tmp_path / "spam" / "notes.txt"
    mine.parent.mkdir()
    mine.write_text("mine")
    # As a run leaves it that was killed in its first save.
    (tmp_path / "spam" / "checkpoints" / ".tmp-1-step-000000001").mkdir(parents=True)
    line = {"step": 1, "kind": "train", "epoch": 1}
    (tmp_path / "spam" / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    for force in (False, True):
        train(tmp_path, "spam", ONE_EPOCH, force=force)
    assert mine.read_text() == "mine"


def test_a_run_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("label,text\nham,a\n")
    with pytest.raises(InputError, match="there is only the label"):
        train(tmp_path, "spam", ONE_EPOCH, train=bad)
    assert not (tmp_path / "spam").exists()
    (tmp_path / "spam").mkdir()
    (tmp_path / "spam" / "mine.txt").touch()
    with pytest.raises(InputError, match="there is only the label"):
        train(tmp_path, "spam", ONE_EPOCH, train=bad)
    assert [path.name for path in (tmp_path / "spam").iterdir()] == ["mine.txt"]


def test_there_must_be_something_to_resume(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no checkpoint to resume from"):
        train(tmp_path, "spam", ONE_EPOCH, resume=True)
    with pytest.raises(InputError, match="give one of them"):
        train(tmp_path, "spam", ONE_EPOCH, resume=True, force=True)


# Data


def test_without_a_dev_file_a_tenth_is_held_out(tmp_path: Path) -> None:
    result = train(tmp_path, "spam", ONE_EPOCH, dev=None)
    assert result.examples == {"train": 54, "dev": 6, "test": 0}


def test_pairs_of_one_first_sentence_are_held_out_together(tmp_path: Path) -> None:
    labels = ["entailment", "neutral", "contradiction"]
    rows = [f"{label}\tpremise {n}\t{label} {n}" for n in range(20) for label in labels]
    path = tmp_path / "pairs.tsv"
    path.write_text("label\tpremise\thypothesis\n" + "\n".join(rows) + "\n")
    _, data = read_data(config("nli"), path, None, None, Watcher())
    assert (len(data.train), len(data.dev)) == (54, 6)
    assert not {pair.first for pair in data.train} & {pair.first for pair in data.dev}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sha256": [1]}, "sha256 is [1]; it must be an object"),
        ({"bilm": "x"}, "bilm is 'x'; it must be an object"),
        ({"bilm": {"reference": 5}}, "reference is 5; it must be an object"),
        ({"bilm": {"reference": {"modle": "a"}}}, "unknown setting 'modle'; did you mean 'model'?"),
    ],
)
def test_a_damaged_config_is_one_line_with_its_place(
    change: dict[str, Any], message: str, copy: Path
) -> None:
    values = json.loads((copy / "config.json").read_text())
    bilm = values["bilm"]
    if isinstance(change.get("bilm"), dict):
        change = {"bilm": bilm | change["bilm"]}
    (copy / "config.json").write_text(json.dumps(values | change))
    found = refusal(copy)
    assert found.startswith(f"{copy / 'config.json'}: ")
    assert message in found


def test_a_label_that_is_held_out_alone_is_known(tmp_path: Path) -> None:
    path = tmp_path / "rare.csv"
    [held] = hold_out(range(10))[1]
    rows = [f"{'rare' if n == held else 'ham' if n % 2 else 'spam'},go {n}" for n in range(10)]
    path.write_text("label,text\n" + "\n".join(rows) + "\n")
    task, data = read_data(config("spam"), path, None, None, Watcher())
    assert task.labels.names == ("ham", "rare", "spam")
    assert [example.label for example in data.dev] == ["rare"]


def test_texts_that_come_again_are_on_one_side(tmp_path: Path) -> None:
    path = tmp_path / "twice.csv"
    rows = [f"{'ham' if n % 2 else 'spam'},we go {n % 25}" for n in range(100)]
    path.write_text("label,text\n" + "\n".join(rows) + "\n")
    _, data = read_data(config("spam"), path, None, None, Watcher())
    assert len(data.dev) == 8
    assert not {each.words for each in data.dev} & {each.words for each in data.train}


@pytest.mark.parametrize(
    ("settings", "examples"), [({}, 2), ({"training.fraction": 0.05}, 20)], ids=["dev", "fraction"]
)
def test_one_label_that_is_left_to_train_on_is_refused(
    settings: dict[str, Any], examples: int, tmp_path: Path
) -> None:
    path = tmp_path / "few.csv"
    rows = [f"{'ham' if n % 2 else 'spam'},we go {n}" for n in range(examples)]
    path.write_text("label,text\n" + "\n".join(rows) + "\n")
    with pytest.raises(InputError, match=rf"^left to .* {examples} examples: 1, .*only the label"):
        read_data(config("spam", settings), path, None, None, Watcher())


def test_the_shortest_phrase_concerns_trees_alone(tmp_path: Path) -> None:
    path = write_examples(tmp_path, "spam", "train")
    settings = {"files.phrases": True, "files.shortest_phrase": 4}
    _, data = read_data(config("sst", settings), path, None, None, Watcher())
    assert (len(data.train), len(data.dev)) == (54, 6)


def test_a_fraction_keeps_all_labels_and_dev(tmp_path: Path) -> None:
    result = train(tmp_path, "sst", ONE_EPOCH | {"training.fraction": 0.05})
    assert result.examples == {"train": 3, "dev": 30, "test": 0}
    assert result.trained.labels.names == ("0", "1", "2")


def test_phrases_are_trained_on_and_sentences_scored(tmp_path: Path) -> None:
    whole = train(tmp_path, "sst", ONE_EPOCH, output=tmp_path / "whole")
    settings = ONE_EPOCH | {"files.phrases": True, "files.shortest_phrase": 2}
    phrases = train(tmp_path, "sst", settings, output=tmp_path / "phrases")
    assert phrases.examples["train"] > whole.examples["train"]
    assert phrases.examples["dev"] == whole.examples["dev"]
    with pytest.raises(InputError, match="give a dev file"):
        train(tmp_path, "sst", settings, output=tmp_path / "no-dev", dev=None)


@pytest.mark.parametrize(
    ("name", "file", "contents", "message"),
    [
        ("spam", "a.csv", b"label,text\nham,a\nham,b\n", "there is only the label 'ham'"),
        ("spam", "a.csv", b"", "a.csv: holds no text"),
        ("spam", "a.csv", "label,text\nham,caf\xe9\nspam,b\n".encode("latin-1"), "is not UTF-8"),
        ("ner", "a.conll", b"Jim B-PER\nsat\n", "line 2: has 1 column"),
        ("ner", "a.conll", b"we O\ngo O\n", "there is only the label 'O'"),
        ("pos", "a.conllu", b"1\tdog\t_\tNOUN\n", "a line of CoNLL-U has 10"),
        ("nli", "a.tsv", b"label\tpremise\nno\ta\n", "too few columns"),
        ("sst", "a.txt", b"(1 (2 a) (3 b)\n", "a.txt, line 1: "),
        ("nli", "a.csv", b"label,text\nham,a\n", "too few columns"),
    ],
)
def test_bad_training_files_are_one_line(
    name: str, file: str, contents: bytes, message: str, tmp_path: Path
) -> None:
    (tmp_path / file).write_bytes(contents)
    with pytest.raises(ElmoError) as caught:
        train_task(
            config(name), tmp_path / "run", train=tmp_path / file, dev=tmp_path / file,
            bilm=embedder(),
        )  # fmt: skip
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run" / "config.json").exists()


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ElmoError, match=r"none\.csv"):
        train(tmp_path, "spam", ONE_EPOCH, train=tmp_path / "none.csv")


def test_the_tokenizer_of_the_bilm_is_recorded(tmp_path: Path) -> None:
    result = train(tmp_path, "spam", ONE_EPOCH)
    assert result.config.files.tokenizer == "default"
    assert GOOD[0] == "$$$"  # which the default tokenizer cuts into three words
    given = result.trained.task.given("$$$", result.trained.tokenizer, "here")
    assert given.examples[0].words == ("$", "$", "$")


@pytest.mark.parametrize("slip", ["b-PER", "doc1"])
def test_one_slip_among_the_tags_of_entities_is_refused(slip: str, tmp_path: Path) -> None:
    path = tmp_path / "slip.conll"
    path.write_text(f"Jim B-PER\nLee I-PER\n\nOslo B-LOC\n\n# {slip}\nBo B-PER\n")
    with pytest.raises(InputError) as caught:
        read_data(config("ner"), path, path, None, Watcher())
    assert str(caught.value).startswith(f"{path}, line 6: word 1 of the sentence")
    assert f"'#', has the tag '{slip}', which is no entity's, as 'B-LOC'" in str(caught.value)


def test_tags_without_any_entity_are_of_words(tmp_path: Path) -> None:
    path = tmp_path / "words.conll"
    path.write_text("Jim NOUN\nruns O\n\nO B\nx L\n")
    task, _ = read_data(config("ner"), path, path, None, Watcher())
    assert task.labels.names == ("B", "L", "NOUN", "O")


def test_nearly_as_many_labels_as_examples_are_told(tmp_path: Path) -> None:
    path = tmp_path / "swapped.csv"
    path.write_text("text,label\n" + "".join(f"ham,we go {n}\n" for n in range(20)))
    notes: list[str] = []
    watcher = Watcher()
    watcher.note = notes.append  # type: ignore[method-assign]
    read_data(config("spam"), path, path, None, watcher)
    assert notes[0].startswith("there are nearly as many labels, 20, as examples: is the column")


def test_a_model_that_has_moved_is_asked_for(copy: Path, tmp_path: Path) -> None:
    values = json.loads((copy / "config.json").read_text())
    values["bilm"]["reference"]["model"] = str(tmp_path / "gone")
    (copy / "config.json").write_text(json.dumps(values))
    assert refusal(copy) == (
        f"{copy}: the biLM that it was trained with is no longer in {tmp_path / 'gone'}; say where "
        "it is now (--model)"
    )
