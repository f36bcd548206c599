"""Sentences to what a task network knows of their words: static vectors, characters, ELMo."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmokit.config import CharacterEncoderConfig, check_choice
from elmokit.errors import ConfigError, InputError
from elmokit.inference.embedder import Embedder
from elmokit.inference.layers import Mix
from elmokit.inference.token_vectors import encode_words
from elmokit.model.bilm import BiLM, Layers, remove_markers
from elmokit.model.character_encoder import CharacterEncoder
from elmokit.model.scalar_mix import DirectionalMix, ScalarMix
from elmokit.tasks.config import ElmoPlace, InputConfig
from elmokit.tasks.layer_store import LayerStore, layer_numbers
from elmokit.tasks.recurrent import VariationalDropout
from elmokit.tasks.static_vectors import StaticLookup
from elmokit.text.characters import MAX_CHARACTERS, Sentence, character_ids, check_sentences
from elmokit.text.vocabulary import BEGIN, END


class CharacterFeatures(nn.Module):
    """Embeds the bytes of a word, convolves them, and keeps each filter's largest response.

    It is the biLM's character encoder without highways and projection, trained from scratch. The
    sizes are those of the paper's tagger.

    Args:
        filters: How many features a word has.
        width: Characters that a filter sees.
        character_size: Size of one character's embedding.
        max_characters: Positions per word, its begin and end marks included; longer ones are cut.
    """

    def __init__(
        self,
        *,
        filters: int = 128,
        width: int = 3,
        character_size: int = 16,
        max_characters: int = MAX_CHARACTERS,
    ) -> None:
        super().__init__()
        config = CharacterEncoderConfig(
            filters=((width, filters),),
            character_size=character_size,
            max_characters=max_characters,
            highways=0,
        )
        self.size = filters
        self.max_characters = max_characters
        self.encoder = CharacterEncoder(config, token_size=filters)

    def forward(self, words: Sequence[str]) -> Tensor:
        """Features (words, size) of words, which should be distinct: each is computed."""
        ids = torch.from_numpy(character_ids(words, self.max_characters))
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


class BatchLayers(Protocol):
    """Where the layers of a batch come from."""

    numbers: tuple[int, ...]
    size: int

    def __call__(self, sentences: Sequence[Sentence]) -> Layers:
        """The layers of sentences, (layers, sentences, words, size), and their mask."""


class FrozenLayers:
    """Layers of a biLM that does not learn, out of a store.

    Args:
        store: What has been computed; the rest it computes when asked.
        numbers: Which layers.
    """

    def __init__(self, store: LayerStore, numbers: tuple[int, ...]) -> None:
        store.check_kept(numbers)
        self.store = store
        self.numbers = numbers
        self.size = store.size

    def __call__(self, sentences: Sequence[Sentence]) -> Layers:
        """The layers of sentences, (layers, sentences, words, size), and their mask."""
        return self.store.layers(sentences, self.numbers)


class TrainedLayers(nn.Module):
    """Layers of a biLM that learns with the task; each distinct word is encoded once.

    Its softmax predicts nothing here, and stays as it is.

    Args:
        embedder: Has the biLM, which is trained in its place.
        numbers: Which layers.
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
        distinct = distinct_words(marked)
        vectors = encode_words(self.bilm, self.vocabulary, distinct.words)
        lengths = torch.tensor([len(sentence) for sentence in marked])
        layers = self.bilm.contextualize(at_each_word(vectors, distinct.rows), lengths).layers
        return Layers(*remove_markers(layers.vectors[list(self.numbers)], layers.mask))


class TaskInputs(nn.Module):
    """Turns sentences into vectors of their words, joined of all that is given.

    A frozen biLM is no part of this module: neither its parameters nor its state_dict. One that is
    trained is, as `elmo.bilm`.

    Args:
        static: Static vectors.
        characters: Features of characters.
        elmo: Where the layers of a biLM come from.
        place: Whether ELMo joins at the network's input, at the output of its recurrent layer, or
            at both, each with a mix of its own.
        per_direction: Whether a mix weighs the directions of a layer separately.
        mix_penalty: The paper's lambda, for `penalty()`.
        layer_norm: Whether a mix normalises each layer over the words of the batch.
        elmo_dropout: Of ELMo's vectors, wherever they join.
        dropout: Of everything that is joined at the input.
        variational: Whether that leaves out the same dimensions of every word of a sentence.
    """

    def __init__(
        self,
        *,
        static: StaticLookup | None = None,
        characters: CharacterFeatures | None = None,
        elmo: BatchLayers | None = None,
        place: ElmoPlace = "none",
        per_direction: bool = False,
        mix_penalty: float = 0.0,
        layer_norm: bool = False,
        elmo_dropout: float = 0.0,
        dropout: float = 0.0,
        variational: bool = False,
    ) -> None:
        super().__init__()
        check_choice("elmo", place, get_args(ElmoPlace))
        if (elmo is None) != (place == "none"):
            raise InputError(
                f"elmo is {place!r} and its layers are {'not ' * (elmo is None)}given; "
                "give a place and layers, or neither"
            )
        self.static = static
        self.characters = characters
        self.elmo = elmo
        self.place = place
        count = {"none": 0, "input": 1, "output": 1, "both": 2}[place]
        self.mixes: Sequence[Mix]
        self.mixes = nn.ModuleList(  # type: ignore[assignment]
            new_mix(len(elmo.numbers), per_direction, mix_penalty, layer_norm)
            for _ in range(count)
            if elmo is not None
        )
        self.elmo_dropout = nn.Dropout(elmo_dropout)
        self.dropout = VariationalDropout(dropout) if variational else nn.Dropout(dropout)
        if not self.sizes.at_input:
            raise InputError(
                f"elmo is {place!r}, and nothing else is given for the network's input; "
                "give static vectors or characters, or put ELMo at the input"
            )

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
        check_sentences(sentences)
        if not sentences:
            raise InputError("a batch has no sentences; give at least one")
        distinct = distinct_words(sentences)
        parts = self._of_words(distinct)
        mixed = self._mixed(sentences)
        if self.place in ("input", "both"):
            parts.append(mixed[0])
        return BatchVectors(
            self.dropout(torch.cat(parts, dim=-1)),
            mixed[-1] if self.place in ("output", "both") else None,
            (distinct.rows < len(distinct.words)).to(self.device),
        )

    def penalty(self) -> Tensor:
        """What lambda adds to the loss, summed over the mixes."""
        return sum((mix.penalty() for mix in self.mixes), torch.zeros((), device=self.device))

    def _of_words(self, distinct: DistinctWords) -> list[Tensor]:
        """What depends on a word alone, each (sentences, words, size): computed once per word."""
        return [
            at_each_word(part(distinct.words), distinct.rows)
            for part in (self.static, self.characters)
            if part is not None
        ]

    def _mixed(self, sentences: Sequence[Sentence]) -> list[Tensor]:
        """Each mix of ELMo's layers, (sentences, words, size)."""
        if self.elmo is None:
            return []
        vectors, mask = (part.to(self.device) for part in self.elmo(sentences))
        return [self.elmo_dropout(mix(vectors, mask)) for mix in self.mixes]


class DistinctWords(NamedTuple):
    """The words of a batch, each once."""

    words: list[str]
    rows: Tensor
    """Which of them stands where, (sentences, words); as many as there are words on padding."""


def build_inputs(
    config: InputConfig,
    embedder: Embedder | None = None,
    static: StaticLookup | None = None,
    characters: CharacterFeatures | None = None,
    store: LayerStore | None = None,
) -> TaskInputs:
    """The inputs that a config describes.

    Args:
        config: What to join, and where.
        embedder: The biLM, unless the store has it.
        static: The vectors of `config.static`.
        characters: Features to be used; new ones where None and the config wants some.
        store: Layers of the frozen biLM. Without it they are computed again for each batch.
    """
    if config.static is not None and static is None:
        raise InputError(f"{config.static}: the static vectors were not given; read them first")
    if config.characters and characters is None:
        characters = CharacterFeatures()
    return TaskInputs(
        static=static,
        characters=characters,
        elmo=None if config.elmo == "none" else layers_for(config, embedder, store),
        place=config.elmo,
        per_direction=config.per_direction,
        mix_penalty=config.mix_penalty,
        layer_norm=config.layer_norm,
        elmo_dropout=config.elmo_dropout,
        dropout=config.dropout,
        variational=config.variational,
    )


def layers_for(
    config: InputConfig, embedder: Embedder | None, store: LayerStore | None
) -> FrozenLayers | TrainedLayers:
    """Where the layers come from that a config wants."""
    if embedder is None:
        if store is None:
            raise InputError(f"elmo is {config.elmo!r}, but no model was given; load an Embedder")
        embedder = store.embedder
    numbers = layer_numbers(config.layers, embedder.config.layer_count)
    if config.finetune_bilm:
        if store is not None:
            raise InputError("finetune_bilm changes the layers, which cannot come from a store")
        return TrainedLayers(embedder, numbers)
    if store is None:
        store = LayerStore(embedder, layers=config.layers)
    elif store.embedder is not embedder:
        raise InputError("the store was made with another Embedder; give both the same")
    return FrozenLayers(store, numbers)


def new_mix(
    layers: int, per_direction: bool, penalty: float = 0.0, layer_norm: bool = False
) -> Mix:
    """A mix of so many layers; of one layer, gamma is all that learns."""
    if per_direction and layers == 1:
        raise ConfigError("per_direction weighs all layers, and one was chosen; use layers 'mix'")
    if per_direction:
        return DirectionalMix(layers, penalty=penalty)
    mix = ScalarMix(layers, penalty=penalty, layer_norm=layer_norm)
    mix.weights.requires_grad_(layers > 1)
    return mix


def distinct_words(sentences: Sequence[Sentence]) -> DistinctWords:
    """The words of some sentences, in their order, and where each stands."""
    rows: dict[str, int] = {}
    numbers = [[rows.setdefault(word, len(rows)) for word in words] for words in sentences]
    longest = max(map(len, numbers))
    padded = [some + [len(rows)] * (longest - len(some)) for some in numbers]
    return DistinctWords(list(rows), torch.tensor(padded, dtype=torch.long))


def at_each_word(vectors: Tensor, rows: Tensor) -> Tensor:
    """Spread (distinct, size) over (sentences, words, size), zero on padding.

    Unlike indexing, this sums gradients in the same order on any number of threads.
    """
    padded = torch.cat([vectors, vectors.new_zeros(1, vectors.shape[1])])
    return functional.embedding(rows.to(vectors.device), padded)
