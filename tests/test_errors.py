"""Errors are caught by those who know only Python's kinds."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from elmokit import (
    Embedder,
    NeighbourIndex,
    StaticVectors,
    TrainedTask,
    embed_files,
    open_vectors,
)
from elmokit.adaptors.tensorflow_hub import Module
from elmokit.errors import ConfigError, ElmoError, FormatError, InputError, MissingFileError
from elmokit.jobs.metrics import read_metrics
from elmokit.pretraining.config import PretrainConfig, read_run
from elmokit.text.vocabulary import read_vocabulary


def embed_missing(path: Path) -> object:
    return embed_files(Embedder.load(), [path], path.with_name("vectors.h5"))


READERS: dict[str, Callable[[Path], object]] = {
    "a model": Embedder.load,
    "options": lambda path: Embedder.load(path, path.with_suffix(".hdf5")),
    "a hub's model": Module,
    "vectors": lambda path: open_vectors(path.with_suffix(".h5")),
    "text": embed_missing,
    "word vectors": StaticVectors.load,
    "a vocabulary": read_vocabulary,
    "a task": TrainedTask.load,
    "an index": NeighbourIndex.open,
    "a run": read_run,
    "metrics": read_metrics,
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_file_that_is_not_there_is_a_file_not_found_error(
    read: Callable[[Path], object], tmp_path: Path
) -> None:
    path = tmp_path / "nowhere.json"

    with pytest.raises(FileNotFoundError) as error:
        read(path)

    assert isinstance(error.value, ElmoError)
    assert str(error.value).startswith(str(path.with_suffix("")))


@pytest.mark.parametrize(
    "call",
    [
        lambda: Embedder.load().embed("no list"),
        lambda: Embedder.load(state="warn"),  # type: ignore[arg-type]
        lambda: PretrainConfig.from_dict({"training": {"steps": -1}}),
    ],
)
def test_a_wrong_argument_or_setting_is_a_value_error(call: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match=r"list of sentences|'warn'|steps") as error:
        call()

    assert isinstance(error.value, InputError | ConfigError)


def test_a_damaged_file_is_no_value_error(tmp_path: Path) -> None:
    (tmp_path / "vectors.h5").write_text("no HDF5")

    with pytest.raises(FormatError) as error:
        open_vectors(tmp_path / "vectors.h5")

    assert not isinstance(error.value, ValueError | OSError)


def test_an_error_about_a_missing_file_reaches_another_process() -> None:
    error = pickle.loads(pickle.dumps(MissingFileError("here: is missing")))

    assert (type(error), str(error)) == (MissingFileError, "here: is missing")
