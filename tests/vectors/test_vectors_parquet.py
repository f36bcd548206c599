"""Parquet, as other tools read and write it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import read_vectors

from elmokit.errors import FormatError, InputError
from elmokit.vectors import parquet as vectors_parquet
from elmokit.vectors.files import open_vectors
from elmokit.vectors.items import VectorSettings
from elmokit.vectors.parquet import write_parquet

pyarrow = pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
parquet = pytest.importorskip("pyarrow.parquet")


def item(words: int, *shape: int, start: float = 0.0) -> tuple[list[str], np.ndarray]:
    size = int(np.prod(shape))
    array = np.arange(start, start + size, dtype=np.float32).reshape(shape)
    return [f"w{number}" for number in range(words)], array


def metadata(path: Path) -> dict[str, Any]:
    return json.loads(parquet.read_schema(path).metadata[b"elmokit"])


def test_columns_are_what_other_tools_read(tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    write_parquet(path, [item(2, 2, 3), item(0, 0, 3), item(1, 1, 3, start=6)])

    table = parquet.read_table(path)

    assert table.column_names == ["id", "words", "vectors"]
    assert table.to_pylist() == [
        {"id": 0, "words": ["w0", "w1"], "vectors": [[0, 1, 2], [3, 4, 5]]},
        {"id": 1, "words": [], "vectors": []},
        {"id": 2, "words": ["w0"], "vectors": [[6, 7, 8]]},
    ]
    assert table.schema.field("words").type == pyarrow.list_(pyarrow.string())
    vector = pyarrow.list_(pyarrow.float32(), 3)
    assert table.schema.field("vectors").type == pyarrow.list_(vector)


@pytest.mark.parametrize(
    ("shape", "pool", "dimensions", "sizes", "depth"),
    [
        ((2, 3), "none", ["words", "size"], [None, 3], 2),
        ((4, 2, 3), "none", ["layers", "words", "size"], [4, None, 3], 3),
        ((3,), "mean", ["size"], [3], 1),
        ((4, 3), "max", ["layers", "size"], [None, 3], 2),
    ],
)
def test_kind_of_shape_is_recorded(
    tmp_path: Path,
    shape: tuple[int, ...],
    pool: str,
    dimensions: list[str],
    sizes: list[int | None],
    depth: int,
) -> None:
    path = tmp_path / "out.parquet"
    settings = VectorSettings(description={"pool": pool}, dtype="float16")
    write_parquet(path, [item(2, *shape)], settings)

    found = metadata(path)

    assert found["dimensions"] == dimensions
    assert found["shape"] == sizes
    assert found["description"] == {"pool": pool}
    kind = parquet.read_schema(path).field("vectors").type
    for _ in range(depth):
        kind = kind.value_type
    assert kind == pyarrow.float16()
    assert read_vectors(path)[0].vectors.shape == shape


@pytest.mark.parametrize("ids", [[None, "a"], ["a", 1], [1, "a"]])
def test_ids_of_several_kinds_are_refused_with_the_line(tmp_path: Path, ids: list[Any]) -> None:
    with pytest.raises(InputError, match=f"line 2 has the id {ids[1]!r}"):
        write_parquet(tmp_path / "out.parquet", ((*item(1, 1, 2), id) for id in ids))

    assert list(tmp_path.iterdir()) == []


def test_row_groups_are_cut_by_rows_and_by_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors_parquet, "ROWS_PER_GROUP", 3)
    monkeypatch.setattr(vectors_parquet, "NUMBERS_PER_GROUP", 20)
    path = tmp_path / "out.parquet"
    lengths = [1, 1, 1, 9, 1, 2, 8, 1]
    write_parquet(path, (item(n, n, 2) for n in lengths))

    file = parquet.ParquetFile(path)

    groups = [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)]
    assert groups == [3, 2, 2, 1]
    assert [len(found.vectors) for found in read_vectors(path)] == lengths


def test_only_a_few_groups_stay_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors_parquet, "ROWS_PER_GROUP", 1)
    monkeypatch.setattr(vectors_parquet, "GROUPS_IN_MEMORY", 2)
    write_parquet(tmp_path / "out.parquet", (item(1, 1, 2, start=n) for n in range(4)))
    read = []
    read_group = vectors_parquet.ParquetVectors._read_group
    monkeypatch.setattr(
        vectors_parquet.ParquetVectors,
        "_read_group",
        lambda file, *names: (read.append(names[0]), read_group(file, *names))[1],
    )

    with open_vectors(tmp_path / "out.parquet") as file:
        found = [file[n].vectors[0, 0] for n in (0, 1, 0, 1, 2, 1, 0)]

    assert found == [0, 1, 0, 1, 2, 1, 0]
    assert read == [0, 1, 2, 0]


# Files of others


def test_file_that_another_tool_wrote_is_read(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    table = pyarrow.table(
        {
            "vectors": pyarrow.array([[[1.0, 2.0], [3.0, 4.0]], [], [[5.0, 6.0]]]),
            "words": pyarrow.array([["a", "b"], [], None], pyarrow.large_list(pyarrow.string())),
        }
    )
    parquet.write_table(table, path, row_group_size=2)

    with open_vectors(path) as file:
        assert [found.vectors.tolist() for found in file] == [[[1, 2], [3, 4]], [], [[5, 6]]]
        assert [found.sentence for found in file] == ["a b", "", None]
        assert [found.id for found in file] == [None] * 3
        assert list(file.sentences()) == [(0, "a b"), (1, "")]


@pytest.mark.parametrize(
    "columns",
    [
        {"other": [1]},
        {"vectors": [1.0]},
        {"vectors": [None, [[1.0]]]},
        {"vectors": [[[1.0, 2.0, 3.0], [4.0]]]},
        {"vectors": [[["a"]]]},
        {"vectors": [[{"a": 1.0}]]},
        {"vectors": [[[1.0, None]]]},
        {"vectors": [[[1.0]]], "words": [7]},
        {"vectors": [[[1.0]]], "words": [[7]]},
    ],
)
def test_columns_of_something_else_are_one_line(tmp_path: Path, columns: dict[str, Any]) -> None:
    path = tmp_path / "in.parquet"
    parquet.write_table(pyarrow.table(columns), path)

    with pytest.raises(FormatError, match="is not a file of vectors"):
        read_vectors(path)
