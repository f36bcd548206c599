"""Prepared corpus: ids on disk, opened at once, read where it is needed, of any size."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count, pairwise
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from elmokit.config import BEGIN_WORD, END_WORD, WORD_PADDING
from elmokit.errors import ElmoError, FormatError
from elmokit.io.files import disk_errors, read_object, write_atomically
from elmokit.io.text_files import TextSettings
from elmokit.text.characters import SENTENCE_MARKERS
from elmokit.text.vocabulary import UNKNOWN, Vocabulary

HEADER = np.dtype([("types", "<i8"), ("tokens", "<i8")])
TOKEN = np.dtype("<i4")


@dataclass(frozen=True)
class CorpusPart:
    """A file of the tokens of some sentences and, behind them, their words.

    Tokens are ids of the part's words, which are sorted by their bytes and numbered from 1; a 0
    ends each sentence. The words stand a line each: no word has a line break.
    """

    path: Path
    types: int
    tokens: int

    def read_tokens(self) -> NDArray[np.int32]:
        """All tokens (tokens)."""
        with disk_errors(self.path, "read"):
            return np.fromfile(self.path, TOKEN, self.tokens, offset=HEADER.itemsize)

    def words(self, block_bytes: int) -> Iterator[bytes]:
        """The words in their order, read by the block."""
        position = HEADER.itemsize + self.tokens * TOKEN.itemsize
        block, rest = b"\n", b""
        while block:
            # Opened each time: thousands of parts are read at once, more than may be open.
            with disk_errors(self.path, "read"), open(self.path, "rb", buffering=0) as file:
                file.seek(position)
                block = file.read(block_bytes)
            position += len(block)
            *words, rest = (rest + block).split(b"\n")
            yield from words


def write_part(sentences: Iterable[list[str]], path: Path) -> None:
    """Number the words of some sentences and write the part, atomically."""
    numbers: defaultdict[str, int] = defaultdict(count(1).__next__)
    tokens = array("i")
    for sentence in sentences:
        tokens.extend(map(numbers.__getitem__, sentence))
        tokens.append(0)
    words = sorted(numbers)  # by code point, which is the order of their UTF-8 bytes too
    sorted_numbers = np.zeros(len(words) + 1, TOKEN)
    sorted_numbers[[numbers[word] for word in words]] = np.arange(1, len(words) + 1)
    with write_atomically(path) as temporary, open(temporary, "wb") as file:
        file.write(np.array((len(words), len(tokens)), HEADER).tobytes())
        file.write(sorted_numbers[np.frombuffer(tokens, np.intc)].tobytes())
        file.write("".join(f"{word}\n" for word in words).encode())


def read_part(path: Path) -> CorpusPart:
    """What a part's file says of itself."""
    with disk_errors(path, "read"):
        header = np.fromfile(path, HEADER, 1)[0]
    return CorpusPart(path, int(header["types"]), int(header["tokens"]))


FORMAT, VERSION = "elmokit prepared corpus", 1
DESCRIPTION = "prepared.json"
TOKENS, LEXICON, OFFSETS = "tokens.int32", "lexicon.utf8", "offsets.int64"
COUNTS, SHARDS = "counts.int64", "shards.int64"
NUMBER = np.dtype("<i8")  # of counts, offsets and positions

BORDER = 0  # stands between sentences in prepared text
WORDS_AT_ONCE = 1 << 16
TOKENS_AT_ONCE = 1 << 22

Number = TypeVar("Number", bound=np.generic)


@dataclass(frozen=True, eq=False)
class PreparedCorpus:
    """Sentences as one row of ids, and the words that the ids stand for.

    The tokens are `0 w w w 0 w w 0`: 0 is the border before the first sentence, between sentences
    and after the last one. A stretch that begins and ends with a border is read forward as inputs
    `stretch[:-1]` and targets `stretch[1:]`, and backward as the same of `stretch[::-1]`.

    Words are numbered from 1 in the order of their UTF-8 bytes. Nothing is read before it is used.
    """

    folder: Path
    key: str  # SHA-256 of the files and the settings
    settings: TextSettings
    sentences: int
    words_in_all: int  # tokens that are words
    types: int  # different words
    tokens: NDArray[np.int32] = field(repr=False)  # (words_in_all + sentences + 1)
    counts: NDArray[np.int64] = field(repr=False)  # (types + 1), of each word; [0] is sentences
    shards: NDArray[np.int64] = field(repr=False)  # (files + 1), where each begins in tokens
    _lexicon: NDArray[np.uint8] = field(repr=False)
    _offsets: NDArray[np.int64] = field(repr=False)  # (types + 2), of each word in the lexicon

    @staticmethod
    def open(folder: Path) -> PreparedCorpus:
        """Open the folder that `prepare_corpus` made."""
        try:
            return _open_files(folder)
        except (ElmoError, KeyError, TypeError, ValueError, OSError) as error:
            problem = f"it has no {error}" if isinstance(error, KeyError) else str(error)
            raise FormatError(
                f"{folder}: is not a complete prepared corpus ({problem}); "
                "delete the folder to prepare again"
            ) from error

    def word(self, number: int) -> str:
        """The word of an id; the border's is empty."""
        return self._bytes_of(number).decode()

    def id_of(self, word: str) -> int | None:
        """The id of a word; None when the text does not have it."""
        number = bisect_left(range(self.types + 1), word.encode(), key=self._bytes_of)
        return number if 0 < number <= self.types and self.word(number) == word else None

    def words(self) -> Iterator[str]:
        """The words of ids 1, 2, …, read by the block."""
        for first in range(1, self.types + 1, WORDS_AT_ONCE):
            offsets = self._offsets[first : first + WORDS_AT_ONCE + 1]
            block = self._lexicon[offsets[0] : offsets[-1]].tobytes()
            for start, end in pairwise((offsets - offsets[0]).tolist()):
                yield block[start:end].decode()

    def character_ids(self, ids: NDArray[np.integer], max_characters: int) -> NDArray[np.int16]:
        """Spell the words of ids (words) as (words, max_characters), as `character_ids` does."""
        starts = self._offsets[ids]
        lengths = np.minimum(self._offsets[ids + 1] - starts, max_characters - 2)[:, None]
        columns = np.arange(max_characters - 2)
        # Places behind a word are not looked at, but must be inside the lexicon.
        places = np.minimum(starts[:, None] + columns, len(self._lexicon) - 1)
        spelled = np.full((len(ids), max_characters), WORD_PADDING, np.int16)
        spelled[:, 0] = BEGIN_WORD
        np.copyto(spelled[:, 1:-1], self._lexicon[places], where=columns < lengths)
        spelled[:, 1:-1] += columns < lengths
        np.put_along_axis(spelled, lengths + 1, END_WORD, axis=1)
        for number, mark in self._literal_markers.items():
            literal = ids == number
            spelled[literal, 1:] = WORD_PADDING
            spelled[literal, 1:3] = mark, END_WORD
        return spelled

    def words_longer_than(self, most: int) -> int:
        """How many of the text's words, each occurrence counted, have more bytes than so many."""
        return int(self.counts[1:][np.diff(self._offsets)[1:] > most].sum())

    def target_ids(self, vocabulary: Vocabulary) -> NDArray[np.int32]:
        """The id in a vocabulary of each word (types + 1), that of `<UNK>` for words outside it.

        The border's entry is -1: whether it is `<S>` or `</S>` depends on the direction. A marker
        that stands literally in the text is a word outside.
        """
        targets = np.full(self.types + 1, -1, np.int32)
        targets[1:] = np.fromiter(
            (vocabulary.id_of(UNKNOWN if w in SENTENCE_MARKERS else w) for w in self.words()),
            np.int32,
            self.types,
        )
        return targets

    def blocks(self, words: int) -> NDArray[np.int64]:
        """Cut every shard into blocks of complete sentences: (blocks, 2) positions of borders.

        `tokens[start : end + 1]` begins and ends with a border, which neighbours share. A block is
        of `words` tokens at most, one border counted with each sentence; a longer sentence is a
        block alone.
        """
        borders = self._borders()
        blocks: list[tuple[int, int]] = []
        for start, last in pairwise(self.shards.tolist()):
            while start < last:
                beyond = int(np.searchsorted(borders, start + words, "right"))
                end = min(last, int(borders[beyond - 1]))
                end = int(borders[beyond]) if end == start else end
                blocks.append((start, end))
                start = end
        return np.array(blocks, np.int64).reshape(-1, 2)

    def sentence_bounds(self) -> NDArray[np.int64]:
        """The borders around every sentence (sentences, 2), as positions in the tokens."""
        return np.lib.stride_tricks.sliding_window_view(self._borders(), 2)

    def short_sentence(self) -> list[str]:
        """An early sentence of 3 to 8 words, as an example; if there is none, the first words."""
        tokens = self.tokens[:WORDS_AT_ONCE]
        borders = np.flatnonzero(tokens == BORDER)
        short = (np.diff(borders) >= 4) & (np.diff(borders) <= 9)
        start = 1 + (borders[np.argmax(short)] if short.any() else 0)
        end = next((border for border in borders if border > start), len(tokens))
        return [self.word(number) for number in tokens[start : min(end, start + 8)].tolist()]

    def _borders(self) -> NDArray[np.int64]:
        """The positions (sentences + 1) of all borders."""
        borders = [
            first + np.flatnonzero(self.tokens[first : first + TOKENS_AT_ONCE] == BORDER)
            for first in range(0, len(self.tokens), TOKENS_AT_ONCE)
        ]
        return np.concatenate(borders)

    @cached_property
    def _literal_markers(self) -> dict[int, int]:
        """The ids of `<S>` and `</S>` where they are words of the text, and their spelling."""
        ids = ((self.id_of(word), mark) for word, mark in SENTENCE_MARKERS.items())
        return {number: mark for number, mark in ids if number is not None}

    def _bytes_of(self, number: int) -> bytes:
        return self._lexicon[self._offsets[number] : self._offsets[number + 1]].tobytes()


def _open_files(folder: Path) -> PreparedCorpus:
    description = read_object(folder / DESCRIPTION)
    if (description["format"], description["version"]) != (FORMAT, VERSION):
        raise FormatError(f"{DESCRIPTION} is of another format or version")
    sentences, words, types = (int(description[name]) for name in ("sentences", "words", "types"))
    offsets = _mapped(folder / OFFSETS, NUMBER, types + 2)
    return PreparedCorpus(
        folder=folder,
        key=description["key"],
        settings=TextSettings.of_corpus(**description["settings"]),
        sentences=sentences,
        words_in_all=words,
        types=types,
        tokens=_mapped(folder / TOKENS, TOKEN, words + sentences + 1),
        counts=_mapped(folder / COUNTS, NUMBER, types + 1),
        shards=_mapped(folder / SHARDS, NUMBER, len(description["files"]) + 1),
        _lexicon=_mapped(folder / LEXICON, np.dtype(np.uint8), int(offsets[-1])),
        _offsets=offsets,
    )


def _mapped(path: Path, kind: np.dtype[Number], size: int) -> NDArray[Number]:
    """The numbers of a file that must hold exactly `size` of them."""
    if not path.exists():
        raise FormatError(f"{path.name} is missing")
    found, expected = path.stat().st_size, size * kind.itemsize
    if found != expected:
        raise FormatError(f"{path.name} has {found} bytes, not {expected}")
    return np.memmap(path, kind, mode="r", shape=(size,))
