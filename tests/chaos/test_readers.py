"""Readers of files that anybody may have changed: an error of one line, or a value, within bounds.

In `make test` each has a few dozen inputs; in `make chaos` ten thousand, from the printed seed.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import struct
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from chaos.bounds import FULL, SEED, bounded
from formats.test_archives import tar_of, zip_of
from formats.test_efml import write_efml
from helpers import files_in, write
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from random_models import random_options, random_weights
from small_checkpoints import block, masked, table_of, training_names, write_checkpoint, write_index

from elmokit import Embedder
from elmokit.bulk.inputs import open_input
from elmokit.errors import ElmoError
from elmokit.formats import allennlp, efml, find, native
from elmokit.io.fetch import cache_folder
from elmokit.io.text_files import TextSettings
from elmokit.pretraining.config import read_run
from elmokit.static.files import read_word_vectors
from elmokit.tasks.files.examples import read_examples
from elmokit.tasks.trained import TrainedTask
from elmokit.text.tokenizer import load_tokenizer
from elmokit.vectors.files import open_vectors
from elmokit.vectors.items import Item
from elmokit.vectors.npz import write_npz

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs timers of CPU time")

INPUTS = int(os.environ.get("ELMO_CHAOS_INPUTS", 10_000)) if FULL else 15
BOUNDS = {"megabytes": 256.0, "seconds": 5.0}
"""Of one input; what all leave behind has the same bound. The files have a few thousand bytes."""
OLD = Path(__file__).resolve().parents[1] / "old_files"
HUGE = [10**6, 10**9, 10**12, 2**63, 10**23, -1, 0, 1.5, 1e308, float("nan"), float("inf")]
ODD = [None, True, "", "\0", "x" * 2000, "../../etc/passwd", [], {}, [[1, 10**9]], [1] * 5000]
PIECES = [
    b"\xff" * 8,
    b"\0" * 8,
    b"9" * 30,
    b"-1",
    b"NaN",
    b"1e999",
    b"[" * 2000,
    b'"',
    b"\n",
    b"\t",
]


class Reader(NamedTuple):
    """The contents of a good file, how changed ones are written, and what reads them."""

    contents: bytes
    write: Callable[[bytes], object]
    read: Callable[[], object]


def copied(folder: Path, name: str, read: Callable[[Path], object]) -> Reader:
    """A reader of one of the old files, which everybody's files are like."""
    path = folder / name
    shutil.copy(OLD / name, path)
    return Reader(path.read_bytes(), path.write_bytes, lambda: read(path))


def made(folder: Path, name: str, contents: bytes, read: Callable[[Path], object]) -> Reader:
    path = folder / name
    path.write_bytes(contents)
    return Reader(contents, path.write_bytes, lambda: read(path))


def pair(folder: Path, changed: str) -> Reader:
    shutil.copytree(OLD / "pair", folder, dirs_exist_ok=True)
    path = folder / changed
    read = lambda: allennlp.read_model(folder / "options.json", folder / "weights.hdf5")  # noqa: E731
    return Reader(path.read_bytes(), path.write_bytes, read)


def model(folder: Path, changed: str) -> Reader:
    """A model folder, whose config says of changed weights that they are the right ones."""
    shutil.copytree(OLD / "model", folder, dirs_exist_ok=True)
    config, path = folder / "config.json", folder / changed

    def write(contents: bytes) -> None:
        path.write_bytes(contents)
        if path != config:
            values = json.loads(config.read_text())
            values["weights"]["sha256"] = hashlib.sha256(contents).hexdigest()
            config.write_text(json.dumps(values))

    return Reader(path.read_bytes(), write, lambda: native.read_model(folder))


def checkpoint(folder: Path, changed: str) -> Reader:
    """A checkpoint of TensorFlow; the checksum of the table in its index is always right."""
    options = random_options()
    write(folder / "options.json", json.dumps(options))
    variables = training_names(random_weights(options))
    path = write_checkpoint(folder / "v", variables).with_name(changed)

    def write_table(contents: bytes) -> None:
        data = contents + b"\0"
        write_index(folder / "v", data + struct.pack("<I", masked(data)))

    read = lambda: find.read_model(folder)  # noqa: E731
    if changed == "v.index":
        return Reader(block(table_of(variables)[0])[:-5], write_table, read)
    return Reader(path.read_bytes(), path.write_bytes, read)


def many_languages(folder: Path, changed: str) -> Reader:
    write_efml(folder)
    path = folder / changed
    return Reader(path.read_bytes(), path.write_bytes, lambda: efml.read_model(folder))


def pickles(folder: Path) -> Reader:
    write_efml(folder)
    path = folder / efml.TOKENS
    return Reader(path.read_bytes(), path.write_bytes, lambda: efml.read_state(path))


def archive(folder: Path, name: str, packed: Callable[[bytes], bytes] = bytes) -> Reader:
    """A model in an archive, whose bytes are changed before they are compressed."""
    path, files = folder / name, files_in(OLD / "model")
    if name.endswith("zip"):
        zip_of(path, files)
    else:
        tar_of(path, files)

    def read() -> object:
        try:
            return find.read_model(path)
        finally:
            shutil.rmtree(cache_folder() / "unpacked", ignore_errors=True)

    contents = path.read_bytes()
    return Reader(contents, lambda changed: path.write_bytes(packed(changed)), read)


def task(folder: Path, changed: str) -> Reader:
    """A task's folder, whose config says of another changed file that it is the right one."""
    shutil.copytree(OLD / "task", folder, dirs_exist_ok=True)
    config, path = folder / "config.json", folder / changed
    config.write_text(config.read_text().replace("/path/to/model", str(OLD / "model")))
    embedder = None if path == config else Embedder.load(OLD / "model")

    def write(contents: bytes) -> None:
        path.write_bytes(contents)
        if path != config:
            values = json.loads(config.read_text())
            values["sha256"][changed] = hashlib.sha256(contents).hexdigest()
            config.write_text(json.dumps(values))

    return Reader(path.read_bytes(), write, lambda: TrainedTask.load(folder, bilm=embedder))


def fasttext(folder: Path) -> Reader:
    library = pytest.importorskip("gensim.models.fasttext", reason="the extra static")
    words = [["one", "two", "three", "four"]]
    trained = library.FastText(words, vector_size=4, bucket=20, epochs=1, workers=1, min_count=1)
    path = folder / "f.bin"
    library.save_facebook_model(trained, str(path))
    return Reader(path.read_bytes(), path.write_bytes, lambda: read_word_vectors(path))


def examples(kind: Any) -> Callable[[Path], object]:
    tokenizer = load_tokenizer("whitespace")
    return lambda path: read_examples(kind, path, TextSettings(), tokenizer)


def records(path: Path) -> object:
    return list(open_input([str(path)], TextSettings(text_column="text")).records())


def vectors(path: Path) -> object:
    with open_vectors(path) as found:
        return list(found), list(found.sentences())


def parquet(folder: Path) -> Reader:
    pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    return copied(folder, "vectors.parquet", vectors)


def pooled(folder: Path) -> Reader:
    path = folder / "v.npz"
    write_npz(path, [Item(["a"], np.ones(3, np.float32), n) for n in range(4)])
    return Reader(path.read_bytes(), path.write_bytes, lambda: vectors(path))


TEXT_VECTORS = b"3 2\nthe 1 2\ncat 0.5 -1e3\nsat 3 4\n"
BINARY_VECTORS = b"2 2\nthe " + struct.pack("<2f", 1, 2) + b"\ncat " + struct.pack("<2f", 3, 4)
CONLL = (
    b"-DOCSTART- -X- O O\n\nJim NNP I-NP B-PER\nruns VBZ I-VP O\n\nin IN I-PP O\nRome NNP O B-LOC\n"
)
CONLLU = (
    b"# text = a\n1\tthe\tthe\tDET\t_\t_\t2\tdet\t_\t_\n2\tcat\tcat\tNOUN\t_\t_\t0\troot\t_\t_\n\n"
)
CSV = b'label,text\nspam,"win, $$$ now"\nham,see you\n"ham","a\nb"\n'
JSONL = b'{"label": "spam", "text": "win"}\n{"label": "ham", "text": "see \\u00e9"}\n'
READERS: dict[str, Callable[[Path], Reader]] = {
    "options": lambda f: pair(f, "options.json"),
    "weights.hdf5": lambda f: pair(f, "weights.hdf5"),
    "config.json": lambda f: model(f, "config.json"),
    "weights.safetensors": lambda f: model(f, "weights.safetensors"),
    "vectors.h5": lambda f: copied(f, "vectors.h5", vectors),
    "vectors.npz": lambda f: copied(f, "vectors.npz", vectors),
    "pooled vectors.npz": pooled,
    "vectors.parquet": parquet,
    "vectors.jsonl": lambda f: copied(f, "vectors.jsonl", vectors),
    "static.safetensors": lambda f: copied(f, "static.safetensors", read_word_vectors),
    "vectors.txt": lambda f: made(f, "v.txt", TEXT_VECTORS, read_word_vectors),
    "vectors.bin": lambda f: made(f, "v.bin", BINARY_VECTORS, read_word_vectors),
    "fasttext": fasttext,
    "conll": lambda f: made(f, "t.conll", CONLL, examples("tags")),
    "conllu": lambda f: made(f, "t.conllu", CONLLU, examples("tags")),
    "csv": lambda f: made(f, "t.csv", CSV, records),
    "csv of examples": lambda f: made(f, "t.csv", CSV, examples("text")),
    "jsonl": lambda f: made(f, "t.jsonl", JSONL, records),
    "tf index": lambda f: checkpoint(f, "v.index"),
    "tf data": lambda f: checkpoint(f, "v.data-00000-of-00001"),
    "efml pickles": pickles,
    "efml config.json": lambda f: many_languages(f, "config.json"),
    "efml settings": lambda f: many_languages(f, "tiny.json"),
    "efml word.dic": lambda f: many_languages(f, efml.WORDS),
    "zip": lambda f: archive(f, "m.zip"),
    "tar": lambda f: archive(f, "m.tar", gzip.compress),
    "task config.json": lambda f: task(f, "config.json"),
    "task labels.json": lambda f: task(f, "labels.json"),
    "task weights.safetensors": lambda f: task(f, "weights.safetensors"),
    "run.toml": lambda f: copied(f, "run.toml", read_run),
}

Edit = tuple[float, int, bytes]
EDITS = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 12), st.sampled_from(PIECES) | st.binary(max_size=8)),
    min_size=1,
    max_size=4,
)
VALUES = st.tuples(st.floats(0, 1), st.sampled_from([*HUGE, *ODD]))


def edited(contents: bytes, edits: list[Edit], kept: float) -> bytes:
    """Bytes that are replaced by others here and there, and perhaps an end that is cut off."""
    for place, removed, piece in edits:
        start = int(place * len(contents))
        contents = contents[:start] + piece + contents[start + removed :]
    return contents[: int(kept * len(contents)) + 1] if kept < 0.2 else contents


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a JSON value: what it is in, and its name there."""
    inside = list(value.items() if isinstance(value, dict) else enumerate(value))
    found = [(value, name) for name, _ in inside]
    return found + [
        place for _, one in inside if isinstance(one, dict | list) for place in places(one)
    ]


def with_value(contents: bytes, place: float, value: Any) -> bytes:
    """A JSON object with another value somewhere."""
    values = json.loads(contents)
    every = places(values)
    owner, name = every[min(int(place * len(every)), len(every) - 1)]
    owner[name] = value
    return json.dumps(values).encode()


@pytest.mark.parametrize("name", READERS)
def test_a_changed_file_is_read_or_is_an_error_of_one_line(name: str, tmp_path: Path) -> None:
    reader = READERS[name](tmp_path)
    reader.write(reader.contents)
    is_json = reader.contents.startswith(b"{") and name != "jsonl" and "vectors" not in name
    outcomes = {"read": 0, "error": 0}

    @seed(SEED)
    @settings(
        max_examples=INPUTS,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(edits=EDITS, kept=st.floats(0, 1), value=st.none() | VALUES if is_json else st.none())
    def try_one(edits: list[Edit], kept: float, value: tuple[float, Any] | None) -> None:
        changed = (
            with_value(reader.contents, *value) if value else edited(reader.contents, edits, kept)
        )
        reader.write(changed)
        outcome = "error"
        with bounded(**BOUNDS), suppress(ElmoError):
            reader.read()
            outcome = "read"
        outcomes[outcome] += 1

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reader.read()  # whatever is loaded only once
        with bounded(megabytes=BOUNDS["megabytes"], seconds=BOUNDS["seconds"] + 0.5 * INPUTS):
            try_one()
    assert outcomes["error"]
