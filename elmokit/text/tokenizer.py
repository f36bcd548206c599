"""Raw text to sentences to words, each word with its place in the text.

A model folder records the `name` of the tokenizer its model was trained with, so a name never
changes its meaning: other rules are another tokenizer with another name.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

from elmokit.config import check_choice
from elmokit.errors import InputError
from elmokit.io.text_files import TOKENIZERS, Chunk, TextSettings, read_chunks, text_of

Span = tuple[int, int]

# sentencex takes quadratic time on text without whitespace, so a long paragraph is read in parts.
LONGEST_SENTENCE = 4000
PARAGRAPH_BREAK = re.compile(r"\n\s*\n")
LINE = re.compile(r"[^\n]+")
WORD = re.compile(r"\S+")
LAST_WHITESPACE = re.compile(r"\s(?=\S*\Z)")
LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")
TREEBANK_MARKS = {
    "``": '"', "''": '"', "-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{",
    "-RCB-": "}",
}  # fmt: skip
"""How the Penn Treebank writes marks, and how running text does, which models have read."""


class Token(NamedTuple):
    """A word and its place in the raw text, `raw_text[start:end]`.

    The word is what is written there, but for tokenizers that find a word in another form than it
    is written (`kiwi`). Places are never empty; those of such a tokenizer may overlap, but neither
    starts nor ends before the one before, so that words stand between the start of their first and
    the end of their last.
    """

    text: str
    start: int
    end: int


class Tokenizer(Protocol):
    """Whatever splits raw text; every character but whitespace is in the place of a word."""

    @property
    def name(self) -> str:
        """What a model folder records; `load_tokenizer` is the way back."""

    def sentences(self, text: str) -> list[list[Token]]:
        """The words of each sentence; no sentence is empty."""

    def words(self, text: str) -> list[Token]:
        """The words of all sentences in one list."""


AnyTokenizer = str | Tokenizer | Callable[[str], Sequence[str]]
"""The name of a tokenizer, a tokenizer, or a function from a text to its words."""


class WhitespaceTokenizer:
    r"""For text that is tokenized already: one sentence a line, words between whitespace.

    Whitespace is what `str.split` takes for it; only `\n` ends a line; blank lines are skipped.

    >>> [[token.text for token in line] for line in WhitespaceTokenizer().sentences("a b.\n\nc")]
    [['a', 'b.'], ['c']]
    """

    name = "whitespace"

    def sentences(self, text: str) -> list[list[Token]]:
        """The words of each line that has any."""
        lines = (_between_whitespace(text, *line.span()) for line in LINE.finditer(text))
        return [words for words in lines if words]

    def words(self, text: str) -> list[Token]:
        """The words of all lines in one list."""
        return _between_whitespace(text, 0, len(text))


class DefaultTokenizer:
    """For raw text in any script: words as in the Penn Treebank, sentences as in Wikipedia.

    sentencex (the Wikimedia Foundation's) finds the sentences, the treebank's rules their
    words. A blank line ends a sentence, a single line break does not. Chinese characters and
    hiragana are a word each; so is punctuation of any script. As in the treebank, the period that
    ends a sentence is a word of its own, after an abbreviation too.

    >>> tokenizer = DefaultTokenizer()
    >>> [token.text for token in tokenizer.words("Mr. Day can't say “John's”.")]
    ['Mr.', 'Day', 'ca', "n't", 'say', '“', 'John', "'s", '”', '.']
    >>> [[token.text for token in words] for words in tokenizer.sentences("Yes! 是的。好")]
    [['Yes', '!'], ['是', '的', '。'], ['好']]
    """

    name = "default"

    def sentences(self, text: str) -> list[list[Token]]:
        """The words of each sentence."""
        return list(self.each_sentence(text))

    def each_sentence(self, text: str) -> Iterator[list[Token]]:
        """The same, one by one as they are found."""
        spans = (
            span for borders in paragraph_spans(text) for span in _sentence_spans(text, *borders)
        )
        return filter(None, (_treebank_words(text, *span) for span in spans))

    def words(self, text: str) -> list[Token]:
        """The words of all sentences in one list."""
        return [token for words in self.sentences(text) for token in words]


class FunctionTokenizer:
    """For raw text whose words a function finds; a text is one sentence.

    Words are looked for in the text, each after the one before. One that is in another form than it
    is written has the place of what stands there, up to the next whitespace.

    >>> FunctionTokenizer(str.split).words("an apple")[1]
    Token(text='apple', start=3, end=8)
    """

    def __init__(self, split: Callable[[str], Sequence[str]]) -> None:
        self.name = getattr(split, "__name__", type(split).__name__)
        self._split = split

    def sentences(self, text: str) -> list[list[Token]]:
        """The words of the text, if it has any."""
        return list(filter(None, [self.words(text)]))

    def words(self, text: str) -> list[Token]:
        """The words of the text."""
        tokens: list[Token] = []
        place = 0
        for word in self._split(text):
            if not isinstance(word, str):
                raise InputError(f"{self.name} gives {word!r:.40}; it must give a list of words")
            if not word.strip():
                continue
            start = text.find(word, place)
            end = start + len(word)
            if start >= 0:
                place = end
            else:
                written = WORD.search(text, place)
                start, end = written.span() if written else (place, len(text))
            tokens.append(Token(word, start, end))
        return tokens


class NamedTokenizer:
    """A tokenizer of somebody who gave it no name: it has that of its class."""

    def __init__(self, own: Any) -> None:
        self.name = type(own).__name__
        self.sentences: Callable[[str], list[list[Token]]] = own.sentences
        self.words: Callable[[str], list[Token]] = own.words


def tokenizer_of(given: AnyTokenizer) -> Tokenizer:
    """What splits text, of what a user may give for it."""
    if isinstance(given, str):
        return load_tokenizer(given)
    if callable(getattr(given, "sentences", None)) and callable(getattr(given, "words", None)):
        return cast(Tokenizer, given) if hasattr(given, "name") else NamedTokenizer(given)
    if callable(given):
        return FunctionTokenizer(given)
    raise InputError(
        f"tokenizer is {given!r:.40}; give a name, an object with sentences and words, or a "
        "function from a text to its words"
    )


def load_tokenizer(name: str) -> Tokenizer:
    """The tokenizer that a model folder records as `name`."""
    check_choice("tokenizer", name, TOKENIZERS)
    if name == "kiwi":
        from elmokit.text.korean import KiwiTokenizer

        return KiwiTokenizer()
    return DefaultTokenizer() if name == "default" else WhitespaceTokenizer()


class SplitsText:
    """What has a tokenizer to split raw text with: that of its model, or of its vectors."""

    tokenizer: Tokenizer

    def tokenize(self, text: str) -> list[str]:
        """Split raw text into words, with the tokenizer that its training had."""
        return [word for sentence in self.split(text) for word in sentence]

    def split(self, text: str) -> list[list[str]]:
        """Split raw text into sentences of words, with the same tokenizer."""
        return split_text(text, self.tokenizer)


def split_text(text: str, tokenizer: Tokenizer) -> list[list[str]]:
    """The words of each sentence of a raw text."""
    check_text(text)
    return [[token.text for token in sentence] for sentence in tokenizer.sentences(text)]


def each_sentence(text: str, tokenizer: Tokenizer) -> Iterable[list[Token]]:
    """The words of each sentence, one by one as they are found, by tokenizers that can."""
    found: Iterable[list[Token]] = getattr(tokenizer, "each_sentence", tokenizer.sentences)(text)
    return found


def check_text(text: object) -> None:
    """Raise where something is not a raw text."""
    if not isinstance(text, str):
        raise InputError(f"expected a text, got {text!r:.40} ({type(text).__name__})")


def _between_whitespace(text: str, start: int, end: int) -> list[Token]:
    """The words of `text[start:end]` as `str.split` finds them."""
    return [Token(word[0], *word.span()) for word in WORD.finditer(text, start, end)]


def paragraph_spans(text: str) -> Iterator[Span]:
    """Where each paragraph starts and ends; only blank lines are outside of all."""
    start = 0
    for gap in PARAGRAPH_BREAK.finditer(text):
        yield start, gap.start()
        start = gap.end()
    yield start, len(text)


def _sentence_spans(text: str, start: int, end: int) -> Iterator[Span]:
    """Where each sentence of the paragraph `text[start:end]` starts and ends."""
    while start < end:
        part = text[start : min(end, start + LONGEST_SENTENCE)]
        cuts = _sentence_starts(part)
        if start + len(part) == end:
            cuts.append(len(part))
        elif cuts == [0]:
            last = LAST_WHITESPACE.search(part)
            cuts.append(last.end() if last else len(part))
        # Otherwise the last sentence may continue after the part: reading resumes at its start.
        yield from ((start + first, start + last) for first, last in pairwise(cuts))
        start += cuts[-1]


def _sentence_starts(part: str) -> list[int]:
    """Where sentencex sees a sentence start, the first at 0."""
    from sentencex import get_sentence_boundaries  # type: ignore[import-untyped]

    # sentencex reads UTF-8, which has no lone surrogates.
    sentences = get_sentence_boundaries("en", LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", part))
    # Starts alone, so that no character can fall between two sentences.
    return sorted({0, *(sentence["start_index"] for sentence in sentences)})


def _treebank_words(text: str, start: int, end: int) -> list[Token]:
    """The words of the sentence `text[start:end]`."""
    shown = text[start:end].translate(STAND_INS)
    tokens = []
    for first, last in pairwise([*_inner_sentence_starts(shown), len(shown)]):
        # Only spaces are put between characters, so the lengths of words tell their places.
        for word in spaced_treebank(shown[first:last]).split():
            while text[start].isspace():
                start += 1
            tokens.append(Token(text[start : start + len(word)], start, start + len(word)))
            start += len(word)
    return tokens


def spaced_treebank(sentence: str) -> str:
    """A sentence with whitespace between its words; no other character is added or dropped."""
    for pattern, replacement in TREEBANK_RULES:
        sentence = pattern.sub(replacement, sentence)
    return sentence


def _inner_sentence_starts(shown: str) -> list[int]:
    """Where sentences start inside a sentence: those within its quotations and brackets.

    To sentencex a quotation is one with the sentence around it, but the rules see a period only at
    the end of what they are given. Without their marks, quotations are cut like any text.
    """
    unmarked = OPENING_MARK.sub(" ", shown).translate(CLOSING_MARKS)
    return [0] if unmarked == shown else _sentence_starts(unmarked)


TREEBANK_RULES = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        ("“|``?", r" \g<0> "),
        (r"([ (\[{<])''", r"\1 `` "),
        (r"(?i)(?<!\w)'(?!(?:re|ve|ll|m|t|s|d|n)\b)(?=\w)", "' "),
        (r"([^.])\.([\])}>'” ]*+)\s*$", r"\1 . \2 "),  # the period of the sentence
        (r"([:,])(\D)", r" \1 \2"),
        (r"[:,]$", r" \g<0> "),
        (r"\.{2,}|[;@#$%&?!\u2012-\u2015]", r" \g<0> "),
        (r"([^'])' ", r"\1 ' "),
        (r"[*()\[\]{}<>”]|--|''", r" \g<0> "),
        (r"\s+|$", " "),
        (r"([^' ])('[sSmMdD]?) ", r"\1 \2 "),
        (r"([^' ])('ll|'LL|'re|'RE|'ve|'VE|n't|N'T) ", r"\1 \2 "),
        (
            r"(?i)\b(can(?=not)|d(?='ye)|gim(?=me)|gon(?=na)|got(?=ta)|lem(?=me)|more(?='n)"
            r"|wan(?=na\s))(not|'ye|me|na|ta|'n)\b",
            r" \1 \2 ",
        ),
        (r"(?i) ('t)(is|was)\b", r" \1 \2 "),
    )
]
"""The rules of the Penn Treebank as NLTK's NLTKWordTokenizer has them, for text without double
quotes; one rule here does what several do there, and a test compares the two."""


class _StandIns(dict[int, str]):
    """What the rules see for each character, worked out at first sight (for `str.translate`).

    They know the punctuation of English. Every other mark is shown to them as the English mark
    of the same use, one character for one, so that places in the text stay the same.
    """

    def __missing__(self, code: int) -> str:
        self[code] = stand_in = _stand_in(chr(code))
        return stand_in


STAND_INS = _StandIns()
OPENING_MARK = re.compile(r"""(?<![^\s(\[{“”'])[(\[{“”']""")  # ” is what " is shown as
CLOSING_MARKS = str.maketrans(")]}”", "»»»»")  # which sentencex leaves with the word before
ALWAYS_A_WORD = "*"
STAND_IN_OF_CHARACTER = {
    '"': "”",  # left and right are not told apart
    "\N{RIGHT SINGLE QUOTATION MARK}": "'",
    "\N{ARABIC DECIMAL SEPARATOR}": ".",
    "\N{ARABIC THOUSANDS SEPARATOR}": ",",
    # Written within a word:
    "\N{HEBREW PUNCTUATION GERESH}": "-",
    "\N{HEBREW PUNCTUATION GERSHAYIM}": "-",
    "\N{ARMENIAN EMPHASIS MARK}": "-",
    "\N{ARMENIAN EXCLAMATION MARK}": "-",
    "\N{ARMENIAN QUESTION MARK}": "-",
}
STAND_IN_OF_CATEGORY = {"Ps": "(", "Pe": ")", "Pi": "“", "Pf": "”", "Po": ALWAYS_A_WORD, "Sc": "$"}
WITHOUT_WHITESPACE = ("CJK UNIFIED IDEOGRAPH", "CJK COMPATIBILITY IDEOGRAPH", "HIRAGANA LETTER")


def _stand_in(character: str) -> str:
    """What the rules see for `character`; most stand for themselves."""
    if unicodedata.name(character, "").startswith(WITHOUT_WHITESPACE):
        return ALWAYS_A_WORD
    category = unicodedata.category(character)
    if category[0] not in "PS":
        return character
    narrow = unicodedata.normalize("NFKC", character)  # full-width and small forms
    if len(narrow) == 1 and narrow.isascii():
        character = narrow
    if character in STAND_IN_OF_CHARACTER:
        return STAND_IN_OF_CHARACTER[character]
    return character if character.isascii() else STAND_IN_OF_CATEGORY.get(category, character)


def read_sentences(files: Iterable[Path], settings: TextSettings) -> Iterator[list[str]]:
    """The sentences of some files of text, one after another, in little memory; none is empty."""
    for path in files:
        for chunk in read_chunks(path):
            yield from sentences_of(chunk, settings)


def sentences_of(chunk: Chunk, settings: TextSettings) -> Iterator[list[str]]:
    """The words of each sentence of a chunk; no sentence is empty."""
    for line in text_of(chunk, settings.errors, settings.encoding).split("\n"):
        yield from filter(None, sentences_of_text(line, settings))


def sentences_of_text(
    text: str, settings: TextSettings, tokenizer: Tokenizer | None = None
) -> Iterable[list[str]]:
    """The words of each sentence of a text; a tokenizer that is given has no name to be set.

    >>> list(sentences_of_text("One. Two!", TextSettings(split=True)))
    [['One', '.'], ['Two', '!']]
    >>> sentences_of_text("One. Two!", TextSettings()), sentences_of_text("", TextSettings())
    ([['One.', 'Two!']], [[]])
    """
    if not settings.raw:
        return [text.split()]
    tokenizer = tokenizer or load_tokenizer(settings.tokenizer or "default")
    if settings.tokenize:
        return [[token.text for token in tokenizer.words(text)]]
    return split_text(text, tokenizer)
