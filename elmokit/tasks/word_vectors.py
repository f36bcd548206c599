"""What every task network reads: the vectors of a batch of sentences."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class WordVectors(NamedTuple):
    """The words of a batch; the words of a sentence come first, its padding last."""

    at_input: Tensor  # (sentences, words, sizes.at_input); padding holds anything
    at_output: Tensor | None  # (sentences, words, sizes.at_output): ELMo once more
    mask: Tensor  # (sentences, words) bool, False on padding


class Sizes(NamedTuple):
    """How large the vectors of a word are; 0 where there are none."""

    at_input: int
    at_output: int


def join_output(contexts: Tensor, words: WordVectors) -> Tensor:
    """ELMo at the output: [contexts; at_output], (sentences, words, size + sizes.at_output)."""
    if words.at_output is None:
        return contexts
    return torch.cat([contexts, words.at_output], dim=-1)
