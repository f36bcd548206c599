"""Word to id and back: the words a softmax chooses from, or a word-input model knows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from elmokit.errors import FormatError, InputError
from elmokit.io.files import write_atomically

BEGIN = "<S>"
"""Stands before the first word of a sentence."""
END = "</S>"
"""Stands after the last word of a sentence."""
UNKNOWN = "<UNK>"
"""Stands for every word outside the vocabulary."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# The original code skips this line of its published vocabulary: it has no row in the softmax.
NOT_A_WORD = "!!!MAXTERMID"
BLANKS = " \t\n\r\v\f"


class Vocabulary:
    """A list of different words; a word's id is its place in the list.

    Where `counts` are given, they say how often each word came in the text it was counted in.
    Vocabularies of the same words are equal.

    >>> vocabulary = Vocabulary(["<S>", "</S>", "<UNK>", "the", "cat"])
    >>> vocabulary.id_of("cat"), vocabulary.id_of("dog"), vocabulary.word_of(3)
    (4, 2, 'the')
    """

    def __init__(self, words: Iterable[str], counts: Iterable[int] | None = None) -> None:
        self._words = tuple(words)
        self._counts = None if counts is None else tuple(counts)
        self._ids = {word: number for number, word in enumerate(self._words)}
        if not self._words:
            raise InputError("a vocabulary needs at least one word")
        if len(self._ids) < len(self._words):
            raise InputError(_first_duplicate(self._words))
        for number, word in enumerate(self._words):
            # A file has one word per line, and whoever reads it strips the line.
            if not word or word.strip(BLANKS) != word or "\n" in word or "\t" in word:
                raise InputError(
                    f"word {number} of the vocabulary is {word!r}; it must not be empty, "
                    "begin or end with a blank, or hold a tab or a line break"
                )
        if self._counts is not None:
            _check_counts(self._counts, self._words)

    @property
    def words(self) -> tuple[str, ...]:
        """All words, in the order of their ids."""
        return self._words

    @property
    def counts(self) -> tuple[int, ...] | None:
        """How often each word came, in the order of their ids; None where nobody counted."""
        return self._counts

    @property
    def unknown_id(self) -> int | None:
        """The id of `<UNK>`; None when the vocabulary has no such word."""
        return self._ids.get(UNKNOWN)

    def id_of(self, word: str) -> int:
        """The id of `word`, or of `<UNK>` when the vocabulary does not have it."""
        number = self._ids.get(word, self.unknown_id)
        if number is None:
            raise InputError(f"{word!r} is not in the vocabulary, which has no {UNKNOWN} either")
        return number

    def word_of(self, number: int) -> str:
        """The word whose id is `number`."""
        if not 0 <= number < len(self._words):
            last = len(self._words) - 1
            raise InputError(f"there is no word with id {number}; ids are 0 to {last}")
        return self._words[number]

    def __len__(self) -> int:
        return len(self._words)

    def __contains__(self, word: object) -> bool:
        return word in self._ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self._words == other._words

    def __hash__(self) -> int:
        return hash(self._words)

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} words)"


def read_vocabulary(path: str | Path) -> Vocabulary:
    """Read one word per line, in UTF-8; the first line is id 0.

    A tab and the word's count may follow each word, on all lines or on none.

    The order is kept whatever it is: by falling frequency in softmax vocabularies, any in others.
    """
    try:
        contents = Path(path).read_bytes()
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror})") from error
    lines = contents.removeprefix(BYTE_ORDER_MARK).rstrip().split(b"\n")
    if lines == [b""]:
        raise FormatError(f"{path}: is empty; it must have one word per line")
    if b"\t" in lines[0].strip():
        return Vocabulary(*_counted_words_of(lines, path))
    return Vocabulary(_words_of(lines, path))


def write_vocabulary(vocabulary: Vocabulary, path: str | Path) -> None:
    """Write one word per line, in UTF-8, with its count where the vocabulary has counts.

    The file appears complete or not at all.
    """
    try:
        contents = "".join(_lines_of(vocabulary)).encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{path}: a word cannot be written as UTF-8 ({error.reason})") from error
    with write_atomically(path) as temporary:
        temporary.write_bytes(contents)


def _lines_of(vocabulary: Vocabulary) -> Iterator[str]:
    """The lines of a vocabulary's file."""
    if vocabulary.counts is None:
        return (f"{word}\n" for word in vocabulary.words)
    pairs = zip(vocabulary.words, vocabulary.counts, strict=True)
    return (f"{word}\t{count}\n" for word, count in pairs)


def _counted_words_of(lines: list[bytes], path: str | Path) -> tuple[list[str], list[int]]:
    """Decode lines of a word, a tab and a count."""
    words: list[bytes] = []
    counts: list[int] = []
    for number, line in enumerate(lines, start=1):
        word, *count = line.strip().split(b"\t")
        # An empty line is reported below, as in a file without counts.
        if word and not (len(count) == 1 and count[0].isdigit() and len(count[0]) < 20):
            raise FormatError(
                f"{path}, line {number}: {_shown(line)} is not a word, a tab and its count; "
                "give a count on every line, or on none"
            )
        words.append(word)
        if word != NOT_A_WORD.encode():
            counts += map(int, count)
    return _words_of(words, path), counts


def _words_of(lines: list[bytes], path: str | Path) -> list[str]:
    """Decode lines, naming the first that is no word or that was there before."""
    lines_of_words: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        word = _decode(line, path, number)
        if word == NOT_A_WORD:
            continue
        if "\t" in word:
            raise FormatError(
                f"{path}, line {number}: {_shown(line)} has a tab but line 1 has no count; "
                "give a count on every line, or on none"
            )
        if word in lines_of_words:
            first = lines_of_words[word]
            raise FormatError(
                f"{path}, line {number}: {word!r} is on line {first} too; keep one of them"
            )
        lines_of_words[word] = number
    return list(lines_of_words)


def _decode(line: bytes, path: str | Path, number: int) -> str:
    """One word from one line."""
    # Only ASCII whitespace goes, since a no-break space may be a word of its own.
    line = line.strip()
    if not line:
        raise FormatError(
            f"{path}, line {number}: is empty; remove it, or the ids after it are wrong"
        )
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{path}, line {number}: is not UTF-8 ({error.reason}); convert the file"
        ) from error


def _shown(line: bytes, limit: int = 40) -> str:
    """A line for an error message, in few characters."""
    text = line.strip().decode(errors="replace")
    return repr(text if len(text) <= limit else text[:limit] + "…")


def _check_counts(counts: tuple[int, ...], words: tuple[str, ...]) -> None:
    """Refuse counts that are not one whole number of at least 0 for each word."""
    if len(counts) != len(words):
        raise InputError(f"a vocabulary of {len(words)} words got {len(counts)} counts")
    for word, count in zip(words, counts, strict=True):
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise InputError(
                f"the count of {word!r} is {count!r}; it must be a whole number of at least 0"
            )


def _first_duplicate(words: tuple[str, ...]) -> str:
    """Say which word comes twice, and where."""
    places: dict[str, int] = {}
    for number, word in enumerate(words):
        if word in places:
            return f"words {places[word]} and {number} of the vocabulary are both {word!r}"
        places[word] = number
    raise ValueError("no word comes twice")
