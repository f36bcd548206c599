"""Inputs of a task's network: static vectors, characters and ELMo of the words of sentences."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.nn import functional

from elmokit.config import CharacterEncoderConfig
from elmokit.errors import ElmoWarning, InputError
from elmokit.inference.embedder import Embedder
from elmokit.inference.layers import Mix
from elmokit.inference.token_vectors import encode_words
from elmokit.io.fetch import Progress
from elmokit.io.files import disk_errors
from elmokit.model.bilm import BiLM, Layers, remove_markers
from elmokit.model.character_encoder import CharacterEncoder
from elmokit.model.scalar_mix import DirectionalMix, ScalarMix
from elmokit.static.files import VECTORS_FILE, read_word_vectors
from elmokit.static.vectors import forms_of
from elmokit.tasks.config import InputConfig
from elmokit.tasks.layer_store import LayerStore, layer_numbers
from elmokit.tasks.recurrent import VariationalDropout
from elmokit.text.characters import MAX_CHARACTERS, Sentence, character_ids, check_sentences
from elmokit.text.vocabulary import BEGIN, END

UNKNOWN = -1  # the row of a word without a vector


class VectorsSource(NamedTuple):
    """The file that vectors were read from, and how to tell it from another of the same name."""

    path: str
    bytes: int


class StaticLookup(nn.Module):
    """Looks up the vector of a word: of its exact form, or else of its lower case.

    All words without a vector share one. It is learnt even where the table is frozen, since a word
    that a large file lacks is a name or a misspelling, which tells a task something; it starts at
    zeros, so that one that was never trained says nothing.

    A saved task has the rows of this table and no others: it must run without the file, which may
    have gigabytes. So read with the words of all the data, and with those of a
    vocabulary of frequent words besides, if other text is to be read later. Where the file is
    still in its place, `look_up` adds the words of new text; where it is not, a warning says so
    and they count as unknown. Nothing is looked up unasked: the vectors of a word never depend on
    what happens to be on the disk.

    The words, which are different, have a vector each, (words, size). With `lowercase` a word
    without one takes that of its lower case. The words that the file lacks are `absent`: nobody has
    to look for them again.
    """

    def __init__(
        self,
        words: Sequence[str],
        vectors: ArrayLike,
        *,
        lowercase: bool = True,
        trainable: bool = False,
        source: VectorsSource | None = None,
        absent: Iterable[str] = (),
    ) -> None:
        super().__init__()
        table = torch.tensor(np.asarray(vectors, dtype=np.float32))
        self._rows = {word: row for row, word in enumerate(words)}
        self.vectors = nn.Parameter(table, requires_grad=trainable)
        self.unknown = nn.Parameter(torch.zeros(table.shape[1]))
        self.lowercase = lowercase
        self.trainable = trainable
        self.source = source
        self._absent = set(absent)
        self._warned = False

    @classmethod
    def read(
        cls,
        path: str | Path,
        words: Iterable[str],
        *,
        lowercase: bool = True,
        trainable: bool = False,
        progress: Progress | None = None,
    ) -> Self:
        """Read the vectors of some words, and no others, from a file that `elmo static` reads."""
        wanted = {form for word in words for form in forms_of(word, lowercase)}
        found = read_word_vectors(path, wanted, progress)
        if not found.words:
            raise InputError(
                f"{path}: has a vector for none of {len(wanted)} words; "
                "choose vectors of the language of the data"
            )
        return cls(
            found.words,
            found.vectors,
            lowercase=lowercase,
            trainable=trainable,
            source=source_of(path),
            absent=wanted.difference(found.words),
        )

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> Self:
        """A table like the one described, all zeros: `load_state_dict` gives it its numbers."""
        source = description["source"]
        return cls(
            description["words"],
            np.zeros((len(description["words"]), description["size"]), dtype=np.float32),
            lowercase=description["lowercase"],
            trainable=description["trainable"],
            source=None if source is None else VectorsSource(**source),
            absent=description.get("absent", ()),
        )

    def description(self) -> dict[str, Any]:
        """All but the numbers, as JSON has it: with the state_dict it makes the same table."""
        return {
            "words": self.words,
            "size": self.size,
            "lowercase": self.lowercase,
            "trainable": self.trainable,
            "source": None if self.source is None else self.source._asdict(),
            "absent": sorted(self._absent),
        }

    @property
    def size(self) -> int:
        """Size of a word's vector."""
        return self.vectors.shape[1]

    @property
    def words(self) -> list[str]:
        """The words that have a vector, in the order of the table's rows."""
        return list(self._rows)

    def fingerprint(self, words: Iterable[str] | None = None) -> str:
        """SHA-256 of the vectors that some words have, or all in the table, as they are now."""
        known = set(self.words)
        if words is not None:
            known &= {form for word in words for form in forms_of(word, self.lowercase)}
        sha256 = hashlib.sha256(f"{self.size} {self.lowercase} {sorted(known)}".encode())
        rows = torch.tensor([self._rows[word] for word in sorted(known)], dtype=torch.long)
        sha256.update(self.vectors.detach().cpu()[rows].numpy().tobytes())
        return sha256.hexdigest()

    def __contains__(self, word: str) -> bool:
        return self._row_of(word) != UNKNOWN

    def forward(self, words: Sequence[str]) -> Tensor:
        """Look up words as vectors (words, size)."""
        numbers = [self._row_of(word) for word in words]
        rows = torch.tensor(numbers, dtype=torch.long, device=self.vectors.device)
        found = functional.embedding(rows.clamp(min=0), self.vectors)
        return torch.where(rows[:, None] == UNKNOWN, self.unknown, found)

    def look_up(self, words: Iterable[str], progress: Progress | None = None) -> int:
        """Read the vectors of new words from the file that the others came from; how many it had.

        For a trained task that reads new text. Not while an optimiser holds the table: it becomes
        a larger one. The file is read only for words that were never looked for.
        """
        asked = set(words)
        new = {form for word in asked for form in forms_of(word, self.lowercase)}
        new = new.difference(self._rows, self._absent)
        if not new or self.source is None:
            return 0
        if not Path(self.source.path).is_file() or source_of(self.source.path) != self.source:
            self._warn_once(self.source, sum(word not in self for word in asked))
            return 0
        found = read_word_vectors(self.source.path, new, progress)
        self._absent |= new.difference(found.words)
        if found.words:
            self._append(found.words, found.vectors)
        return len(found.words)

    def look_up_all(self, progress: Progress | None = None) -> bool:
        """Read every vector of the file, which is then not asked again; whether it is there."""
        source, self.source = self.source, None
        if source is None:
            return True
        if not Path(source.path).is_file() or source_of(source.path) != source:
            return False
        found = read_word_vectors(source.path, progress=progress)
        new = [row for row, word in enumerate(found.words) if word not in self._rows]
        self._append([found.words[row] for row in new], found.vectors[new])
        return True

    def _row_of(self, word: str) -> int:
        for form in forms_of(word, self.lowercase):
            row = self._rows.get(form)
            if row is not None:
                return row
        return UNKNOWN

    def _append(self, words: Sequence[str], vectors: ArrayLike) -> None:
        added = torch.tensor(np.asarray(vectors)).to(self.vectors)
        table = torch.cat([self.vectors.detach(), added])
        self.vectors = nn.Parameter(table, requires_grad=self.trainable)
        self._rows |= {word: row for row, word in enumerate(words, start=len(self._rows))}

    def _warn_once(self, source: VectorsSource, words: int) -> None:
        if words and not self._warned:
            self._warned = True
            warnings.warn(
                f"{source.path}: is gone, or is another file than the task was trained with; "
                f"words that the task does not have count as unknown, {words:,} of them here",
                ElmoWarning,
                stacklevel=3,
            )


def source_of(path: str | Path) -> VectorsSource:
    """What a file, or a folder that holds our own vectors, is remembered by."""
    file = Path(path)
    file = file / VECTORS_FILE if file.is_dir() else file
    with disk_errors(file, "read"):
        return VectorsSource(str(file.absolute()), file.stat().st_size)


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
    """Layers of the embedder's own biLM, which learns with the task, its softmax apart."""

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
    """The distinct words, and which stands where (sentences, words); on padding, their number."""
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
