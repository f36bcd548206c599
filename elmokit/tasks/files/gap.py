"""GAP (Webster et al. 2018): texts with a pronoun, and two names that it may stand for.

A TSV with a header. Offsets are in characters; the texts are raw, and split by a tokenizer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from elmokit.errors import FormatError, InputError
from elmokit.io.tables import TableRow, table_rows
from elmokit.io.text_files import Line, TextSettings, read_lines
from elmokit.tasks.coref.documents import Document, PronounQuestion, Span, make_clusters
from elmokit.tasks.examples import words_between
from elmokit.text.tokenizer import Token, Tokenizer

FEMININE = ("she", "her", "hers", "herself")
MASCULINE = ("he", "him", "his", "himself")
TRUTH = {"true": True, "false": False}
NEEDED = (
    "ID", "Text", "Pronoun", "Pronoun-offset", "A", "A-offset", "A-coref", "B", "B-offset",
    "B-coref",
)  # fmt: skip


def read_gap(path: str | Path, settings: TextSettings, tokenizer: Tokenizer) -> list[Document]:
    """The rows of a file, each a document with a question; the tokenizer splits the texts."""
    lines = list(read_lines(path, settings.encoding, settings.errors))
    _check_columns(lines)
    # Its header is part of the format.
    rows = table_rows(lines, "tsv", replace(settings, header=True), labelled=True)
    documents = [_document(row, tokenizer) for row in rows]
    if not documents:
        raise InputError(
            f"{path}: holds no row but the names of columns; name a file that has some"
        )
    return documents


def _check_columns(lines: Sequence[Line]) -> None:
    """Raise for a file of another kind, before its rows are found fault with."""
    names = next((line for line in lines if line.text), None)
    if names is None:
        return
    missing = [name for name in NEEDED if name not in names.text.split("\t")]
    if missing:
        raise InputError(
            f"{names.place}: has no column {missing[0]!r}; a .tsv for coreference has the columns "
            f"of GAP, which are {', '.join(NEEDED)}"
        )


def _document(row: TableRow, tokenizer: Tokenizer) -> Document:
    values = dict(zip(row.names, row.values, strict=True))
    sentences = tokenizer.sentences(values["Text"])
    tokens = [token for sentence in sentences for token in sentence]
    pronoun, first, second = (
        _span(row.place, values, name, tokens) for name in ("Pronoun", "A", "B")
    )
    question = PronounQuestion(
        pronoun,
        first,
        second,
        _truth(row.place, values, "A-coref"),
        _truth(row.place, values, "B-coref"),
        _is_feminine(row.place, values["Pronoun"]),
    )
    return Document(
        sentences=tuple(tuple(token.text for token in sentence) for sentence in sentences),
        clusters=make_clusters([[pronoun, *question.names]]) if question.names else (),
        place=row.place,
        name=values["ID"],
        question=question,
    )


def _span(place: str, values: dict[str, str], name: str, tokens: Sequence[Token]) -> Span:
    """The words that a name, given by its characters, is of."""
    given, offset = values[name], values[f"{name}-offset"]
    start = int(offset) if re.fullmatch(r"[0-9]{1,9}", offset) else -1
    found = values["Text"][start : start + len(given)] if start >= 0 else ""
    if not given.strip() or found != given:
        raise FormatError(
            f"{place}: {name} is {given!r:.40}, but the text has {found!r:.40} at its offset "
            f"{offset:.40}; fix the row"
        )
    offsets = [(token.start, token.end) for token in tokens]
    return Span(*words_between(offsets, start, start + len(given)))


def _truth(place: str, values: dict[str, str], name: str) -> bool:
    try:
        return TRUTH[values[name].strip().lower()]
    except KeyError:
        raise FormatError(
            f"{place}: {name} is {values[name]!r}; it must be TRUE or FALSE"
        ) from None


def _is_feminine(place: str, pronoun: str) -> bool:
    if pronoun.lower() not in (*FEMININE, *MASCULINE):
        raise FormatError(
            f"{place}: the pronoun is {pronoun!r:.40}; use one of "
            f"{', '.join((*MASCULINE, *FEMININE))}"
        )
    return pronoun.lower() in FEMININE
