"""NPZ, as NumPy and zip programs read and write it."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from helpers import error_of, read_vectors

from elmokit.errors import FormatError
from elmokit.vectors.files import open_vectors
from elmokit.vectors.items import VectorSettings
from elmokit.vectors.npz import write_npz

TEXTS = ["The bank", "", '강 " \\ \ud800']


def items(ids: bool = False) -> list[tuple[object, ...]]:
    return [
        (text.split(), np.full((2, len(text.split()), 5), n, np.float32), *([n * 7] if ids else []))
        for n, text in enumerate(TEXTS)
    ]


@pytest.mark.parametrize("compression", [None, "deflate"])
def test_npz_is_read_by_plain_numpy(tmp_path: Path, compression: str | None) -> None:
    settings = VectorSettings(compression=compression, dtype="float16")
    write_npz(tmp_path / "out.npz", items(), settings)

    with np.load(tmp_path / "out.npz", allow_pickle=False) as file:
        assert file.files == ["0", "1", "2", "sentences"]
        assert (file["2"] == 2).all()
        assert file["1"].shape == (2, 0, 5)
        assert file["2"].dtype == np.float16
        assert json.loads(bytes(file["sentences"])) == TEXTS


def test_ids_and_description_are_arrays_of_json(tmp_path: Path) -> None:
    settings = VectorSettings(description={"layers": "all"})
    write_npz(tmp_path / "out.npz", items(ids=True), settings)

    with np.load(tmp_path / "out.npz", allow_pickle=False) as file:
        assert file.files[3:] == ["sentences", "ids", "description"]
        assert json.loads(bytes(file["ids"])) == [0, 7, 14]
        assert json.loads(bytes(file["description"])) == {"layers": "all"}


@pytest.mark.parametrize("compression", [None, "deflate"])
def test_archive_is_whole_to_the_last_checksum(tmp_path: Path, compression: str | None) -> None:
    write_npz(tmp_path / "out.npz", items(ids=True), VectorSettings(compression=compression))

    with zipfile.ZipFile(tmp_path / "out.npz") as archive:
        assert archive.testzip() is None
        for member in archive.infolist():
            assert member.date_time == (1980, 1, 1, 0, 0, 0)
            assert (member.compress_type == zipfile.ZIP_DEFLATED) == (compression == "deflate")


# Files of others


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_file_that_numpy_wrote_is_read(tmp_path: Path, save: object) -> None:
    save(  # type: ignore[operator]
        tmp_path / "plain.npz", **{"10": np.ones((1, 2)), "2": np.asfortranarray(np.eye(2, 3))}
    )

    found = read_vectors(tmp_path / "plain.npz")

    assert [item.sentence for item in found] == [None, None]
    assert np.array_equal(found[0].vectors, np.eye(2, 3))
    assert np.array_equal(found[1].vectors, np.ones((1, 2)))


def test_sentences_may_be_one_text_of_numpy(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "in.npz",
        **{"0": np.ones((1, 2)), "1": np.ones((1, 2)), "sentences": json.dumps(["a", "강"])},
    )

    assert [item.sentence for item in read_vectors(tmp_path / "in.npz")] == ["a", "강"]


@pytest.mark.parametrize(
    ("name", "array"), [("weights", np.ones((1, 2))), ("0", np.array([{"a": 1}], dtype=object))]
)
def test_arrays_of_other_things_and_pickled_objects_are_an_error(
    tmp_path: Path, name: str, array: np.ndarray
) -> None:
    np.savez(tmp_path / "other.npz", **{name: array})

    with pytest.raises(FormatError, match=r"not a file of vectors.*('weights'|allow_pickle)"):
        read_vectors(tmp_path / "other.npz")


@pytest.mark.parametrize("compression", [None, "deflate"])
def test_changed_number_is_noticed(tmp_path: Path, compression: str | None) -> None:
    path = tmp_path / "out.npz"
    random = np.random.default_rng(0).standard_normal((4, 100)).astype(np.float32)
    settings = VectorSettings(compression=compression)
    write_npz(path, [("a", random), ("b", random + 1)], settings)
    contents = bytearray(path.read_bytes())
    contents[1000] ^= 1
    path.write_bytes(contents)

    with open_vectors(path) as file:
        assert file[1].sentence == "b"
        with pytest.raises(FormatError, match="damaged"):
            file[0]


@pytest.mark.parametrize("name", ["sentences", "ids", "description"])
@pytest.mark.parametrize("text", ["", "7", "[", '["a"'])
def test_text_that_is_something_else_is_one_line(tmp_path: Path, name: str, text: str) -> None:
    array = np.frombuffer(text.encode(), dtype=np.uint8)
    np.savez(tmp_path / "in.npz", **{"0": np.ones((1, 2)), name: array})

    with pytest.raises(FormatError, match=r"in\.npz"):
        read_vectors(tmp_path / "in.npz")


@pytest.mark.parametrize("shape", [(5,), (2, 5)])
@pytest.mark.parametrize("compression", [None, "deflate"])
def test_pooled_vectors_are_one_matrix(tmp_path, shape, compression):
    rows = np.arange(3 * np.prod(shape), dtype=np.float32).reshape(3, *shape)
    settings = VectorSettings(pool="mean", compression=compression)
    path = tmp_path / "out.npz"
    write_npz(path, zip(TEXTS, rows, [7, 8, 9], strict=True), settings)
    with np.load(path) as file:
        assert file.files == ["vectors", "sentences", "ids"]
        assert (file["vectors"] == rows).all()
    with open_vectors(path) as found:
        assert [(item.sentence, item.id) for item in found] == [*zip(TEXTS, [7, 8, 9], strict=True)]
        assert (found[-1].vectors == rows[2]).all()

    words = [("a", np.ones((1, 5))), ("a b", np.ones((2, 5)))]
    wrong = error_of(write_npz, tmp_path / "no.npz", words, settings, after=tmp_path / "no.npz")
    assert "has vectors of shapes (2, 5) and (1, 5)" in wrong
