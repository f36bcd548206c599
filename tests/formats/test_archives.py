from __future__ import annotations

import gzip
import io
import json
import struct
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import assert_same_bits, error_of, files_in, write
from random_models import random_options, random_weights, write_files
from small_checkpoints import training_names, write_checkpoint
from small_models import WORDS, small_saved_model, write_language_model

from elmokit import Embedder, LanguageModel
from elmokit.errors import ElmoError, FormatError, InputError
from elmokit.formats import allennlp, native
from elmokit.formats.allennlp import read_options
from elmokit.formats.convert import convert_model, write_pair
from elmokit.formats.find import find_model, read_model
from elmokit.io.fetch import cache_folder

GOLDEN = Path(__file__).resolve().parents[2].parent / "shared" / "data"
golden = pytest.mark.skipif(not GOLDEN.is_dir(), reason="the golden files are in ../shared")


def zip_of(path: Path, files: Mapping[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def tar_of(path: Path, files: Mapping[str, bytes]) -> Path:
    with tarfile.open(path, f"w:{path.suffix[1:]}") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def nlpl_files(folder: Path) -> tuple[dict[str, bytes], Path]:
    """What an archive of NLPL has, and the pair with its softmax."""
    options = random_options()
    weights = random_weights(options, softmax_words=len(WORDS))
    whole = write_files(folder / "whole", options, weights)[0].parent
    bare = {name: value for name, value in weights.items() if "softmax" not in name}
    pair = write_files(folder / "bare", options, bare)
    write_checkpoint(folder / "ckpt" / "model.ckpt", training_names(weights))
    files = {"options.json": pair[0].read_bytes(), "model.hdf5": pair[1].read_bytes()}
    files |= {"README": b"a model", "meta.json": b"{}", "vocab.txt": "\n".join(WORDS).encode()}
    return files | files_in(folder / "ckpt"), whole


def unpacked() -> set[str]:
    return {path.name for path in (cache_folder() / "unpacked").rglob("*") if path.is_file()}


def test_vectors_of_a_zip_need_no_more_of_it_than_the_pair(tmp_path):
    files, whole = nlpl_files(tmp_path)
    archive = zip_of(tmp_path / "225.zip", files)

    found = read_model(archive, softmax=False)

    expected = read_model(whole, softmax=False).weights
    assert_same_bits(found.weights, expected)
    assert unpacked() == {"options.json", "model.hdf5", "vocab.txt"}


def test_a_zip_with_a_checkpoint_predicts_words(tmp_path):
    files, whole = nlpl_files(tmp_path)
    files["vocab.txt.gz"] = gzip.compress(files.pop("vocab.txt"))
    archive = zip_of(tmp_path / "225.zip", files)

    found = read_model(archive)

    assert_same_bits(found.weights, read_model(whole).weights)
    assert LanguageModel.load(archive).vocabulary.words == tuple(WORDS)
    convert_model([archive], tmp_path / "native")
    assert_same_bits(native.read_model(tmp_path / "native").weights, found.weights)


@pytest.mark.parametrize("suffix", ["zip", "tar.gz", "tar.bz2"])
def test_any_model_can_be_in_an_archive_and_in_a_folder_of_it(tmp_path, suffix):
    folder = Path(write_language_model(tmp_path / "model"))
    files = {f"a/model/{name}": data for name, data in files_in(folder).items()}
    files["__MACOSX/._config.json"] = b"junk"
    make = zip_of if suffix == "zip" else tar_of
    archive = make(tmp_path / f"model.{suffix}", files)

    for _ in range(2):  # the second time from the cache
        assert_same_bits(read_model(archive).weights, native.read_model(folder).weights)
    assert find_model(archive).name == archive.name


def test_an_archive_that_was_replaced_is_unpacked_again(tmp_path):
    archive = tmp_path / "a.zip"
    for seed in (1, 2):
        write_pair(small_saved_model(seed=seed), tmp_path / str(seed), force=False)
        zip_of(archive, files_in(tmp_path / str(seed)))
        assert_same_bits(read_model(archive).weights, read_model(tmp_path / str(seed)).weights)


@pytest.mark.parametrize(
    "name", ["../config.json", "/etc/config.json", "a/../../b", "C:\\x", "..\\x"]
)
@pytest.mark.parametrize("suffix", ["zip", "tar.gz"])
def test_a_name_that_leads_out_of_the_archive_is_one_line(tmp_path, name, suffix):
    make = zip_of if suffix == "zip" else tar_of
    archive = make(tmp_path / f"evil.{suffix}", {name: b"{}"})
    message = error_of(read_model, archive, kind=FormatError, after=archive)
    assert "outside of the archive" in message
    assert unpacked() == set()


def test_a_link_in_a_tar_is_not_followed(tmp_path):
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("weights.hdf5")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(member)
    error_of(read_model, tmp_path / "a.tar.gz")
    assert unpacked() == set()


@pytest.mark.parametrize("suffix", ["zip", "tar.gz", "tar.bz2"])
def test_a_bomb_does_not_explode(tmp_path, suffix):
    make = zip_of if suffix == "zip" else tar_of
    files = {"options.json": b"{}", "weights.hdf5": bytes(80 << 20)}
    archive = make(tmp_path / f"bomb.{suffix}", files)
    message = error_of(read_model, archive, kind=FormatError, after=archive)
    assert "would grow more than 20 times" in message
    assert "weights.hdf5" not in unpacked()


def test_a_zip_that_lies_about_a_size_gives_no_more_than_it_says(tmp_path):
    archive = zip_of(tmp_path / "a.zip", {"options.json": b"{}", "weights.hdf5": bytes(1 << 20)})
    data = archive.read_bytes().replace(struct.pack("<I", 1 << 20), struct.pack("<I", 100))
    archive.write_bytes(data)
    assert "damaged" in error_of(read_model, archive, kind=FormatError, after=archive)


@pytest.mark.parametrize("suffix", ["zip", "tar.gz", "tar.bz2"])
def test_no_damage_to_an_archive_is_more_than_one_line(tmp_path, suffix):
    write_pair(small_saved_model(), tmp_path / "pair", force=False)
    make = zip_of if suffix == "zip" else tar_of
    archive = make(tmp_path / f"a.{suffix}", files_in(tmp_path / "pair"))
    data, random = archive.read_bytes(), np.random.default_rng(0)
    for _ in range(20):
        archive.write_bytes(data[: random.integers(4, len(data) - 30)])
        with pytest.raises(ElmoError):
            read_model(archive)


def test_two_models_in_one_archive_are_told(tmp_path):
    files = {"one/options.json": b"{}", "two/options.json": b"{}", "one/weights.hdf5": b""}
    archive = zip_of(tmp_path / "a.zip", files)
    assert "more than one model" in error_of(read_model, archive)


def test_other_archives_are_no_models(tmp_path):
    archive = zip_of(tmp_path / "a.zip", {"notes.txt": b"text"})
    assert "holds neither config.json" in error_of(read_model, archive, kind=InputError)


# What is missing of a folder


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["options.json"], "has options.json, but the weights are missing"),
        (["weights.hdf5"], "options.json is missing"),
        (["options.json", "m.ckpt-3.data-00000-of-00001"], "m.ckpt-3.index is missing"),
        (["encoder.pkl", "config.json", "word.dic"], "token_embedder.pkl is missing"),
        (["encoder.pkl", "token_embedder.pkl", "config.json"], "word.dic is missing"),
    ],
)
def test_an_incomplete_folder_names_the_file_that_is_missing(tmp_path, names, message):
    for name in names:
        write(tmp_path / name, b"{}")
    assert message in error_of(read_model, tmp_path, kind=InputError)


def test_hdf5_files_are_told_apart_by_what_they_hold(tmp_path):
    files, whole = nlpl_files(tmp_path)
    options, weights = random_options(), random_weights(random_options(), softmax_words=12)
    softmax = {name: value for name, value in weights.items() if "softmax" in name}
    pair = write_files(tmp_path / "s", options, softmax)
    model = tmp_path / "published"
    write(model / "elmo_options.json", files["options.json"])
    write(model / "elmo_weights.hdf5", files["model.hdf5"])
    write(model / "elmo_softmax_weights.hdf5", pair[1].read_bytes())
    write(model / "vocab-toy.txt", WORDS)

    assert_same_bits(read_model(model).weights, read_model(whole).weights)
    assert LanguageModel.load(model).vocabulary.words == tuple(WORDS)
    write(model / "vocab-toy.txt", WORDS[:-1])
    message = error_of(read_model, model, kind=FormatError)
    assert "has 11 words but the model has 12" in message
    assert Embedder.load(model).vector_size == 16  # vectors need no words


def test_weights_under_another_name_are_known(tmp_path):
    files, whole = nlpl_files(tmp_path)
    write(tmp_path / "ko" / "elmo.model", files["model.hdf5"])
    write(tmp_path / "ko" / "options.json", files["options.json"])
    found = read_model(tmp_path / "ko", softmax=False).weights
    assert_same_bits(found, read_model(whole, softmax=False).weights)


def test_files_of_vectors_are_no_model(tmp_path):
    import h5py

    write(tmp_path / "options.json", json.dumps(random_options()))
    with h5py.File(tmp_path / "v.hdf5", "w") as file:
        file["0"] = np.zeros((3, 2, 4), np.float32)
    message = error_of(read_model, tmp_path / "options.json", tmp_path / "v.hdf5")
    assert "holds vectors, not the weights of a model" in message


@pytest.mark.parametrize("name", ["weights.hdf5", "a.zip", "options.json", "vocab.txt"])
def test_a_git_lfs_pointer_is_told(tmp_path, name):
    options = random_options(word_input=True)
    pair = write_files(tmp_path, options, random_weights(options, words=5))
    write(tmp_path / "vocab.txt", ["<S>", "</S>", "<UNK>", "a", "b"])
    write(tmp_path / name, b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    named = [tmp_path / name] if name == "a.zip" else pair
    words = None if name == "a.zip" else tmp_path / "vocab.txt"
    assert "is a Git LFS pointer" in error_of(read_model, *named, vocabulary=words)


def test_a_dataset_that_is_all_promise_is_not_read(tmp_path):
    import h5py

    options = random_options(cell=1 << 22)
    write(tmp_path / "options.json", json.dumps(options))
    with h5py.File(tmp_path / "weights.hdf5", "w") as file:
        for part, shape in allennlp.parts(read_options(tmp_path / "options.json")).items():
            if shape is not None:
                file.create_dataset(part.dataset, shape, np.float32, chunks=True)
    assert (tmp_path / "weights.hdf5").stat().st_size < 1 << 20
    assert "would grow more than 20 times" in error_of(read_model, tmp_path, kind=FormatError)


def test_a_pickle_in_disguise_is_no_weights_file(tmp_path):
    write(tmp_path / "options.json", json.dumps(random_options()))
    torch.save({"a": torch.zeros(1)}, tmp_path / "weights.hdf5")
    assert "is not an HDF5 file" in error_of(read_model, tmp_path)


# What others packed


@golden
@pytest.mark.parametrize("name", ["toy.zip", "toy-without-checkpoint.zip"])
@pytest.mark.filterwarnings("ignore:unusual word")
def test_archives_as_nlpl_has_them_give_allennlp_s_layers(name):
    folder = GOLDEN / "golden-nlpl"
    sentences = json.loads((folder / "sentences.json").read_text(encoding="utf-8"))
    expected = np.load(folder / "expected.npz")

    for number, found in enumerate(Embedder.load(folder / name).embed(sentences, "all")):
        np.testing.assert_allclose(found, expected[str(number)], rtol=0, atol=1e-5)
    if name == "toy.zip":
        assert len(LanguageModel.load(folder / name).vocabulary) == 90
    else:
        assert "has no softmax" in error_of(LanguageModel.load, folder / name)


@golden
@pytest.mark.filterwarnings("ignore:unusual word")
def test_a_softmax_beside_the_weights_gives_the_expected_probabilities():
    folder = GOLDEN / "golden-softmax"
    sentences = json.loads((folder / "sentences.json").read_text(encoding="utf-8"))
    expected = np.load(folder / "expected.npz")
    totals = json.loads((folder / "perplexity.json").read_text(encoding="utf-8"))
    model = LanguageModel.load(folder)

    for number, score in enumerate(model.score(sentences)):
        for name in ("forward", "backward", "forward_end", "backward_end"):
            np.testing.assert_allclose(
                getattr(score, name), expected[f"{number}/{name}"], rtol=0, atol=1e-5
            )
        assert score.unknown.tolist() == expected[f"{number}/unknown"].tolist()
    found = model.perplexity(sentences), model.perplexity(filter(None, sentences), "carry")
    for one, state in zip(found, ("zero", "carry"), strict=True):
        for name in ("forward", "backward", "mean"):
            assert getattr(one, name) == pytest.approx(totals[state][name], rel=1e-5)


@golden
@pytest.mark.parametrize("language", ["es", "fr", "it"])
def test_models_of_other_languages_give_allennlp_s_layers(language):
    folder = GOLDEN / "golden-multilingual" / language
    sentences = json.loads((folder / "sentences.json").read_text(encoding="utf-8"))
    expected = np.load(folder / "expected.npz")

    for number, found in enumerate(Embedder.load(folder).embed(sentences, "all")):
        np.testing.assert_allclose(found, expected[str(number)], rtol=0, atol=1e-6)
