"""The published algorithm as a plain loop: what the speed of this package is measured against.

Nothing is wrong with it; it only does what the equations say, one step after another: the character
encoder runs on every word at all positions, each time step multiplies its input and its state, and
sentences of a batch are padded to the longest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from elmokit.config import CharacterEncoderConfig, ModelConfig
from elmokit.text.characters import MAX_CHARACTERS, character_ids


class PlainElmo:
    """ELMo from the weights of a `BiLM`, without any thought of speed."""

    def __init__(self, config: ModelConfig, weights: Mapping[str, Tensor]) -> None:
        self.config = config
        self.weights = weights

    @torch.inference_mode()
    def embed(self, sentences: Sequence[Sequence[str]]) -> Tensor:
        """Average of the layers, (batch, words, size), of one padded batch; state zero."""
        marked = [["<S>", *sentence, "</S>"] for sentence in sentences]
        lengths = torch.tensor([len(sentence) for sentence in marked])
        tokens = self.encode(spell(marked))
        forward = self.run("forward_lstm", tokens, lengths)
        backward = self.run("backward_lstm", reverse(tokens, lengths), lengths)
        layers = [torch.cat([tokens, tokens], dim=-1)]
        for ahead, back in zip(forward, backward, strict=True):
            layers.append(torch.cat([ahead, reverse(back, lengths)], dim=-1))
        return torch.stack(layers).mean(0)[:, 1:-1]

    def encode(self, character_ids: Tensor) -> Tensor:
        """Token vectors (batch, words, token_size) of ids (batch, words, characters)."""
        encoder = self.config.encoder
        assert isinstance(encoder, CharacterEncoderConfig)
        words = character_ids.flatten(0, 1)
        characters = self.weights["encoder.characters.weight"][words].transpose(1, 2)
        activation = torch.relu if encoder.activation == "relu" else torch.tanh
        features = []
        for number in range(len(encoder.filters)):
            weight, bias = self.linear(f"encoder.convolutions.{number}")
            convolved = functional.conv1d(characters, weight, bias)
            features.append(activation(convolved.max(dim=-1).values))
        vectors = torch.cat(features, dim=-1)
        for number in range(encoder.highways):
            gate = functional.linear(vectors, *self.linear(f"encoder.highways.{number}.gate"))
            new = functional.linear(vectors, *self.linear(f"encoder.highways.{number}.transform"))
            gate = torch.sigmoid(gate)
            vectors = gate * torch.relu(new) + (1 - gate) * vectors
        vectors = functional.linear(vectors, *self.linear("encoder.projection"))
        return vectors.view(*character_ids.shape[:2], -1)

    def linear(self, name: str) -> tuple[Tensor, Tensor]:
        """Weight and bias of a layer."""
        return self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]

    def run(self, stack: str, inputs: Tensor, lengths: Tensor) -> list[Tensor]:
        """Every layer's outputs (batch, words, token_size) of one direction."""
        layers = []
        for number in range(self.config.lstm_layers):
            outputs = self.run_layer(f"{stack}.layers.{number}", inputs, lengths)
            if number > 0 and self.config.skip_connections:
                outputs = outputs + inputs
            layers.append(outputs)
            inputs = outputs
        return layers

    def run_layer(self, name: str, inputs: Tensor, lengths: Tensor) -> Tensor:
        """One layer over (batch, words, token_size), step by step."""
        config = self.config
        input_weight = self.weights[f"{name}.input_weight"]
        recurrent_weight = self.weights[f"{name}.recurrent_weight"]
        bias = self.weights[f"{name}.bias"]
        projection = self.weights[f"{name}.projection_weight"]
        cell = inputs.new_zeros(len(inputs), config.cell_size)
        output = inputs.new_zeros(len(inputs), config.token_size)
        outputs = []
        for step in range(inputs.shape[1]):
            gates = functional.linear(inputs[:, step], input_weight, bias)
            gates = gates + functional.linear(output, recurrent_weight)
            i, f, o, j = gates.chunk(4, dim=1)
            new_cell = torch.sigmoid(i) * torch.tanh(j) + torch.sigmoid(f + 1) * cell
            if config.cell_clip is not None:
                new_cell = new_cell.clamp(-config.cell_clip, config.cell_clip)
            new_output = functional.linear(torch.sigmoid(o) * torch.tanh(new_cell), projection)
            if config.projection_clip is not None:
                new_output = new_output.clamp(-config.projection_clip, config.projection_clip)
            running = (step < lengths)[:, None]
            cell = torch.where(running, new_cell, cell)
            output = torch.where(running, new_output, output)
            outputs.append(output * running)
        return torch.stack(outputs, dim=1)


def spell(sentences: Sequence[Sequence[str]]) -> Tensor:
    """Character ids (batch, words, characters), zero on padding, of sentences with markers."""
    ids = torch.zeros(len(sentences), max(map(len, sentences)), MAX_CHARACTERS, dtype=torch.long)
    for row, sentence in zip(ids, sentences, strict=True):
        row[: len(sentence)] = torch.from_numpy(character_ids(sentence))
    return ids


def reverse(vectors: Tensor, lengths: Tensor) -> Tensor:
    """Turn each sentence of (batch, words, size) around by its own length."""
    positions = torch.arange(vectors.shape[1])
    turned = torch.where(positions < lengths[:, None], lengths[:, None] - 1 - positions, positions)
    return vectors.gather(1, turned[:, :, None].expand_as(vectors))
