from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import Heard, error_of, files_in, write
from small_models import COUNTED, small_saved_model
from tasks.small_tasks import (
    NAMES,
    ONE_EPOCH,
    assert_same_predictions,
    embedder,
    train,
    write_bilm,
    write_examples,
)

from elmokit import Embedder
from elmokit.bundled import known_versions
from elmokit.errors import ElmoError, ElmoWarning, InputError
from elmokit.formats.native import read_model, write_model
from elmokit.jobs.checkpoints import Checkpoint, Checkpoints
from elmokit.tasks import inputs as task_inputs
from elmokit.tasks import trained as saved_task
from elmokit.tasks.folder import TaskFolder
from elmokit.tasks.trained import BilmReference, TrainedTask

ASKED: dict[str, list[Any]] = {
    "spam": ["we see $$$", ["you", "MOTHER"], "win $$$ at home!"],
    "sst": ["it 1000 .", ["the", "BOO", "."]],
    "ner": ["we see Jim Lee at Oslo. You continue.", ["see", "Rome"], ""],
    "pos": ["the dog runs", ["a", "cat"]],
    "nli": [("the dog runs now", "a dog !NOT! runs"), (["the", "cat"], "a cat sits")],
}


@pytest.fixture(scope="module")
def spam(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained task, to be copied before it is changed."""
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
    told = Heard()
    items = ["a b c", "d", "e f"]
    found = TrainedTask.load(spam).predictions(items, observer=told)
    assert len(list(found)) == 3
    assert told.stages["predicting"] == [(0, None), (0, None), (4, None), (4, None), (6, None)]


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
        "checkpoints", "config.json", "labels.json", "metrics.jsonl", "mix.json", "report.txt",
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


def train_with_vectors(folder: Path, words: list[str]) -> Path:
    vectors = write_vectors(folder / "vectors.txt", words)
    settings = ONE_EPOCH | {"inputs.elmo": "none", "inputs.static": str(vectors)}
    return train(folder, "spam", settings, bilm=None).folder


def test_static_vectors_of_new_words_are_found_in_their_file(tmp_path: Path) -> None:
    folder = train_with_vectors(tmp_path, ["the", "we", "MOTHER", "$", "new"])

    known, unknown = TrainedTask.load(folder).predict([["new"], ["newer"]])
    assert known != unknown

    (tmp_path / "vectors.txt").unlink()
    with pytest.warns(ElmoWarning, match="is gone, or is another file"):
        one, other = TrainedTask.load(folder).predict([["new"], ["newer"]])
    assert one == other == unknown


def test_the_file_of_static_vectors_is_read_once_for_all_items(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = TrainedTask.load(train_with_vectors(tmp_path, ["the", "we", "one", "other"]))
    monkeypatch.setattr(saved_task, "ITEMS_AT_ONCE", 1)
    read = task_inputs.read_word_vectors
    calls = []

    def counted(*arguments: Any) -> Any:
        calls.append(arguments)
        return read(*arguments)

    monkeypatch.setattr(task_inputs, "read_word_vectors", counted)
    one, other, neither = trained.predict([["one"], ["other"], ["neither"]])
    assert len(calls) == 1
    assert one != other != neither


# State and precision


def test_a_task_wants_its_bilm_in_the_state_that_it_was_trained_with(tmp_path: Path) -> None:
    bilm = write_bilm(tmp_path / "bilm")
    warm = Embedder.load(bilm, state="warm", warm_runs=3)
    result = train(tmp_path, "spam", ONE_EPOCH, bilm=warm)

    message = error_of(TrainedTask.load, result.folder, bilm=Embedder.load(bilm))
    assert "whose state was ['warm', 3]" in message
    loaded = TrainedTask.load(result.folder, bilm=BilmReference(str(bilm)))
    assert loaded.bilm is not None
    assert (loaded.bilm.embedder.state, loaded.bilm.embedder.warm_runs) == ("warm", 3)
    assert_same_predictions(loaded.predict(ASKED["spam"]), result.trained.predict(ASKED["spam"]))
    fast = Embedder.load(bilm, state="warm", warm_runs=3, precision="fast")
    assert "whose precision was exact" in error_of(TrainedTask.load, result.folder, bilm=fast)


# Evaluating


def test_evaluation_of_the_dev_file_is_what_training_measured(spam: Path, tmp_path: Path) -> None:
    results = json.loads((spam / "results.json").read_text())
    found = TrainedTask.load(spam).evaluate(write_examples(tmp_path, "spam", "dev"))
    assert found.score.to_dict() == results["dev"]


@pytest.mark.parametrize(
    ("name", "contents", "message"),
    [
        ("bad.csv", "label,text\nneutral,we go\n", ", line 2: label 'neutral' is unknown"),
        (
            "nli.tsv",
            "label\tpremise\thypothesis\na\tb\tc\n",
            ", line 1: there is no column that usually",
        ),
        ("pos.conllu", "1\tthe\tthe\tDET\n", ": "),
    ],
)
def test_files_that_cannot_be_evaluated(
    name: str, contents: str, message: str, spam: Path, tmp_path: Path
) -> None:
    path = write(tmp_path / name, contents)
    error_of(TrainedTask.load(spam).evaluate, path, after=f"{path}{message}")


# Refusals


def test_one_text_is_not_a_list_of_texts(spam: Path) -> None:
    assert "write ['win" in error_of(TrainedTask.load(spam).predict, "win $$$", kind=InputError)


def test_items_are_named_by_their_number_or_their_place(spam: Path) -> None:
    trained = TrainedTask.load(spam)
    assert "item 2: has no words" in error_of(trained.predict, ["a", ""], kind=InputError)
    with pytest.raises(InputError, match=r"in.txt, line 9: has no words"):
        trained.predict([""], places=["in.txt, line 9"])


def test_folders_of_other_things_are_refused(spam: Path, tmp_path: Path) -> None:
    assert "holds no trained task" in error_of(TrainedTask.load, tmp_path)
    bilm = write_bilm(tmp_path / "bilm")
    assert "format is 'elmokit-bilm', not 'elmokit-task'" in error_of(TrainedTask.load, bilm)
    (tmp_path / "begun" / "checkpoints").mkdir(parents=True)
    assert "its training is not finished; continue with --resume" in error_of(
        TrainedTask.load, tmp_path / "begun"
    )


@pytest.mark.parametrize("name", ["labels.json", "weights.safetensors"])
def test_a_file_that_is_missing_or_of_another_task_is_named(
    name: str, copy: Path, tmp_path: Path
) -> None:
    (copy / name).unlink()
    assert ": is missing" in error_of(TrainedTask.load, copy, after=copy / name)
    other = train(tmp_path, "pos", ONE_EPOCH).folder
    shutil.copy(other / name, copy / name)
    assert f"{name}: is damaged, or of another task" in error_of(TrainedTask.load, copy)


@pytest.mark.parametrize(
    ("names", "value", "message"),
    [
        (["version"], 2, "version is 2; this elmokit reads version 1"),
        (["task"], 5, "task is 5; it must be an object"),
        (["task", "network", "hiden"], 3, "network: unknown setting 'hiden'"),
        (["bilm", "state"], None, "does not say in which state and precision"),
        (["bilm", "reference"], 5, "reference is 5; it must be a table"),
        (["bilm", "reference", "modle"], "a", "unknown setting 'modle'; did you mean 'model'?"),
    ],
)
def test_a_damaged_config_is_one_line_with_its_place(
    names: list[str], value: Any, message: str, copy: Path
) -> None:
    change_config(copy, names, value)
    assert message in error_of(TrainedTask.load, copy, after=f"{copy / 'config.json'}: ")


def test_weights_of_another_network_are_one_line(copy: Path) -> None:
    change_config(copy, ["task", "network", "hidden"], 13)
    said = error_of(TrainedTask.load, copy, after=copy / "weights.safetensors")
    assert said.startswith(": does not fit config.json")


def change_config(folder: Path, names: list[str], value: Any) -> None:
    values = json.loads((folder / "config.json").read_text())
    table = values
    for name in names[:-1]:
        table = table[name]
    table[names[-1]] = value
    write(folder / "config.json", json.dumps(values))


def test_a_model_that_has_moved_is_asked_for(copy: Path, tmp_path: Path) -> None:
    change_config(copy, ["bilm", "reference", "model"], str(tmp_path / "gone"))
    said = error_of(TrainedTask.load, copy, after=copy)
    assert said.startswith(
        f": the biLM that it was trained with is no longer in {tmp_path / 'gone'};"
    )


def test_the_bilm_may_have_moved_but_not_be_another(spam: Path, tmp_path: Path) -> None:
    other = write_bilm(tmp_path / "other", seed=3)
    message = error_of(TrainedTask.load, spam, bilm=BilmReference(str(other)))
    assert message == (
        f"{spam}: was trained with another biLM than {other}; name its own (--model)"
    )
    assert "than the one given" in error_of(TrainedTask.load, spam, bilm=embedder(3))
    same = BilmReference(str(write_bilm(tmp_path / "same")))
    expected = TrainedTask.load(spam).predict(["we go"])
    assert_same_predictions(TrainedTask.load(spam, bilm=same).predict(["we go"]), expected)


def test_versions_of_a_bilm_are_told_and_what_to_do(
    spam: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(known_versions(), embedder().fingerprint(), "tiny 1")
    other = write_bilm(tmp_path / "other", seed=3)

    message = error_of(TrainedTask.load, spam, bilm=BilmReference(str(other)))
    todo = "train again, or name the folder of tiny 1 (--model)"
    assert message == f"{spam}: was trained with tiny 1, and {other} is another model; {todo}"
    monkeypatch.setitem(known_versions(), embedder(3).fingerprint(), "tiny 2")
    message = error_of(TrainedTask.load, spam, bilm=BilmReference(str(other)))
    assert message == f"{spam}: was trained with tiny 1, and {other} is tiny 2; {todo}"
    assert TaskFolder(spam).facts()["bilm"] == "tiny 1"

    monkeypatch.delitem(known_versions(), embedder().fingerprint())
    message = error_of(TrainedTask.load, spam, bilm=BilmReference(str(other)))
    assert f"was trained with another biLM than {other} (tiny 2); name its own" in message
    assert TaskFolder(spam).facts()["bilm"] == "bilm"  # the name of its folder


@pytest.mark.parametrize("in_memory", [False, True])
def test_a_model_that_is_kept_goes_with_the_task(
    tmp_path: Path, in_memory: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(known_versions(), embedder().fingerprint(), "tiny 1")
    place = write_bilm(tmp_path / "bilm")
    bilm = embedder() if in_memory else BilmReference(str(place))
    result = train(tmp_path, "spam", ONE_EPOCH, bilm=bilm, keep_model=True)
    shutil.rmtree(place)
    moved = result.folder.rename(tmp_path / "moved")

    loaded = TrainedTask.load(moved)

    assert_same_predictions(loaded.predict(ASKED["spam"]), result.trained.predict(ASKED["spam"]))
    assert TaskFolder(moved).facts()["bilm"] == "tiny 1, kept in its folder"
    assert read_model(moved / "bilm").version == "tiny 1"
    loaded.save(tmp_path / "again")
    assert_same_predictions(
        TrainedTask.load(tmp_path / "again").predict(["we"]), loaded.predict(["we"])
    )
    write(moved / "bilm" / "config.json", "{}")
    assert "format is None" in error_of(TrainedTask.load, moved)


def test_a_model_is_kept_in_the_precision_that_it_was_stored_in(tmp_path: Path) -> None:
    place = write_bilm(tmp_path / "bilm")
    saved = read_model(place)
    for half in (True, False):
        write_model(place, saved, half=half, force=True)
        bilm = BilmReference(str(place))
        folder = train(tmp_path, "spam", ONE_EPOCH, bilm=bilm, keep_model=True, force=True).folder
        sizes = [(each / "model.safetensors").stat().st_size for each in (folder / "bilm", place)]
        assert sizes[0] == sizes[1]


def test_a_model_can_be_kept_only_where_there_is_one_with_its_softmax(tmp_path: Path) -> None:
    settings = ONE_EPOCH | {"inputs.elmo": "none", "inputs.characters": True}
    said = error_of(train, tmp_path, "spam", settings, keep_model=True, kind=InputError)
    assert "there is no model to keep" in said
    write_model(
        tmp_path / "bilm", small_saved_model(vocabulary=COUNTED, softmax_words=len(COUNTED))
    )
    lean = Embedder.load(tmp_path / "bilm")
    said = error_of(train, tmp_path, "spam", ONE_EPOCH, bilm=lean, keep_model=True)
    assert "this Embedder has no softmax" in said
    assert "Embedder.load(…, softmax=True)" in said


def test_a_bilm_made_in_memory_must_be_given_again(tmp_path: Path) -> None:
    folder = train(tmp_path, "spam", ONE_EPOCH).folder
    assert "was made in memory and not saved; give it again" in error_of(TrainedTask.load, folder)


def test_a_baseline_takes_no_bilm(tmp_path: Path) -> None:
    settings = ONE_EPOCH | {"inputs.elmo": "none", "inputs.characters": True}
    folder = train(tmp_path, "spam", settings, bilm=None).folder
    assert "was trained without ELMo; give no model" in error_of(
        TrainedTask.load, folder, bilm=embedder()
    )
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


def test_force_does_not_remove_the_bilm_that_is_named(tmp_path: Path) -> None:
    old = train(tmp_path, "spam", ONE_EPOCH).folder
    write_bilm(old / "bilm")
    named = BilmReference(str(old / "bilm"))
    with pytest.raises(InputError, match="choose another --output"):
        train(tmp_path, "spam", ONE_EPOCH, bilm=named, force=True)
    assert (old / "config.json").exists()
    Embedder.load(old / "bilm")


def write_pretraining_checkpoint(folder: Path) -> None:
    values = {"progress": {"step": 3}, "settings": {"model": {}, "training": {"rows": 8}}}
    Checkpoints(folder / "checkpoints").save(Checkpoint(3, {"w": torch.ones(2)}, values))
    write(folder / "metrics.jsonl", '{"step": 3}\n')


IN_THE_WAY = ["results.json", "metrics.jsonl", "bilm/mine", "checkpoints/mine", "checkpoints"]


@pytest.mark.parametrize("flags", [{}, {"force": True}, {"resume": True}], ids=str)
@pytest.mark.parametrize("name", [*IN_THE_WAY, "a biLM", "a run of pretraining"])
def test_what_no_run_of_a_task_wrote_is_neither_replaced_nor_resumed(
    name: str, flags: dict[str, bool], tmp_path: Path
) -> None:
    folder = tmp_path / "spam"
    if name == "a biLM":
        write_bilm(folder)
    elif name == "a run of pretraining":
        write_pretraining_checkpoint(folder)
    else:
        write(folder / name, '{"mine": 1}\n')
    before = files_in(folder)
    with pytest.raises(InputError, match=r"which no task's run wrote|no checkpoint to"):
        train(tmp_path, "spam", ONE_EPOCH, **flags)
    assert files_in(folder) == before


def test_files_that_are_not_in_the_way_stay(tmp_path: Path) -> None:
    mine = write(tmp_path / "spam" / "notes.txt", "mine")
    # As a run leaves it that was killed in its first save.
    (tmp_path / "spam" / "checkpoints" / ".tmp-1-step-000000001").mkdir(parents=True)
    line = {"step": 1, "kind": "train", "epoch": 1}
    (tmp_path / "spam" / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    for force in (False, True):
        train(tmp_path, "spam", ONE_EPOCH, force=force)
    assert mine.read_text() == "mine"


def test_a_run_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    bad = write(tmp_path / "bad.csv", "label,text\nham,a\n")
    with pytest.raises(InputError, match="there is only the label"):
        train(tmp_path, "spam", ONE_EPOCH, train=bad)
    assert not (tmp_path / "spam").exists()
    write(tmp_path / "spam" / "mine.txt")
    with pytest.raises(InputError, match="there is only the label"):
        train(tmp_path, "spam", ONE_EPOCH, train=bad)
    assert [path.name for path in (tmp_path / "spam").iterdir()] == ["mine.txt"]


def test_there_must_be_something_to_resume(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no checkpoint to resume from"):
        train(tmp_path, "spam", ONE_EPOCH, resume=True)
    with pytest.raises(InputError, match="give one of them"):
        train(tmp_path, "spam", ONE_EPOCH, resume=True, force=True)
