"""The roles of words beside a predicate: a deep highway LSTM and a softmax.

Predicates of one sentence share what depends on its words alone: the product of their vectors with
the first layer's weights, by far the largest, is computed once for all of them.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmokit.model.packing import pack
from elmokit.tasks.recurrent import BidirectionalLSTM
from elmokit.tasks.srl.highway_lstm import HighwayLSTM
from elmokit.tasks.word_vectors import Sizes, WordVectors

INDICATOR_SIZE = 100
"""Of the vector that tells the predicate from other words, as in the paper."""
FINDER_SIZE = 32
"""Cells of each direction of the LSTM that finds predicates."""


class Predicates(NamedTuple):
    """Words whose arguments are wanted."""

    sentences: Tensor  # (predicates,) which sentence of the batch
    positions: Tensor  # (predicates,) which word of it


class RoleTagger(nn.Module):
    """Tags the words of a sentence with their roles, once for each of its predicates.

    ELMo at the output is joined to the outputs of the last LSTM layer. Beside it, a small LSTM
    finds the predicates.

    Args:
        sizes: Of the word vectors.
        tags: How many.
        hidden: Cells of a layer: 300 in the paper.
        layers: Of the LSTM, which read from the left and from the right in turn: 8 in the paper.
        dropout: Variational, of the outputs of all layers.
    """

    def __init__(
        self, sizes: Sizes, tags: int, *, hidden: int, layers: int, dropout: float
    ) -> None:
        super().__init__()
        self.indicator = nn.Embedding(2, INDICATOR_SIZE)
        self.context = HighwayLSTM(
            sizes.at_input + INDICATOR_SIZE, hidden=hidden, layers=layers, dropout=dropout
        )
        self.emission = nn.Linear(hidden + sizes.at_output, tags)
        nn.init.orthogonal_(self.emission.weight)
        nn.init.zeros_(self.emission.bias)
        self.finder = BidirectionalLSTM(sizes.at_input, hidden=FINDER_SIZE)
        self.is_predicate = nn.Linear(self.finder.output_size, 1)

    def forward(self, words: WordVectors, predicates: Predicates) -> Tensor:
        """Emissions (predicates, words, tags): what each tag scores at each word.

        They are zero on padding, `words.mask[predicates.sentences]`.
        """
        rows, width = predicates.sentences, words.mask.shape[1]
        packing = pack(words.mask.sum(1)[rows], width, rows.device)
        row = packing.forward.div(width, rounding_mode="floor") if width else packing.forward
        word = packing.forward - row * width
        places = rows[row] * width + word
        inputs = self._inputs(words.at_input, places, word == predicates.positions[row])
        emissions = self._emissions(self.context.read(inputs, packing), words.at_output, places)
        everywhere = emissions.new_zeros(len(rows) * width, emissions.shape[1])
        everywhere = everywhere.index_copy(0, packing.forward, emissions)
        return everywhere.view(len(rows), width, emissions.shape[1])

    def _inputs(self, vectors: Tensor, places: Tensor, marked: Tensor) -> Tensor:
        """What packed words add to the first layer's gates, (tokens, 6 * hidden).

        Args:
            vectors: Of the words, (sentences, words, size).
            places: Which of these each token is, (tokens,).
            marked: Whether it is the predicate, (tokens,).
        """
        first = self.context.layers[0].inputs
        weight, indicator_weight = first.weight.tensor_split([vectors.shape[2]], dim=1)
        of_words = functional.linear(vectors.flatten(0, 1), weight, first.bias)
        of_indicator = functional.linear(self.indicator.weight, indicator_weight)
        # Unlike indexing, this sums gradients in the same order on any number of threads.
        inputs = functional.embedding(places, of_words)
        return inputs + functional.embedding(marked.long(), of_indicator)

    def _emissions(self, contexts: Tensor, at_output: Tensor | None, places: Tensor) -> Tensor:
        """What each tag scores at packed words, (tokens, tags); arguments as of `_inputs`."""
        if at_output is None:
            return self.emission(contexts)
        weight, elmo_weight = self.emission.weight.tensor_split([contexts.shape[1]], dim=1)
        of_words = functional.linear(at_output.flatten(0, 1), elmo_weight, self.emission.bias)
        return functional.linear(contexts, weight) + functional.embedding(places, of_words)

    def find(self, words: WordVectors) -> Tensor:
        """The log odds of each word being a predicate, (sentences, words); -inf on padding."""
        odds = self.is_predicate(self.finder(words.at_input, words.mask)).squeeze(-1)
        return odds.masked_fill(~words.mask, -torch.inf)


def role_loss(emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
    """-log p of tags (predicates, words), the mean over words; padding does not count."""
    return functional.cross_entropy(emissions[mask], tags[mask])


def finder_loss(odds: Tensor, right: Tensor, mask: Tensor) -> Tensor:
    """-log p of each word being a predicate or none, (sentences, words): the mean over words."""
    return functional.binary_cross_entropy_with_logits(odds[mask], right[mask].to(odds.dtype))
