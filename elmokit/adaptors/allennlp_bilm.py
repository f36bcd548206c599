"""AllenNLP's biLM, with the names by which its users reach what is inside."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypedDict

import torch
from torch import Tensor, nn

from elmokit.config import CharacterEncoderConfig, ModelConfig, WordEncoderConfig
from elmokit.errors import InputError
from elmokit.formats.efml import renamed
from elmokit.formats.find import Location, read_model
from elmokit.inference.embedder import Embedder
from elmokit.model.bilm import BiLM, BiLMState, Layers, keep_other_rows, run_direction
from elmokit.model.lstm import LSTMStack, LSTMState, pack
from elmokit.model.weights import version_of
from elmokit.text.characters import UnusualWords, character_ids, short, without_markers

DERIVED = re.compile(r"_token_embedder\._(beginning|end)_of_sentence_characters")
CACHED_WORDS = "_word_embedding.weight"


def rename_weights(
    state_dict: dict[str, Any], old_prefix: str, new_prefix: str, *, keep_cached_words: bool
) -> None:
    """Replace the entries of an AllenNLP biLM by ours, in place; other entries stay.

    Its table of cached words is dropped, as it follows from the characters, unless it was trained.
    """
    for key in [key for key in state_dict if key.startswith(old_prefix)]:
        name = key.removeprefix(old_prefix)
        if found := renamed(name, state_dict[key]):
            del state_dict[key]
            state_dict.update((new_prefix + new_name, part) for new_name, part in found.items())
        elif DERIVED.fullmatch(name) or (name == CACHED_WORDS and not keep_cached_words):
            del state_dict[key]


class Activations(TypedDict):
    """What `_ElmoBiLm` returns."""

    activations: list[Tensor]  # each (batch, words + 2, size)
    mask: Tensor  # (batch, words + 2), False on padding


UNKNOWN = "@@UNKNOWN@@"
"""The word whose id AllenNLP's vocabularies give to every word they do not have."""


class CarriedState:
    """What is carried from batch to batch, by the names of AllenNLP's `ElmoLstm`."""

    carried: BiLMState | None = None
    stateful: bool = True

    @property
    def _states(self) -> tuple[Tensor, Tensor] | None:
        """Outputs (layers, rows, 2 * token_size) and cells (layers, rows, 2 * cell_size)."""
        if self.carried is None:
            return None
        forward, backward = self.carried
        return (
            torch.cat([forward.outputs, backward.outputs], -1),
            torch.cat([forward.cells, backward.cells], -1),
        )

    @_states.setter
    def _states(self, states: Sequence[Tensor] | None) -> None:
        if states is None:
            self.carried = None
        else:
            halves = zip(*(part.chunk(2, -1) for part in states), strict=True)
            self.carried = BiLMState(*(LSTMState(cells, outputs) for outputs, cells in halves))

    def reset_states(self) -> None:
        """Start from zeros again."""
        self.carried = None


class StateOfEmbedder(CarriedState):
    """The same of an `Embedder`."""

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder

    @property
    def carried(self) -> BiLMState | None:
        """What the embedder has read so far."""
        return self.embedder.carried

    @carried.setter
    def carried(self, state: BiLMState | None) -> None:
        self.embedder.carried = state

    @property
    def stateful(self) -> bool:
        """Whether the embedder is in state `carry`."""
        return self.embedder.state == "carry"

    @stateful.setter
    def stateful(self, stateful: bool) -> None:
        self.embedder.state = "carry" if stateful else "zero"


class StatefulBiLM(nn.Module):
    """A biLM of characters in which row i of a batch continues row i of the batch before.

    The token vectors of `vocab_to_cache`, whose entry 0 is the padding, are computed once.
    """

    def __init__(
        self,
        bilm: BiLM,
        vocab_to_cache: Sequence[str] | None = None,
        state: CarriedState | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(bilm.config.encoder, CharacterEncoderConfig):
            raise InputError("this model reads words by a list of its own; use elmokit.Embedder")
        self.bilm = bilm
        self.max_characters = bilm.config.encoder.max_characters
        self.num_layers = bilm.config.layer_count
        self.vocabulary = (
            CachedVocabulary(vocab_to_cache, self.max_characters) if vocab_to_cache else None
        )
        self._elmo_lstm = state or CarriedState()

    def forward(self, inputs: Tensor, word_inputs: Tensor | None = None) -> Activations:
        """The layers, as AllenNLP's `_ElmoBiLm` gives them: markers included, one by one."""
        layers, mask = self.read(inputs, word_inputs)
        return {"activations": list(layers), "mask": mask}

    def read(self, inputs: Tensor, word_inputs: Tensor | None = None) -> Layers:
        """Layers of character ids (batch, words, characters), markers included.

        `word_inputs` (batch, words) are ids of the cached vocabulary; where all words are among it,
        they may stand for the characters too.
        """
        word_inputs = None if self.vocabulary is None else word_inputs
        inputs = self.spelt(inputs, word_inputs)
        self.check(inputs, word_inputs)
        token_vectors, mask = self.token_vectors(inputs, word_inputs)
        kept = self._elmo_lstm
        state = kept.carried if kept.stateful else None
        layers, after = self.bilm.contextualize(token_vectors, mask.sum(1), state)
        if kept.stateful:
            kept.carried = after.detach()
        return layers

    def spelt(self, inputs: Tensor, word_inputs: Tensor | None) -> Tensor:
        """Character ids, none known where word ids stand in their place."""
        if word_inputs is None or self.vocabulary is None or inputs.shape != word_inputs.shape:
            return inputs
        return inputs.new_zeros(*inputs.shape, self.max_characters)

    @property
    def _states(self) -> tuple[Tensor, Tensor] | None:
        return self._elmo_lstm._states

    def get_output_dim(self) -> int:
        """Size of a layer."""
        return self.bilm.config.vector_size

    def check(self, inputs: Tensor, word_inputs: Tensor | None) -> None:
        """Raise for ids of the wrong shape."""
        if inputs.dim() != 3 or inputs.shape[-1] != self.max_characters:
            raise InputError(
                f"inputs have shape {tuple(inputs.shape)}; they must be "
                f"(batch, words, {self.max_characters}), as batch_to_ids makes them"
            )
        if word_inputs is not None and word_inputs.shape != inputs.shape[:2]:
            raise InputError(
                f"word_inputs have shape {tuple(word_inputs.shape)} beside inputs "
                f"{tuple(inputs.shape)}; give one id for each word"
            )

    def token_vectors(self, inputs: Tensor, word_inputs: Tensor | None) -> tuple[Tensor, Tensor]:
        """Token vectors (batch, words + 2, token_size), markers included, and their mask."""
        bilm, vocabulary = self.bilm, self.vocabulary
        if vocabulary is None or word_inputs is None:
            ids, mask = bilm.add_markers(inputs, bilm.mask(inputs))
            return bilm.encode(ids, mask), mask
        known, spellings = vocabulary.spell(word_inputs, inputs)
        ids, mask = bilm.add_markers(spellings, bilm.mask(spellings))
        if torch.is_grad_enabled() and any(p.requires_grad for p in bilm.encoder.parameters()):
            # Remembered vectors would have no gradients, and be out of date after a step.
            return bilm.encode(ids, mask), mask
        # What is left to encode: the two markers, and words that the vocabulary does not have.
        new = mask.clone()
        new[:, 1:-1] &= ~known
        vectors = bilm.encode(ids, new)
        vectors[:, 1:-1][known] = vocabulary.vectors(bilm)[word_inputs[known]]
        return vectors, mask

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Read what AllenNLP saved, too."""
        trained = any(parameter.requires_grad for parameter in self.bilm.parameters())
        rename_weights(state_dict, prefix, f"{prefix}bilm.", keep_cached_words=trained)
        super()._load_from_state_dict(state_dict, prefix, *args)


class _ElmoBiLm(StatefulBiLM):
    """AllenNLP's biLM, made of two files: layers with their markers, and the mask."""

    def __init__(
        self,
        options_file: Location,
        weight_file: Location | None,
        requires_grad: bool = False,
        vocab_to_cache: Sequence[str] | None = None,
    ) -> None:
        saved = read_model(options_file, weight_file)
        bilm = BiLM.from_weights(saved.config, saved.weights).requires_grad_(requires_grad)
        super().__init__(bilm, vocab_to_cache)


class _ElmoCharacterEncoder(_ElmoBiLm):
    """The token vectors of a biLM, markers included."""

    def forward(self, inputs: Tensor) -> dict[str, Tensor]:  # type: ignore[override]
        """Token vectors (batch, words + 2, token_size) of character ids, and their mask."""
        self.check(inputs, None)
        token_vectors, mask = self.token_vectors(inputs, None)
        return {"token_embedding": token_vectors, "mask": mask}

    def get_output_dim(self) -> int:
        """Size of a token vector."""
        return self.bilm.config.token_size


class ElmoLstm(CarriedState, nn.Module):
    """AllenNLP's LSTMs of both directions, with random weights, over vectors of any size."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        cell_size: int,
        num_layers: int,
        requires_grad: bool = False,
        recurrent_dropout_probability: float = 0.0,
        memory_cell_clip_value: float | None = None,
        state_projection_clip_value: float | None = None,
    ) -> None:
        super().__init__()
        if recurrent_dropout_probability:
            raise InputError("recurrent_dropout_probability must be 0; ELMo has no such dropout")
        config = ModelConfig(
            WordEncoderConfig(words=2),
            token_size=hidden_size,
            cell_size=cell_size,
            lstm_layers=num_layers,
            cell_clip=memory_cell_clip_value,
            projection_clip=state_projection_clip_value,
        )
        self.input_size, self.hidden_size, self.cell_size = input_size, hidden_size, cell_size
        self.num_layers = num_layers
        self.forward_lstm, self.backward_lstm = LSTMStack(config), LSTMStack(config)
        for stack in (self.forward_lstm, self.backward_lstm):
            first: Any = stack.layers[0]
            first.input_weight = nn.Parameter(torch.empty(4 * cell_size, input_size))
            first.initialise()
        self.requires_grad_(requires_grad)

    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        """Read (batch, words, input_size); give (layers, batch, words, 2 * hidden_size)."""
        rows, words = mask.shape
        flat = (inputs * (mask != 0)[..., None]).flatten(0, 1)
        packing = pack((mask != 0).sum(1), words, flat.device)
        before = self._state_before(rows, flat)
        stacks = self.forward_lstm, self.backward_lstm
        orders = packing.forward, packing.backward
        halves = [flat.new_zeros(self.num_layers, len(flat), self.hidden_size) for _ in stacks]
        after = BiLMState(
            *(
                run_direction(stack, flat, order, packing, state, half, "exact")
                for stack, order, state, half in zip(stacks, orders, before, halves, strict=True)
            )
        )
        if self.stateful:
            self.carried = keep_other_rows(after.detach(), self.carried)
        return torch.cat(halves, -1).view(self.num_layers, rows, words, -1)

    def _state_before(self, rows: int, like: Tensor) -> BiLMState:
        stacks = self.forward_lstm, self.backward_lstm
        zero = BiLMState(*(stack.zero_state(rows, like) for stack in stacks))
        if self.carried is None or not self.stateful:
            return zero
        known = range(min(rows, self.carried.forward.cells.shape[1]))
        return zero.with_rows(known, self.carried.of_rows(known))


class CachedVocabulary(nn.Module):
    """Words by number: their spellings, and their token vectors once computed.

    Word i has id i. Entry 0 is the padding symbol, whatever it is.
    """

    spellings: Tensor  # (words, max_characters), zeros for the padding

    def __init__(self, words: Sequence[str], max_characters: int) -> None:
        super().__init__()
        if isinstance(words, str):
            raise InputError(f"vocab_to_cache is {short(words)}; give a list of words")
        words = list(words)
        UnusualWords(max_characters).note_all([without_markers(words[1:])])
        spellings = torch.from_numpy(character_ids(words, max_characters))
        spellings[0] = 0
        self.register_buffer("spellings", spellings, persistent=False)
        self.unknown_id = words.index(UNKNOWN) if UNKNOWN in words else -1
        self._vectors: Tensor | None = None
        self._made_from: object = None

    def spell(self, word_ids: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Which words (batch, words) are known, and the spelling of each word.

        A word that the vocabulary does not have is spelt as in `inputs`.
        """
        spelt = (inputs != 0).any(-1)
        known = (word_ids > 0) & (word_ids < len(self.spellings))
        known &= ~((word_ids == self.unknown_id) & spelt)
        nowhere = (word_ids != 0) & ~known & ~spelt
        if bool(nowhere.any()):
            raise InputError(
                f"word_inputs have id {int(word_ids[nowhere][0])}, vocab_to_cache has "
                f"{len(self.spellings)} words; give the characters of other words in inputs"
            )
        spellings = torch.where((word_ids != 0)[..., None], inputs, 0)
        spellings[known] = self.spellings[word_ids[known]].to(inputs)
        return known, spellings

    def vectors(self, bilm: BiLM) -> Tensor:
        """Token vectors (words, token_size), computed again when the encoder has changed."""
        version = version_of(bilm.encoder.parameters())
        if self._vectors is None or version != self._made_from:
            with torch.no_grad():
                self._vectors = bilm.encoder(self.spellings)
            self._made_from = version
        return self._vectors


def stateful_bilm(
    module: BiLM | StatefulBiLM, vocab_to_cache: Sequence[str] | None
) -> StatefulBiLM:
    """The biLM of another `Elmo`, with its state and vocabulary, or one around `module`."""
    if isinstance(module, BiLM):
        return StatefulBiLM(module, vocab_to_cache)
    if not isinstance(module, StatefulBiLM):
        raise InputError(
            f"module is a {type(module).__name__}; give an elmokit BiLM, or another Elmo's biLM"
        )
    if vocab_to_cache:
        raise InputError("vocab_to_cache must be given to the Elmo that the module comes from")
    return module
