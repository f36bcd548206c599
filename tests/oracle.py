"""ELMo once more, in NumPy and plain loops: slow, in float64, and independent of the package.

One word, one position, one time step at a time, so that each function can be held against one
equation. Works on the contents of AllenNLP's options.json and weights.hdf5, as dictionaries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

Options = Mapping[str, Any]
Weights = Mapping[str, np.ndarray]
Sentence = Sequence[str]

BEGIN_SENTENCE, END_SENTENCE = "<S>", "</S>"
UNKNOWN = "<UNK>"

# Ids at prediction: one more than in training files, because 0 is the padded word.
BEGIN_SENTENCE_ID, END_SENTENCE_ID = 257, 258
BEGIN_WORD_ID, END_WORD_ID = 259, 260
PADDING_ID = 261


class CellState(NamedTuple):
    """What one LSTM layer remembers between two words."""

    output: np.ndarray  # (projection,), projected and clipped
    cell: np.ndarray  # (cell,), clipped


StackState = list[CellState]  # one per layer
BothStates = tuple[StackState, StackState]  # forward, backward


# Characters


def character_ids(word: str, max_characters: int = 50) -> list[int]:
    """The `max_characters` prediction ids of a word."""
    if word == BEGIN_SENTENCE:
        inside = [BEGIN_SENTENCE_ID]
    elif word == END_SENTENCE:
        inside = [END_SENTENCE_ID]
    else:
        inside = [byte + 1 for byte in utf8_bytes(word)][: max_characters - 2]
    ids = [BEGIN_WORD_ID, *inside, END_WORD_ID]
    while len(ids) < max_characters:
        ids.append(PADDING_ID)
    return ids


def utf8_bytes(word: str) -> list[int]:
    """The word's bytes, without the characters that UTF-8 has no bytes for."""
    found: list[int] = []
    for character in word:
        if not 0xD800 <= ord(character) <= 0xDFFF:
            found.extend(character.encode("utf-8"))
    return found


# From a word to its token vector


def token_vector(
    options: Options, weights: Weights, word: str, vocabulary: Sequence[str] | None = None
) -> np.ndarray:
    """(projection,), from the word's characters, or from its row where there is a vocabulary."""
    if "char_cnn" not in options:
        if vocabulary is None:
            raise ValueError("a word-input model needs its vocabulary")
        return word_vector(weights, word_id(word, vocabulary))
    ids = character_ids(word, options["char_cnn"]["max_characters_per_token"])
    return character_vector(options, weights, ids)


def word_id(word: str, vocabulary: Sequence[str]) -> int:
    """Word i of the vocabulary has id i + 1, because 0 is padding."""
    known = word if word in vocabulary else UNKNOWN
    return list(vocabulary).index(known) + 1


def word_vector(weights: Weights, number: int) -> np.ndarray:
    """(projection,); the table in the file has no row for id 0."""
    return weights["embedding"][number - 1].astype(np.float64)


def character_vector(options: Options, weights: Weights, ids: Sequence[int]) -> np.ndarray:
    """(projection,): convolutions over all positions, highways, projection."""
    char_cnn = options["char_cnn"]
    # The table in the file has no row for id 0, so id i is in row i - 1.
    characters = weights["char_embed"][np.array(ids) - 1].astype(np.float64)
    groups = []
    for number, (width, _) in enumerate(char_cnn["filters"]):
        highest = convolve_and_take_highest(
            characters,
            weights[f"CNN/W_cnn_{number}"].astype(np.float64)[0],
            weights[f"CNN/b_cnn_{number}"].astype(np.float64),
            width,
        )
        groups.append(activate(char_cnn["activation"], highest))
    vector = np.concatenate(groups)
    for number in range(char_cnn.get("n_highway") or 0):
        vector = highway(weights, number, vector)
    if "CNN_proj/W_proj" in weights:
        vector = vector @ weights["CNN_proj/W_proj"].astype(np.float64)
        vector = vector + weights["CNN_proj/b_proj"]
    return vector


def convolve_and_take_highest(
    characters: np.ndarray, kernel: np.ndarray, bias: np.ndarray, width: int
) -> np.ndarray:
    """(filters,): the highest value of each filter over every window of `width` characters."""
    windows = len(characters) - width + 1
    values = [characters[at : at + windows] @ kernel[at] for at in range(width)]
    return bias + np.max(np.sum(values, axis=0), axis=0)


def activate(name: str, values: np.ndarray) -> np.ndarray:
    if name == "relu":
        return np.maximum(values, 0)
    if name == "tanh":
        return np.tanh(values)
    raise ValueError(f"activation {name!r}")


def highway(weights: Weights, number: int, vector: np.ndarray) -> np.ndarray:
    """One highway; the file's "carry" lets the transformed value through."""
    part = {
        name: weights[f"CNN_high_{number}/{name}"].astype(np.float64)
        for name in ("W_carry", "b_carry", "W_transform", "b_transform")
    }
    gate = sigmoid(vector @ part["W_carry"] + part["b_carry"])
    transformed = np.maximum(vector @ part["W_transform"] + part["b_transform"], 0)
    return gate * transformed + (1 - gate) * vector


def sigmoid(values: np.ndarray) -> np.ndarray:
    # The form with tanh cannot overflow.
    return 0.5 * (1 + np.tanh(0.5 * values))


# From token vectors to layers


def clip(values: np.ndarray, limit: float | None) -> np.ndarray:
    """Values within ±limit; None and 0 mean no limit."""
    return np.clip(values, -limit, limit) if limit else values


def lstm_step(
    options: Options, weights: Weights, name: str, word: np.ndarray, state: CellState
) -> CellState:
    """Read one word: the next state, whose output is also the layer's output."""
    lstm = options["lstm"]
    kernel = weights[f"{name}/W_0"].astype(np.float64)
    bias = weights[f"{name}/B"].astype(np.float64)
    gates = np.concatenate([word, state.output]) @ kernel + bias
    i, j, f, o = gates.reshape(4, -1)
    cell = sigmoid(i) * np.tanh(j) + sigmoid(f + 1.0) * state.cell
    cell = clip(cell, lstm.get("cell_clip"))
    output = sigmoid(o) * np.tanh(cell)
    if f"{name}/W_P_0" in weights:
        output = output @ weights[f"{name}/W_P_0"].astype(np.float64)
        output = clip(output, lstm.get("proj_clip"))
    return CellState(output, cell)


def zero_state(options: Options) -> StackState:
    lstm = options["lstm"]
    return [
        CellState(np.zeros(lstm["projection_dim"]), np.zeros(lstm["dim"]))
        for _ in range(lstm.get("n_layers", 1))
    ]


def run_stack(
    options: Options,
    weights: Weights,
    direction: int,
    words: Sequence[np.ndarray],
    state: StackState | None = None,
) -> tuple[list[list[np.ndarray]], StackState]:
    """Read `words` in the order given: the outputs of each LSTM layer, and the state after them."""
    lstm = options["lstm"]
    layers: list[list[np.ndarray]] = []
    after: StackState = []
    inputs = list(words)
    for layer, cell_state in enumerate(zero_state(options) if state is None else state):
        name = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
        outputs = []
        for word in inputs:
            cell_state = lstm_step(options, weights, name, word, cell_state)
            skips = lstm.get("use_skip_connections") and layer > 0
            outputs.append(cell_state.output + word if skips else cell_state.output)
        layers.append(outputs)
        after.append(cell_state)
        inputs = outputs
    return layers, after


def contextualize(
    options: Options,
    weights: Weights,
    words: Sequence[np.ndarray],
    states: BothStates | None = None,
) -> tuple[np.ndarray, BothStates]:
    """Layers (layers, words, 2 * projection) of token vectors, markers among them, and the state.

    The backward stack reads from the end marker to the begin marker: its state is the one after
    the begin marker.
    """
    forward_state, backward_state = states if states is not None else (None, None)
    forward, forward_after = run_stack(options, weights, 0, words, forward_state)
    backward, backward_after = run_stack(options, weights, 1, words[::-1], backward_state)
    layers = [[np.concatenate([word, word]) for word in words]]
    for forward_outputs, backward_outputs in zip(forward, backward, strict=True):
        layers.append(
            [
                np.concatenate(both)
                for both in zip(forward_outputs, backward_outputs[::-1], strict=True)
            ]
        )
    return np.array(layers), (forward_after, backward_after)


# From sentences to layers, in each of the three states


class Oracle:
    """A model's options and weights, and the token vectors already worked out."""

    def __init__(
        self, options: Options, weights: Weights, vocabulary: Sequence[str] | None = None
    ) -> None:
        self.options = options
        self.weights = weights
        self.vocabulary = vocabulary
        self.token_vectors: dict[str, np.ndarray] = {}

    def token_vector(self, word: str) -> np.ndarray:
        if word not in self.token_vectors:
            self.token_vectors[word] = token_vector(
                self.options, self.weights, word, self.vocabulary
            )
        return self.token_vectors[word]

    def read(
        self, sentence: Sentence, states: BothStates | None = None
    ) -> tuple[np.ndarray, BothStates]:
        """(layers, 1 + words + 1, 2 * projection) with the markers, and the state after them."""
        wrapped = [BEGIN_SENTENCE, *sentence, END_SENTENCE]
        vectors = [self.token_vector(word) for word in wrapped]
        return contextualize(self.options, self.weights, vectors, states)

    def zero(self, sentences: Sequence[Sentence]) -> list[np.ndarray]:
        """Layers of each sentence, markers kept, each from zeros."""
        return [self.read(sentence)[0] for sentence in sentences]

    def carry(self, batches: Sequence[Sequence[Sentence]]) -> list[list[np.ndarray]]:
        """Layers of each sentence of each batch, markers kept; row i continues row i."""
        rows: dict[int, BothStates] = {}
        results = []
        for batch in batches:
            result = []
            for row, sentence in enumerate(batch):
                layers, rows[row] = self.read(sentence, rows.get(row))
                result.append(layers)
            results.append(result)
        return results

    def warm(self, sentences: Sequence[Sentence], times: int = 2) -> list[np.ndarray]:
        """Layers of each sentence, markers kept, the last of `times` readings in a row."""
        results = []
        for sentence in sentences:
            layers, states = self.read(sentence)
            for _ in range(times - 1):
                layers, states = self.read(sentence, states)
            results.append(layers)
        return results


def without_markers(layers: np.ndarray) -> np.ndarray:
    return layers[:, 1:-1]


def oracle_layers(
    options: Options,
    weights: Weights,
    sentences: Sequence[Sentence],
    vocabulary: Sequence[str] | None = None,
) -> list[np.ndarray]:
    """(layers, words, 2 * projection) of each sentence, from zeros, markers removed."""
    kept = oracle_layers_with_markers(options, weights, sentences, vocabulary)
    return [without_markers(layers) for layers in kept]


def oracle_layers_with_markers(
    options: Options,
    weights: Weights,
    sentences: Sequence[Sentence],
    vocabulary: Sequence[str] | None = None,
) -> list[np.ndarray]:
    """(layers, 1 + words + 1, 2 * projection) of each sentence, from zeros."""
    return Oracle(options, weights, vocabulary).zero(sentences)


def oracle_carry(
    options: Options,
    weights: Weights,
    batches: Sequence[Sequence[Sentence]],
    vocabulary: Sequence[str] | None = None,
) -> list[list[np.ndarray]]:
    """As `oracle_layers` for each batch in order, the state going from one to the next."""
    kept = Oracle(options, weights, vocabulary).carry(batches)
    return [[without_markers(layers) for layers in batch] for batch in kept]


def oracle_warm(
    options: Options,
    weights: Weights,
    sentences: Sequence[Sentence],
    times: int = 2,
    vocabulary: Sequence[str] | None = None,
) -> list[np.ndarray]:
    """As `oracle_layers`, each sentence read `times` times in a row and the last one kept."""
    kept = Oracle(options, weights, vocabulary).warm(sentences, times)
    return [without_markers(layers) for layers in kept]
