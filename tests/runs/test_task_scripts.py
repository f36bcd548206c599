import json
from pathlib import Path
from typing import Any

import pytest

from elmokit.tasks.config import TaskConfig
from elmokit.tasks.coref.scores import GapScore
from elmokit.tasks.scores import Counts
from elmokit.tasks.trained import TrainedTask
from elmokit.tasks.trainer import Evaluation
from runs import preset_trials, pronouns, sample_efficiency, task_ablations, task_runs, task_table
from runs.task_rows import KOREAN


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
        results = {
            "config": values,
            "dev": {"f1": 0.25},
            "test": test,
            "seconds": 1,
            "seconds_in_all": 120,
        }
        (folder / "results.json").write_text(json.dumps(results))


@pytest.fixture
def trainings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trainings:
    stand_in = Trainings()
    monkeypatch.setattr(task_runs, "train_task", stand_in)
    monkeypatch.setattr(task_runs, "FOLDER", tmp_path / "tasks")
    monkeypatch.setattr(task_runs, "version", lambda file: f"v-{file.parent.name}")
    monkeypatch.setattr(task_runs, "describe", lambda: "here, today")
    return stand_in


def seeds(trainings: Trainings) -> list[int]:
    return [config.training.seed for config, _, _ in trainings.asked]


def test_a_run_that_is_done_is_not_run_again(trainings):
    for _ in range(2):
        task_runs.run_seeds("sick", "ELMo", task_runs.VARIANTS["ELMo"], (1, 2))
    assert seeds(trainings) == [1, 2]


def test_pronouns_are_resolved_by_the_networks_of_documents(trainings, monkeypatch, capsys):
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


def test_a_run_of_other_settings_is_run_again(trainings):
    task_runs.run_seeds("sick", "ELMo", {}, (1,))
    found = task_runs.run_seeds("sick", "ELMo", {"network.hidden": 7}, (1,))

    assert [arguments["force"] for _, _, arguments in trainings.asked] == [False, True]
    assert trainings.asked[-1][0].network.hidden == 7
    assert found.tests == (50.0,)


def test_the_table_names_the_paper_its_command_and_all_the_time(trainings, capsys):
    task_table.main(["sst", "--seeds", "3", "4"])

    out = capsys.readouterr().out
    assert "NAACL 2018, table 1: previous best" in out
    assert "| 2.0 | 53.7 | 51.4 | 54.7 |" in out  # 120 seconds, then what the paper has
    assert "`python -m runs.task_table sst --seeds 3 4`: here, today" in out
    assert seeds(trainings) == [3, 4] * 3


def test_a_row_in_korean_has_the_model_and_the_static_vectors_of_korean(trainings, tmp_path):
    for name in task_runs.VARIANTS:
        task_runs.run_seeds("nsmc", name, task_runs.VARIANTS[name], (1,))
    assert {arguments["bilm"].model for *_, arguments in trainings.asked} == {"korean-small"}
    static = [config.inputs.static for config, *_ in trainings.asked]
    assert static == [str(KOREAN.static), None, str(KOREAN.static)]
    assert {config.files.tokenizer for config, *_ in trainings.asked} == {"kiwi"}
    folders = [folder.relative_to(tmp_path / "tasks").parts[0] for _, folder, _ in trainings.asked]
    both = "v-korean-small-v-korean-small-word2vec"
    assert folders == ["without-elmo-v-korean-small-word2vec", "v-korean-small", both]


def test_the_ablations_are_two_tables_of_one_seed(trainings, capsys):
    task_ablations.main(["ner"])
    out = capsys.readouterr().out
    assert out.count("`python -m runs.task_ablations ner`: here, today") == 2
    assert "| input | output | input and output |" in out
    assert set(seeds(trainings)) == {1}


def test_sample_efficiency_is_of_three_parts_of_the_data_and_drawn(trainings, tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    sample_efficiency.main(["sst", "--seeds", "2", "--picture", str(tmp_path / "a.png")])
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "`python -m runs.sample_efficiency sst --seeds 2 " in capsys.readouterr().out
    fractions = [config.training.fraction for config, _, _ in trainings.asked]
    assert fractions == [0.01, 0.1, 1.0] * 2


def test_presets_are_tried_on_dev_alone_with_another_model_too(trainings, monkeypatch, capsys):
    monkeypatch.setattr(task_runs, "ROWS", dict(task_runs.ROWS))
    monkeypatch.setattr(preset_trials, "ROWS", task_runs.ROWS)
    command = ["ner", "--seeds", "1", "2", "--variants", "preset,layer norm", "--model", "mine"]
    preset_trials.main(command)

    out = capsys.readouterr().out
    assert "| CoNLL-2003 English | F1 | 25.00 ± 0.00 | 25.00 ± 0.00 |" in out
    assert [config.inputs.layer_norm for config, _, _ in trainings.asked] == [False] * 2 + [
        True
    ] * 2
    assert {arguments["bilm"].model for _, _, arguments in trainings.asked} == {
        str(Path("mine").resolve())
    }
    with pytest.raises(SystemExit):
        preset_trials.main(["ner", "--variants", "dropout"])
