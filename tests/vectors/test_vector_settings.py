from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmokit.errors import ConfigError
from elmokit.vectors.files import open_vectors, write_vectors
from elmokit.vectors.items import VectorSettings

ITEMS = [(["a", "bank"], np.full((2, 3), 0.1))]


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"pool": "sum"}, "pool is 'sum'; use one of"), ({"dtype": "int8"}, "dtype is 'int8'; use")],
)
def test_settings_are_checked_when_made(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        VectorSettings(**changes)


@pytest.mark.parametrize("suffix", [".h5", ".npz", ".jsonl", ".parquet"])
def test_settings_and_single_ones_by_name_write_the_same(tmp_path: Path, suffix: str) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    one, other = tmp_path / f"one{suffix}", tmp_path / f"other{suffix}"
    settings = VectorSettings(dtype="float16", description={"layers": "top"})
    write_vectors(one, ITEMS, settings, keep_sentences=False)
    write_vectors(other, ITEMS, replace(settings, keep_sentences=False))

    assert one.read_bytes() == other.read_bytes()
    with open_vectors(one) as found:
        assert found.description == {"layers": "top"}
        assert found[0].sentence is None
        np.testing.assert_array_equal(found[0].vectors, np.full((2, 3), np.float16(0.1)))


def test_settings_that_there_are_not_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="shape"):
        write_vectors(tmp_path / "out.npz", ITEMS, shape=3)
    assert list(tmp_path.iterdir()) == []
