"""Pretraining with torch's own modules: what the speed of this package's is measured against.

Nothing is wrong with it; it is what the paper says, as one writes it with `torch.nn`: the character
encoder runs on every word of the batch at all positions, each layer is an `nn.LSTM`, and every
target is scored against the whole vocabulary. Recipe and initial values are those of the original.

One thing is left out: the clips of cell and projection, which cannot be had inside `nn.LSTM`. That
spares it a little work, and makes no difference as long as no value would have been clipped.
"""

from __future__ import annotations

import math
import warnings

import torch
from torch import Tensor, nn

from elmokit.config import CHARACTERS, CharacterEncoderConfig, ModelConfig
from elmokit.errors import ConfigError

DROPOUT = 0.1
LEARNING_RATE = 0.2
FIRST_ACCUMULATOR = 1.0
GRADIENT_NORM = 10.0

States = list[tuple[Tensor, Tensor] | None]
"""Output (1, rows, token_size) and cell (1, rows, cell_size) of each layer; None for zeros."""


class PlainBiLM(nn.Module):
    """A biLM with a full softmax, its optimiser, and the states of its rows.

    >>> from elmokit.text.characters import character_ids
    >>> words = "the cat saw a dog in her house".split()
    >>> characters = torch.from_numpy(character_ids(words)).long()
    >>> ids = torch.arange(11).remainder(8).expand(2, -1)
    >>> back = ids.flip(1)
    >>> batch = characters[ids[:, :-1]], ids[:, 1:], characters[back[:, :-1]], back[:, 1:]
    >>> encoder = CharacterEncoderConfig(((1, 32), (2, 32)), highways=1)
    >>> with torch.random.fork_rng(devices=[]):
    ...     _ = torch.manual_seed(0)
    ...     bilm = PlainBiLM(ModelConfig(encoder, 16, 32, softmax_words=8))
    ...     losses = [float(bilm.train_step(*batch)) for _ in range(20)]
    >>> losses[-1] < losses[0] - 0.5
    True
    """

    def __init__(self, config: ModelConfig, dropout: float = DROPOUT) -> None:
        super().__init__()
        if not isinstance(config.encoder, CharacterEncoderConfig):
            raise ConfigError("the encoder is a table of words; the plain biLM reads characters")
        if config.softmax_words is None:
            raise ConfigError("softmax_words is None; say how many words are to be predicted")
        self.encoder = PlainEncoder(config.encoder, config.token_size)
        self.forward_lstm = PlainStack(config, dropout)
        self.backward_lstm = PlainStack(config, dropout)
        self.dropout = nn.Dropout(dropout)
        self.softmax = linear(config.token_size, config.softmax_words)
        self.cross_entropy = nn.CrossEntropyLoss()
        self.optimiser = torch.optim.Adagrad(
            self.parameters(), lr=LEARNING_RATE, initial_accumulator_value=FIRST_ACCUMULATOR
        )
        self.forward_states = self.forward_lstm.zero_states()
        self.backward_states = self.backward_lstm.zero_states()

    def train_step(
        self,
        forward_inputs: Tensor,
        forward_targets: Tensor,
        backward_inputs: Tensor,
        backward_targets: Tensor,
    ) -> Tensor:
        """Learn from inputs (rows, unroll, characters) and targets (rows, unroll); give the loss.

        The backward stream comes as it is read, turned around already. The loss is what the batch
        cost before the step: half the mean cross entropy of each direction. Its gradient is that of
        the loss times the unroll, as in the original.
        """
        self.train()
        self.optimiser.zero_grad()
        loss = self(forward_inputs, forward_targets, backward_inputs, backward_targets)
        (loss * forward_targets.shape[1]).backward()
        nn.utils.clip_grad_norm_(self.parameters(), GRADIENT_NORM)
        self.optimiser.step()
        return loss.detach()

    def forward(
        self,
        forward_inputs: Tensor,
        forward_targets: Tensor,
        backward_inputs: Tensor,
        backward_targets: Tensor,
    ) -> Tensor:
        """The loss (), going on from the states that the batch before left."""
        outputs, self.forward_states = self.forward_lstm(
            self.encoder(forward_inputs), self.forward_states
        )
        forward_loss = self.cross_entropy_of(outputs, forward_targets)
        outputs, self.backward_states = self.backward_lstm(
            self.encoder(backward_inputs), self.backward_states
        )
        backward_loss = self.cross_entropy_of(outputs, backward_targets)
        return (forward_loss + backward_loss) / 2

    def cross_entropy_of(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Mean cross entropy () of outputs (rows, unroll, token_size), over all words."""
        scores = self.softmax(self.dropout(outputs))
        return self.cross_entropy(scores.flatten(0, 1), targets.flatten())


class PlainEncoder(nn.Module):
    """Token vectors from characters: each word of the batch, at all of its positions."""

    def __init__(self, config: CharacterEncoderConfig, token_size: int) -> None:
        super().__init__()
        self.characters = nn.Embedding(CHARACTERS, config.character_size)
        nn.init.uniform_(self.characters.weight, -1.0, 1.0)
        self.convolutions = nn.ModuleList(
            convolution(config, width, number) for width, number in config.filters
        )
        self.activation = nn.ReLU() if config.activation == "relu" else nn.Tanh()
        filters = config.filter_count
        self.highways = nn.ModuleList(PlainHighway(filters) for _ in range(config.highways))
        self.projection = linear(filters, token_size) if filters != token_size else nn.Identity()

    def forward(self, character_ids: Tensor) -> Tensor:
        """Encode (rows, unroll, characters) as (rows, unroll, token_size)."""
        characters = self.characters(character_ids.flatten(0, 1)).transpose(1, 2)
        strongest = [convolve(characters).max(-1).values for convolve in self.convolutions]
        vectors = self.activation(torch.cat(strongest, dim=-1))
        for highway in self.highways:
            vectors = highway(vectors)
        return self.projection(vectors).unflatten(0, character_ids.shape[:2])


class PlainHighway(nn.Module):
    """gate * relu(transform) + (1 - gate) * input."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.gate = linear(size, size, bias=-2.0)
        self.transform = linear(size, size)

    def forward(self, vectors: Tensor) -> Tensor:
        """Pass (words, size) through, changed as far as the gate is open."""
        gate = torch.sigmoid(self.gate(vectors))
        return gate * torch.relu(self.transform(vectors)) + (1 - gate) * vectors


class PlainStack(nn.Module):
    """The layers of one direction, each an `nn.LSTM`, with residuals from the second on."""

    def __init__(self, config: ModelConfig, dropout: float) -> None:
        super().__init__()
        self.skip_connections = config.skip_connections
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(lstm(config) for _ in range(config.lstm_layers))

    def forward(self, inputs: Tensor, states: States) -> tuple[Tensor, States]:
        """Read (rows, unroll, token_size); give the top layer's outputs, and states cut off."""
        after: States = []
        for depth, (layer, state) in enumerate(zip(self.layers, states, strict=True)):
            inputs = self.dropout(inputs)
            outputs, (output, cell) = run_quietly(layer, inputs, state)
            after.append((output.detach(), cell.detach()))
            # What the residual adds has been through the dropout, as in the original.
            inputs = outputs + inputs if self.skip_connections and depth > 0 else outputs
        return inputs, after

    def zero_states(self) -> States:
        """The states before the first batch."""
        return [None] * len(self.layers)


def run_quietly(
    layer: nn.Module, inputs: Tensor, state: tuple[Tensor, Tensor] | None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Run a layer; that a CPU has no kernel of its own for projections is no news."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="LSTM with projections is not supported")
        return layer(inputs, state)


def lstm(config: ModelConfig) -> nn.LSTM:
    """One layer: Glorot uniform over the joined kernel [input; recurrent], forget bias 1."""
    size, cells = config.token_size, config.cell_size
    projection = size if config.has_projection else 0
    layer = nn.LSTM(size, cells, num_layers=1, proj_size=projection, batch_first=True)
    limit = math.sqrt(6 / (2 * size + 4 * cells))
    with torch.no_grad():
        for name, weight in layer.named_parameters():
            if name.startswith("bias"):
                weight.zero_()
            elif name.startswith("weight_hr"):
                nn.init.xavier_uniform_(weight)
            else:
                weight.uniform_(-limit, limit)
        _, forget_gate, _, _ = dict(layer.named_parameters())["bias_ih_l0"].chunk(4)
        forget_gate.fill_(1.0)
    return layer


def convolution(config: CharacterEncoderConfig, width: int, number: int) -> nn.Conv1d:
    """Filters of one width: uniform for relu, normal by fan-in for tanh; no bias at first."""
    filters = nn.Conv1d(config.character_size, number, width)
    if config.activation == "relu":
        nn.init.uniform_(filters.weight, -0.05, 0.05)
    else:
        nn.init.normal_(filters.weight, std=1 / math.sqrt(width * config.character_size))
    if filters.bias is not None:
        nn.init.zeros_(filters.bias)
    return filters


def linear(inputs: int, outputs: int, bias: float = 0.0) -> nn.Linear:
    """A layer from N(0, 1 / sqrt(inputs)) and a constant bias."""
    layer = nn.Linear(inputs, outputs)
    nn.init.normal_(layer.weight, std=1 / math.sqrt(inputs))
    nn.init.constant_(layer.bias, bias)
    return layer
