"""Files of vectors: what every format has to do alike."""

from __future__ import annotations

import pickle
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import error_of, read_vectors
from torch.utils.data import DataLoader

from elmokit.errors import ConfigError, ElmoError, FormatError, InputError
from elmokit.vectors import parquet as vectors_parquet
from elmokit.vectors.files import check_suffix, check_writable, open_vectors, write_vectors
from elmokit.vectors.items import Item, SentenceVectors, VectorSettings

pytest.importorskip("pyarrow", reason="the extra parquet is not installed")

SUFFIXES = [".h5", ".hdf5", ".npz", ".jsonl", ".parquet"]
FORMATS = [".h5", ".npz", ".jsonl", ".parquet"]
SENTENCES: list[list[str] | str] = [["The", "bank"], [], "A 강 bank", ["…", '"', "\\", "\0"]]
TEXTS = ["The bank", "", "A 강 bank", '… " \\ \0']
LENGTHS = (2, 0, 3, 4)

every_suffix = pytest.mark.parametrize("suffix", SUFFIXES)
every_format = pytest.mark.parametrize("suffix", FORMATS)


def arrays(layers: int | None = 3) -> list[np.ndarray]:
    """An array of random numbers for each sentence, of one word per word."""
    random = np.random.default_rng(0)
    leading = () if layers is None else (layers,)
    return [random.standard_normal((*leading, n, 4)).astype(np.float32) for n in LENGTHS]


def items(layers: int | None = 3) -> Iterator[tuple[list[str] | str, np.ndarray]]:
    yield from zip(SENTENCES, arrays(layers), strict=True)


def many(count: int, start: int = 0) -> Iterator[Item]:
    """Items whose array tells their number."""
    for number in range(start, start + count):
        yield Item([f"line{number}", "end"], np.full((2, 3), number, dtype=np.float32), number)


# What is written is read back


@pytest.mark.parametrize("layers", [3, None])
@pytest.mark.parametrize("suffix", [*SUFFIXES, ".H5"])
def test_what_is_written_is_read_back_bit_by_bit(
    tmp_path: Path, suffix: str, layers: int | None
) -> None:
    path = tmp_path / f"out{suffix}"
    write_vectors(path, items(layers))

    found = read_vectors(path)

    assert [item.sentence for item in found] == TEXTS
    assert [item.id for item in found] == [None] * 4
    for item, expected in zip(found, arrays(layers), strict=True):
        assert item.vectors.dtype == np.float32
        assert item.vectors.shape == expected.shape
        assert np.array_equal(item.vectors, expected)


@every_format
@pytest.mark.parametrize("shape", [(4,), (3, 4)])
def test_pooled_vectors_keep_their_shape(
    tmp_path: Path, suffix: str, shape: tuple[int, ...]
) -> None:
    path = tmp_path / f"out{suffix}"
    pooled = np.random.default_rng(1).standard_normal((5, *shape)).astype(np.float32)
    write_vectors(path, ((["a"] * n, pooled[n]) for n in range(5)), description={"pool": "mean"})

    found = read_vectors(path)

    assert np.array_equal([item.vectors for item in found], pooled)


@every_suffix
@pytest.mark.parametrize("ids", [["a", "강 7", "", "b"], [7, 0, -3, 2**62], [5, None, 6, None]])
def test_ids_are_kept_as_they_are(tmp_path: Path, suffix: str, ids: list[Any]) -> None:
    path = tmp_path / f"out{suffix}"
    write_vectors(path, (Item(*item, id) for item, id in zip(items(), ids, strict=True)))

    assert [item.id for item in read_vectors(path)] == ids


@every_format
@pytest.mark.parametrize("with_ids", [True, False])
def test_sentences_may_be_left_out(tmp_path: Path, suffix: str, with_ids: bool) -> None:
    path = tmp_path / f"out{suffix}"
    ids = [1, 2, 3, 4] if with_ids else [None] * 4
    write_vectors(
        path, ((*item, id) for item, id in zip(items(), ids, strict=True)), keep_sentences=False
    )

    with open_vectors(path) as file:
        assert [item.sentence for item in file] == [None] * 4
        assert [item.id for item in file] == ids
        assert list(file.sentences()) == []
        assert np.array_equal(file[2].vectors, arrays()[2])
    assert b"bank" not in path.read_bytes()


@pytest.mark.parametrize("suffix", [".h5", ".npz", ".parquet"])
def test_what_the_writer_says_of_a_file_is_remembered(tmp_path: Path, suffix: str) -> None:
    said = {"layers": "average", "pool": None, "words": 9, "rate": 0.5, "강": "\ud800"}
    write_vectors(tmp_path / f"out{suffix}", items(), description=said)
    write_vectors(tmp_path / f"silent{suffix}", items())

    assert open_vectors(tmp_path / f"out{suffix}").description == said
    assert open_vectors(tmp_path / f"silent{suffix}").description == {}


@every_suffix
@pytest.mark.parametrize("sentences", [["a b", "c", "a b", "d", "a b"], []], ids=["twice", "none"])
def test_sentence_that_comes_twice_is_known_both_times(
    tmp_path: Path, suffix: str, sentences: list[str]
) -> None:
    path = tmp_path / f"out{suffix}"
    write_vectors(path, ((text, np.full((1, 2), n)) for n, text in enumerate(sentences)))

    with open_vectors(path) as file:
        assert [item.sentence for item in file] == sentences
        # The last line is among those that are told.
        known = {text: number for number, text in file.sentences()}
    assert known == {text: number for number, text in enumerate(sentences)}


@every_format
def test_lone_surrogates_do_not_cost_a_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"out{suffix}"
    write_vectors(path, [(["a\ud800", "b"], np.ones((2, 3)), "i\ud800d")])

    # Parquet's texts are UTF-8, which has no bytes for them.
    lost = "" if suffix == ".parquet" else "\ud800"
    assert read_vectors(path)[0].sentence == f"a{lost} b"
    assert read_vectors(path)[0].id == f"i{lost}d"


@every_format
def test_equal_items_make_equal_files_by_settings_or_single_ones_by_name(
    tmp_path: Path, suffix: str
) -> None:
    one, other = tmp_path / f"one{suffix}", tmp_path / f"other{suffix}"
    settings = VectorSettings(dtype="float16", description={"layers": "top"})
    write_vectors(one, list(many(300)), settings, keep_sentences=False)
    write_vectors(other, many(300), replace(settings, keep_sentences=False))

    assert one.read_bytes() == other.read_bytes()
    with open_vectors(one) as found:
        assert found.description == {"layers": "top"}
        assert found[0].sentence is None


# A sequence


@every_format
def test_file_is_a_sequence_like_a_list(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors_parquet, "ROWS_PER_GROUP", 4)
    monkeypatch.setattr(vectors_parquet, "GROUPS_IN_MEMORY", 2)
    path = tmp_path / f"out{suffix}"
    write_vectors(path, many(25))
    numbers = list(range(25))

    with open_vectors(path) as file:
        assert len(file) == 25
        for index in (0, 24, -1, -25, 7, np.int64(3)):
            assert file[index].id == file[index].vectors[0, 0] == numbers[index]
            assert file[index].sentence == f"line{numbers[index]} end"
        for part in (slice(3, 6), slice(None, None, -7), slice(20, 99), slice(5, 5)):
            assert [item.id for item in file[part]] == numbers[part]
        for index in (25, -26):
            with pytest.raises(IndexError):
                file[index]
        assert [item.id for item in file] == numbers
        assert [item.id for item in reversed(file)] == numbers[::-1]
        assert list(file.sentences()) == [(n, f"line{n} end") for n in numbers]
        assert isinstance(file[0], SentenceVectors)


@every_format
def test_closed_file_says_so_and_a_pickled_one_opens_itself(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"out{suffix}"
    write_vectors(path, many(5))
    with open_vectors(path) as file:
        file[1].vectors[:] = 7  # the array belongs to whoever asked for it
        assert file[1].vectors[0, 0] == 1
        copy = pickle.loads(pickle.dumps(file))
        file.close()  # twice is no harm

    with pytest.raises(InputError, match="is closed; open it again"):
        file[0]
    with pytest.raises(InputError, match="is closed; open it again"):
        list(file.sentences())
    with copy:
        assert [item.id for item in copy] == list(range(5))


@every_format
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_workers_of_a_data_loader_read_what_their_parent_reads(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors_parquet, "ROWS_PER_GROUP", 7)
    path = tmp_path / f"out{suffix}"
    write_vectors(path, many(200))
    with open_vectors(path) as file:
        assert file[9].id == 9  # it is open, and in use, before there are workers
        loader = DataLoader(file, batch_size=5, num_workers=2, collate_fn=list)  # type: ignore
        found = []
        for batch in loader:
            found += batch
            assert file[len(found) - 1].id == len(found) - 1

    assert [item.id for item in found] == list(range(200))
    assert all((item.vectors == item.id).all() for item in found)
    assert all(item.sentence == f"line{item.id} end" for item in found)


@every_format
def test_threads_may_share_a_file(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors_parquet, "ROWS_PER_GROUP", 7)
    path = tmp_path / f"out{suffix}"
    write_vectors(path, many(100))
    wanted = np.random.default_rng(0).permutation(400) % 100

    with open_vectors(path) as file, ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda number: file[number], wanted))

    assert [item.id for item in found] == wanted.tolist()
    assert all((item.vectors == item.id).all() for item in found)


# What is refused


@every_suffix
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


@every_format
@pytest.mark.parametrize(
    ("other", "why"),
    [
        (np.zeros((2, 5)), r"shape \(2, 5\), the lines before \(words, 4\)"),
        (np.zeros((3, 2, 4)), "the lines before"),
        (np.zeros(4), "the lines before"),
        (np.zeros((1, 2, 3, 4)), r"give \(words, size\)"),
        (np.zeros((2, 0)), r"give \(words, size\)"),
        (np.full((1, 4), np.nan), "NaN"),
        (np.full((1, 4), 1e6), "too large for float16"),
    ],
)
def test_array_that_cannot_be_written_is_refused_with_its_line(
    tmp_path: Path, suffix: str, other: np.ndarray, why: str
) -> None:
    written = [("a", np.zeros((1, 4))), ("b", other)]
    with pytest.raises(InputError, match=f"line 2 has .*{why}"):
        write_vectors(tmp_path / f"out{suffix}", written, dtype="float16")

    assert list(tmp_path.iterdir()) == []


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
        with pytest.raises(InputError, match=r"use one of \.h5, \.hdf5, \.jsonl, \.npz, \.parquet"):
            call()


def test_unknown_compression_is_refused_with_those_that_are_known(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'zstd'; \.h5 has none and gzip"):
        write_vectors(tmp_path / "out.h5", many(1), compression="zstd")
    with pytest.raises(InputError, match=r"\.jsonl has none"):
        check_writable("out.jsonl", "gzip")
    assert check_writable("out.parquet", "zstd") == "zstd"
    assert check_writable("out.npz", None) == "none"


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    ("suffix", "compression"),
    [
        (".h5", "gzip"),
        (".npz", "deflate"),
        (".jsonl", "none"),
        (".parquet", "snappy"),
        (".parquet", "gzip"),
        (".parquet", "zstd"),
    ],
)
def test_compressed_and_half_precise_files_hold_the_same_numbers(
    tmp_path: Path, suffix: str, compression: str, dtype: str
) -> None:
    plain, small = tmp_path / f"plain{suffix}", tmp_path / f"small{suffix}"
    array = np.tile(np.arange(2000, dtype=np.float32) % 9 / 7, (3, 1))  # over several pages
    settings = VectorSettings(dtype=dtype)
    for path, kind in ((plain, "none"), (small, compression)):
        write_vectors(path, [("a b c", array), ("", array[:0])], settings, compression=kind)

    assert compression == "none" or small.stat().st_size < 0.8 * plain.stat().st_size
    for path in (plain, small):
        found, empty = (item.vectors for item in read_vectors(path))
        assert found.dtype == np.float32
        assert np.array_equal(found, array.astype(dtype))
        assert empty.shape == (0, 2000)


# Memory and disk


@every_format
def test_vectors_of_more_items_need_no_more_memory(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors_parquet, "ROWS_PER_GROUP", 20)
    path = tmp_path / f"out{suffix}"
    write_vectors(path, many(10))  # what is imported or made once
    peaks = []
    for count in (20, 270):
        tracemalloc.start()
        write_vectors(path, (Item("a b", np.ones((2, 1000)), n) for n in range(count)))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()

    # The vectors are 2 MB more. HDF5 and NPZ have the sentences, and a record of each, in memory.
    assert peaks[1] - peaks[0] < (50_000 if suffix in (".jsonl", ".parquet") else 500_000)


FULL_DISK = """
import resource, sys
import numpy as np
from elmokit.errors import DiskError
from elmokit.vectors.files import write_vectors

resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
for suffix in sys.argv[2:]:
    for count, size in ((5000, 30), (2, 60_000), (1600, 4)):
        items = ((f"line {n}", np.linspace(n, n + 0.5, size).reshape(1, -1)) for n in range(count))
        try:
            write_vectors(f"{sys.argv[1]}/out{suffix}", items)
            print("written")
        except DiskError as error:
            print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="has no limits on the size of files")
def test_full_disk_is_one_line_and_leaves_no_trace(tmp_path: Path) -> None:
    # In a process of its own: HDF5 might end it.
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", FULL_DISK, str(tmp_path), *FORMATS],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert len(lines) == 3 * len(FORMATS)
    for number, line in enumerate(lines):
        suffix = FORMATS[number // 3]
        too_large = f"{tmp_path}/out{suffix}: cannot be written ([Errno 27] File too large)"
        # The last of each has files that are just small enough on their way, but for some.
        assert line.startswith(too_large) or (number % 3 == 2 and line == "written")
    assert {path.suffix for path in tmp_path.iterdir()} <= {".parquet", ".jsonl"}


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ({"layers": 0}, {"layers": "0"}),
        ({"mix": Path("mix.json")}, {"mix": "mix.json"}),
        ({"pool": None}, {"pool": "none"}),
    ],
)
def test_settings_take_the_words_of_the_embedder(given: Any, stored: Any) -> None:
    assert VectorSettings(**given) == VectorSettings(**stored)
    assert asdict(VectorSettings(**given)) == asdict(VectorSettings()) | stored


@pytest.mark.parametrize("wrong", [{"layers": True}, {"mix": 1}, {"pool": "sum"}])
def test_setting_of_another_kind_is_named(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(wrong))} is "):
        VectorSettings(**wrong)


# Files that are something else


@every_suffix
@pytest.mark.parametrize("contents", [b"not vectors", b'{"index": 0}\n', b"\xff\xfe\x00", b""])
def test_file_that_is_something_else_is_one_line(
    tmp_path: Path, suffix: str, contents: bytes
) -> None:
    path = tmp_path / f"in{suffix}"
    path.write_bytes(contents)
    if suffix == ".jsonl" and not contents:
        return  # which is a file of no lines

    assert str(path) in error_of(read_vectors, path, kind=FormatError)


@every_suffix
def test_file_that_is_not_there_or_cut_short_is_one_line(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"in{suffix}"
    with pytest.raises(ElmoError, match=r"cannot be read|no such file"):
        open_vectors(path)

    write_vectors(path, items())
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(FormatError):
        read_vectors(path)


@every_format
def test_damaged_bytes_give_an_error_or_other_items_but_no_crash(
    tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"in{suffix}"
    write_vectors(path, many(3))
    whole = path.read_bytes()
    random = np.random.default_rng(0)
    refused = []
    for _ in range(60):
        damaged = bytearray(whole)
        for place in random.integers(len(whole), size=8):
            damaged[place] ^= int(random.integers(1, 256))
        path.write_bytes(damaged)
        try:
            with open_vectors(path) as file:
                list(file.sentences())
                assert len(list(file)) == len(file)
        except FormatError as error:
            refused.append(str(error))
    # HDF5 has no checksums of numbers: wherever they are hit, others are read.
    assert len(refused) > (0 if suffix == ".h5" else 20)
    assert all(str(path) in message for message in refused)


@pytest.mark.parametrize("bug", [AttributeError, IndexError, TypeError])
def test_mistake_of_our_own_is_not_taken_for_a_damaged_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bug: type[Exception]
) -> None:
    def broken(*_: object) -> SentenceVectors:
        raise bug

    write_vectors(tmp_path / "out.npz", many(1))
    with open_vectors(tmp_path / "out.npz") as file:
        monkeypatch.setattr(type(file), "_read", broken)
        with pytest.raises(bug):
            file[0]
