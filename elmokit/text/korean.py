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
from threading import Lock
from typing import Any

from elmokit.system import import_extra
from elmokit.text.tokenizer import (
    LAST_WHITESPACE,
    LONE_SURROGATE,
    PARAGRAPH_BREAK,
    WORD,
    Token,
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
        shown, borders = _composed(LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text))
        sentences = [
            [token for morpheme in sentence for token in _words_of(morpheme, shown, start)]
            for start, sentence in _analysed(shown)
        ]
        if borders:
            sentences = [
                [Token(word, borders[start], borders[end]) for word, start, end in sentence]
                for sentence in sentences
            ]
        return [words for words in sentences if words]

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
    """The Kiwi of this process."""
    with LOADING:
        return _load_kiwi()


@cache
def _load_kiwi() -> Any:
    # Every choice that decides about words is made here, as defaults may change. The dictionary of
    # names of several words is left out: its forms have spaces, where nothing may be written.
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
    """A text with its letters composed, and where each of its characters starts in `text`.

    Without a decomposed letter it is `text`, and its places are not given.
    """
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


def _analysed(text: str) -> Iterator[tuple[int, Any]]:
    """The morphemes of each sentence, and what their places are counted from."""
    start = 0
    for gap in PARAGRAPH_BREAK.finditer(text):
        yield from _analysed_paragraph(text, start, gap.start())
        start = gap.end()
    yield from _analysed_paragraph(text, start, len(text))


def _analysed_paragraph(text: str, start: int, end: int) -> Iterator[tuple[int, Any]]:
    """The same of the paragraph `text[start:end]`."""
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


def _words_of(morpheme: Any, text: str, offset: int) -> Iterator[Token]:
    """The words of a morpheme: one, but for serial numbers that are written with spaces."""
    word, start, end = morpheme.form, morpheme.start + offset, morpheme.end + offset
    if start == end:
        start, end = (start, end + 1) if text[start - 1 : start].strip() == "" else (start - 1, end)
    if word.isalnum() or word.split() == [word]:
        yield Token(word, start, end)
    else:
        yield from (Token(found[0], *found.span()) for found in WORD.finditer(text, start, end))
