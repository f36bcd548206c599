"""Korean text to morphemes: Kiwi's, with their places in the text.

Korean writes particles and endings in one with the word that they follow, and several morphemes
in one syllable, so a word here is not what stands between two spaces.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from sys import intern
from threading import Lock
from typing import Any

from elmokit.system import import_extra
from elmokit.text.tokenizer import (
    LAST_WHITESPACE,
    LONE_SURROGATE,
    WORD,
    Token,
    paragraph_spans,
)

# Kiwi takes quadratic time, so a long paragraph is read in parts.
LONGEST_PART = 4000
DECOMPOSED = re.compile(r"[^\W\d_][\u0300-\u036f\u1160-\u11ff]+")  # Hangul, and Latin beside it
LIBRARIES = ("kiwipiepy", "kiwipiepy_model")
LOADING = Lock()


class KiwiTokenizer:
    """For raw Korean text: words are the forms of Kiwi's morphemes, sentences are Kiwi's.

    A form is not always what is written: 갔다 gives 가, 었 and 다, and the place of 가 and of 었 is
    that of 갔. A morpheme that is left out in writing (이 in 영화네요) has the place of the
    character before it. So places may overlap, but none is empty, and none starts before that of
    the word before. Decomposed letters are composed. Kiwi is loaded when the first text is split,
    once for all threads of a process.

    >>> tokenizer = KiwiTokenizer()  # doctest: +SKIP
    >>> [token.text for token in tokenizer.words("배가 고파서 갔다.")]  # doctest: +SKIP
    ['배', '가', '고프', '어서', '가', '었', '다', '.']
    """

    name = "kiwi"

    def sentences(self, text: str) -> list[list[Token]]:
        """The words of each sentence."""
        return list(self.each_sentence(text))

    def each_sentence(self, text: str) -> Iterator[list[Token]]:
        """The same, one by one as they are found."""
        shown, borders = _composed(LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text))
        for span in paragraph_spans(shown):
            for first, morphemes in _analysed(shown, *span):
                words = _words_of(morphemes, shown, first)
                if borders:
                    words = [Token(word, borders[at], borders[end]) for word, at, end in words]
                if words:
                    yield words

    def words(self, text: str) -> list[Token]:
        """The words of all sentences in one list."""
        return [token for words in self.sentences(text) for token in words]


def versions() -> dict[str, str]:
    """The versions of Kiwi and of its model, which decide about words; none if not installed."""
    try:
        return {library: version(library) for library in LIBRARIES}
    except PackageNotFoundError:
        return {}


def _kiwi() -> Any:
    with LOADING:
        return _load_kiwi()


@cache
def _load_kiwi() -> Any:
    # Every choice that decides about words is made here, as defaults may change. The dictionary of
    # names of several words is left out: its forms have spaces, where nothing may be written.
    import_extra("kiwipiepy_model", "korean")
    kiwi = import_extra("kiwipiepy", "korean").Kiwi(
        num_workers=1,
        model_type="cong",
        integrate_allomorph=True,
        load_default_dict=True,
        load_typo_dict=True,
        load_multi_dict=False,
    )
    kiwi.tokenize("")  # which reads the model
    return kiwi


def _composed(text: str) -> tuple[str, Sequence[int]]:
    """A text with its letters composed, and where each was in `text`; () where nothing changed."""
    pieces, borders, end = [], array("q"), 0
    for found in DECOMPOSED.finditer(text):
        whole = unicodedata.normalize("NFC", found[0])
        pieces += [text[end : found.start()], whole]
        borders.extend(range(end, found.start() + len(whole)))
        end = found.end()
    if not pieces:
        return text, ()
    borders.extend(range(end, len(text) + 1))
    return "".join((*pieces, text[end:])), borders


def _analysed(text: str, start: int, end: int) -> Iterator[tuple[int, Any]]:
    """Of the paragraph `text[start:end]` the morphemes of each sentence, and where these begin."""
    while start < end:
        part = text[start : min(end, start + LONGEST_PART)]
        sentences, size = _split(part), len(part)
        if start + size < end and len(sentences) > 1:
            # The last sentence may continue after the part: reading resumes at its start.
            size = sentences.pop()[0].start
        elif start + size < end and (last := LAST_WHITESPACE.search(part)):
            sentences, size = _split(part[: last.end()]), last.end()
        yield from ((start, sentence) for sentence in sentences)
        start += size


def _split(part: str) -> list[Any]:
    return _kiwi().tokenize(part, split_sents=True, oov_handling="chr")


def _words_of(morphemes: Sequence[Any], text: str, offset: int) -> list[Token]:
    """The words of a sentence; a serial number that is written with spaces is several."""
    tokens: list[Token] = []
    last = 0
    for morpheme in morphemes:
        word, start, end = morpheme.form, morpheme.start + offset, morpheme.end + offset
        if start == end:
            before = bool(text[start - 1 : start].strip())
            start, end = (start - 1, end) if before else (start, end + 1)
        if word.isalnum() or word.split() == [word]:
            last = max(last, end)
            tokens.append(Token(intern(word), start, last))
        else:
            found = WORD.finditer(text, start, end)
            tokens += (Token(intern(one[0]), *one.span()) for one in found)
    return tokens
