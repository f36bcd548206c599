"""Files of vectors: the layout others read, and what comes back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmokit.errors import ElmoError, FormatError, InputError
from elmokit.formats.vectors import (
    check_suffix,
    read_vectors,
    write_hdf5,
    write_jsonl,
    write_npz,
    write_vectors,
)

SUFFIXES = [".h5", ".hdf5", ".npz", ".jsonl"]
SENTENCES: list[list[str] | str] = [["The", "bank"], [], "A 강 bank", ["…", '"', "\\", "\ud800"]]
TEXTS = ["The bank", "", "A 강 bank", '… " \\ \ud800']


def arrays(layers: int | None = 3) -> list[np.ndarray]:
    """An array of random numbers for each sentence, of one word per word."""
    random = np.random.default_rng(0)
    leading = () if layers is None else (layers,)
    return [random.standard_normal((*leading, n, 4)).astype(np.float32) for n in (2, 0, 3, 4)]


def items(layers: int | None = 3) -> Iterator[tuple[list[str] | str, np.ndarray]]:
    yield from zip(SENTENCES, arrays(layers), strict=True)


@pytest.mark.parametrize("layers", [3, None])
@pytest.mark.parametrize("suffix", [*SUFFIXES, ".H5"])
def test_what_is_written_is_read_back_bit_by_bit(
    tmp_path: Path, suffix: str, layers: int | None
) -> None:
    path = tmp_path / f"out{suffix}"
    write_vectors(path, items(layers))

    found = read_vectors(path)

    assert [item.sentence for item in found] == TEXTS
    for item, expected in zip(found, arrays(layers), strict=True):
        assert item.vectors.dtype == np.float32
        assert item.vectors.shape == expected.shape
        assert np.array_equal(item.vectors, expected)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_many_lines_come_back_in_their_order(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"out{suffix}"
    write_vectors(path, ((f"line {n}", np.full((1, 2), n)) for n in range(25)))

    found = read_vectors(path)

    assert [item.vectors[0, 0] for item in found] == list(range(25))
    assert [item.sentence for item in found] == [f"line {n}" for n in range(25)]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_no_lines_are_a_file_of_none(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"out{suffix}"
    write_vectors(path, [])

    assert read_vectors(path) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_error_on_the_way_leaves_the_old_file(tmp_path: Path, suffix: str) -> None:
    def broken() -> Iterator[tuple[str, np.ndarray]]:
        yield "one", np.zeros((1, 2))
        raise InputError("the second line cannot be read")

    path = tmp_path / f"out{suffix}"
    write_vectors(path, [("old", np.zeros((1, 2)))])

    with pytest.raises(InputError, match="second line"):
        write_vectors(path, broken())

    assert [item.sentence for item in read_vectors(path)] == ["old"]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_nan_is_refused_with_its_line(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"out{suffix}"

    with pytest.raises(InputError, match="line 2 has NaN"):
        write_vectors(path, [("a", np.zeros((1, 2))), ("b", np.full((1, 2), np.nan))])

    assert list(tmp_path.iterdir()) == []


# Suffixes


@pytest.mark.parametrize("name", ["out.txt", "out"])
def test_unknown_suffix_is_refused_before_anything_is_computed(tmp_path: Path, name: str) -> None:
    def compute() -> Iterator[tuple[str, np.ndarray]]:
        pytest.fail("computed")
        yield

    for call in (
        lambda: check_suffix(name),
        lambda: write_vectors(tmp_path / name, compute()),
        lambda: read_vectors(tmp_path / name),
    ):
        with pytest.raises(InputError, match=r"use one of \.h5, \.hdf5, \.jsonl, \.npz"):
            call()


# HDF5


def test_hdf5_has_the_layout_of_the_allennlp_command(tmp_path: Path) -> None:
    write_hdf5(tmp_path / "out.hdf5", [*items(), ("The bank", np.ones((3, 2, 4)))])

    with h5py.File(tmp_path / "out.hdf5", "r") as file:
        assert set(file) == {"0", "1", "2", "3", "4", "sentence_to_index"}
        assert np.array_equal(file["2"][...], arrays()[2])
        assert file["1"].shape == (3, 0, 4)
        assert file["4"].dtype == np.float32
        assert file["sentence_to_index"].shape == (1,)
        index = json.loads(file["sentence_to_index"][0])
    # As in AllenNLP's: the last of equal sentences has the name.
    assert index == {"The bank": "4", "": "1", "A 강 bank": "2", TEXTS[3]: "3"}
    assert [item.sentence for item in read_vectors(tmp_path / "out.hdf5")] == [
        None,
        *TEXTS[1:],
        "The bank",
    ]


def test_hdf5_may_leave_the_sentences_out(tmp_path: Path) -> None:
    write_hdf5(tmp_path / "out.h5", items(), keep_sentences=False)

    with h5py.File(tmp_path / "out.h5", "r") as file:
        assert set(file) == {"0", "1", "2", "3"}
    assert [item.sentence for item in read_vectors(tmp_path / "out.h5")] == [None] * 4


def test_hdf5_may_have_sentences_for_keys_even_with_slashes(tmp_path: Path) -> None:
    sentences = ["b c", "a / b", "a / c", "1/2 of it .", "강"]
    path = tmp_path / "out.h5"
    write_hdf5(path, ((s, np.full((1, 1), n)) for n, s in enumerate(sentences)), sentence_keys=True)

    with h5py.File(path, "r") as file:
        assert [file[sentence][0, 0] for sentence in sentences] == [0, 1, 2, 3, 4]
    found = {item.sentence: item.vectors[0, 0] for item in read_vectors(path)}
    assert found == dict(zip(sentences, range(5), strict=True))


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        (["a", "b", "a"], "line 3, 'a', has the key of line 1"),
        (["1", "2", "1/2 of it"], "line 3, '1/2 of it', has the key of line 1"),
        (["x", "1/2 of it", "1"], "line 3, '1', has the key of line 2"),
        (["", "a"], "line 1, '', cannot be a key"),
        (["a", "."], r"line 2, '\.', cannot be a key"),
        (["a//b"], "line 1, 'a//b', cannot be a key"),
        (["a\0b"], "cannot be a key"),
        (["\ud800"], "cannot be a key"),
    ],
)
def test_sentence_that_cannot_be_a_key_is_named_with_its_line(
    tmp_path: Path, sentences: list[str], message: str
) -> None:
    with pytest.raises(InputError, match=message) as error:
        write_hdf5(
            tmp_path / "out.h5", ((s, np.zeros((1, 1))) for s in sentences), sentence_keys=True
        )

    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


# NPZ and JSON lines, as others read them


def test_npz_is_read_by_plain_numpy(tmp_path: Path) -> None:
    write_npz(tmp_path / "out.npz", items())

    with np.load(tmp_path / "out.npz", allow_pickle=False) as file:
        assert set(file.files) == {"0", "1", "2", "3", "sentences"}
        assert np.array_equal(file["2"], arrays()[2])
        assert json.loads(str(file["sentences"])) == TEXTS


def test_jsonl_has_an_object_for_each_line(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "out.jsonl", [(["a", "b"], np.array([[0.1, 1], [-2e-9, 3e20]]))])

    line = (tmp_path / "out.jsonl").read_text(encoding="utf-8")
    assert line == (
        '{"index": 0, "sentence": "a b", "shape": [2, 2], '
        '"vectors": [[0.1, 1.0], [-2e-09, 3e+20]]}\n'
    )
    assert json.loads(line)["vectors"] == [[0.1, 1.0], [-2e-09, 3e20]]


# Files that are something else


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("contents", [b"not vectors", b'{"index": 0}\n', b"\xff\xfe\x00"])
def test_file_that_is_something_else_is_one_line(
    tmp_path: Path, suffix: str, contents: bytes
) -> None:
    path = tmp_path / f"in{suffix}"
    path.write_bytes(contents)

    with pytest.raises(FormatError) as error:
        read_vectors(path)

    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_file_that_is_not_there_or_cut_short_is_one_line(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"in{suffix}"
    with pytest.raises(ElmoError, match=r"cannot be read|no such file"):
        read_vectors(path)

    write_vectors(path, items())
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(FormatError) as error:
        read_vectors(path)
    assert "\n" not in str(error.value)


def test_damaged_index_of_sentences_is_one_line(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file.create_dataset("0", data=np.zeros((1, 2)))
        file.create_dataset("sentence_to_index", data=["not JSON"], dtype=h5py.string_dtype())

    with pytest.raises(FormatError, match="sentence_to_index cannot be read"):
        read_vectors(tmp_path / "in.h5")


def test_foreign_npz_without_sentences_or_numbers_is_refused_or_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "plain.npz", **{"0": np.ones((1, 2))})
    np.savez(tmp_path / "other.npz", weights=np.ones((1, 2)))

    assert read_vectors(tmp_path / "plain.npz")[0].sentence is None
    with pytest.raises(FormatError, match="not a file of vectors"):
        read_vectors(tmp_path / "other.npz")
