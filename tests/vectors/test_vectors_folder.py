"""A folder of Parquet files as one sequence."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from helpers import error_of, read_vectors

from elmokit.errors import InputError
from elmokit.vectors.files import CONTENTS, VERSION, FolderVectors, open_vectors, write_vectors

pytest.importorskip("pyarrow", reason="the extra parquet is not installed")

SIZES = {"part-0.parquet": 3, "part-1.parquet": 1, "part-10.parquet": 4, "part-2.parquet": 2}
COUNT = sum(SIZES.values())


def write_folder(folder: Path, *, numbered: bool = True) -> Path:
    """Files whose order is not that of their names; sentence n has the vector [n, n]."""
    folder.mkdir()
    number = 0
    for name, count in SIZES.items():
        numbers = range(number, number + count)
        items = [(["word", str(n)], np.full((2, 2), n), n) for n in numbers]
        write_vectors(folder / name, items, description={"layers": "top", "pool": "none"})
        number += count
    contents = {"version": VERSION, "numbered": numbered, "lines": SIZES}
    (folder / CONTENTS).write_text(json.dumps(contents))
    return folder


def test_files_are_one_sequence_in_the_order_of_the_input(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "out.parquet")

    with open_vectors(folder) as found:
        assert len(found) == COUNT
        assert found.description == {"layers": "top", "pool": "none"}
        assert [item.sentence for item in found] == [f"word {n}" for n in range(COUNT)]
        assert [found[n].vectors[0, 0] for n in (9, 0, 3, 4, -1)] == [9, 0, 3, 4, 9]
        assert [item.sentence for item in found[2:5]] == ["word 2", "word 3", "word 4"]
        assert list(found.sentences()) == [(n, f"word {n}") for n in range(COUNT)]
        with pytest.raises(IndexError, match="has 10 items"):
            found[10]
    assert [item.vectors.shape for item in read_vectors(folder)] == [(2, 2)] * COUNT


@pytest.mark.parametrize("numbered", [True, False])
def test_ids_that_are_but_numbers_are_none_as_in_a_file(tmp_path: Path, numbered: bool) -> None:
    folder = write_folder(tmp_path / "out", numbered=numbered)

    expected = [None] * COUNT if numbered else list(range(COUNT))
    assert [item.id for item in read_vectors(folder)] == expected


def test_few_files_are_open_at_once(tmp_path: Path) -> None:
    found = FolderVectors(write_folder(tmp_path / "out.parquet"), open_files=2)

    for n in (0, 9, 3, 4, 0, 9):
        assert found[n].sentence == f"word {n}"
        assert found._file.cache_info().currsize <= 2
    found.close()
    with pytest.raises(InputError, match="is closed"):
        found[0]


# What is not whole


def test_output_that_is_not_finished_is_refused(tmp_path: Path) -> None:
    parts = tmp_path / "out.parquet.parts"
    folder = write_folder(tmp_path / "vectors")
    (folder / CONTENTS).unlink()
    parts.mkdir()
    folder.rename(parts / "vectors")

    (tmp_path / "out.h5.parts").mkdir()
    for name in ("out.parquet", "out.parquet.parts", "out.parquet.parts/vectors", "out.h5"):
        with pytest.raises(InputError, match=r"not finished; .*with --resume"):
            open_vectors(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "contents"),
    [
        (CONTENTS, None),
        (CONTENTS, "[]"),
        (CONTENTS, "{}"),
        (CONTENTS, {"lines": None}),
        (CONTENTS, {"lines": {"a.parquet": "many"}}),
        (CONTENTS, {"version": 9}),
        ("part-0.parquet", None),
        ("part-2.parquet", None),
        ("part-1.parquet", "PAR1 and nothing else"),
        ("part-1.parquet", [("a", np.ones((1, 2)))] * 2),  # of another length
    ],
)
def test_a_missing_or_damaged_file_is_named(tmp_path: Path, name: str, contents: object) -> None:
    folder = write_folder(tmp_path / "out.parquet")
    path = folder / name
    known = path.read_text() if name == CONTENTS else ""
    path.unlink()
    if isinstance(contents, list):
        write_vectors(path, contents)
    elif contents is not None:
        changed = isinstance(contents, dict) and json.dumps(json.loads(known) | contents)
        path.write_text(changed or str(contents))

    assert name in error_of(read_vectors, folder)
