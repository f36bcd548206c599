from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from helpers import assert_same_bits, error_of, write, write_sentences
from random_models import random_options, random_weights, write_files
from small_checkpoints import (
    MAGIC,
    block,
    crc32c,
    masked,
    training_names,
    varint,
    write_checkpoint,
    write_index,
)

from elmokit import Embedder, LanguageModel
from elmokit.adaptors import tensorflow_hub as hub
from elmokit.errors import ElmoError, ElmoWarning, FormatError, MissingFileError
from elmokit.formats import allennlp, native
from elmokit.formats import tf_checkpoint as package
from elmokit.formats.convert import convert_model
from elmokit.formats.find import read_model
from elmokit.pretraining.run import finetune, finetuning_run

GOLDEN = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "golden-tf-checkpoint"
golden = pytest.mark.skipif(not GOLDEN.is_dir(), reason="the golden files are in ../shared")
WORDS = ["<S>", "</S>", "<UNK>", "the", "river", "bank", "money", "."]


def folder_of(
    tmp_path: Path, style: str = "new", name: str = "model.ckpt-7", **settings: Any
) -> tuple[Path, dict[str, Any]]:
    """A folder as the original training leaves it, and the state_dict it should give."""
    sizes = {n: settings.pop(n) for n in ("shards", "kind", "endian", "lies") if n in settings}
    options = random_options(**settings, **({"layers": 1} if style == "one layer" else {}))
    words = {"words": len(WORDS)} if settings.get("word_input") else {}
    weights = random_weights(options, softmax_words=len(WORDS), **words)
    pair = write_files(tmp_path / "pair", options, weights)
    folder = tmp_path / "checkpoint"
    write_checkpoint(folder / name, training_names(weights, style), **sizes)
    write(folder / "options.json", pair[0].read_text().replace("262", "261"))
    write(folder / "vocab.txt", WORDS)
    return folder, allennlp.read_model(*pair)[1]


def weights_of(tmp_path: Path) -> dict[str, np.ndarray]:
    """What the HDF5 file beside a folder has, by AllenNLP's names."""
    with h5py.File(tmp_path / "pair" / "weights.hdf5") as file:
        names: list[str] = []
        file.visit(names.append)
        return {name: file[name][()] for name in names if isinstance(file[name], h5py.Dataset)}


@pytest.mark.parametrize("style", ["new", "old", "one layer", "module"])
def test_a_checkpoint_gives_the_weights_that_the_hdf5_file_has(tmp_path, style):
    folder, expected = folder_of(tmp_path, style, shards=2)

    for named in (folder, folder / "model.ckpt-7", folder / "model.ckpt-7.index"):
        saved = read_model(named)

        assert_same_bits(saved.weights, expected)
        assert saved.vocabulary is not None
        assert list(saved.vocabulary.words) == WORDS


@pytest.mark.parametrize("settings", [{}, {"word_input": True}, {"cell": 8}, {"highways": 0}])
def test_checkpoint_to_native_to_allennlp_to_native_is_the_identity(tmp_path, settings):
    folder, expected = folder_of(tmp_path, **settings)

    convert_model([folder], tmp_path / "one")
    convert_model([tmp_path / "one"], tmp_path / "theirs")
    convert_model([tmp_path / "theirs"], tmp_path / "two")

    one, two = native.read_model(tmp_path / "one"), native.read_model(tmp_path / "two")
    assert_same_bits(one.weights, expected)
    assert_same_bits(two.weights, expected)
    assert one.config == two.config
    assert one.vocabulary == two.vocabulary


def test_a_softmax_that_shares_the_embedding_is_the_embedding(tmp_path):
    options = random_options(word_input=True)
    weights = random_weights(options, words=8, softmax_words=8)
    del weights["softmax/W"]
    write_checkpoint(tmp_path / "m.ckpt", training_names(weights))
    write(tmp_path / "options.json", json.dumps(options | {"share_embedding_softmax": True}))
    write(tmp_path / "vocab.txt", WORDS)

    saved = read_model(tmp_path)

    table = saved.weights["encoder.words.weight"]
    assert torch.equal(saved.weights["softmax.weight"], table[1:])


@pytest.mark.parametrize(
    ("files", "chosen", "expected"),
    [
        (["a-9.index", "a-10.index"], "", "a-10"),
        (["a-9.index", "a-10.index"], r'model_checkpoint_path: "D:\\elmo\\a-9"', "a-9"),
        (["a-9.index", "a-10.index"], 'model_checkpoint_path: "/gone/a-8"', "a-10"),
        (["model.ckpt.index", "options.json"], "", "model.ckpt"),
        (["options.json"], "", None),
    ],
)
def test_the_newest_checkpoint_is_taken_unless_another_is_chosen(files, chosen, expected):
    assert package.newest_checkpoint(files, chosen) == expected


def test_fine_tuning_starts_at_the_perplexity_of_the_checkpoint(tmp_path):
    folder, _ = folder_of(tmp_path)
    text = [["the", "bank", "."], ["the", "river", "bank", "."]] * 10
    name = write_sentences(tmp_path / "text.txt", text)
    saved = read_model(folder)._replace(tokenizer="whitespace")
    settings = {"training.epochs": 1}
    config = finetuning_run(saved, (name,), str(tmp_path / "run"), valid=(name,), settings=settings)

    result = finetune(saved, config, processes=1)

    assert result is not None
    assert result.before == LanguageModel.load(folder).perplexity(text)


def test_a_module_without_options_is_read_as_the_published_ones_are(tmp_path):
    folder, expected = folder_of(tmp_path, "module", name="variables")
    (folder / "options.json").unlink()
    with pytest.warns(ElmoWarning, match=r"relu, clips of 3, skip connections, 50 characters"):
        saved = read_model(folder)
    assert_same_bits(saved.weights, expected)
    assert saved.config.cell_clip == 3.0


def test_the_options_of_a_trained_checkpoint_are_not_guessed(tmp_path):
    folder, _ = folder_of(tmp_path)
    (folder / "options.json").unlink()
    assert "options.json is missing" in error_of(read_model, folder)


@pytest.mark.parametrize("kind", ["<f8", "<f2", "bfloat16"])
def test_numbers_of_other_sizes_become_float32(tmp_path, kind):
    values = np.array([[1.5, -2.0, 0.25]], np.float32)
    stored = (values.view("<u4") >> 16).astype("<u2") if kind == "bfloat16" else values.astype(kind)
    write_checkpoint(tmp_path / "m", {"lm/RNN_0/b": stored})
    found = package.TensorBundle(tmp_path / "m").read("RNN_0/b")
    assert found.dtype == torch.float32
    assert found.tolist() == values.tolist()


# Checksums


@pytest.mark.parametrize("size", [0, 1, 3, 4, 8, 5684, 5685, 45_481, 45_489, 100_003])
def test_checksums_are_those_of_the_plain_loop(size):
    data = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)
    assert package.crc32c(data) == crc32c(data.tobytes())


def test_checksums_of_long_data_are_carried_from_piece_to_piece(monkeypatch):
    data = np.random.default_rng(0).integers(0, 256, 300_000, dtype=np.uint8)
    at_once = package.crc32c(data)
    monkeypatch.setattr(package, "FOLDED_AT_ONCE", 10_000)
    assert package.crc32c(data) == at_once


def test_checksums_are_computed_at_200_megabytes_a_second():
    data = np.zeros(32 << 20, np.uint8)
    times = []
    for _ in range(3):
        started = time.process_time()
        package.crc32c(data)
        times.append(time.process_time() - started)
    assert min(times) < len(data) / 200e6


# Files that are not what they should be


def test_options_of_another_model_name_what_differs(tmp_path):
    folder, _ = folder_of(tmp_path)
    write(folder / "options.json", json.dumps(random_options(cell=20)))
    message = error_of(read_model, folder, kind=FormatError)
    assert "the options and the weights do not belong together" in message


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": 1}, "compressed with snappy"),
        ({"endian": 1}, "big-endian"),
        ({"lies": {"lm/char_embed": {"f5": 1 << 40}}}, "damaged or incomplete"),
        ({"lies": {"lm/char_embed": {"f4": 1 << 60}}}, "ends beyond them"),
        ({"lies": {"lm/char_embed": {"f3": 7}}}, "in a file beyond the last"),
        ({"lies": {"lm/char_embed": {"shape": (1 << 62, 1 << 62)}}}, "do not belong together"),
        ({"lies": {"lm/char_embed": {"f1": 3}}}, "of TensorFlow's type 3"),
        ({"lies": {"lm/char_embed": {"f2": 5}}}, "cannot be read"),
        ({"lies": {"lm/softmax/W": {"f7": b"slices"}}}, "lm/softmax/W is partitioned"),
    ],
)
def test_an_index_that_lies_or_is_of_another_kind_is_one_line(tmp_path, settings, message):
    folder, _ = folder_of(tmp_path, **settings)
    assert message in error_of(read_model, folder, kind=FormatError)


def test_a_part_that_is_not_needed_may_be_partitioned(tmp_path):
    folder, _ = folder_of(tmp_path, lies={"lm/softmax/W": {"f7": b"slices"}})
    assert Embedder.load(folder).vector_size == 16


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[: len(data) // 2], "ends beyond them"),
        (lambda data: bytes(b ^ (n % 50 == 0) for n, b in enumerate(data)), "the checksum of"),
        (lambda data: b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
        (lambda data: None, "is missing"),
    ],
)
def test_data_that_are_not_what_was_written_are_noticed(tmp_path, change, message):
    folder, _ = folder_of(tmp_path)
    data = folder / "model.ckpt-7.data-00000-of-00001"
    changed = change(data.read_bytes())
    data.unlink()
    if changed is not None:
        data.write_bytes(changed)
    with pytest.raises(ElmoError, match=message):
        read_model(folder)


def test_no_damage_to_an_index_is_more_than_one_line(tmp_path):
    folder, _ = folder_of(tmp_path)
    index = folder / "model.ckpt-7.index"
    data, random = index.read_bytes(), np.random.default_rng(0)
    for _ in range(60):
        changed = bytearray(data)
        for place in random.integers(0, len(data), 3):
            changed[place] = random.integers(256)
        index.write_bytes(changed[: random.integers(1, len(data))])
        with pytest.raises(ElmoError):
            read_model(folder, softmax=False)


@pytest.mark.parametrize(
    "entry",
    [
        varint(0) + varint(1 << 40) + varint(0),  # a key beyond the block
        varint(1 << 40) + varint(1) + varint(0) + b"a",  # more shared than there is
        b"\xff" * 30,  # a number without end
    ],
)
def test_entries_beyond_their_block_are_one_line(tmp_path, entry):
    data = entry + b"\0\0\0\0\1\0\0\0"
    data += b"\0" + masked(data + b"\0").to_bytes(4, "little")
    write_index(tmp_path / "a", data)
    assert "damaged" in error_of(package.read_index, tmp_path / "a.index", kind=FormatError)
    write_index(tmp_path / "a", data, {b"z": varint(1 << 60) + varint(1 << 60)})
    assert "beyond its end" in error_of(package.read_index, tmp_path / "a.index", kind=FormatError)


def test_an_index_that_names_a_block_many_times_is_one_line(tmp_path):
    data = block({b"a": b""})
    handle = varint(0) + varint(len(data) - 5)
    write_index(tmp_path / "a", data, {b"y": handle, b"z": handle})
    assert "blocks overlap" in error_of(package.read_index, tmp_path / "a.index", kind=FormatError)


def test_a_large_file_that_ends_in_index_is_not_read(tmp_path):
    with open(tmp_path / "a.index", "wb") as file:
        file.truncate(1 << 36)
    assert "are not the index" in error_of(package.read_index, tmp_path / "a.index")


def test_the_old_format_is_refused_by_name(tmp_path):
    write(tmp_path / "model.ckpt-3", b"\0" * 100 + MAGIC)
    write(tmp_path / "checkpoint", 'model_checkpoint_path: "model.ckpt-3"')
    write(tmp_path / "options.json", json.dumps(random_options()))
    for named in (tmp_path, tmp_path / "model.ckpt-3"):
        assert "before 0.12 (V1)" in error_of(read_model, named, kind=FormatError)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"lm/rnn/lstm_cell/kernel": 1}, "of one direction; ELMo has two"),
        ({"bert/kernel": 1}, "not those of an ELMo"),
        ({"a/lm/char_embed": 1, "b/lm/char_embed": 1}, "more than one biLM"),
    ],
)
def test_other_checkpoints_are_refused_by_name(tmp_path, names, message):
    write_checkpoint(tmp_path / "m", {name: np.zeros((2, 2), np.float32) for name in names})
    assert message in error_of(package.TensorBundle, tmp_path / "m", kind=FormatError)


def test_a_missing_index_is_named(tmp_path):
    folder, _ = folder_of(tmp_path)
    (folder / "model.ckpt-7.index").unlink()
    assert "model.ckpt-7.index is missing" in error_of(read_model, folder, kind=MissingFileError)
    for named in (folder / "model.ckpt-8.index", tmp_path / "gone" / "model.ckpt-7.index"):
        error_of(read_model, named, kind=MissingFileError)


# What TensorFlow wrote


def sentences() -> list[list[str]]:
    return json.loads((GOLDEN / "sentences.json").read_text(encoding="utf-8"))


LOADED = ("characters", "words", "one-layer", "old-names", "two-shards", "shared-softmax")
LOADED += ("no-projection", "partitioned")


@golden
@pytest.mark.filterwarnings("ignore:unusual word")
@pytest.mark.parametrize("variant", LOADED)
def test_checkpoints_of_the_original_code_give_its_layers(variant):
    expected = np.load(GOLDEN / variant / "expected" / "layers.npz")

    for named in (GOLDEN / variant, GOLDEN / variant / "model.ckpt-10"):
        found = Embedder.load(named).embed(sentences(), "all")

        for number, layers in enumerate(found):
            np.testing.assert_allclose(layers, expected[str(number)], rtol=0, atol=1e-5)


@golden
@pytest.mark.parametrize("variant", [name for name in LOADED if name != "partitioned"])
def test_checkpoints_of_the_original_code_have_the_weights_and_softmax_of_its_dump(variant):
    dump = GOLDEN / variant / "expected"
    found = read_model(GOLDEN / variant)
    config, expected = allennlp.read_model(
        dump / "options.json", dump / "weights.hdf5", softmax_weights=dump / "softmax.hdf5"
    )
    assert_same_bits(found.weights, expected)
    assert found.vocabulary is not None
    assert len(found.vocabulary) == config.softmax_words == 90


@golden
def test_a_partitioned_variable_and_the_old_format_are_refused_by_name():
    assert "lm/softmax/W is partitioned" in error_of(read_model, GOLDEN / "partitioned")
    assert "before 0.12 (V1)" in error_of(read_model, GOLDEN / "v1-format")


@golden
@pytest.mark.filterwarnings("ignore:unusual word")
@pytest.mark.parametrize("name", ["hub-module/variables/variables", "hub-user-checkpoint"])
def test_modules_give_the_layers_of_the_model_they_hold(name):
    options = GOLDEN / "hub-module" / "expected" / "options.json"
    path = GOLDEN / name
    path = path / "model.ckpt-7" if path.is_dir() else path
    layers = np.load(GOLDEN / "characters" / "expected" / "layers.npz")
    outputs = np.load(GOLDEN / "hub-module" / "expected" / "outputs.npz")

    for number, found in enumerate(Embedder.load(options, path).embed(sentences(), "all")):
        np.testing.assert_allclose(found, layers[str(number)], rtol=0, atol=1e-5)
        if number != 5:  # where the module spells <S> letter by letter
            np.testing.assert_allclose(
                found[2], outputs[f"{number}/lstm_outputs2"], rtol=0, atol=1e-5
            )


@golden
@pytest.mark.filterwarnings("ignore:unusual word")
@pytest.mark.parametrize("name", ["hub-module/variables/variables", "hub-user-checkpoint"])
def test_a_module_gives_its_outputs_with_its_own_mix(name):
    outputs = np.load(GOLDEN / "hub-module" / "expected" / "outputs.npz")
    path = GOLDEN / name
    path = path / "model.ckpt-7" if path.is_dir() else path
    module = hub.Module((GOLDEN / "hub-module" / "expected" / "options.json", path))
    words = sentences()
    lengths = [len(sentence) for sentence in words]
    rows = [[*sentence, *[""] * (max(lengths) - len(sentence))] for sentence in words]
    found = module({"tokens": rows, "sequence_len": lengths}, "tokens", as_dict=True)

    for number, length in enumerate(lengths):
        if number != 5:  # where the module spells <S> letter by letter
            for key in ("elmo", "word_emb", "lstm_outputs1", "lstm_outputs2"):
                np.testing.assert_allclose(
                    found[key][number, :length], outputs[f"{number}/{key}"], rtol=0, atol=1e-5
                )
            np.testing.assert_allclose(  # which is of the mix before gamma there
                found["default"][number] / 1.7, outputs[f"{number}/default"].flatten(), atol=1e-5
            )


@pytest.mark.parametrize("names", [("weights", "scaling"), ("out_ELMo_W", "out_ELMo_gamma")])
def test_the_mix_of_a_module_is_where_the_mix_begins(tmp_path, names):
    folder, _ = folder_of(tmp_path, "module")
    pair = (folder / "options.json", folder / "model.ckpt-7")
    assert hub.Module(pair).mix.gamma == 1.0
    values = np.float32([0.5, -1.0, 2.0]), np.float32(1.5)[None]
    named = dict(zip((f"module/aggregation/{name}" for name in names), values, strict=True))
    write_checkpoint(pair[1], training_names(weights_of(tmp_path), "module") | named)

    mix = hub.Module(pair, trainable=True).mix

    assert (mix.weights.tolist(), mix.gamma.item()) == ([0.5, -1.0, 2.0], 1.5)
    named[f"module/aggregation/{names[1]}"] = values[0]
    write_checkpoint(pair[1], training_names(weights_of(tmp_path), "module") | named)
    assert "not a list and a number" in error_of(hub.Module, pair)


@golden
@pytest.mark.parametrize("variant", ["hub-module", "hub-user-checkpoint"])
def test_modules_load_without_options_with_a_warning(variant):
    with pytest.warns(ElmoWarning, match="has no options.json"):
        assert Embedder.load(GOLDEN / variant).vector_size == 16
