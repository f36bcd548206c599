"""Sentences and shapes that the tests of the AllenNLP adaptor share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from closeness import assert_agree
from torch import Tensor, nn

from elmokit.adaptors.allennlp import batch_to_ids

LAYERS, SIZE = 3, 16
SENTENCES = [["The", "river", "bank", "."], ["A", "bank"], ["Money", "talks", "."]]
# Fewer rows, more rows, an empty sentence: the state shrinks and grows.
BATCHES = [SENTENCES, [["One"]], [["a"], ["b", "c"], [], ["d"], ["e"]], SENTENCES[:2], SENTENCES]
VOCABULARY = ["@@PADDING@@", "@@UNKNOWN@@", "The", "river", "bank", ".", "A", "Money"]

Files = tuple[Path, Path]


def word_ids(sentences: list[list[str]]) -> Tensor:
    """Ids of VOCABULARY, 1 for a word it does not have."""
    known = {word: number for number, word in enumerate(VOCABULARY)}
    rows = [torch.tensor([known.get(word, 1) for word in sentence]) for sentence in sentences]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True)


def represent(elmo: nn.Module, sentences: list[list[str]]) -> list[np.ndarray]:
    """The first representation of each sentence, padding cut off."""
    output = elmo(batch_to_ids(sentences))
    vectors = output["elmo_representations"][0].detach().numpy()
    return [row[: len(sentence)] for row, sentence in zip(vectors, sentences, strict=True)]


def averages(layers: list[np.ndarray]) -> list[np.ndarray]:
    return [sentence.mean(0) for sentence in layers]


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert torch.equal(one["mask"], other["mask"])
    assert_agree(one["elmo_representations"], other["elmo_representations"])
