"""Word to id and back: the words a softmax chooses from, or a word-input model knows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmokit.config import LEXICON_MARKS
from elmokit.errors import ElmoError, FormatError, InputError, unreadable
from elmokit.io.files import check_contents, write_atomically
from elmokit.io.text_files import compression, opened

BEGIN = "<S>"  # stands before the first word of a sentence
END = "</S>"  # stands after the last word of a sentence
UNKNOWN = "<UNK>"  # stands for every word outside the vocabulary

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# The original code skips this line of its published vocabulary: it has no row in the softmax.
NOT_A_WORD = "!!!MAXTERMID"
WHITESPACE = " \t\n\r\v\f"
LEXICON_WORDS = {"<bos>": BEGIN, "<eos>": END, "<oov>": UNKNOWN}
"""What ELMoForManyLangs calls the special words."""
LARGEST = 256 << 20
"""Bytes of a compressed vocabulary, decompressed; that of the paper's model has eight million."""
COUNT = re.compile("[0-9]{1,19}")


class Vocabulary:
    """A list of different `words`; a word's id is its place in the list.

    Where `counts` are given, they say how often each word came in the text it was counted in.
    Vocabularies of the same words are equal.

    >>> vocabulary = Vocabulary(["<S>", "</S>", "<UNK>", "the", "cat"])
    >>> vocabulary.id_of("cat"), vocabulary.id_of("dog"), vocabulary.word_of(3)
    (4, 2, 'the')
    """

    begin, end = BEGIN, END  # what is read before the first word of a sentence, and after the last

    def __init__(self, words: Iterable[str], counts: Iterable[int] | None = None) -> None:
        self.words = tuple(words)
        self.counts = None if counts is None else tuple(counts)
        self._ids = {word: number for number, word in enumerate(self.words)}
        if not self.words:
            raise InputError("a vocabulary needs at least one word")
        for number, word in enumerate(self.words):
            # A file has one word per line, and whoever reads it strips the line.
            if not word or word.strip(WHITESPACE) != word or "\n" in word or "\t" in word:
                raise InputError(
                    f"word {number} of the vocabulary is {word!r}; it must not be empty, "
                    "begin or end with whitespace, or hold a tab or a line break"
                )
            if self._ids[word] != number:
                raise InputError(
                    f"words {number} and {self._ids[word]} of the vocabulary are both {word!r}"
                )
        if self.counts is not None and len(self.counts) != len(self.words):
            raise InputError(
                f"a vocabulary of {len(self.words)} words got {len(self.counts)} counts"
            )

    @property
    def unknown_id(self) -> int | None:
        """The id of `<UNK>`; None when the vocabulary has no such word."""
        return self._ids.get(UNKNOWN)

    def id_of(self, word: str) -> int:
        """The id of `word`, or of `<UNK>` when the vocabulary does not have it."""
        number = self._ids.get(word, self.unknown_id)
        if number is None:
            problem = f"{word!r} is not in the vocabulary, which has no {UNKNOWN} either"
            raise InputError(problem, "unknown_word", word=word[:40])
        return number

    def word_of(self, number: int) -> str:
        """The word whose id is `number`."""
        if not 0 <= number < len(self.words):
            last = len(self.words) - 1
            raise InputError(f"there is no word with id {number}; ids are 0 to {last}")
        return self.words[number]

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.words == other.words

    def __hash__(self) -> int:
        return hash(self.words)

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} words)"


class Lexicon(Vocabulary):
    """The words and the characters that a model of ELMoForManyLangs knows.

    Its special words go by the names they have here, `<S>`, `</S>` and `<UNK>`. In text, the words
    that are read as markers are `<bos>` and `<eos>`. Among the characters the six marks come first;
    two of the positions of a word are for those of its ends.
    """

    begin, end = "<bos>", "<eos>"

    def __init__(
        self, words: Iterable[str], characters: Iterable[str], max_characters: int
    ) -> None:
        super().__init__(words)
        self.characters = tuple(characters)
        self.max_characters = max_characters
        self._character_ids = {one: number for number, one in enumerate(self.characters, 1)}

    def id_of(self, word: str) -> int:
        """The id of a word as far as it is read, or of `<UNK>`."""
        return super().id_of(LEXICON_WORDS.get(word, word[: self.max_characters - 2]))

    def spell(self, words: Sequence[str]) -> NDArray[np.int32]:
        """Ids (words, 1 + max_characters): of each word, then of its characters and their marks.

        A character is a code point. `<bow>` and `<eow>` are swapped, as these models have them.
        """
        padding, unknown, *_, begin_word, end_word = range(1, len(LEXICON_MARKS) + 1)
        ids = np.full((len(words), 1 + self.max_characters), padding, dtype=np.int32)
        for row, word in zip(ids, words, strict=True):
            marker = word in (self.begin, self.end)
            spelling = [word] if marker else list(word[: self.max_characters - 2])
            # Words that are called as our special ones are nothing special there.
            row[0] = self.id_of(UNKNOWN if word in LEXICON_WORDS.values() else word) + 1
            row[1] = end_word
            row[2 : 2 + len(spelling)] = [self._character_ids.get(c, unknown) for c in spelling]
            row[2 + len(spelling)] = begin_word
        return ids

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) and self.characters == getattr(other, "characters", None)

    def __hash__(self) -> int:
        return hash((self.words, self.characters))


def read_vocabulary(path: str | Path) -> Vocabulary:
    """Read one word per line, in UTF-8; the first line is id 0.

    A tab and the word's count may follow each word, on all lines or on none.

    The order stays whatever it is: by falling frequency in softmax vocabularies, any in others.
    """
    try:
        contents = read_bytes(path)
    except ElmoError:
        raise
    except OSError as error:
        raise unreadable(FormatError, path, error) from error
    check_contents(contents, path)
    lines = contents.removeprefix(BYTE_ORDER_MARK).rstrip().split(b"\n")
    if lines == [b""]:
        raise FormatError(f"{path}: is empty; it must have one word per line")
    counted = b"\t" in lines[0].strip()
    numbers: dict[str, int] = {}
    counts: list[int] = []
    for number, line in enumerate(lines, start=1):
        word, *count = _fields_of(line, path, number)
        if len(count) != counted or (counted and not COUNT.fullmatch(count[0])):
            raise FormatError(
                f"{path}, line {number}: {line.strip().decode()[:40]!r} is not a word"
                f"{', a tab and its count' * counted}; give a count on every line, or on none"
            )
        if word == NOT_A_WORD:
            continue
        if word in numbers:
            raise FormatError(
                f"{path}, line {number}: {word!r} is on line {numbers[word]} too; keep one of them"
            )
        numbers[word] = number
        counts += map(int, count)
    return Vocabulary(numbers, counts if counted else None)


def read_bytes(path: str | Path) -> bytes:
    """The contents of a file, decompressed where its name says so."""
    if not compression(Path(path)):
        return Path(path).read_bytes()
    with opened(path) as (_, file):
        contents = file.read(LARGEST + 1)
    if len(contents) > LARGEST:
        raise FormatError(f"{path}: has more than {LARGEST >> 20} MB; it must be a list of words")
    return contents


def _fields_of(line: bytes, path: str | Path, number: int) -> list[str]:
    """What a line has between tabs: a word, and its count if it has one."""
    # Only ASCII whitespace goes, since a no-break space may be a word of its own.
    line = line.strip()
    if not line:
        raise FormatError(
            f"{path}, line {number}: is empty; remove it, or the ids after it are wrong"
        )
    try:
        return line.decode().split("\t")
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{path}, line {number}: is not UTF-8 ({error.reason}); convert the file"
        ) from error


def write_vocabulary(vocabulary: Vocabulary, path: str | Path) -> None:
    """Write one word per line, with its count where there are counts; complete or not at all."""
    if vocabulary.counts is None:
        lines = [f"{word}\n" for word in vocabulary.words]
    else:
        pairs = zip(vocabulary.words, vocabulary.counts, strict=True)
        lines = [f"{word}\t{count}\n" for word, count in pairs]
    try:
        contents = "".join(lines).encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{path}: a word cannot be written as UTF-8 ({error.reason})") from error
    with write_atomically(path) as temporary:
        temporary.write_bytes(contents)
