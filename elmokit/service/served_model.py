"""The one model that a service answers with, loaded once for vectors and for words."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from elmokit.bundled import ENGLISH_SMALL
from elmokit.config import Precision
from elmokit.embedder import Embedder
from elmokit.errors import ElmoWarning, InputError
from elmokit.formats.fetch import Progress
from elmokit.formats.models import Location, read_model
from elmokit.formats.native import SavedModel, parameter_count
from elmokit.language_model import LanguageModel
from elmokit.model.bilm import BiLM
from elmokit.process_memory import LARGE_BLOCK
from elmokit.service.index import Index, open_index
from elmokit.static.vectors import StaticVectors

FIRST_TEXT = "Ready."
"""Read before anybody asks: the first text takes a second, as the tokenizer is imported."""
FIRST_SENTENCES = [["word"] * length for length in range(1, 65)]
"""Read then too: a step of every number of rows up to 64, so that its products are made before
anybody waits for them, and the memory that they take is there at once."""
UNUSUAL_WORDS = ["", "\0", "\ud800", "<S>", "x" * 1000]
"""One of each kind that a model remarks on."""


@dataclass(frozen=True)
class ServedModel:
    """A model and everything that can be asked of it."""

    name: str
    embedder: Embedder
    language_model: LanguageModel | None
    parameters: int
    why_no_words: str = ""
    """What to tell who asks for words, where there is no language model."""
    index: Index | None = None
    static: StaticVectors | None = None
    """What a word is without its sentence, to compare with."""

    @classmethod
    def of(
        cls,
        saved: SavedModel,
        name: str,
        *,
        tokenizer: str | None = None,
        precision: Precision = "exact",
        device: str | None = None,
    ) -> ServedModel:
        """Make a model of what a file holds; vectors and words share its weights."""
        bilm = BiLM.from_weights(saved.config, saved.weights)
        splitting = tokenizer if tokenizer is not None else saved.tokenizer
        embedder = Embedder(
            bilm,
            tokenizer=splitting,
            vocabulary=saved.vocabulary,
            precision=precision,
            device=device,
        )
        parameters = parameter_count(saved.weights)
        embedder.encode([FIRST_TEXT])
        embedder.embed(FIRST_SENTENCES)
        make_all_remarks(embedder.note_words)
        try:
            words = LanguageModel(bilm, saved.vocabulary, tokenizer=splitting)
        except InputError as error:
            return cls(name, embedder, None, parameters, str(error))
        make_all_remarks(words.score)
        return cls(name, embedder, words, parameters)

    @property
    def block_kept(self) -> int:
        """From how many bytes on a block of memory goes back to the system at once.

        The gates of a large step, in float32, stay: asked for anew at each step, they would cost
        a model of the original size a seventh of its speed.
        """
        gates = 4 * 4 * self.embedder.config.cell_size * len(FIRST_SENTENCES)
        return max(LARGE_BLOCK, 2 * gates)

    def facts(self) -> dict[str, Any]:
        """What the model is, as plain values for JSON."""
        config = self.embedder.config
        return {
            "id": self.name,
            "layers": config.layer_count,
            "vector_size": config.vector_size,
            "parameters": self.parameters,
            "tokenizer": self.embedder.tokenizer.name,
            "precision": self.embedder.precision,
            "predicts_words": self.language_model is not None,
            "has_index": self.index is not None,
            "config": config.to_dict(),
        }


def load_model(
    model: Location | None = None,
    weights: Location | None = None,
    *,
    vocabulary: Location | None = None,
    index: Location | None = None,
    static: StaticVectors | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> ServedModel:
    """Load the bundled English model, a model folder, or an AllenNLP pair; see `read_model`.

    `index` is the folder of an index of occurrences that was built with the same model.
    """
    saved = read_model(model, weights, vocabulary=vocabulary, progress=progress)
    served = replace(ServedModel.of(saved, name_of(model), **settings), static=static)
    if index is None:
        return served
    return replace(served, index=open_index(index, served.embedder, served.name))


def name_of(model: Location | None) -> str:
    """What clients know a model by: never where it is.

    >>> name_of("runs/of-mine/biLM/"), name_of(None)
    ('biLM', 'english-small')
    """
    return ENGLISH_SMALL if model is None else Path(model).name or "model"


def make_all_remarks(read: Callable[[list[list[str]]], Any]) -> None:
    """Have each kind of unusual word remarked on now, with nobody listening.

    A model warns of the first of each kind and shows the word; in a service that would be a
    client's text in a log.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ElmoWarning)
        read([UNUSUAL_WORDS])
