"""Role tagger: a deep highway LSTM and a softmax give the roles of words beside a predicate.

Predicates of one sentence share what depends on its words alone: the product of their vectors with
the first layer's weights, by far the largest, is computed once for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from elmokit.model.lstm import Packing, pack, previous_outputs, steps_of, tanh_
from elmokit.tasks.config import NetworkConfig
from elmokit.tasks.inputs import BatchVectors, Sizes
from elmokit.tasks.recurrent import BidirectionalLSTM

GATES = 5  # o, r, i, f and j, in this order; after them stands what the highway carries
FORGET = 3


class HighwayLSTM(nn.Module):
    """Layers of highway LSTMs, the first from the left, the second from the right, and so on.

    A sentence's outputs, of size `hidden`, depend on the sentence alone. Dropout is variational, of
    the outputs of every layer: on their way up, and to the next word.
    """

    def __init__(self, size: int, *, hidden: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.output_size = hidden
        sizes = [size, *[hidden] * (layers - 1)]
        self.layers: Sequence[HighwayLayer]
        self.layers = nn.ModuleList(  # type: ignore[assignment]
            HighwayLayer(each, hidden) for each in sizes
        )

    def forward(self, inputs: Tensor, packing: Packing) -> Tensor:
        """Give outputs (tokens, hidden), packed from the left as `inputs` (tokens, 6 * hidden) are.

        These are what the words add to the first layer's gates, and what its highway carries.
        """
        turn = reversed_tokens(packing)
        outputs = inputs
        for depth, layer in enumerate(self.layers):
            if depth:
                inputs = layer.inputs(Reversed.apply(outputs, turn))  # type: ignore[no-untyped-call]
            outputs = layer(inputs, self._kept(inputs, packing), packing.step_sizes)
        if len(self.layers) % 2:
            return outputs
        return Reversed.apply(outputs, turn)  # type: ignore[no-untyped-call]

    def _kept(self, inputs: Tensor, packing: Packing) -> Tensor | None:
        """What dropout multiplies each sentence's outputs by, (sentences, hidden); None for 1."""
        if not self.training or not self.dropout:
            return None
        ones = inputs.new_ones(len(packing.rows), self.output_size)
        return functional.dropout(ones, self.dropout)


class HighwayLayer(nn.Module):
    """One layer; the order of its gates is that of `GATES`."""

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        self.inputs = nn.Linear(size, (GATES + 1) * hidden)
        self.recurrent_weight = nn.Parameter(torch.empty(GATES * hidden, hidden))
        # Orthonormal for every gate, a bias of 1 to forget little.
        with torch.no_grad():
            for weight in (self.inputs.weight, self.recurrent_weight):
                for of_gate in weight.chunk(len(weight) // hidden):
                    nn.init.orthogonal_(of_gate)
            nn.init.zeros_(self.inputs.bias)
            nn.init.ones_(self.inputs.bias[FORGET * hidden : (FORGET + 1) * hidden])

    def forward(self, inputs: Tensor, kept: Tensor | None, step_sizes: list[int]) -> Tensor:
        """Read what the inputs add, (tokens, 6 * hidden); give outputs (tokens, hidden)."""
        return HighwayRecurrence.apply(inputs, self.recurrent_weight, kept, step_sizes)  # type: ignore[no-untyped-call]


def reversed_tokens(packing: Packing) -> Tensor:
    """Which token of a batch that is packed from one end stands where from the other: (tokens,)."""
    places = packing.forward
    tokens = torch.arange(len(places), device=places.device)
    size = int(places.max()) + 1 if len(places) else 0
    return places.new_zeros(size).index_copy(0, places, tokens)[packing.backward]


class Reversed(torch.autograd.Function):
    """Sentences packed from one end, packed from the other; twice gives them as they were."""

    @staticmethod
    def forward(ctx: Any, tokens: Tensor, turn: Tensor) -> Tensor:
        """Turn (tokens, size)."""
        ctx.save_for_backward(turn)
        return tokens.index_select(0, turn)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_reversed: Tensor) -> tuple[Tensor, None]:
        """Turn back: a plain selection, which is faster than the gradient of one."""
        (turn,) = ctx.saved_tensors
        return d_reversed.index_select(0, turn), None


class HighwayRecurrence(torch.autograd.Function):
    """What is left of a layer once its inputs are multiplied: one step of autograd for all."""

    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        recurrent_weight: Tensor,
        kept: Tensor | None,
        step_sizes: list[int],
    ) -> Tensor:
        """Run the steps of packed inputs (tokens, 6 * hidden): outputs (tokens, hidden)."""
        hidden = recurrent_weight.shape[1]
        gates = inputs.clone()
        cells, tanh_cells, outputs = (gates.new_empty(len(gates), hidden) for _ in range(3))
        output = cell = gates.new_zeros(step_sizes[0] if step_sizes else 0, hidden)
        recurrent = recurrent_weight.t()
        for step in steps_of(step_sizes):
            size = step.stop - step.start
            gates[step, : GATES * hidden].addmm_(output[:size], recurrent)
            gates[step, : (GATES - 1) * hidden].sigmoid_()
            o, r, i, f, j, carried = gates[step].chunk(GATES + 1, dim=1)
            tanh_(j)
            cell = torch.mul(f, cell[:size], out=cells[step]).addcmul_(i, j)
            tanh_(tanh_cells[step].copy_(cell))
            output = torch.lerp(carried, tanh_cells[step] * o, r, out=outputs[step])
            if kept is not None:
                output.mul_(kept[:size])
        ctx.save_for_backward(recurrent_weight, kept, gates, cells, tanh_cells, outputs)
        ctx.step_sizes = step_sizes
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor) -> tuple[Tensor, Tensor, None, None]:
        """Walk the steps back; all that a step does not wait for is computed for all at once."""
        recurrent_weight, kept, gates, cells, tanh_cells, outputs = ctx.saved_tensors
        hidden = recurrent_weight.shape[1]
        steps = list(steps_of(ctx.step_sizes))
        zeros = d_outputs.new_zeros(ctx.step_sizes[0] if ctx.step_sizes else 0, hidden)
        dropped = (
            None
            if kept is None
            else torch.cat([kept[:0], *(kept[:size] for size in ctx.step_sizes)])
        )
        d_outputs = d_outputs.clone()
        d_inputs, to_cell = slopes(
            gates, tanh_cells, previous_outputs(zeros, cells, steps), dropped
        )
        d_gates = d_inputs.flatten(1)[:, : GATES * hidden]
        forget = gates.chunk(GATES + 1, dim=1)[FORGET]
        d_output, d_cell = torch.zeros_like(zeros), torch.zeros_like(zeros)
        for step in reversed(steps):
            size = step.stop - step.start
            step_d_output = d_outputs[step].add_(d_output[:size])
            step_d_cell = d_cell[:size].addcmul_(step_d_output, to_cell[step])
            d_inputs[step, :2] *= step_d_output.unsqueeze(1)
            d_inputs[step, 2:GATES] *= step_d_cell.unsqueeze(1)
            step_d_cell.mul_(forget[step])
            torch.mm(d_gates[step], recurrent_weight, out=d_output[:size])
        d_inputs[:, GATES] *= d_outputs
        d_recurrent_weight = d_gates.t() @ previous_outputs(zeros, outputs, steps)
        return d_inputs.flatten(1), d_recurrent_weight, None, None


def slopes(
    gates: Tensor, tanh_cells: Tensor, old_cells: Tensor, dropped: Tensor | None
) -> tuple[Tensor, Tensor]:
    """What the gradients that come back to each token are multiplied by.

    That of its output, on the way to o, r and the highway; that of its cell, to i, f and j: all
    before their activations, (tokens, 6, hidden). And that of the output on the way to the cell,
    (tokens, hidden).
    """
    o, r, i, f, j, carried = gates.chunk(GATES + 1, dim=1)
    to_r = (o * tanh_cells - carried).mul_(r).mul_(1 - r)
    to_hidden, to_carried = r, 1 - r
    if dropped is not None:
        to_r.mul_(dropped)
        to_hidden, to_carried = r * dropped, to_carried.mul_(dropped)
    to_o = to_hidden * o
    to_cell = to_o * (1 - tanh_cells.square())
    to_o.mul_(1 - o).mul_(tanh_cells)
    to_i = (1 - i).mul_(i).mul_(j)
    to_f = (1 - f).mul_(f).mul_(old_cells)
    to_j = (1 - j.square()).mul_(i)
    return torch.stack([to_o, to_r, to_i, to_f, to_j, to_carried], dim=1), to_cell


INDICATOR_SIZE = 100  # of the vector that tells the predicate from other words, as in the paper
FINDER_SIZE = 32  # cells of each direction of the LSTM that finds predicates


class Predicates(NamedTuple):
    """Words whose arguments are wanted."""

    sentences: Tensor  # (predicates,) which sentence of the batch
    positions: Tensor  # (predicates,) which word of it


class RoleTagger(nn.Module):
    """Tags the words of a sentence with their roles, once for each of its predicates.

    ELMo at the output is joined to the outputs of the last LSTM layer. Beside it, a small LSTM
    finds the predicates.

    `config.hidden` is the cells of a layer: 300 in the paper. The `layers` of the LSTM, 8 in the
    paper, read from the left and from the right in turn. Dropout is variational, of the outputs of
    all layers.
    """

    def __init__(self, sizes: Sizes, tags: int, config: NetworkConfig) -> None:
        super().__init__()
        self.indicator = nn.Embedding(2, INDICATOR_SIZE)
        self.context = HighwayLSTM(
            sizes.at_input + INDICATOR_SIZE,
            hidden=config.hidden,
            layers=config.layers,
            dropout=config.dropout,
        )
        self.emission = nn.Linear(config.hidden + sizes.at_output, tags)
        nn.init.orthogonal_(self.emission.weight)
        nn.init.zeros_(self.emission.bias)
        self.finder = BidirectionalLSTM(sizes.at_input, hidden=FINDER_SIZE)
        self.is_predicate = nn.Linear(self.finder.output_size, 1)

    def forward(self, words: BatchVectors, predicates: Predicates) -> Tensor:
        """Emissions (predicates, words, tags): what a tag scores at a word; zero on padding."""
        rows, width = predicates.sentences, words.mask.shape[1]
        packing = pack(words.mask.sum(1)[rows], width, rows.device)
        row = packing.forward.div(width, rounding_mode="floor") if width else packing.forward
        word = packing.forward - row * width
        places = rows[row] * width + word
        inputs = self._inputs(words.at_input, places, word == predicates.positions[row])
        emissions = self._emissions(self.context(inputs, packing), words.at_output, places)
        everywhere = emissions.new_zeros(len(rows) * width, emissions.shape[1])
        everywhere = everywhere.index_copy(0, packing.forward, emissions)
        return everywhere.view(len(rows), width, emissions.shape[1])

    def _inputs(self, vectors: Tensor, places: Tensor, marked: Tensor) -> Tensor:
        """What packed words add to the first layer's gates, (tokens, 6 * hidden).

        `places` has which of the words (sentences, words) each token is, `marked` whether it is the
        predicate.
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

    def find(self, words: BatchVectors) -> Tensor:
        """The logit of each word being a predicate, (sentences, words); -inf on padding."""
        logits = self.is_predicate(self.finder(words.at_input, words.mask)).squeeze(-1)
        return logits.masked_fill(~words.mask, -torch.inf)


def role_loss(emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
    """-log p of tags (predicates, words), the mean over words; padding does not count."""
    return functional.cross_entropy(emissions[mask], tags[mask])


def finder_loss(logits: Tensor, right: Tensor, mask: Tensor) -> Tensor:
    """-log p of each word being a predicate or none, (sentences, words): the mean over words."""
    return functional.binary_cross_entropy_with_logits(logits[mask], right[mask].to(logits.dtype))
