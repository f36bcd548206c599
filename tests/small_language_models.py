"""Small language models in memory or on disk: the small biLM with a softmax and its words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from small_models import small_bilm

from elmokit.formats.native import SavedModel, write_model
from elmokit.inference.language_model import LanguageModel
from elmokit.text.vocabulary import Vocabulary

WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", "sat", "on", "mat", ".", "dog", "river", "bank"]
COUNTS = [50, 50, 30, 90, 20, 10, 40, 5, 50, 15, 3, 4]
COUNTED = Vocabulary(WORDS, COUNTS)


def small_language_model(
    vocabulary: Vocabulary = COUNTED, seed: int = 0, **changes: Any
) -> LanguageModel:
    bilm = small_bilm(seed, softmax_words=len(vocabulary), **changes)
    return LanguageModel(bilm, vocabulary, tokenizer="whitespace")


def write_language_model(folder: Path, vocabulary: Vocabulary = COUNTED) -> str:
    """A model folder with a softmax; gives its path."""
    bilm = small_bilm(softmax_words=len(vocabulary))
    saved = SavedModel(bilm.config, bilm.state_dict(), tokenizer="default", vocabulary=vocabulary)
    write_model(folder, saved)
    return str(folder)
