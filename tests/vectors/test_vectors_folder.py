"""A folder of Parquet files as one sequence."""

from __future__ import annotations

import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from elmokit.errors import ElmoError, FormatError, InputError
from elmokit.inference.lookup import CachedEmbedder
from elmokit.vectors import files as vectors_folder
from elmokit.vectors.files import (
    CONTENTS,
    FORMAT,
    VERSION,
    open_vectors,
    read_vectors,
    write_vectors,
)

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
    contents = {"format": FORMAT, "version": VERSION, "numbered": numbered, "lines": SIZES}
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
    folder = write_folder(tmp_path / "out.parquet", numbered=numbered)

    expected = [None] * COUNT if numbered else list(range(COUNT))
    assert [item.id for item in read_vectors(folder)] == expected


def test_folder_may_have_any_name(tmp_path: Path) -> None:
    assert len(read_vectors(write_folder(tmp_path / "out"))) == COUNT


def test_few_files_are_open_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors_folder, "OPEN_FILES", 2)
    found = vectors_folder.FolderVectors(write_folder(tmp_path / "out.parquet"))

    for n in (0, 9, 3, 4, 0, 9):
        assert found[n].sentence == f"word {n}"
        assert found._file.cache_info().currsize <= 2
    found.close()
    with pytest.raises(InputError, match="is closed"):
        found[0]


def test_threads_and_pickled_ones_read_the_same(tmp_path: Path) -> None:
    with open_vectors(write_folder(tmp_path / "out.parquet")) as found:
        asked = [n % COUNT for n in range(0, 300, 7)]
        with ThreadPoolExecutor(4) as pool:
            read = list(pool.map(lambda n: found[n].sentence, asked))
        assert read == [f"word {n}" for n in asked]
        with pickle.loads(pickle.dumps(found)) as copy:
            assert [item.sentence for item in copy] == [item.sentence for item in found]


def test_cached_embedder_looks_up_in_a_folder(tmp_path: Path) -> None:
    cached = CachedEmbedder(write_folder(tmp_path / "out.parquet"))

    assert cached.embed([["word", "7"], []], "top")[0].tolist() == [[7, 7], [7, 7]]
    with pytest.raises(InputError, match="holds layer 'top', not 'average'"):
        cached.embed([["word", "7"]])
    cached.close()


# What is not whole


def test_output_that_is_not_finished_is_refused(tmp_path: Path) -> None:
    parts = tmp_path / "out.parquet.parts"
    folder = write_folder(tmp_path / "vectors")
    (folder / CONTENTS).unlink()
    parts.mkdir()
    folder.rename(parts / "vectors")

    for name in ("out.parquet", "out.parquet.parts", "out.parquet.parts/vectors"):
        with pytest.raises(InputError, match=r"not finished; .*with --resume") as error:
            open_vectors(tmp_path / name)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["out.h5", "out.npz", "out.jsonl"])
def test_output_of_another_format_that_is_not_finished_is_refused(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / f"{name}.parts").mkdir()

    with pytest.raises(InputError, match=rf"{name}: is not finished; .*with --resume"):
        open_vectors(tmp_path / name)


@pytest.mark.parametrize("missing", [CONTENTS, "part-0.parquet", "part-2.parquet"])
def test_folder_that_lacks_a_file_is_refused(tmp_path: Path, missing: str) -> None:
    folder = write_folder(tmp_path / "out.parquet")
    (folder / missing).unlink()

    with pytest.raises(FormatError, match=rf"{missing}.*copy the folder again") as error:
        read_vectors(folder)
    assert "\n" not in str(error.value)


def test_file_of_another_length_is_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "out.parquet")
    write_vectors(folder / "part-1.parquet", [("a", np.ones((1, 2)))] * 2)

    with open_vectors(folder) as found, pytest.raises(FormatError, match="has 2 lines, but 1 by"):
        found[3]


def test_damaged_file_is_named(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "out.parquet")
    (folder / "part-1.parquet").write_bytes(b"PAR1 and nothing else")

    with open_vectors(folder) as found, pytest.raises(FormatError, match=r"part-1\.parquet: "):
        found[3]


@pytest.mark.parametrize(
    "contents",
    [
        "[]",
        "{}",
        {"lines": None},
        {"lines": {"a.parquet": "many"}},
        {"lines": {"../a.parquet": 1}},
        {"version": 9},
    ],
)
def test_damaged_list_of_files_is_refused(tmp_path: Path, contents: object) -> None:
    folder = write_folder(tmp_path / "out.parquet")
    path = folder / CONTENTS
    if isinstance(contents, dict):
        contents = json.dumps(json.loads(path.read_text()) | contents)
    path.write_text(str(contents))

    with pytest.raises(ElmoError, match=CONTENTS) as error:
        open_vectors(folder)
    assert "\n" not in str(error.value)


def test_other_readers_pass_over_the_list_of_files(tmp_path: Path) -> None:
    dataset = pytest.importorskip("pyarrow.dataset")
    folder = write_folder(tmp_path / "out.parquet")

    assert dataset.dataset(folder).count_rows() == COUNT
