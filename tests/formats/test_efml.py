from __future__ import annotations

import json
import os
import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import assert_same_bits, error_of, files_in, write, write_sentences
from torch import Tensor

from elmokit import Embedder, LanguageModel
from elmokit.errors import ElmoWarning, FormatError, InputError
from elmokit.formats import efml, native
from elmokit.formats.convert import convert_model
from elmokit.formats.find import find_model, read_model
from elmokit.pretraining.run import finetune, finetuning_run
from elmokit.text.vocabulary import Lexicon

GOLDEN = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "golden-efml"
golden = pytest.mark.skipif(not GOLDEN.is_dir(), reason="the golden files are in ../shared")

WORDS = ["<oov>", "<bos>", "<eos>", "<pad>", "은행", "강", "bank", "a b", "　"]
CHARACTERS = ["은", "행", "강", "b", "　", "<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>"]
SENTENCES = [["은행", "bank", "new", "강"], ["a b"], [], ["　", "<bos>", "<S>", "", "b" * 60]]
SIZE, CELLS, FILTERS = 6, 6, ((1, 3), (3, 4))


def settings(**changes: Any) -> dict[str, Any]:
    tokens = {
        "name": "cnn",
        "activation": "relu",
        "filters": FILTERS,
        "n_highway": 1,
        "word_dim": 5,
        "char_dim": 4,
        "max_characters_per_token": 20,
    }
    lstm = {"name": "elmo", "projection_dim": SIZE, "cell_clip": 3, "proj_clip": 3, "dim": CELLS}
    lstm["n_layers"] = 2
    tokens |= {name: value for name, value in changes.items() if name in tokens}
    lstm |= {name: value for name, value in changes.items() if name not in tokens}
    return {"encoder": lstm, "token_embedder": tokens}


def random_state(options: Mapping[str, Any]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """What the two pickles hold."""
    torch.manual_seed(0)
    tokens, lstm = options["token_embedder"], options["encoder"]
    filters = sum(number for _, number in tokens["filters"])
    shapes: dict[str, tuple[int, ...]] = {}
    width = tokens["word_dim"]
    if tokens["word_dim"]:
        shapes["word_emb_layer.embedding.weight"] = (len(WORDS), tokens["word_dim"])
    if tokens["char_dim"]:
        width += filters
        shapes["char_emb_layer.embedding.weight"] = (len(CHARACTERS), tokens["char_dim"])
        for number, (size, count) in enumerate(tokens["filters"]):
            shapes[f"convolutions.{number}.weight"] = (count, tokens["char_dim"], size)
            shapes[f"convolutions.{number}.bias"] = (count,)
        shapes["highways._layers.0.weight"] = (2 * filters, filters)
        shapes["highways._layers.0.bias"] = (2 * filters,)
    size, cells = lstm["projection_dim"], lstm["dim"]
    shapes |= {"projection.weight": (size, width), "projection.bias": (size,)}
    layers: dict[str, tuple[int, ...]] = {}
    for direction in ("forward", "backward"):
        for layer in range(lstm["n_layers"]):
            name = f"{direction}_layer_{layer}"
            layers[f"{name}.input_linearity.weight"] = (4 * cells, size)
            layers[f"{name}.state_linearity.weight"] = (4 * cells, size)
            layers[f"{name}.state_linearity.bias"] = (4 * cells,)
            layers[f"{name}.state_projection.weight"] = (size, cells)
    return tuple({n: torch.randn(s) for n, s in part.items()} for part in (shapes, layers))


def write_efml(folder: Path, *, softmax: bool = False, **changes: Any) -> Path:
    options = settings(**changes)
    tokens, layers = random_state(options)
    write(folder / "config.json", json.dumps({"config_path": "/home/x/tiny.json"}))
    write(folder / "tiny.json", json.dumps(options))
    write(folder / "word.dic", [f"{w}\t{n}" for n, w in reversed(list(enumerate(WORDS)))])
    if options["token_embedder"]["char_dim"]:
        write(folder / "char.dic", [f"{c}\t{n}" for n, c in enumerate(CHARACTERS)])
    torch.save(tokens, folder / efml.TOKENS, _use_new_zipfile_serialization=False)
    torch.save(layers, folder / efml.ENCODER, _use_new_zipfile_serialization=False)
    if softmax:
        output = {"column_emb.weight": torch.randn(len(WORDS), SIZE)}
        output |= {"column_bias.weight": torch.randn(len(WORDS), 1), "oov_column": torch.ones(6, 1)}
        torch.save(output, folder / efml.SOFTMAX)
    return folder


def plain_layers(folder: Path, sentence: list[str]) -> np.ndarray:
    """The layers (layers, words, 2 * size) of a sentence by the formulas, in float64."""
    options = json.loads((folder / "tiny.json").read_text())
    tokens, layers = (
        {n: v.double().numpy() for n, v in torch.load(folder / name, weights_only=True).items()}
        for name in (efml.TOKENS, efml.ENCODER)
    )

    def sigmoid(x: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-x))

    def token(word: str) -> np.ndarray:
        word = word[:18]
        row = WORDS.index(word) if word in WORDS else 0
        pad, bow, eow, oov = (CHARACTERS.index(f"<{n}>") for n in ("pad", "bow", "eow", "oov"))
        spelt = [CHARACTERS.index(c) if c in CHARACTERS else oov for c in word]
        if word in ("<bos>", "<eos>"):
            spelt = [CHARACTERS.index(word)]
        ids = [eow, *spelt, bow]
        ids += [pad] * (20 - len(ids))
        parts = []
        if options["token_embedder"]["word_dim"]:
            parts.append(tokens["word_emb_layer.embedding.weight"][row])
        if options["token_embedder"]["char_dim"]:
            seen = tokens["char_emb_layer.embedding.weight"][ids]
            found = []
            for number, (width, _) in enumerate(options["token_embedder"]["filters"]):
                kernel = tokens[f"convolutions.{number}.weight"]
                windows = [
                    np.einsum("fdw,wd->f", kernel, seen[start : start + width])
                    for start in range(len(ids) - width + 1)
                ]
                best = np.max(windows, axis=0) + tokens[f"convolutions.{number}.bias"]
                found.append(np.maximum(best, 0))
            x = np.concatenate(found)
            both = tokens["highways._layers.0.weight"] @ x + tokens["highways._layers.0.bias"]
            new, gate = np.split(both, 2)
            gate = sigmoid(gate)
            parts.append(gate * x + (1 - gate) * np.maximum(new, 0))
        return tokens["projection.weight"] @ np.concatenate(parts) + tokens["projection.bias"]

    def read(inputs: list[np.ndarray], name: str, skip: bool) -> list[np.ndarray]:
        cell, out, outputs = np.zeros(CELLS), np.zeros(SIZE), []
        for x in inputs:
            gates = layers[f"{name}.input_linearity.weight"] @ x
            gates += layers[f"{name}.state_linearity.weight"] @ out
            i, f, j, o = np.split(gates + layers[f"{name}.state_linearity.bias"], 4)
            cell = np.clip(sigmoid(i) * np.tanh(j) + sigmoid(f) * cell, -3, 3)
            out = layers[f"{name}.state_projection.weight"] @ (sigmoid(o) * np.tanh(cell))
            out = np.clip(out, -3, 3)
            outputs.append(out + x if skip else out)
        return outputs

    words = [token(word) for word in ["<bos>", *sentence, "<eos>"]]
    directions = []
    for direction, order in (("forward", 1), ("backward", -1)):
        halves = [words[::order]]
        for layer in range(2):
            halves.append(read(halves[-1], f"{direction}_layer_{layer}", layer > 0))
        directions.append([half[::order] for half in halves])
    stacked = np.concatenate([np.array(direction) for direction in directions], axis=-1)
    return stacked[:, 1:-1]


KINDS: dict[str, dict[str, Any]] = {"both": {}, "characters": {"word_dim": 0}}
KINDS["words"] = {"char_dim": 0}


@pytest.mark.filterwarnings("ignore:unusual word")
@pytest.mark.parametrize("kind", KINDS)
def test_vectors_are_those_of_the_formulas(tmp_path, kind):
    folder = write_efml(tmp_path / "ko.model", **KINDS[kind])
    found = Embedder.load(folder).embed(SENTENCES, "all")
    for sentence, layers in zip(SENTENCES, found, strict=True):
        np.testing.assert_allclose(layers, plain_layers(folder, sentence), rtol=0, atol=2e-5)


@pytest.mark.filterwarnings("ignore:unusual word")
@pytest.mark.parametrize("kind", KINDS)
def test_a_model_folder_holds_all_of_it(tmp_path, kind):
    folder = write_efml(tmp_path / "ko.model", softmax=True, **KINDS[kind])
    convert_model([folder], tmp_path / "native")
    convert_model([tmp_path / "native"], tmp_path / "again", target="native")

    read, saved = read_model(folder), native.read_model(tmp_path / "again")

    assert_same_bits(saved.weights, read.weights)
    assert (saved.config, saved.vocabulary) == (read.config, read.vocabulary)
    one, other = Embedder.load(folder), Embedder.load(tmp_path / "native")
    assert one.fingerprint() == other.fingerprint()
    expected, found = one.embed(SENTENCES), other.embed(SENTENCES)
    assert all(np.array_equal(a, b) for a, b in zip(expected, found, strict=True))
    scores = LanguageModel.load(folder).score(SENTENCES[:2])
    again = LanguageModel.load(tmp_path / "native").score(SENTENCES[:2])
    assert [s.forward.tolist() for s in scores] == [s.forward.tolist() for s in again]


def test_allennlp_s_files_cannot_hold_it(tmp_path):
    folder = write_efml(tmp_path / "ko.model")
    message = error_of(convert_model, [folder], tmp_path / "pair", target="allennlp")
    assert "no place for the alphabet and the word vectors" in message


def test_an_archive_holds_it_in_a_folder_or_without(tmp_path):
    folder = write_efml(tmp_path / "ko.model")
    for prefix in ("", "ko.model/"):
        archive = tmp_path / f"1{len(prefix)}.zip"
        with zipfile.ZipFile(archive, "w") as file:
            for name, data in files_in(folder).items():
                file.writestr(prefix + name, data)
        assert_same_bits(read_model(archive).weights, read_model(folder).weights)
        assert find_model(archive).format == "ELMoForManyLangs"
    assert_same_bits(read_model(tmp_path / "ko.model").weights, read_model(archive).weights)


def test_words_that_are_cut_are_told_by_their_characters(tmp_path):
    embedder = Embedder.load(write_efml(tmp_path / "ko.model"))
    embedder.embed([["은" * 18]])  # 54 bytes
    with pytest.warns(ElmoWarning, match="longer than the model reads"):
        embedder.embed([["은" * 19]])


def test_a_lone_id_is_that_of_the_ideographic_space(tmp_path):
    write(tmp_path / "word.dic", "a\t1\n\t2\n　\t3\n")
    assert efml.read_dictionary(tmp_path / "word.dic") == {"a": 1, "　": 3}


def test_a_lexicon_reads_the_names_of_our_markers_as_words():
    lexicon = Lexicon(["<UNK>", "<S>", "</S>"], efml.LEXICON_MARKS, 6)
    assert lexicon.spell(["<bos>"]).tolist() == [[2, 6, 3, 5, 1, 1, 1]]
    assert lexicon.spell(["<S>"]).tolist() == [[1, 6, 2, 2, 2, 5, 1]]


def test_it_is_not_trained_on(tmp_path):
    saved = read_model(write_efml(tmp_path / "ko.model", softmax=True))
    text = write_sentences(tmp_path / "text.txt", [["은행", "강"]] * 20)
    config = finetuning_run(saved, (text,), str(tmp_path / "run"), valid=(text,))
    message = error_of(finetune, saved, config, processes=1, kind=InputError)
    assert "ELMoForManyLangs" in message


# Files that are not what they should be


class Evil:
    """Makes a folder when it is unpickled."""

    def __init__(self, made: Path) -> None:
        self.made = str(made)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.made,)


@pytest.mark.parametrize("zipped", [True, False])
def test_nothing_but_tensors_is_unpickled(tmp_path, zipped):
    folder = write_efml(tmp_path / "ko.model")
    torch.save(
        {"a": Evil(tmp_path / "made")}, folder / efml.ENCODER, _use_new_zipfile_serialization=zipped
    )
    message = error_of(read_model, folder, kind=FormatError, after=folder / efml.ENCODER)
    assert "holds more than tensors" in message
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"version https://git-lfs.github.com/spec/v1", "Git LFS pointer"),
        (b"<html>", "is not a file of PyTorch"),
        (pickle.dumps({"a": 1}, protocol=2), "is damaged, or holds"),
        (b"PK\x03\x04 and no more", "is damaged"),
    ],
)
def test_other_files_under_its_names_are_one_line(tmp_path, contents, message):
    folder = write_efml(tmp_path / "ko.model")
    write(folder / efml.TOKENS, contents)
    assert message in error_of(read_model, folder, kind=FormatError)


@pytest.mark.parametrize("name", [efml.TOKENS, efml.ENCODER])
def test_a_truncated_pickle_is_one_line(tmp_path, name):
    folder = write_efml(tmp_path / "ko.model")
    data = (folder / name).read_bytes()
    for share in (0.1, 0.5, 0.9):
        write(folder / name, data[: int(len(data) * share)])
        assert "is damaged" in error_of(read_model, folder, kind=FormatError)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"projection.weight": torch.ones(2, dtype=torch.int64)}, "other things than tensors"),
        ({"word_emb_layer.embedding.weight": torch.tensor(1.0)}, "other things than tensors"),
        ({"projection.weights": torch.ones(2)}, "has projection.weights, which is not of"),
        ({"forward_layer_0.state_linearity.bias": torch.ones(3)}, "is (3,), which cannot be"),
    ],
)
def test_what_is_not_a_tensor_of_the_network_is_refused(tmp_path, state, message):
    folder = write_efml(tmp_path / "ko.model", word_dim=0)
    torch.save(torch.load(folder / efml.TOKENS) | state, folder / efml.TOKENS)
    assert message in error_of(read_model, folder, kind=FormatError)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_layers": 3}, "do not belong together: missing forward_lstm.layers.2"),
        ({"n_layers": 1}, "do not belong together: unexpected forward_lstm.layers.1"),
        ({"dim": 7}, "do not belong together"),
        ({"word_dim": 0}, "unexpected encoder.words.weight"),
        ({"name": "lstm"}, "tiny.json: token_embedder.name is 'lstm', another network"),
        ({"activation": "gelu"}, "activation is 'gelu'"),
    ],
)
def test_settings_of_another_model_are_one_line(tmp_path, changes, message):
    folder = write_efml(tmp_path / "ko.model")
    write(folder / "tiny.json", json.dumps(settings(**changes)))
    assert message in error_of(read_model, folder, kind=FormatError)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["<oov>\t0", "<bos>\t1"], "has no <eos>"),
        (["<oov>\t0", "<bos>\t1", "<eos>\t99"], "has the id 99, but there are 9"),
        (["<oov>\tzero"], "line 1: is not an entry"),
        (["a\tb\t1"], "line 1: is not an entry"),
        (["a\t9999999"], "many entries that are not there"),
    ],
)
def test_dictionaries_of_another_model_are_one_line(tmp_path, lines, message):
    folder = write_efml(tmp_path / "ko.model")
    write(folder / "word.dic", lines)
    assert message in error_of(read_model, folder, kind=FormatError)


def test_missing_settings_are_asked_for_and_no_path_leads_out_of_the_folder(tmp_path):
    folder = write_efml(tmp_path / "ko.model")
    (folder / "tiny.json").rename(tmp_path / "tiny.json")
    for path in ("../tiny.json", str(tmp_path / "tiny.json"), "C:\\elmo\\tiny.json"):
        write(folder / "config.json", json.dumps({"config_path": path}))
        assert "tiny.json is missing" in error_of(read_model, folder, kind=FormatError)


def test_settings_in_a_folder_within_are_found(tmp_path):
    folder = write_efml(tmp_path / "ko.model")
    (folder / "configs").mkdir()
    (folder / "tiny.json").rename(folder / "configs" / "tiny.json")
    write(folder / "config.json", json.dumps({"config_path": "configs\\tiny.json"}))
    assert read_model(folder).config.token_size == SIZE


def test_default_settings_that_do_not_fit_tell_of_the_missing_file(tmp_path):
    folder = write_efml(tmp_path / "ko.model")
    (folder / "tiny.json").unlink()
    name = efml.DEFAULT_NAMES[0]
    write(folder / "config.json", json.dumps({"config_path": f"/home/x/{name}"}))
    message = error_of(read_model, folder, kind=FormatError, after=folder / name)
    assert "is missing, and the settings that ELMoForManyLangs has under this name" in message


# What ELMoForManyLangs wrote


def sentences() -> list[list[str]]:
    return json.loads((GOLDEN / "sentences.json").read_text(encoding="utf-8"))


@golden
@pytest.mark.filterwarnings("ignore:unusual word")
@pytest.mark.parametrize("name", ["words-and-characters", "characters", "words"])
def test_models_of_its_own_training_give_its_layers(name):
    expected = np.load(GOLDEN / "expected" / f"{name}.npz")
    embedder = Embedder.load(GOLDEN / name)

    means = embedder.embed(sentences())
    for number, layers in enumerate(embedder.embed(sentences(), "all")):
        for layer, vectors in enumerate(layers):
            np.testing.assert_allclose(vectors, expected[f"{number}/{layer}"], rtol=0, atol=1e-5)
        np.testing.assert_allclose(means[number], expected[f"{number}/-1"], rtol=0, atol=1e-5)


@golden
@pytest.mark.filterwarnings("ignore:unusual word")
def test_its_classifier_gives_the_expected_log_probabilities():
    expected = np.load(GOLDEN / "expected" / "words-and-characters-scores.npz")
    scores = LanguageModel.load(GOLDEN / "words-and-characters").score(sentences())
    for number, score in enumerate(scores):
        for name in ("forward", "backward", "forward_end", "backward_end"):
            np.testing.assert_allclose(
                getattr(score, name), expected[f"{number}/{name}"], rtol=0, atol=2e-5
            )
