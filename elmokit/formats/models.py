"""Any model a user can name: a bundled one, a native folder, or AllenNLP's files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from elmokit.bundled import ENGLISH_SMALL, bundled_folder, is_bundled
from elmokit.config import CharacterEncoderConfig, ModelConfig, WordEncoderConfig
from elmokit.errors import InputError
from elmokit.formats import allennlp, native
from elmokit.formats.fetch import Progress, local_path
from elmokit.formats.native import SavedModel
from elmokit.formats.published import PUBLISHED_MODELS, download
from elmokit.text.vocabulary import BEGIN, END, Vocabulary, read_vocabulary

Location = str | Path

WEIGHT_SUFFIXES = (".hdf5", ".h5")
MODEL_OF_RUN = "model"
"""Where the folder of a training run has its model; the run may be named in its place."""
PUBLISHED_TOKENIZER = "default"
"""AllenNLP's files do not say how their text was tokenized; it was much as in the treebank."""


def read_model(
    model: Location | None = None,
    weights: Location | None = None,
    *,
    vocabulary: Location | None = None,
    embedding: Location | None = None,
    progress: Progress | None = None,
) -> SavedModel:
    """Read a native folder, or AllenNLP's options and weights, each a path or an address.

    Args:
        model: A folder of a model or of a training run, the options of an AllenNLP model, or the
            name of a published or a bundled one; None for the bundled model of English.
        weights: Its weights, where `model` is options.
        vocabulary: One word per line: the words of a word-input model, or of the softmax.
        embedding: A second file with the word vectors of a word-input model.
        progress: Told how far a download is.
    """
    if model is None:
        if weights is not None:
            raise InputError(f"{weights}: weights come with their options; name both files")
        return native.read_model(bundled_folder(ENGLISH_SMALL))
    if str(model).endswith(WEIGHT_SUFFIXES):
        raise InputError(f"{model}: is a file of weights; the options come first, then the weights")
    if weights is not None:
        return read_pair(model, weights, vocabulary, embedding, progress)
    if is_published(model):
        return read_pair(*download(str(model), progress), vocabulary, embedding, progress)
    if is_bundled(model):
        folder = bundled_folder(model)
    else:
        folder = model_folder(local_path(model, progress=progress))
    if not folder.is_dir():
        raise InputError(f"{model}: give the weights too, or the folder of a model")
    if native.is_native(folder):
        if vocabulary is not None or embedding is not None:
            raise InputError(f"{model}: a model folder has its own words; give no others")
        return native.read_model(folder)
    return read_pair(*find_pair(folder), vocabulary, embedding, progress)


def model_folder(folder: Path) -> Path:
    """The folder itself, or the model in it where it is that of a training run."""
    inside = folder / MODEL_OF_RUN
    return inside if native.is_native(inside) and not native.is_native(folder) else folder


def is_published(model: Location) -> bool:
    """Whether this is the name of a published model, and of nothing here."""
    names = [published.name for published in PUBLISHED_MODELS]
    return str(model).lower() in names and not Path(model).exists()


def find_pair(folder: Path) -> tuple[Path, Path]:
    """The options and weights of an AllenNLP model in a folder that has one of each."""
    options = sorted(folder.glob("*options*.json"))
    weights = sorted(folder.glob("*weights*.hdf5")) or sorted(folder.glob("*.hdf5"))
    if len(options) != 1 or len(weights) != 1:
        raise InputError(
            f"{folder}: holds neither config.json nor one options.json with one .hdf5 file; "
            "name the two files"
        )
    return options[0], weights[0]


def read_pair(
    options: Location,
    weights: Location,
    vocabulary: Location | None,
    embedding: Location | None,
    progress: Progress | None,
) -> SavedModel:
    """Read AllenNLP's two files, and the words that go with them."""
    config, tensors = allennlp.read_model(
        local_path(options, progress=progress),
        local_path(weights, progress=progress),
        None if embedding is None else local_path(embedding, progress=progress),
    )
    words = None if vocabulary is None else read_vocabulary(local_path(vocabulary))
    return SavedModel(
        config=config if words is None else with_markers(config, words),
        weights=tensors,
        tokenizer=PUBLISHED_TOKENIZER,
        vocabulary=words,
    )


def with_markers(config: ModelConfig, vocabulary: Vocabulary) -> ModelConfig:
    """The config of a word-input model, with its sentence markers found in the vocabulary."""
    if not isinstance(config.encoder, WordEncoderConfig):
        return config
    for marker in (BEGIN, END):
        if marker not in vocabulary:
            raise InputError(f"the vocabulary has no {marker!r}, which word input needs")
    encoder = replace(
        config.encoder,
        begin_id=vocabulary.id_of(BEGIN) + 1,
        end_id=vocabulary.id_of(END) + 1,
    )
    return replace(config, encoder=encoder)


def describe(saved: SavedModel) -> dict[str, Any]:
    """What a model is, as plain values for people and programs."""
    config = saved.config
    encoder = config.encoder
    reads = (
        f"characters, {encoder.max_characters} per word, {encoder.filter_count:,} filters, "
        f"{encoder.highways} highways, {encoder.activation}"
        if isinstance(encoder, CharacterEncoderConfig)
        else f"words, a table of {encoder.words:,}"
    )
    return {
        "input": reads,
        "layers": config.layer_count,
        "vector size": config.vector_size,
        "LSTM layers": config.lstm_layers,
        "LSTM cells": config.cell_size,
        "cell clip": config.cell_clip,
        "projection clip": config.projection_clip,
        "skip connections": config.skip_connections,
        "softmax words": config.softmax_words,
        "tokenizer": saved.tokenizer,
        "parameters": native.parameter_count(saved.weights),
    }
