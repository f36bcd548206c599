"""Files that lie about their size, or lead elsewhere: each an error of one line, within bounds."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import struct
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any
from zipfile import ZipFile

import h5py
import numpy as np
import pytest
import torch
from chaos.bounds import FULL, bounded
from formats.test_efml import write_efml
from helpers import error_of, write
from random_models import random_options, random_weights
from safetensors.numpy import save as save_arrays
from safetensors.torch import load_file, save_file
from small_models import write_small_model
from tasks.small_tasks import ONE_EPOCH, train, write_bilm

from elmokit.errors import LONGEST_MESSAGE, ElmoError, ElmoWarning
from elmokit.formats import allennlp, efml, find, native
from elmokit.formats.convert import convert_model
from elmokit.io.hdf5 import CheckedFile, open_hdf5
from elmokit.pretraining.config import read_run
from elmokit.static.files import read_word_vectors
from elmokit.tasks.trained import BilmReference, TrainedTask
from elmokit.text.tokenizer import load_tokenizer
from elmokit.vectors.files import open_vectors
from elmokit.vectors.hdf5 import SentenceKeys

HUGE = [10**6, 10**9, 10**12, 10**23]


def short_error(read: Callable[..., object], *arguments: Any) -> str:
    """The one line that comes of it, in 4 CPU seconds and 200 MB at most."""
    with bounded(megabytes=200, seconds=4):
        message = error_of(read, *arguments)
    assert len(message) <= LONGEST_MESSAGE
    return message


def changed(path: Path, names: list[str], value: object) -> None:
    """Give a value somewhere in a file of JSON."""
    values = part = json.loads(path.read_text())
    for name in names[:-1]:
        part = part[name]
    part[names[-1]] = value
    path.write_text(json.dumps(values))


# Models


def write_pair(folder: Path, **options: Any) -> tuple[Path, Path]:
    settings = random_options(**options)
    folder.mkdir(exist_ok=True)
    weights = folder / "weights.hdf5"
    with h5py.File(weights, "w") as file:
        for name, values in random_weights(settings).items():
            file[name] = values
    return write(folder / "options.json", json.dumps(settings)), weights


@pytest.mark.parametrize("value", HUGE)
@pytest.mark.parametrize(
    "names",
    ["lstm n_layers", "lstm dim", "lstm projection_dim", "char_cnn n_highway",
     "char_cnn max_characters_per_token", "char_cnn embedding dim", "char_cnn filters 0 1"],
)  # fmt: skip
def test_options_of_any_size_are_an_error_at_once(tmp_path: Path, names: str, value: int) -> None:
    options, weights = write_pair(tmp_path)
    path: list[Any] = [int(name) if name.isdigit() else name for name in names.split()]
    changed(options, path, value)
    short_error(allennlp.read_model, options, weights)


@pytest.mark.parametrize("value", HUGE)
@pytest.mark.parametrize(
    "name", ["lstm_layers", "cell_size", "softmax_words", "encoder max_characters",
             "encoder highways", "encoder character_size"],
)  # fmt: skip
def test_a_native_config_of_any_size_is_an_error_at_once(
    tmp_path: Path, name: str, value: int
) -> None:
    folder = Path(write_small_model(tmp_path / "m"))
    changed(folder / native.CONFIG, ["model", *name.split()], value)
    assert "config.json" in short_error(native.read_model, folder)


def test_a_quoted_file_is_cut(tmp_path: Path) -> None:
    options, weights = write_pair(tmp_path)
    changed(options, ["lstm", "dim"], "x" * 10**6)
    assert "must be a whole number" in short_error(allennlp.read_model, options, weights)


def test_many_sparse_datasets_are_counted_together(tmp_path: Path) -> None:
    """Each alone would be allowed; together they would be 2 GB, in a file of kilobytes."""
    options, weights = write_pair(tmp_path)
    for name, value in (("n_layers", 40), ("dim", 1000), ("projection_dim", 900)):
        changed(options, ["lstm", name], value)
    with h5py.File(weights, "w") as file:
        for part, shape in allennlp.parts(allennlp.read_options(options)).items():
            if shape is not None:
                file.create_dataset(part.dataset, shape, "f4", chunks=shape)
    assert weights.stat().st_size < 2**20
    assert "would grow more than 20 times" in short_error(allennlp.read_model, options, weights)


def elsewhere(file: h5py.File, name: str, other: Path) -> None:
    """A link to another file."""
    file[name] = h5py.ExternalLink(str(other), "data")


def soft(file: h5py.File, name: str, other: Path) -> None:
    """A link that may lead to a link to another file."""
    file[name] = h5py.SoftLink("/there/data")


def external(file: h5py.File, name: str, other: Path) -> None:
    """Numbers in another file, which need not be HDF5."""
    file.create_dataset(name, (4, 6), "f4", external=[(str(other), 0, 96)])


def virtual(file: h5py.File, name: str, other: Path) -> None:
    layout = h5py.VirtualLayout((4, 6), "f4")
    layout[:] = h5py.VirtualSource(str(other), "data", (4, 6))
    file.create_virtual_dataset(name, layout)


@pytest.mark.parametrize("lead", [elsewhere, soft, external, virtual])
def test_hdf5_leads_to_no_other_file(tmp_path: Path, lead: Callable[..., None]) -> None:
    other = tmp_path / "other.h5"
    with h5py.File(other, "w") as file:
        file["data"] = np.ones((4, 6), "f4")
    vectors = tmp_path / "v.h5"
    with h5py.File(vectors, "w") as file:
        lead(file, "0", other)
    assert "0 is " in short_error(lambda: open_vectors(vectors)[0])

    options, weights = write_pair(tmp_path)
    with h5py.File(weights, "a") as file:
        del file["CNN_proj/W_proj"]
        lead(file, "CNN_proj/W_proj", other)
    assert "CNN_proj/W_proj is " in short_error(allennlp.read_model, options, weights)


def test_a_sparse_item_is_not_filled(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file.create_dataset("0", (3, 10**5, 1024), "f4", chunks=(3, 100, 1024))
    assert "grow" in short_error(lambda: open_vectors(tmp_path / "v.h5")[0])


def with_ring(path: Path, group: int, ring: list[int]) -> int:
    """Let the unused places among the names of a group lead to each other; where its heap is."""
    contents = bytearray(path.read_bytes())
    heap = [found.start() for found in re.finditer(b"HEAP", contents)][group]
    (start,) = struct.unpack_from("<Q", contents, heap + 24)
    struct.pack_into("<Q", contents, heap + 16, ring[0])
    for place, following in zip(ring, [*ring[1:], ring[0]], strict=True):
        struct.pack_into("<Q", contents, start + place, following)
    path.write_bytes(contents)
    return heap


RINGS = [[32], [32, 48], [48, 32, 40]]


@pytest.mark.parametrize("ring", RINGS)
@pytest.mark.parametrize("group", [0, -1])
def test_names_whose_unused_places_form_a_ring_are_not_followed(
    tmp_path: Path, group: int, ring: list[int]
) -> None:
    """libhdf5 takes memory for ever, which no signal handler of Python interrupts."""
    options, weights = write_pair(tmp_path)
    with_ring(weights, group, ring)
    assert "form a ring" in short_error(allennlp.read_model, options, weights)
    assert group or "form a ring" in short_error(allennlp.contents_of, weights)

    vectors = tmp_path / "v.h5"
    with h5py.File(vectors, "w") as file:  # a group for each first word
        for name in ("the/cat", "a/dog"):
            file[name] = np.ones((3, 4, 6), "f4")
    with_ring(vectors, group, ring)
    assert "form a ring" in short_error(lambda: list(open_vectors(vectors)))


def with_tree_ring(path: Path, kind: int, level: int) -> None:
    """Let a B-tree of names (0) or of chunks (1) lead to itself; its own level says that it may."""
    contents = bytearray(path.read_bytes())
    places = [found.start() for found in re.finditer(b"TREE", contents)]
    tree = next(place for place in places if contents[place + 4] == kind)
    contents[tree + 5] = level
    first = tree + 24 + (40 if kind else 8)
    struct.pack_into("<Q", contents, first, tree)
    path.write_bytes(contents)


@pytest.mark.parametrize("level", [1, 200])
@pytest.mark.parametrize("kind", [0, 1])
def test_b_trees_that_are_none_are_not_followed(tmp_path: Path, kind: int, level: int) -> None:
    """libhdf5 follows them until its stack overflows, which ends the process."""
    vectors = tmp_path / "v.h5"
    with h5py.File(vectors, "w") as file:
        file.create_dataset("a", (3, 80, 6), "f4", chunks=(1, 1, 6))[()] = 1
    with_tree_ring(vectors, kind, level)
    assert "B-trees are not trees" in short_error(lambda: list(open_vectors(vectors)))


@pytest.mark.parametrize("libver", ["earliest", "v108", "latest"])
def test_b_trees_of_any_height_are_read(tmp_path: Path, libver: str) -> None:
    with h5py.File(tmp_path / "v.h5", "w", libver=(libver, "latest")) as file:
        for number in range(600):
            file[str(number)] = np.full((1, 1, 1), number, "f4")
        chunked = file.create_dataset("600", (3, 80, 6), "f4", chunks=(1, 1, 6))
        chunked[()] = 7
    with open_vectors(tmp_path / "v.h5") as found:
        assert [float(item.vectors[0, 0, 0]) for item in found] == [*range(600), 7]
        assert (found[600].vectors == 7).all()


def test_folders_in_folders_have_an_end(tmp_path: Path) -> None:
    """20,000 of them, in 2.6 MB, took more than a hundred seconds."""
    path = tmp_path / "v.h5"
    with h5py.File(path, "w", libver="latest") as file:
        group = file
        for _ in range(2000):
            group = group.create_group("a")
        group["x"] = np.ones((3, 4, 6), "f4")
    assert "deep" in short_error(open_vectors, path)
    keys = SentenceKeys(path)
    assert "cannot be a key" in error_of(keys.add, "/".join("a" * 101))
    keys.add("/".join("a" * 100))


def test_names_are_looked_at_however_they_are_read(tmp_path: Path) -> None:
    """HDF5 reads what lies before a group's names too, and may have read a part of them so."""
    _, weights = write_pair(tmp_path)
    heap = with_ring(weights, 0, RINGS[1])
    for place in range(heap - 8, heap + 5):
        with CheckedFile(weights) as file:
            file.seek(place)
            with pytest.raises(ValueError, match="form a ring"):
                file.readinto(bytearray(64))


def test_a_place_beyond_all_files_is_read_as_the_end_of_this_one(tmp_path: Path) -> None:
    options, weights = write_pair(tmp_path)
    _, sound = allennlp.read_model(options, weights)
    contents = bytearray(weights.read_bytes())
    struct.pack_into("<Q", contents, 48, 2**64 - 1024)  # where HDF5 reads about its driver
    weights.write_bytes(contents)
    with bounded(megabytes=200, seconds=4):
        _, found = allennlp.read_model(options, weights)  # all else is sound
    assert all(torch.equal(found[name], value) for name, value in sound.items())


def test_an_image_of_hdf5_s_cache_is_not_read(tmp_path: Path) -> None:
    """It may hold names, which would not be looked at."""
    vectors = tmp_path / "v.h5"
    with h5py.File(vectors, "w") as file:
        file["0"] = np.frombuffer(b"MDCI\0\1" + struct.pack("<Q", 1000) + b"\0\0", "f4")
    said = short_error(lambda: open_vectors(vectors)[0])
    assert f"{vectors}: has an image of HDF5's cache; repack it" in said
    assert "damaged" not in said


@pytest.mark.parametrize(
    "contents", [b"nothing", bytes(512), b"\x89HDF\r\n\x1a\n" + bytes(90)], ids=len
)
@pytest.mark.skipif(sys.platform != "linux", reason="asks the system about open files")
def test_a_file_that_cannot_be_opened_is_closed(tmp_path: Path, contents: bytes) -> None:
    path = tmp_path / "v.h5"
    path.write_bytes(contents)
    with pytest.raises(ElmoError) as kept:  # with its traceback, which holds what was opened
        open_hdf5(path)
    assert not [each for each in Path("/proc/self/fd").glob("*") if each.resolve() == path], kept


def lie(path: Path, length: int) -> None:
    """Say of what has 1,001 bytes or records that it has more."""
    told, contents = struct.pack("<I", 1001), path.read_bytes()
    assert told in contents
    path.write_bytes(contents.replace(told, struct.pack("<I", length), 1))


def long_attribute(file: h5py.File) -> None:
    file["0"].attrs["line"] = "x" * 1001


def long_text(file: h5py.File) -> None:
    file.create_dataset("sentence_to_index", data=["x" * 1001], dtype=h5py.string_dtype())


def long_text_inside(file: h5py.File) -> None:
    kind = np.dtype([("text", h5py.string_dtype())])
    file.create_dataset("sentence_to_index", data=np.array([("x" * 1001,)], kind))


def large_records(file: h5py.File) -> None:
    texts = file.create_dataset("sentence_to_index", (1,), h5py.vlen_dtype(np.dtype("V1000")))
    texts[0] = np.zeros(1001, "V1000")


TEXTS = [(add, 2**31 - 8) for add in (long_attribute, long_text, long_text_inside)]


@pytest.mark.parametrize(("add", "length"), [*TEXTS, (large_records, 10**6)])
def test_a_text_of_hdf5_is_no_longer_than_its_file(
    tmp_path: Path, add: Callable[[h5py.File], None], length: int
) -> None:
    path = tmp_path / "v.h5"
    with h5py.File(path, "w") as file:
        file["0"] = np.ones((3, 4, 6), "f4")
        add(file)
    lie(path, length)

    def read() -> object:
        with open_vectors(path) as found:
            return list(found)

    assert "v.h5: is not a file of vectors" in short_error(read)


@pytest.mark.parametrize(("skipped", "size"), [(0, 2**64 - 16), (296, 0)])
def test_a_heap_of_hdf5_without_end_comes_to_its_end(
    tmp_path: Path, skipped: int, size: int
) -> None:
    """libhdf5 2.0 reads such entries for ever, which no signal handler of Python interrupts."""
    old = (Path(__file__).resolve().parents[1] / "old_files" / "vectors.h5").read_bytes()
    entry = old.index(b"GCOL") + 16 + (skipped and skipped + 16)
    changed = old[:entry] + struct.pack("<HH4xQ", 1 + (skipped > 0), 1, size) + old[entry + 16 :]
    path = write(tmp_path / "v.h5", changed)
    with bounded(megabytes=200, seconds=4), open_vectors(path) as found:
        if skipped:  # behind the text, which is whole
            assert len(list(found.sentences())) == 5
        else:
            assert "longer than the file" in error_of(lambda: list(found.sentences()))


@pytest.mark.parametrize("how", [{"compression": "gzip"}, {"scaleoffset": 2}, {"shuffle": True}])
def test_a_chunk_is_no_larger_than_what_is_stored(tmp_path: Path, how: dict[str, Any]) -> None:
    """HDF5 unpacks a chunk of 72 MB for the 72 numbers that the item has of it."""
    sizes = {"shape": (3, 4, 6), "maxshape": (None,) * 3, "chunks": (3, 1000, 6000)}
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file.create_dataset("0", dtype="f4", **sizes, **how)
        if "compression" in how:
            file["0"][0, 0, 0] = 1
    assert (tmp_path / "v.h5").stat().st_size < 2**20
    assert "would grow" in short_error(lambda: open_vectors(tmp_path / "v.h5")[0])


def test_a_chunk_that_says_it_has_more_bytes_than_the_file_is_not_believed(tmp_path: Path) -> None:
    """Of 24 GB, 4 were said to be stored, so all were asked of the system."""
    path = tmp_path / "v.h5"
    with h5py.File(path, "w") as file:
        shape, chunks = (3, 2_000_000, 1000), (1, 100, 1000)
        file.create_dataset("0", shape, "f4", chunks=chunks, compression="gzip")[0, 0, 0] = 1
    contents = bytearray(path.read_bytes())
    trees = [found.start() for found in re.finditer(b"TREE\1", contents)]
    struct.pack_into("<I", contents, trees[0] + 24, 2**32 - 1)
    path.write_bytes(contents)
    assert "would grow" in short_error(lambda: open_vectors(path)[0])


def test_a_bomb_among_arrays_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "v.npz"
    np.savez_compressed(path, **{"0": np.zeros((40_000, 1024), np.float32)})
    assert path.stat().st_size < 2**18
    assert "would grow" in short_error(lambda: open_vectors(path)[0])


@pytest.mark.parametrize(
    "shape", [(20_000_000, 4), (20_000_000, 0), (10**12, 10**12), (0, 3), (-2, -6), ()]
)
def test_pooled_vectors_are_as_many_as_there_are_bytes(
    tmp_path: Path, shape: tuple[int, ...]
) -> None:
    path, file = tmp_path / "v.npz", BytesIO()
    about = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, about)  # type: ignore[arg-type]
    with ZipFile(path, "w") as archive:
        archive.writestr("vectors.npy", file.getvalue() + bytes(44))
    assert f"of shape {shape} has 44 bytes" in short_error(open_vectors, path)


def test_pooled_vectors_that_are_not_there_take_no_memory(tmp_path: Path) -> None:
    """A deflated file of kilobytes has 3 million rows: counting them unpacks none."""
    path = tmp_path / "v.npz"
    np.savez_compressed(path, vectors=np.zeros((3 << 20, 20), np.int8))
    with bounded(megabytes=200, seconds=4), open_vectors(path) as found:
        assert len(found) == 3 << 20
        assert not list(found.sentences())


def rewritten(folder: Path, change: Callable[[torch.Tensor], torch.Tensor]) -> Path:
    """A model or task folder, one of whose tensors is changed with the checksum."""
    (path,) = folder.glob("*.safetensors")
    tensors = load_file(path)
    name = max(tensors)
    tensors[name] = change(tensors[name])
    save_file(tensors, path)
    names = ["sha256", path.name] if (folder / "labels.json").exists() else ["weights", "sha256"]
    changed(folder / "config.json", names, hashlib.sha256(path.read_bytes()).hexdigest())
    return folder


WRONG = {
    "integers": (lambda tensor: tensor.to(torch.int64), "floating|float32"),
    "NaN": (lambda tensor: tensor * torch.nan, "NaN or infinite"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_weights_are_finite_floating_point_numbers(tmp_path: Path, kind: str) -> None:
    change, words = WRONG[kind]
    folder = rewritten(Path(write_small_model(tmp_path / "m")), change)
    message = short_error(native.read_model, folder)
    assert any(word in message for word in words.split("|"))


def test_pickled_tensors_are_no_larger_than_their_file(tmp_path: Path) -> None:
    path = tmp_path / "token_embedder.pkl"
    torch.save({"a": torch.zeros(1).expand(10**6, 10**6)}, path)
    assert "more numbers than are in the file" in short_error(efml.read_state, path)


def test_a_card_that_is_a_link_is_not_copied(tmp_path: Path) -> None:
    folder = Path(write_small_model(tmp_path / "m"))
    card = folder / native.CARD
    card.unlink()
    card.symlink_to(write(tmp_path / "secret", "a secret"))
    with pytest.warns(ElmoWarning, match="is a link to another place"):
        convert_model([folder], tmp_path / "copy", target="native")
    assert "secret" not in (tmp_path / "copy" / native.CARD).read_text()


ODD_NAMES = ["", ".", "/", "x" * 5000, "/" + "x/" * 3000, "\ud800", "a\0b", "~", "http://[::1"]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_any_name_of_a_model_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    options, _ = write_pair(tmp_path / "pair")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    short_error(find.read_model, name)
    short_error(find.read_model, options, name)


def test_the_current_folder_is_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write_small_model(tmp_path / "m"))
    assert find.find_model(".").folder == Path(".")


@pytest.mark.parametrize("name", [*ODD_NAMES, 5, ["x"]])
def test_the_settings_of_elmo_for_many_languages_may_have_any_name(
    tmp_path: Path, name: Any
) -> None:
    changed(write_efml(tmp_path) / "config.json", ["config_path"], name)
    short_error(efml.read_model, tmp_path)


# Tasks and runs


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("task")
    return train(
        folder, "spam", ONE_EPOCH, bilm=BilmReference(str(write_bilm(folder / "b")))
    ).folder


@pytest.fixture
def task(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "task"))


@pytest.mark.parametrize("kind", WRONG)
def test_weights_of_a_task_are_finite_floating_point_numbers(task: Path, kind: str) -> None:
    change, words = WRONG[kind]
    message = short_error(TrainedTask.load, rewritten(task, change))
    assert any(word in message for word in words.split("|"))


@pytest.mark.parametrize("value", [*HUGE, "many", None])
@pytest.mark.parametrize("name", ["network hidden", "training seed", "name", "inputs elmo"])
def test_settings_of_a_task_are_an_error_before_memory_is_taken(
    task: Path, name: str, value: Any
) -> None:
    changed(task / "config.json", ["task", *name.split()], value)
    if (name, value) == ("name", "many") or (name == "training seed" and value in HUGE[:3]):
        pytest.skip("is one that may be")
    short_error(TrainedTask.load, task)


def test_labels_are_names(task: Path) -> None:
    labels = task / "labels.json"
    for wrong in ([1, 2], "ham", None, [["ham"], "spam"]):
        write(labels, json.dumps({"labels": wrong}))
        digest = hashlib.sha256(labels.read_bytes()).hexdigest()
        changed(task / "config.json", ["sha256", labels.name], digest)
        assert "must be a list of names" in short_error(TrainedTask.load, task)


URL = "http://localhost:1/model.zip"
UNASKED = [
    *(("weights", URL), ("vocabulary", URL)),
    *(("model", each) for each in (URL, "hf://ada/my-elmo", "Original", "5.5b", "efml-Korean")),
]


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is fetched is a failure; of the Hub nothing is here."""
    monkeypatch.setattr("elmokit.io.fetch._fetch", None)
    monkeypatch.setitem(sys.modules, "huggingface_hub", EmptyHub("huggingface_hub"))


class EmptyHub(ModuleType):
    def snapshot_download(self, *, local_files_only: bool, **_: object) -> str:
        assert local_files_only
        raise OSError("it is not in the cache")


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize(("name", "place"), UNASKED)
def test_a_task_fetches_no_model_unasked(task: Path, name: str, place: str) -> None:
    changed(task / "config.json", ["bilm", "reference", name], place)
    message = short_error(TrainedTask.load, task)
    assert f"its biLM is {place}, which was not fetched here before; name it" in message
    assert "(--model)" in message


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("part", ["model", "weights", "vocabulary"])
@pytest.mark.parametrize("place", [*ODD_NAMES[1:], 5, ["x"], "hf://", "/dev/zero"])
def test_a_task_whose_model_has_any_name_is_an_error(task: Path, part: str, place: Any) -> None:
    changed(task / "config.json", ["bilm", "reference", part], place)
    short_error(TrainedTask.load, task)


@pytest.mark.usefixtures("no_network")
def test_a_pipeline_fetches_no_model_unasked(tmp_path: Path) -> None:
    spacy = pytest.importorskip("spacy", reason="the extra spacy is not installed")
    nlp = spacy.blank("en")
    elmo = nlp.add_pipe("elmo")
    for place in ("hf://ada/my-elmo", "original"):
        record = {"model": None, "path": place, "checksum": "0" * 64}
        message = short_error(elmo.from_disk, write(tmp_path / "elmo", json.dumps(record)))
        assert f"the model is {place}, which was not fetched here before" in message
        elmo.model = None
        for missing in record:
            less = {name: record[name] for name in record if name != missing}
            file = write(tmp_path / "elmo", json.dumps(less))
            assert "must have model, path, checksum" in error_of(elmo.from_disk, file)
        layer = spacy.registry.architectures.get("elmokit.Tok2Vec.v1")
        assert "not fetched here before" in short_error(layer, place)


RUNS = {
    "deep": "a = " + "[" * 100_000,
    "deep tables": "[" + "a." * 5000 + "a]",
    "many digits": "[training]\nseed = " + "9" * 10_000,
    "a large seed": f"[training]\nseed = {10**23}",
    "hexadecimal": "[training]\nrows = 0x" + "f" * 10_000,
    "long": "# \n" * 400_000,
}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_s_file_of_any_shape_is_an_error(tmp_path: Path, name: str) -> None:
    short_error(read_run, write(tmp_path / "run.toml", RUNS[name]))


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs a file without end")
def test_a_run_s_file_without_end_is_an_error() -> None:
    assert "is longer than" in short_error(read_run, "/dev/zero")


# Static vectors


def test_static_vectors_are_finite(tmp_path: Path) -> None:
    words = np.frombuffer(b"the\ncat", np.uint8)
    vectors = np.array([[1, 2], [3, np.nan]], np.float16)
    about = {"format": "elmokit word vectors", "version": "1"}
    path = write(
        tmp_path / "v.safetensors", save_arrays({"vectors": vectors, "words": words}, about)
    )
    assert "'cat' has NaN" in short_error(read_word_vectors, path)


@pytest.mark.parametrize("words", [3, 2**31 - 1])
def test_fasttext_s_file_that_ends_in_its_vocabulary_is_an_error(
    tmp_path: Path, words: int
) -> None:
    pytest.importorskip("gensim", reason="the extra static")
    head = struct.pack("<14id", 793712314, 12, *[4] * 12, 0.5)
    dictionary = struct.pack("<3i2q", words, words, 0, 9, -1)
    entries = b"the\0" + struct.pack("<qb", 5, 0) + b"cat"
    path = write(tmp_path / "v.bin", head + dictionary + entries)
    assert "ends within its vocabulary" in short_error(read_word_vectors, path)


# Texts


@pytest.mark.parametrize("unit", ["(a) ", "(", "a. ", "? ! ", "가. ", "''"])
def test_a_text_is_split_in_time_in_proportion_to_its_length(unit: str) -> None:
    """400,000 characters of "(a) " took 51 s, as each bracket was looked for to the end."""
    length = 400_000 if FULL else 40_000
    tokenizer = load_tokenizer("default")
    tokenizer.sentences(unit)  # whatever is loaded only once
    with bounded(megabytes=400 if FULL else 100, seconds=length / 20_000):
        found = tokenizer.sentences((unit * length)[:length])
    assert sum(len(token.text) for words in found for token in words) > length / 4
