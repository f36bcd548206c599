"""Inputs of a task's network: static vectors, characters and ELMo of the words of sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmokit.config import CharacterEncoderConfig
from elmokit.errors import InputError
from elmokit.inference.embedder import Embedder
from elmokit.inference.layers import Mix
from elmokit.inference.token_vectors import encode_words
from elmokit.model.bilm import BiLM, Layers, remove_markers
from elmokit.model.character_encoder import CharacterEncoder
from elmokit.model.scalar_mix import DirectionalMix, ScalarMix
from elmokit.tasks.config import InputConfig
from elmokit.tasks.layer_store import LayerStore, layer_numbers
from elmokit.tasks.recurrent import VariationalDropout
from elmokit.tasks.static_vectors import StaticLookup
from elmokit.text.characters import MAX_CHARACTERS, Sentence, character_ids, check_sentences
from elmokit.text.vocabulary import BEGIN, END


class CharacterFeatures(nn.Module):
    """Embeds the bytes of a word, convolves them, and gives each filter's largest response.

    It is the biLM's character encoder without highways and projection, trained from scratch. The
    sizes are those of the paper's tagger: `filters` is how many features a word has.
    """

    def __init__(self, filters: int = 128) -> None:
        super().__init__()
        config = CharacterEncoderConfig(
            filters=((3, filters),), character_size=16, max_characters=MAX_CHARACTERS, highways=0
        )
        self.size = filters
        self.encoder = CharacterEncoder(config, token_size=filters)

    def forward(self, words: Sequence[str]) -> Tensor:
        """Features (words, size) of words, which should be distinct: each is computed."""
        ids = torch.from_numpy(character_ids(words, MAX_CHARACTERS))
        return self.encoder(ids.to(self.encoder.characters.weight.device))


class BatchVectors(NamedTuple):
    """The words of a batch; the words of a sentence come first, its padding last."""

    at_input: Tensor  # (sentences, words, sizes.at_input); padding holds anything
    at_output: Tensor | None  # (sentences, words, sizes.at_output): ELMo once more
    mask: Tensor  # (sentences, words) bool, False on padding


class Sizes(NamedTuple):
    """How large the vectors of a word are; 0 where there are none."""

    at_input: int
    at_output: int


def join_output(contexts: Tensor, words: BatchVectors) -> Tensor:
    """ELMo at the output: [contexts; at_output], (sentences, words, size + sizes.at_output)."""
    if words.at_output is None:
        return contexts
    return torch.cat([contexts, words.at_output], dim=-1)


class TrainedLayers(nn.Module):
    """Layers of a biLM that learns with the task; each distinct word is encoded once.

    The biLM is the embedder's own. Its softmax predicts nothing here, and stays as it is.
    """

    def __init__(self, embedder: Embedder, numbers: tuple[int, ...]) -> None:
        super().__init__()
        if embedder.state != "zero":
            raise InputError(
                f"a biLM in state {embedder.state!r} cannot be trained with a task; "
                "load it with state='zero'"
            )
        self.bilm = embedder.bilm.requires_grad_(True)
        if self.bilm.softmax is not None:
            self.bilm.softmax.requires_grad_(False)
        self.vocabulary = embedder.vocabulary
        self.numbers = numbers
        self.size = embedder.vector_size

    def forward(self, sentences: Sequence[Sentence]) -> Layers:
        """The layers of sentences, (layers, sentences, words, size), and their mask."""
        marked = [[BEGIN, *sentence, END] for sentence in sentences]
        words, rows = distinct_words(marked)
        vectors = encode_words(self.bilm, self.vocabulary, words)
        lengths = torch.tensor([len(sentence) for sentence in marked])
        layers = self.bilm.contextualize(at_each_word(vectors, rows), lengths).layers
        return Layers(*remove_markers(layers.vectors[list(self.numbers)], layers.mask))


class TaskInputs(nn.Module):
    """Turns sentences into vectors of their words, joined of all that is given.

    A frozen biLM is not a part of this module: neither its parameters nor its state_dict. One that
    is trained is, as `elmo.bilm`.
    """

    def __init__(
        self,
        config: InputConfig,
        *,
        static: StaticLookup | None = None,
        characters: CharacterFeatures | None = None,
        elmo: LayerStore | TrainedLayers | None = None,
    ) -> None:
        super().__init__()
        self.static = static
        self.characters = characters
        self.elmo = elmo
        self.place = config.elmo
        layers = 0 if elmo is None else len(elmo.numbers)
        count = {"none": 0, "input": 1, "output": 1, "both": 2}[config.elmo]
        self.mixes: Sequence[Mix]
        self.mixes = nn.ModuleList(  # type: ignore[assignment]
            new_mix(config, layers) for _ in range(count)
        )
        self.elmo_dropout = nn.Dropout(config.elmo_dropout)
        dropout = VariationalDropout if config.variational else nn.Dropout
        self.dropout = dropout(config.dropout)

    @property
    def sizes(self) -> Sizes:
        """Sizes of the vectors at the network's input and output."""
        parts = [part.size for part in (self.static, self.characters) if part is not None]
        of_elmo = 0 if self.elmo is None else self.elmo.size
        at_input = sum(parts) + (of_elmo if self.place in ("input", "both") else 0)
        return Sizes(at_input, of_elmo if self.place in ("output", "both") else 0)

    @property
    def bilm(self) -> BiLM | None:
        """The biLM, where it learns with the task."""
        return self.elmo.bilm if isinstance(self.elmo, TrainedLayers) else None

    @property
    def device(self) -> torch.device:
        """Where the vectors are made."""
        return next(self.parameters()).device

    def forward(self, sentences: Sequence[Sentence]) -> BatchVectors:
        """Give every word of some sentences its vectors."""
        sentences = check_sentences(sentences)
        if not sentences:
            raise InputError("a batch has no sentences; give at least one")
        words, rows = distinct_words(sentences)
        # What depends on a word alone is computed once per word.
        parts = [
            at_each_word(part(words), rows)
            for part in (self.static, self.characters)
            if part is not None
        ]
        mixed = self._mixed(sentences)
        if self.place in ("input", "both"):
            parts.append(mixed[0])
        return BatchVectors(
            self.dropout(torch.cat(parts, dim=-1)),
            mixed[-1] if self.place in ("output", "both") else None,
            (rows < len(words)).to(self.device),
        )

    def penalty(self) -> Tensor:
        """What lambda adds to the loss, summed over the mixes."""
        return sum((mix.penalty() for mix in self.mixes), torch.zeros((), device=self.device))

    def _mixed(self, sentences: Sequence[Sentence]) -> list[Tensor]:
        """Each mix of ELMo's layers, (sentences, words, size)."""
        if self.elmo is None:
            return []
        vectors, mask = (part.to(self.device) for part in self.elmo(sentences))
        return [self.elmo_dropout(mix(vectors, mask)) for mix in self.mixes]


def build_inputs(
    config: InputConfig,
    embedder: Embedder | None = None,
    static: StaticLookup | None = None,
    store: LayerStore | None = None,
) -> TaskInputs:
    """The inputs that a config describes; without a store, layers are computed for each batch."""
    elmo: LayerStore | TrainedLayers | None = None
    if embedder is not None and config.finetune_bilm:
        numbers = layer_numbers(config.layers, embedder.config.layer_count)
        elmo = TrainedLayers(embedder, numbers)
    elif embedder is not None:
        elmo = LayerStore(embedder, layers=config.layers) if store is None else store
    characters = CharacterFeatures() if config.characters else None
    return TaskInputs(config, static=static, characters=characters, elmo=elmo)


def new_mix(config: InputConfig, layers: int) -> Mix:
    """A mix of so many layers; of one layer, gamma is all that learns."""
    if config.per_direction:
        return DirectionalMix(layers, penalty=config.mix_penalty)
    mix = ScalarMix(layers, penalty=config.mix_penalty, layer_norm=config.layer_norm)
    mix.weights.requires_grad_(layers > 1)
    return mix


def distinct_words(sentences: Sequence[Sentence]) -> tuple[list[str], Tensor]:
    """The words of some sentences, each once, and which of them stands where (sentences, words).

    On padding stands their number.
    """
    rows: dict[str, int] = {}
    numbers = [[rows.setdefault(word, len(rows)) for word in words] for words in sentences]
    longest = max(map(len, numbers))
    padded = [some + [len(rows)] * (longest - len(some)) for some in numbers]
    return list(rows), torch.tensor(padded, dtype=torch.long)


def at_each_word(vectors: Tensor, rows: Tensor) -> Tensor:
    """Spread (distinct, size) over (sentences, words, size), zero on padding.

    Unlike indexing, this sums gradients in the same order on any number of threads.
    """
    padded = torch.cat([vectors, vectors.new_zeros(1, vectors.shape[1])])
    return functional.embedding(rows.to(vectors.device), padded)
