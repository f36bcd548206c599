from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from elmokit.errors import ConfigError, InputError
from elmokit.tasks.catalogue import task_config
from elmokit.tasks.config import TaskConfig
from elmokit.tasks.coref.scores import GapScore
from elmokit.tasks.scores import Counts
from elmokit.tasks.trained import TrainedTask
from elmokit.tasks.trainer import Evaluation
from runs import pronouns, sample_efficiency, task_ablations, task_runs, task_table


class Trainings:
    """Stands in for `train_task`: writes results, and remembers what was asked of it."""

    def __init__(self) -> None:
        self.asked: list[tuple[TaskConfig, Path, dict[str, Any]]] = []

    def __call__(self, config: TaskConfig, folder: Path, **arguments: Any) -> None:
        self.asked.append((config, folder, arguments))
        values = config.to_dict()
        values["files"]["tokenizer"] = "default"  # what a run fills in
        folder.mkdir(parents=True, exist_ok=True)
        test = {"f1": 0.5, "exact_match": 0.25} if config.kind == "reading" else {"accuracy": 0.5}
        results = {"config": values, "test": test, "seconds": 1, "seconds_in_all": 120}
        (folder / "results.json").write_text(json.dumps(results))


@pytest.fixture
def trainings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trainings:
    stand_in = Trainings()
    monkeypatch.setattr(task_runs, "train_task", stand_in)
    monkeypatch.setattr(task_runs, "FOLDER", tmp_path / "tasks")
    monkeypatch.setattr(task_runs, "version", lambda: "v")
    monkeypatch.setattr(task_runs, "describe", lambda: "here, today")
    return stand_in


def seeds(trainings: Trainings) -> list[int]:
    return [config.training.seed for config, _, _ in trainings.asked]


def test_a_run_that_is_done_is_not_run_again(trainings: Trainings) -> None:
    for _ in range(2):
        task_runs.run_seeds("sick", "ELMo", task_runs.VARIANTS["ELMo"], (1, 2))
    assert seeds(trainings) == [1, 2]


def test_a_run_of_the_same_settings_is_not_run_under_another_name(trainings: Trainings) -> None:
    first, second = (
        task_runs.run_seeds("sick", name, task_runs.VARIANTS["ELMo"], (1, 2))
        for name in ("ELMo", "at the input")
    )
    assert seeds(trainings) == [1, 2]
    assert first == second


def test_elmo_alone_is_not_tried_on_the_larger_tasks(
    trainings: Trainings, capsys: pytest.CaptureFixture[str]
) -> None:
    task_table.main(["srl", "--seeds", "1"])
    assert [config.inputs.elmo for config, _, _ in trainings.asked] == ["none", "input"]
    assert "| 50.00 |  | 50.00 | 0.0% |" in capsys.readouterr().out


def test_pronouns_are_resolved_by_the_networks_of_documents(
    trainings: Trainings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Network:
        def evaluate(self, file: Path) -> Any:
            assert file.name == "gap-test.tsv.gz"
            counts = {name: Counts(2, 4, 4) for name in ("masculine", "feminine")}
            return Evaluation(GapScore(counts, right=3, rows=4), None)

    monkeypatch.setattr(TrainedTask, "load", lambda folder: Network())
    pronouns.main(["ontogum"])
    assert seeds(trainings) == [1, 2, 1, 2]
    assert "| OntoGUM, baseline + ELMo | 50.00 ± 0.00 | 75.00 ± 0.00 | 0.0% |" in (
        capsys.readouterr().out
    )


def test_a_run_of_other_settings_is_run_anew(trainings: Trainings) -> None:
    task_runs.run_seeds("sick", "ELMo", {}, (1,))
    found = task_runs.run_seeds("sick", "ELMo", {"network.hidden": 7}, (1,))

    assert [arguments["force"] for _, _, arguments in trainings.asked] == [False, True]
    assert trainings.asked[-1][0].network.hidden == 7
    assert found.tests == (50.0,)


def test_a_run_that_is_wanted_longer_goes_on_and_a_shorter_one_is_run_anew(
    trainings: Trainings, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints = task_runs.FOLDER / task_runs.version() / "sick" / "ELMo-1" / "checkpoints"
    for epochs, patience in ((5, 3), (8, 3), (8, 4), (7, 5)):
        monkeypatch.setattr(task_runs, "describe", lambda day=epochs: f"here, day {day}")
        settings = {"training.epochs": epochs, "training.patience": patience}
        found = task_runs.run_seeds("sick", "ELMo", settings, (1,))
        checkpoints.mkdir(exist_ok=True)
        if (epochs, patience) == (8, 4):
            assert found.made == {"here, day 5, and from there on here, day 8"}

    done = [(arguments["resume"], arguments["force"]) for _, _, arguments in trainings.asked]
    assert done == [(False, False), (True, False), (True, False), (False, True)]
    assert found.made == {"here, day 7"}


def test_a_longer_run_is_run_anew_where_the_shorter_one_left_nothing_to_go_on_from(
    trainings: Trainings,
) -> None:
    for epochs in (5, 8):
        task_runs.run_seeds("sick", "ELMo", {"training.epochs": epochs}, (1,))
    assert [arguments["force"] for _, _, arguments in trainings.asked] == [False, True]


def test_what_cannot_go_on_keeps_where_it_was_made(
    trainings: Trainings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(config: TaskConfig, folder: Path, **arguments: Any) -> None:
        raise InputError("(train is another)")

    task_runs.run_seeds("sick", "ELMo", {"training.epochs": 5}, (1,))
    folder = trainings.asked[0][1]
    (folder / "checkpoints").mkdir()
    monkeypatch.setattr(task_runs, "train_task", refusing)
    monkeypatch.setattr(task_runs, "describe", lambda: "there")
    with pytest.raises(InputError):
        task_runs.run_seeds("sick", "ELMo", {"training.epochs": 8}, (1,))
    assert task_runs.made_in(folder) == "here, today"


def test_where_a_stopped_run_was_made_is_kept(
    trainings: Trainings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(config: TaskConfig, folder: Path, **arguments: Any) -> None:
        (folder / "checkpoints").mkdir(parents=True)
        raise KeyboardInterrupt

    monkeypatch.setattr(task_runs, "train_task", stopped)
    with pytest.raises(KeyboardInterrupt):
        task_runs.run_seeds("sick", "ELMo", {}, (1,))
    monkeypatch.setattr(task_runs, "train_task", trainings)
    monkeypatch.setattr(task_runs, "describe", lambda: "there")
    found = task_runs.run_seeds("sick", "ELMo", {}, (1,))
    assert found.made == {"here, today, and from there on there"}


def test_a_baseline_is_kept_apart_from_the_versions_of_the_bundled_model(
    trainings: Trainings,
) -> None:
    for name, settings in task_runs.VARIANTS.items():
        task_runs.run_seeds("sick", name, settings, (1,))
    folders = [folder.relative_to(task_runs.FOLDER).parts[0] for _, folder, _ in trainings.asked]
    assert folders == ["without-elmo", task_runs.version(), task_runs.version()]


def test_static_vectors_may_lie_elsewhere() -> None:
    one, other, another = (
        task_config("spam", settings={"inputs.static": path})
        for path in ("a/glove.txt", "b/glove.txt", "b/word2vec.txt")
    )
    assert task_runs.is_of({"config": one.to_dict()}, other)
    assert not task_runs.is_of({"config": one.to_dict()}, another)
    assert not task_runs.is_of({"config": {**one.to_dict(), "unknown": 1}}, one)


def test_a_run_that_was_stopped_goes_on_unless_its_settings_were_others(
    trainings: Trainings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(config: TaskConfig, folder: Path, **arguments: Any) -> None:
        trainings(config, folder, **arguments)
        if arguments["resume"] and config.network.hidden == 7:
            raise ConfigError("network.hidden was 100, is 7")

    monkeypatch.setattr(task_runs, "train_task", refusing)
    for seed, settings in ((1, {}), (2, {"network.hidden": 7})):
        folder = task_runs.FOLDER / task_runs.version() / "sick" / f"ELMo-{seed}"
        (folder / "checkpoints").mkdir(parents=True)
        task_runs.run_seeds("sick", "ELMo", settings, (seed,))

    done = [(arguments["resume"], arguments["force"]) for _, _, arguments in trainings.asked]
    assert done == [(True, False), (True, False), (False, True)]


def test_the_table_names_the_paper_its_command_and_all_the_time(
    trainings: Trainings, capsys: pytest.CaptureFixture[str]
) -> None:
    task_table.main(["sst", "--seeds", "3", "4"])

    out = capsys.readouterr().out
    assert "NAACL 2018, table 1: previous best" in out
    assert "| 2.0 | 53.7 | 51.4 | 54.7 |" in out  # 120 seconds, then what the paper has
    assert "`python -m runs.task_table sst --seeds 3 4`: here, today" in out
    assert seeds(trainings) == [3, 4] * 3


def test_reading_shows_exact_match_in_brackets(
    trainings: Trainings, capsys: pytest.CaptureFixture[str]
) -> None:
    task_table.main(["squad"])
    out = capsys.readouterr().out
    assert "| F1 (exact match) | 50.00 ± 0.00 (25.00 ± 0.00) |" in out


def test_phrases_are_run_with_one_seed_and_the_rest_with_three(trainings: Trainings) -> None:
    task_table.main(["sst-phrases", "sick"])
    assert seeds(trainings) == [1] * 3 + [1, 2, 3] * 3


def test_the_ablations_are_two_tables_of_one_seed(
    trainings: Trainings, capsys: pytest.CaptureFixture[str]
) -> None:
    task_ablations.main(["ner"])
    out = capsys.readouterr().out
    assert out.count("`python -m runs.task_ablations ner`: here, today") == 2
    assert "| input | output | input and output |" in out
    assert set(seeds(trainings)) == {1}


def test_sample_efficiency_is_of_three_parts_of_the_data(
    trainings: Trainings, capsys: pytest.CaptureFixture[str]
) -> None:
    sample_efficiency.main(["sst", "--seeds", "2"])
    out = capsys.readouterr().out
    assert "`python -m runs.sample_efficiency sst --seeds 2`: here, today" in out
    fractions = [config.training.fraction for config, _, _ in trainings.asked]
    assert fractions == [0.01, 0.1, 1.0] * 2


def test_sample_efficiency_is_drawn(trainings: Trainings, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    sample_efficiency.main(["sst", "--picture", str(tmp_path / "a.png")])
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("main", [task_table.main, task_ablations.main, sample_efficiency.main])
def test_an_unknown_row_is_wrong_usage_that_names_the_others(
    main: Callable[[list[str]], None], trainings: Trainings, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["chess"])
    assert stopped.value.code == 2
    assert "no row is called chess; use sst, sst-phrases, ner" in capsys.readouterr().err
    assert not trainings.asked
