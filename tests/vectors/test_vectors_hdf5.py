"""HDF5, as old readers expect it and as old programs wrote it."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from helpers import read_vectors

from elmokit.errors import ElmoWarning, FormatError, InputError
from elmokit.vectors import hdf5 as vectors_hdf5
from elmokit.vectors.files import open_vectors
from elmokit.vectors.hdf5 import DeferredErrorFile, write_hdf5
from elmokit.vectors.items import Item, VectorSettings

SENTENCES = [["The", "bank"], [], ["A", "강", "bank"], ["…", '"', "\\", "\ud800"], ["The", "bank"]]
TEXTS = [" ".join(sentence) for sentence in SENTENCES]
INDEX = {"": "1", "A 강 bank": "2", TEXTS[3]: "3", "The bank": "4"}


def items() -> Iterator[Item]:
    for number, sentence in enumerate(SENTENCES):
        yield Item(sentence, np.full((3, len(sentence), 4), number, dtype=np.float32))


def as_allennlp_wrote(path: Path, texts: list[str], index: bool = True) -> None:
    """A file of the old command: old groups, and a text of variable length."""
    with h5py.File(path, "w", libver="earliest") as file:
        for number, text in enumerate(texts):
            shape = (3, len(text.split()), 4)
            file.create_dataset(str(number), shape, dtype="float32", data=np.full(shape, number))
        if index:
            pairs = {text: str(number) for number, text in enumerate(texts)}
            dataset = file.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype())
            dataset[0] = json.dumps(pairs)


def test_hdf5_has_the_layout_of_the_allennlp_command(tmp_path: Path) -> None:
    write_hdf5(tmp_path / "out.hdf5", items())

    with h5py.File(tmp_path / "out.hdf5", "r") as file:
        assert list(file) == ["0", "1", "2", "3", "4", "sentence_to_index"]
        assert (file["2"][...] == 2).all()
        assert file["1"].shape == (3, 0, 4)
        assert file["4"].dtype == np.float32
        assert file["sentence_to_index"].shape == (1,)
        assert h5py.check_string_dtype(file["sentence_to_index"].dtype).length is None
        index = json.loads(file["sentence_to_index"][0])
    # As in AllenNLP's: the last of equal sentences has the name.
    assert index == INDEX
    assert list(index) == list(INDEX)


def test_ids_and_a_description_add_no_keys(tmp_path: Path) -> None:
    described = ((*item[:2], f"id {n}") for n, item in enumerate(items()))
    settings = VectorSettings(description={"layers": "all"}, keep_sentences=False)
    write_hdf5(tmp_path / "out.h5", described, settings)

    with h5py.File(tmp_path / "out.h5", "r") as file:
        assert list(file) == ["0", "1", "2", "3", "4"]
        assert json.loads(file["3"].attrs["line"]) == {"id": "id 3"}


def test_file_is_of_a_version_that_old_libraries_read(tmp_path: Path) -> None:
    settings = VectorSettings(dtype="float16", compression="gzip")
    write_hdf5(tmp_path / "out.h5", items(), settings)

    contents = (tmp_path / "out.h5").read_bytes()
    assert contents.startswith(b"\x89HDF\r\n\x1a\n\x02")  # superblock 2 is of HDF5 1.8
    with h5py.File(tmp_path / "out.h5", "r") as file:
        assert file["2"].compression == "gzip"
        assert file["2"].dtype == np.float16


def test_text_of_fixed_length_is_an_index_of_sentences_too(tmp_path: Path) -> None:
    """As long ones were written before."""
    write_hdf5(tmp_path / "out.h5", items())
    with h5py.File(tmp_path / "out.h5", "r+") as file:
        text = file["sentence_to_index"][0]
        del file["sentence_to_index"]
        file.create_dataset("sentence_to_index", data=np.array([text], dtype=f"S{len(text)}"))
        del file["2"].attrs["line"]

    with open_vectors(tmp_path / "out.h5") as file:
        assert [item.sentence for item in file] == TEXTS
        assert {str(number): text for number, text in file.sentences()} == {
            number: text for text, number in INDEX.items()
        }


def test_index_of_sentences_beyond_all_limits_is_left_out_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors_hdf5, "LONGEST_INDEX", 20)

    with pytest.warns(ElmoWarning, match="is written without sentence_to_index"):
        write_hdf5(tmp_path / "out.h5", items())

    with open_vectors(tmp_path / "out.h5") as file:
        assert [item.sentence for item in file] == TEXTS
        assert list(file.sentences()) == list(enumerate(TEXTS))


def test_sentence_of_any_length_is_kept(tmp_path: Path) -> None:
    words = ["word"] * 30_000  # twice of what fits beside a dataset
    settings = VectorSettings(compression="gzip")
    write_hdf5(tmp_path / "out.h5", [(words, np.zeros((30_000, 1)), "id")], settings)

    found = read_vectors(tmp_path / "out.h5")[0]

    assert found.sentence == " ".join(words)
    assert found.id == "id"
    assert found.vectors.shape == (30_000, 1)


# Files of the old command


@pytest.mark.parametrize("index", [True, False])
def test_file_of_the_allennlp_command_is_read(tmp_path: Path, index: bool) -> None:
    texts = [f"강 line {number}" for number in range(12)]
    as_allennlp_wrote(tmp_path / "old.hdf5", texts, index)

    with open_vectors(tmp_path / "old.hdf5") as file:
        assert len(file) == 12
        assert [item.vectors[0, 0, 0] for item in file] == list(range(12))
        assert [item.sentence for item in file] == (texts if index else [None] * 12)
        assert list(file.sentences()) == (list(enumerate(texts)) if index else [])


def test_sentence_that_came_twice_is_known_once_and_keys_may_have_gaps(tmp_path: Path) -> None:
    as_allennlp_wrote(tmp_path / "old.hdf5", ["a b", "c", "a b"])
    assert [item.sentence for item in read_vectors(tmp_path / "old.hdf5")] == [None, "c", "a b"]
    as_allennlp_wrote(tmp_path / "old.hdf5", [f"line {number}" for number in range(12)])
    with h5py.File(tmp_path / "old.hdf5", "r+") as file:
        del file["3"], file["11"]

    with open_vectors(tmp_path / "old.hdf5") as file:
        assert [item.vectors[0, 0, 0] for item in file] == [0, 1, 2, 4, 5, 6, 7, 8, 9, 10]
        assert file[3].sentence == "line 4"
        assert list(file.sentences())[3:5] == [(3, "line 4"), (4, "line 5")]


@pytest.mark.parametrize("text", ["not JSON", "", '["a", "0"]', '{"a": "x"}', '{"\\x": "0"}'])
def test_damaged_index_of_sentences_is_one_line(tmp_path: Path, text: str) -> None:
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file.create_dataset("0", data=np.zeros((1, 2)))
        file.create_dataset("sentence_to_index", data=[text], dtype=h5py.string_dtype())

    with pytest.raises(FormatError, match=r"in\.h5: .*damaged"):
        read_vectors(tmp_path / "in.h5")


@pytest.mark.parametrize("data", [["text"], [1, 2], 1.0, h5py.Empty("f4")])
def test_dataset_of_something_else_is_one_line(tmp_path: Path, data: object) -> None:
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file.create_dataset("0", data=data)

    with pytest.raises(FormatError, match="is not a file of vectors"):
        read_vectors(tmp_path / "in.h5")


@pytest.mark.parametrize("count", [[1, 1], [1], "1", 1.5, h5py.Empty("i8"), 2, -1])
def test_number_of_items_that_is_not_one_is_one_line(tmp_path: Path, count: object) -> None:
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file.create_dataset("0", data=np.zeros((1, 2)))
        file.attrs["items"] = count

    with pytest.raises(FormatError, match=r"in\.h5: is not a file of vectors, or is damaged"):
        open_vectors(tmp_path / "in.h5")


def test_double_precision_of_others_is_read_as_single(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file.create_dataset("0", data=np.array([[0.1, 2]], dtype=">f8"))

    found = read_vectors(tmp_path / "in.h5")[0].vectors

    assert found.dtype == np.float32
    assert np.array_equal(found, np.float32([[0.1, 2]]))


# Sentences for keys


def test_hdf5_may_have_sentences_for_keys_even_with_slashes(tmp_path: Path) -> None:
    sentences = ["b c", "a / b", "a / c", "1/2 of it .", "강"]
    path = tmp_path / "out.h5"
    write_hdf5(path, ((s, np.full((1, 1), n)) for n, s in enumerate(sentences)), sentence_keys=True)

    with h5py.File(path, "r") as file:
        assert [file[sentence][0, 0] for sentence in sentences] == [0, 1, 2, 3, 4]
        assert "sentence_to_index" not in file
    with open_vectors(path) as file:
        found = {item.sentence: item.vectors[0, 0] for item in file}
        assert found == dict(zip(sentences, range(5), strict=True))
        assert [text for _, text in file.sentences()] == [item.sentence for item in file]


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
    with pytest.raises(InputError, match=message):
        write_hdf5(
            tmp_path / "out.h5", ((s, np.zeros((1, 1))) for s in sentences), sentence_keys=True
        )

    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("call", [1, -1])  # the last writes close the file
def test_signal_while_hdf5_writes_is_raised_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, call: int
) -> None:
    """Raised inside, it would crash the process."""
    write, calls = DeferredErrorFile.write, 0
    interrupted_call = 0

    def interrupted(self: DeferredErrorFile, data: Any) -> int:
        nonlocal calls
        calls += 1
        if calls == interrupted_call:
            signal.raise_signal(number)
        return write(self, data)

    monkeypatch.setattr(DeferredErrorFile, "write", interrupted)
    write_hdf5(tmp_path / "out.h5", items())
    before = (tmp_path / "out.h5").read_bytes()
    interrupted_call, calls = (call if call > 0 else calls), 0
    with pytest.raises(KeyboardInterrupt):
        write_hdf5(tmp_path / "out.h5", items())
    assert [path.name for path in tmp_path.iterdir()] == ["out.h5"]
    assert (tmp_path / "out.h5").read_bytes() == before
