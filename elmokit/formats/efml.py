"""ELMoForManyLangs' models (HIT-SCIR): a folder with two dictionaries and two or three pickles.

Its weights are those of AllenNLP's modules, under names that begin otherwise.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elmokit.config import (
    LEXICON_MARKS,
    Activation,
    Count,
    CountOrZero,
    LexiconEncoderConfig,
    ModelConfig,
    naming,
)
from elmokit.errors import ConfigError, FormatError, MissingFileError
from elmokit.formats.allennlp import Filters, LstmClip, Options, value_of
from elmokit.formats.native import SavedModel, check_finite, state_dict_misfit
from elmokit.io.files import check_not_pointer, read_object, read_text
from elmokit.model.lstm import FORGET_BIAS
from elmokit.text.vocabulary import LEXICON_WORDS, Lexicon

CONFIG, TOKENS, ENCODER = "config.json", "token_embedder.pkl", "encoder.pkl"
SOFTMAX = "classifier.pkl"
WORDS, CHARACTERS = "word.dic", "char.dic"
TOKENIZER = "whitespace"
DEFAULT_NAMES = ("cnn_50_100_512_4096_sample.json", "cnn_0_100_512_4096_sample.json")
DEFAULT: Mapping[str, Any] = {
    "encoder": {
        "name": "elmo",
        "projection_dim": 512,
        "cell_clip": 3,
        "proj_clip": 3,
        "dim": 4096,
        "n_layers": 2,
    },
    "token_embedder": {
        "name": "cnn",
        "activation": "relu",
        "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
        "n_highway": 2,
        "word_dim": 100,
        "char_dim": 50,
        "max_characters_per_token": 50,
    },
}
"""The settings behind both default names, which are within ELMoForManyLangs itself."""
PICKLE = b"\x80\x02"
ZIP = b"PK\x03\x04"
BLANK = "\u3000"


def is_efml(names: list[str]) -> bool:
    """Whether a folder of these files is a model of this kind, be it an incomplete one."""
    return TOKENS in names or ENCODER in names


def missing(names: list[str]) -> list[str]:
    """The files that every model of this kind must have, and that are not there."""
    return [name for name in (CONFIG, WORDS, TOKENS, ENCODER) if name not in names]


def read_model(folder: Path, *, softmax: bool = True) -> SavedModel:
    """Read a model; with its softmax where there is one, which published models have not."""
    settings, place = read_settings(folder)
    try:
        with naming(place):
            return _read(folder, settings, softmax)
    except FormatError as error:
        if place.is_file() or isinstance(error, MissingFileError):
            raise
        raise FormatError(
            f"{place}: is missing, and the settings that ELMoForManyLangs has under this name do "
            f"not fit ({error}); copy the file of this model's training there"
        ) from error


def read_settings(folder: Path) -> tuple[Options, Path]:
    """config.json's settings, and their file, inside the folder; two are built in here."""
    with naming(folder / CONFIG):
        name = value_of(read_object(folder / CONFIG), "config_path", str).replace("\\", "/")
    last = name.rpartition("/")[2]
    inside = not re.match("/|[A-Za-z]:", name) and ".." not in name.split("/")
    for path in [folder / name] * inside + [folder / last]:
        if os.path.isfile(path):  # of names that no file can have too
            return read_object(path), path
    if last in DEFAULT_NAMES:
        return DEFAULT, folder / last
    raise MissingFileError(
        f"{folder}: {last or 'the file of settings'} is missing, which config.json names in "
        "config_path; copy it there"
    )


def _read(folder: Path, settings: Options, softmax: bool) -> SavedModel:
    encoder, lstm = settings_of(settings)
    words, characters = read_dictionary(folder / WORDS, LEXICON_WORDS), {}
    tokens, layers = read_state(folder / TOKENS), read_state(folder / ENCODER)
    rows = 1 + max(words.values())
    if encoder["word_size"]:
        rows = len(tokens.get("word_emb_layer.embedding.weight", ()))
    if encoder["character_size"]:
        found = read_dictionary(folder / CHARACTERS, LEXICON_MARKS)
        characters = {mark: found.pop(mark) for mark in LEXICON_MARKS} | found
    listed = list_of(words, rows, folder / WORDS)
    lexicon = Lexicon(listed, characters, encoder["max_characters"])
    config = ModelConfig(
        encoder=LexiconEncoderConfig(
            words=rows,
            characters=len(characters),
            begin_id=lexicon.id_of("<bos>") + 1,
            end_id=lexicon.id_of("<eos>") + 1,
            **encoder,
        ),
        **lstm,
    )
    weights = translated(tokens, folder / TOKENS) | translated(layers, folder / ENCODER)
    if characters:
        weights["encoder.characters.weight"] = rows_of(weights, characters, folder / TOKENS)
    if (folder / SOFTMAX).is_file():
        config = replace(config, softmax_words=rows)
    if softmax and config.softmax_words is not None:
        output = read_state(folder / SOFTMAX)
        output.pop("oov_column", None)  # which nothing uses
        weights |= translated(output, folder / SOFTMAX)
    wrong = state_dict_misfit(weights, config if softmax else replace(config, softmax_words=None))
    if wrong:
        raise FormatError(f"{folder}: the weights and the settings do not belong together: {wrong}")
    for name, value in weights.items():
        check_finite(value, f"{folder}: {name}")
    return SavedModel(config, weights, TOKENIZER, lexicon)


def settings_of(settings: Options) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings of the token encoder but for its sizes, and of the LSTMs."""
    lstm = value_of(settings, "encoder", Options)
    tokens = value_of(settings, "token_embedder", Options)
    for name, section, only in (("encoder", lstm, "elmo"), ("token_embedder", tokens, "cnn")):
        if section.get("name") != only:
            raise ConfigError(
                f"{name}.name is {section.get('name')!r}, another network, which is not read; "
                f"only {only!r} is"
            )
    character_size = value_of(tokens, "token_embedder.char_dim", CountOrZero)
    encoder = {
        "word_size": value_of(tokens, "token_embedder.word_dim", CountOrZero),
        "character_size": character_size,
        "filters": value_of(tokens, "token_embedder.filters", Filters) if character_size else (),
        "max_characters": value_of(tokens, "token_embedder.max_characters_per_token", Count),
        "highways": value_of(tokens, "token_embedder.n_highway", CountOrZero, 0),
        "activation": value_of(tokens, "token_embedder.activation", Activation, "relu"),
    }
    return encoder, {
        "token_size": value_of(lstm, "encoder.projection_dim", Count),
        "cell_size": value_of(lstm, "encoder.dim", Count),
        "lstm_layers": value_of(lstm, "encoder.n_layers", Count),
        "cell_clip": value_of(lstm, "encoder.cell_clip", LstmClip, None) or None,
        "projection_clip": value_of(lstm, "encoder.proj_clip", LstmClip, None) or None,
    }


def read_dictionary(path: Path, marks: Iterable[str] = ()) -> dict[str, int]:
    """The entries of a dictionary, marks among them, with their ids: a tab is between these.

    Whitespace at both ends was lost when it was written: a number alone is the id of U+3000.
    """
    found: dict[str, int] = {}
    for number, line in enumerate(read_text(path).split("\n"), 1):
        fields = line.strip().split("\t")
        if fields == [""]:
            continue
        entry, text = fields if len(fields) == 2 else (BLANK, fields[0])
        if len(fields) > 2 or not re.fullmatch("[0-9]{1,7}", text):
            raise FormatError(f"{path}, line {number}: is not an entry, a tab and its id")
        found[entry] = int(text)
    if max(found.values()) > 1000 + 4 * len(found):
        raise FormatError(f"{path}: has ids of many entries that are not there; it is incomplete")
    if missing := [mark for mark in marks if mark not in found]:
        raise FormatError(f"{path}: has no {missing[0]}; is it the dictionary of a model?")
    return found


def list_of(entries: Mapping[str, int], rows: int, path: Path) -> list[str]:
    """The words in the order of their ids, the special ones by the names they have here."""
    names = [f"<row {number}>" for number in range(rows)]  # of what no entry stands for
    for entry, number in entries.items():
        if number >= rows:
            raise FormatError(f"{path}: {entry[:40]!r} has the id {number}, but there are {rows}")
        if entry not in LEXICON_WORDS.values():  # which are no special words there
            names[number] = LEXICON_WORDS.get(entry, entry)
    return names


def same(weight: Tensor) -> tuple[Tensor, ...]:
    """A weight that is stored as ours is."""
    return (weight,)


def flat(weight: Tensor) -> tuple[Tensor, ...]:
    """A column as a vector."""
    return (weight.flatten(),)


def highway(weight: Tensor) -> tuple[Tensor, ...]:
    """What is transformed, and the gate."""
    # The file gates the old value, we gate the new: sigmoid(-x) == 1 - sigmoid(x)
    transform, gate = weight.chunk(2)
    return transform, -gate


def gates(weight: Tensor) -> tuple[Tensor, ...]:
    """Four gates in the order i, f, j, o, where we have i, f, o, j."""
    i, f, j, o = weight.chunk(4)
    return (torch.cat([i, f, o, j]),)


def bias(weight: Tensor) -> tuple[Tensor, ...]:
    """The bias of four gates, without what our LSTM adds to that of f when it runs."""
    i, f, j, o = weight.chunk(4)
    return (torch.cat([i, f - FORGET_BIAS, o, j]),)


HIGHWAYS = (r"encoder.highways.\1.transform.\2", r"encoder.highways.\1.gate.\2")
LAYER = r"(?:_elmo_lstm\.)?(forward|backward)_layer_(\d+)\."
RENAMES: tuple[tuple[str, tuple[str, ...], Callable[[Tensor], tuple[Tensor, ...]]], ...] = (
    (r"word_emb_layer\.embedding\.weight", ("encoder.words.weight",), same),
    (
        r"(?:char_emb_layer\.embedding\.weight|_token_embedder\._char_embedding_weights)",
        ("encoder.characters.weight",),
        same,
    ),
    (
        r"(?:convolutions\.|_token_embedder\.char_conv_)(\d+)\.(weight|bias)",
        (r"encoder.convolutions.\1.\2",),
        same,
    ),
    (r"(?:_token_embedder\._)?highways\._layers\.(\d+)\.(weight|bias)", HIGHWAYS, highway),
    (r"(?:_token_embedder\._)?projection\.(weight|bias)", (r"encoder.projection.\1",), same),
    (LAYER + r"input_linearity\.weight", (r"\1_lstm.layers.\2.input_weight",), gates),
    (LAYER + r"state_linearity\.weight", (r"\1_lstm.layers.\2.recurrent_weight",), gates),
    (LAYER + r"state_linearity\.bias", (r"\1_lstm.layers.\2.bias",), bias),
    (LAYER + r"state_projection\.weight", (r"\1_lstm.layers.\2.projection_weight",), same),
    (r"column_emb\.weight", ("softmax.weight",), same),
    (r"column_bias\.weight", ("softmax.bias",), flat),
)
"""The names here and in AllenNLP's modules, ours, and what is to be done with the values."""


def renamed(name: str, weight: Tensor) -> dict[str, Tensor]:
    """A weight under our names; none for what is not one of a biLM's."""
    for pattern, names, change in RENAMES:
        if found := re.fullmatch(pattern, name):
            return dict(zip(map(found.expand, names), change(weight), strict=True))
    return {}


def translated(stored: Mapping[str, Tensor], path: Path) -> dict[str, Tensor]:
    """All weights of a file under our names, as float32."""
    weights: dict[str, Tensor] = {}
    for name, weight in stored.items():
        try:
            found = renamed(name, weight.to(torch.float32))
        except (RuntimeError, ValueError) as error:
            shape = tuple(weight.shape)
            raise FormatError(
                f"{path}: {name} is {shape}, which cannot be; get it again"
            ) from error
        if not found:
            raise FormatError(f"{path}: has {name}, which is not of ELMoForManyLangs' network")
        weights |= found
    return weights


def rows_of(weights: Mapping[str, Tensor], characters: dict[str, int], path: Path) -> Tensor:
    """The rows of the table of characters, in our order."""
    table = weights.get("encoder.characters.weight", torch.zeros(0))
    if max(characters.values()) >= len(table):
        raise FormatError(f"{path}: has {len(table)} characters, {CHARACTERS} more; not a pair")
    return table[list(characters.values())]


def read_state(path: Path) -> dict[str, Tensor]:
    """The tensors of a file of PyTorch; nothing else in it is ever unpickled."""
    if not path.is_file():
        raise MissingFileError(f"{path}: is missing; copy or download the model again")
    check_not_pointer(path)
    with open(path, "rb") as file:
        begin = file.read(4)
    if not begin.startswith((PICKLE, ZIP)):
        raise FormatError(f"{path}: is not a file of PyTorch")
    try:
        if begin == ZIP:  # PyTorch compresses nothing: it is no larger in memory than as a file
            with zipfile.ZipFile(path) as file:
                if sum(member.file_size for member in file.infolist()) > path.stat().st_size:
                    raise ValueError
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged pickle can make PyTorch raise nearly anything
        raise FormatError(
            f"{path}: is damaged, or holds more than tensors, which are all that is read of it; "
            "copy or download it again"
        ) from error
    if not isinstance(state, dict) or not all(
        isinstance(name, str)
        and isinstance(value, Tensor)
        and value.is_floating_point()
        and value.dim()
        for name, value in state.items()
    ):
        raise FormatError(f"{path}: holds other things than tensors by their names")
    # What a pickle says of shapes may repeat the same few numbers without end.
    if sum(value.nbytes for value in state.values()) > path.stat().st_size:
        raise FormatError(f"{path}: has tensors of more numbers than are in the file")
    return dict(state)
