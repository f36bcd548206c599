"""From one format to another."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from elmokit.bundled import is_bundled
from elmokit.config import CharacterEncoderConfig, LexiconEncoderConfig, check_choice
from elmokit.errors import ElmoWarning, InputError
from elmokit.formats import allennlp, native
from elmokit.formats.allennlp import write_options
from elmokit.formats.find import Location, model_folder, read_model
from elmokit.formats.native import SavedModel
from elmokit.formats.onnx import write_onnx
from elmokit.io.fetch import Progress
from elmokit.io.files import check_new_file, write_folder_atomically
from elmokit.model.bilm import BiLM
from elmokit.text.characters import UnusualWords, character_ids, without_markers
from elmokit.text.tokenizer import load_tokenizer
from elmokit.text.vocabulary import Vocabulary, read_vocabulary, write_vocabulary

OPTIONS, WEIGHTS, VOCABULARY = "options.json", "weights.hdf5", "vocabulary.txt"
TARGETS = ("native", "allennlp", "cached-vocabulary", "onnx")


def convert_model(
    source: Sequence[Location],
    destination: Location,
    *,
    target: str | None = None,
    vocabulary: Location | None = None,
    embedding: Location | None = None,
    tokenizer: str | None = None,
    half: bool = False,
    int8: bool = False,
    force: bool = False,
    progress: Progress | None = None,
) -> list[Path]:
    """Write the model at `source`, what `read_model` takes, in another format; give the files.

    Without a `target` it is the other one of "native" and "allennlp". `vocabulary` has the words of
    the model, or those to cache; `tokenizer` is what a native folder, or an ONNX graph, records.
    """
    check_choice("target", target, (None, *TARGETS))
    folder = Path(destination)
    from_native = len(source) == 1 and (
        is_bundled(source[0]) or native.is_native(model_folder(Path(source[0])))
    )
    target = target or ("allennlp" if from_native else "native")
    for name, wanted, its in (("half", half, "native"), ("int8", int8, "onnx")):
        if wanted and target != its:
            raise InputError(f"--{name} is for --to {its}, not {target}; leave one of them out")
    if target != "cached-vocabulary" and folder.suffix in (".h5", ".hdf5") and not folder.is_dir():
        raise InputError(
            f"{folder}: names a file, and a model is a folder of several; give the name of a "
            "folder, or ask for a cached vocabulary (--to cached-vocabulary)"
        )
    read = partial(read_model, *source, embedding=embedding, progress=progress)
    if target == "cached-vocabulary":
        return cache_vocabulary(read(), vocabulary, folder, force)
    saved = read(vocabulary=vocabulary, softmax=target != "onnx")
    if target == "allennlp":
        return write_pair(saved, folder, force=force)
    if tokenizer is not None:
        saved = saved._replace(tokenizer=load_tokenizer(tokenizer).name, tokenizer_versions={})
    if target == "onnx":
        if not isinstance(saved.config.encoder, CharacterEncoderConfig):
            raise InputError(
                f"{' '.join(map(str, source))}: has a vocabulary of its own (word input, or "
                "ELMoForManyLangs), for which --to onnx has no graph; Embedder.load reads it"
            )
        return write_onnx(saved, folder, int8=int8, force=force)
    native.write_model(folder, saved, half=half, force=force)
    return sorted(folder.iterdir())


def write_pair(saved: SavedModel, folder: Path, *, force: bool) -> list[Path]:
    """Write AllenNLP's options and weights, and the vocabulary if there is one, into a folder."""
    if isinstance(saved.config.encoder, LexiconEncoderConfig):
        raise InputError(
            "AllenNLP's files have no place for the alphabet and the word vectors of this model of "
            "ELMoForManyLangs; write a model folder (--to native)"
        )
    if saved.config.softmax_cutoffs:
        warnings.warn(
            "an adaptive softmax has no place in AllenNLP's files: the vectors will be the same, "
            "but words cannot be predicted",
            ElmoWarning,
            stacklevel=3,
        )
    with write_folder_atomically(folder, force=force) as temporary:
        write_options(saved.config, temporary / OPTIONS)
        allennlp.write_weights(saved.weights, saved.config, temporary / WEIGHTS)
        if saved.vocabulary is not None:
            # Bare words: other programs would take a count for a part of the word.
            write_vocabulary(Vocabulary(saved.vocabulary.words), temporary / VOCABULARY)
    return sorted(folder.iterdir())


def cache_vocabulary(
    saved: SavedModel, vocabulary: Location | None, path: Path, force: bool
) -> list[Path]:
    """Write the token vectors of a list of words, as AllenNLP caches them."""
    if vocabulary is None:
        raise InputError("a cached vocabulary needs words: give a vocabulary, one word per line")
    check_new_file(path, force)
    allennlp.write_cached_vocabulary(token_vectors(saved, read_vocabulary(vocabulary)), path)
    return [path]


@torch.inference_mode()
def token_vectors(saved: SavedModel, vocabulary: Vocabulary) -> Tensor:
    """Token vectors (words, token_size) of every word of a vocabulary."""
    encoder = saved.config.encoder
    if not isinstance(encoder, CharacterEncoderConfig):
        raise InputError("this model reads words, not characters: its table is its vocabulary")
    bilm = BiLM.from_weights(saved.config, saved.weights)
    UnusualWords(encoder.max_characters).note_all([without_markers(vocabulary.words)])
    return bilm.encoder(torch.from_numpy(character_ids(vocabulary.words, encoder.max_characters)))
