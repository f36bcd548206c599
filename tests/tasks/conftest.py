"""Tasks that have learnt, each trained once for all tests that ask it."""

from __future__ import annotations

import pytest
from tasks.small_coref import train_coref
from tasks.small_reading import train_reader
from tasks.small_srl import train_srl
from tasks.small_tasks import embedder

from elmokit.tasks.run import TaskResult
from elmokit.tasks.trained import TrainedTask


@pytest.fixture(scope="session")
def learnt_squad(tmp_path_factory: pytest.TempPathFactory) -> TaskResult:
    return train_reader(tmp_path_factory.mktemp("squad"))


@pytest.fixture(scope="session")
def learnt_srl(tmp_path_factory: pytest.TempPathFactory) -> TaskResult:
    return train_srl(tmp_path_factory.mktemp("srl"))


@pytest.fixture(scope="session")
def learnt_coref(tmp_path_factory: pytest.TempPathFactory) -> TaskResult:
    return train_coref(tmp_path_factory.mktemp("coref"))


@pytest.fixture(scope="session")
def trained_reader(learnt_squad: TaskResult) -> TrainedTask:
    return TrainedTask.load(learnt_squad.folder, bilm=embedder())


@pytest.fixture(scope="session")
def trained_srl(learnt_srl: TaskResult) -> TrainedTask:
    return TrainedTask.load(learnt_srl.folder, bilm=embedder())
