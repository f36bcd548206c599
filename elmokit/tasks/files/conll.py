"""CoNLL columns: a word and what is said of it on each line, a blank line between sentences.

Tags of words (CoNLL-2003, CoNLL-U), semantic roles (PropBank, CoNLL-2012) and coreference
(CoNLL-2012). Columns are separated by tabs, or by spaces on a line without a tab. `-DOCSTART-`
lines, which begin a document in the files of CoNLL-2003, belong to no sentence.
"""

from __future__ import annotations

import re
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from elmokit.errors import ElmoWarning, FormatError, InputError
from elmokit.io.tables import LABEL_FLAG, TEXT_FLAG
from elmokit.io.text_files import Column, Line, TextSettings, paragraphs, read_lines
from elmokit.system import counted
from elmokit.tasks.coref.documents import PART, Document, Span, make_clusters
from elmokit.tasks.examples import TaggedSentence, Words
from elmokit.tasks.files.trees import unescaped
from elmokit.tasks.srl.propositions import VERB, Proposition, RoleSentence
from elmokit.tasks.tags import LabelledSpan
from elmokit.text.conllu import (
    DOCUMENT_START,
    FORM,
    POSITIONS,
    UNSPECIFIED,
    PartOfSpeech,
    columns_of,
    tagged_words,
    values_of,
)

CONLLU_TAGS: dict[str, PartOfSpeech] = {
    column: name for name, at in POSITIONS.items() for column in (name, str(at + 1))
}
CONLLU_WORDS = str(FORM + 1)


def read_columns(path: str | Path, settings: TextSettings) -> list[TaggedSentence]:
    """The sentences of a file, words first and tags last on a line, or where settings say."""
    lines = _without_document_starts(_lines(path, settings))
    sentences = [_rows(some) for some in paragraphs(lines)]
    if not sentences:
        raise InputError(f"{path}: holds no sentence; name a file that has some")
    first, columns = sentences[0][0]
    width = len(columns)
    if width < 2:
        raise InputError(
            f"{first.place}: has one column only; a word and its tag are needed, with a tab or a "
            "space between them"
        )
    word_at = _position(_word_column(path, settings) or 1, TEXT_FLAG, width, first)
    tag = -1 if settings.label_column is None else settings.label_column
    tag_at = _position(tag, LABEL_FLAG, width, first)
    if word_at == tag_at:
        raise InputError(
            f"{first.place}: the word and the tag are both column {word_at + 1}; name two"
        )
    return [_tagged_sentence(rows, width, word_at, tag_at) for rows in sentences]


class ColumnRow(NamedTuple):
    """A line and its columns."""

    line: Line
    columns: list[str]


def _lines(path: str | Path, settings: TextSettings) -> Iterator[Line]:
    return read_lines(path, settings.encoding, settings.errors)


def _rows(lines: Iterable[Line]) -> list[ColumnRow]:
    return [ColumnRow(line, columns_of(line)) for line in lines]


def _without_document_starts(lines: Iterable[Line]) -> Iterator[Line]:
    """The lines, with a blank one where a document starts: no sentence continues across it."""
    for line in lines:
        starts = line.text.startswith(DOCUMENT_START) and columns_of(line)[0] == DOCUMENT_START
        yield line._replace(text="") if starts else line


def _tagged_sentence(
    rows: Sequence[ColumnRow], width: int, word_at: int, tag_at: int
) -> TaggedSentence:
    for line, columns in rows:
        _check_width(line, columns, width)
        if not all(columns):
            raise FormatError(f"{line.place}: has an empty column; fix the line")
    words = tuple(columns[word_at] for _, columns in rows)
    tags = tuple(columns[tag_at] for _, columns in rows)
    return TaggedSentence(words, tags, rows[0].line.place)


def words_of_lines(lines: Sequence[Line], settings: TextSettings) -> Words:
    """The words of a sentence's lines, whose tags are not looked at."""
    if settings.format == "conllu":
        return tuple(values_of(*line[:2])[FORM] for line in lines)
    rows = _rows(lines)
    first, columns = rows[0]
    word = _word_column(first.place, settings) or 1
    word_at = _position(word, TEXT_FLAG, len(columns), first)
    for row in rows:
        _check_width(*row, len(columns))
    return tuple(columns[word_at] for _, columns in rows)


def _check_width(line: Line, columns: Sequence[str], width: int) -> None:
    if len(columns) != width:
        fix = "name a CoNLL-U file .conllu" if line.text.startswith("#") else "fix the line"
        raise FormatError(
            f"{line.place}: has {counted(len(columns), 'column')}, but the lines before have "
            f"{width}; {fix}"
        )


def _position(column: Column, flag: str, width: int, line: Line) -> int:
    """Where a column is among the `width` of a line."""
    try:
        number = int(column)
    except ValueError:
        raise InputError(
            f"{line.place}: is read as CoNLL columns, which have no names such as {column!r}; give "
            f"the number from 1 ({flag}), or say that it is CoNLL-U (--format conllu)"
        ) from None
    if number == 0 or abs(number) > width:
        raise InputError(
            f"{line.place}: has {counted(width, 'column')}, so there is no column {number}; count "
            f"from 1, or from -1 for the last ({flag})"
        )
    return number - 1 if number > 0 else width + number


def _word_column(path: str | Path, settings: TextSettings) -> Column | None:
    if len(settings.text_columns) > 1:
        named = ", ".join(map(repr, settings.text_columns))
        raise InputError(f"{path}: the words are to be in {named}; name one column ({TEXT_FLAG})")
    return settings.text_columns[0] if settings.text_columns else None


def read_conllu(path: str | Path, settings: TextSettings) -> list[TaggedSentence]:
    """The sentences of a file of CoNLL-U, in which every word has a tag."""
    tag = conllu_tag(path, settings)
    found = (_conllu_sentence(lines, tag) for lines in paragraphs(_lines(path, settings)))
    sentences = [sentence for sentence in found if sentence.words]
    if not sentences:
        raise InputError(f"{path}: holds no sentence; name a file that has some")
    return sentences


def conllu_tag(path: str | Path, settings: TextSettings) -> PartOfSpeech:
    """Which of its two columns of tags is named; that of the words can be none but its own."""
    word = _word_column(path, settings)
    if word is not None and str(word) != CONLLU_WORDS:
        raise InputError(
            f"{path}: is CoNLL-U, whose words are column {CONLLU_WORDS}, and not {word!r}; leave "
            f"out {TEXT_FLAG}, or say that it is something else (--format columns)"
        )
    label = "upos" if settings.label_column is None else str(settings.label_column)
    if label not in CONLLU_TAGS:
        raise InputError(
            f"{path}: is CoNLL-U, whose tags are upos (column 4) or xpos (column 5), and not "
            f"{settings.label_column!r}; give one of them ({LABEL_FLAG})"
        )
    return CONLLU_TAGS[label]


def _conllu_sentence(lines: list[Line], tag: PartOfSpeech) -> TaggedSentence:
    """The words of a sentence; none if there are only comments."""
    words = tagged_words(lines, tag)
    for word in words:
        if word.tag == UNSPECIFIED:  # which would be learnt as a class of its own
            other = next(each for each in get_args(PartOfSpeech) if each != tag)
            raise FormatError(
                f"{word.place}: {word.form!r} has no {tag} tag, only {UNSPECIFIED!r}; give it one, "
                f"or take the other column ({LABEL_FLAG} {other})"
            )
    return TaggedSentence(
        words=tuple(word.form for word in words),
        tags=tuple(word.tag for word in words),
        place=lines[0].place,
    )


class Bracket(NamedTuple):
    """A word at which a phrase opens, or closes, or both."""

    place: str  # of the line, and the column
    word: int
    name: str  # of the phrase; nothing where a role closes
    opens: bool
    closes: bool


def _spans(brackets: Iterable[Bracket], *, nested: bool) -> list[LabelledSpan]:
    """The phrases that brackets stand for.

    Where they may be nested, a bracket closes the one of its name that opened last, as in the
    reference scorer of coreference.
    """
    opened: dict[str, list[Bracket]] = defaultdict(list)
    found = []
    for bracket in brackets:
        before = opened[bracket.name if nested else ""]
        if bracket.opens:
            if before and not nested:
                problem = f"opens ({bracket.name} while ({before[-1].name} is open"
                raise _unbalanced(bracket, problem)
            before.append(bracket)
        if bracket.closes:
            if not before:
                raise _unbalanced(bracket, "closes a phrase that was not opened")
            start = before.pop()
            found.append(LabelledSpan(start.name, start.word, bracket.word + 1))
    for left in opened.values():
        if left:
            raise _unbalanced(left[-1], f"opens ({left[-1].name}, which is not closed")
    return found


def _unbalanced(bracket: Bracket, problem: str) -> FormatError:
    return FormatError(f"{bracket.place} {problem}; fix the brackets")


PropsFormat = Literal["propbank", "conll2012"]
COMMENT = "#"
NO_ROLESET = "-"
ROLE = re.compile(r"(?:\(([^()*\s]+))?\*(\))?")


class PropsLayout(NamedTuple):
    """Where what is in a line of a format."""

    number: int
    word: int
    roleset: int | None  # None where a row may have one without being a predicate
    first: int  # the first column of a predicate
    after: int  # columns after those of the predicates
    columns: str  # all of them, in words

    def fits(self, columns: Sequence[str]) -> bool:
        """Whether a line can be one of this format."""
        return len(columns) >= self.first + self.after and columns[self.number].isdecimal()


LAYOUTS: dict[PropsFormat, PropsLayout] = {
    "propbank": PropsLayout(
        0, 1, 4, 5, 0,
        "number, word, part of speech, lemma, roleset, and one for each predicate",
    ),
    "conll2012": PropsLayout(
        2, 3, None, 11, 1,
        "the eleven of CoNLL-2012 (the third the number, the fourth the word), one for each "
        "predicate, and coreference",
    ),
}  # fmt: skip


def read_props(path: str | Path, format: PropsFormat, settings: TextSettings) -> list[RoleSentence]:
    """The sentences of a file, those without a predicate too."""
    lines = (line for line in _lines(path, settings) if not line.text.startswith(COMMENT))
    sentences = [role_sentence(some, LAYOUTS[format]) for some in paragraphs(lines)]
    if not any(sentence.propositions for sentence in sentences):
        raise InputError(
            f"{path}: no word of it is a predicate; name a file with semantic roles: "
            f"{LAYOUTS[format].columns}"
        )
    _note_marks_elsewhere(sentences)
    return sentences


def _note_marks_elsewhere(sentences: Sequence[RoleSentence]) -> None:
    """Say it where columns seem to be those of other predicates."""
    places = [
        sentence.place
        for sentence in sentences
        for each in sentence.propositions or ()
        for role, start, end in each.phrases
        if role == VERB and each.predicate not in range(start, end)
        if any(other in range(start, end) for other in sentence.predicates)
    ]
    if places:
        warnings.warn(
            f"{places[0]} and after: of {counted(len(places), 'predicate')} ({VERB}*) stands at "
            "another one; are the columns in the order of the predicates?",
            ElmoWarning,
            stacklevel=3,
        )


def role_sentence(lines: Sequence[Line], layout: PropsLayout) -> RoleSentence:
    """The sentence of lines, with its predicates."""
    rows = _rows(lines)
    for line, columns in rows:
        if not layout.fits(columns):
            raise FormatError(
                f"{line.place}: has {counted(len(columns), 'column')} which are not those of "
                f"semantic roles: {layout.columns}"
            )
        if not columns[layout.word]:
            raise FormatError(f"{line.place}: has no word; fix the line")
        _check_width(line, columns, len(rows[0].columns))
    return RoleSentence(
        words=tuple(unescaped(columns[layout.word]) for _, columns in rows),
        propositions=tuple(_propositions(rows, layout)),
        place=lines[0].place,
    )


def _propositions(rows: Sequence[ColumnRow], layout: PropsLayout) -> Iterator[Proposition]:
    numbers = range(layout.first, len(rows[0].columns) - layout.after)
    phrases = [tuple(_spans(_role_brackets(rows, number), nested=False)) for number in numbers]
    predicates = [
        _verb(rows[0].line, some, number) for number, some in zip(numbers, phrases, strict=True)
    ]
    if layout.roleset is not None:
        # What is marked as the predicate may be another word of it: "off" of "take off".
        predicates = [
            n for n, row in enumerate(rows) if row.columns[layout.roleset] not in (NO_ROLESET, "")
        ]
        if len(predicates) != len(phrases):
            raise FormatError(
                f"{rows[0].line.place}: the sentence has {counted(len(predicates), 'word')} with a "
                f"roleset, but {counted(len(phrases), 'column')} of arguments; give each predicate "
                "one"
            )
    for predicate, some in zip(predicates, phrases, strict=True):
        yield Proposition(predicate, some)


def _verb(line: Line, phrases: Sequence[LabelledSpan], number: int) -> int:
    """The first word of a column's predicate."""
    for role, start, _ in phrases:
        if role == VERB:
            return start
    raise FormatError(
        f"{line.place}: column {number + 1} of the sentence has no predicate; mark it ({VERB}*)"
    )


def _role_brackets(rows: Sequence[ColumnRow], number: int) -> Iterator[Bracket]:
    for word, (line, columns) in enumerate(rows):
        place, found = f"{line.place}: column {number + 1}", ROLE.fullmatch(columns[number])
        if found is None:
            raise FormatError(
                f"{place} is {columns[number]!r}; write (ARG0* where a phrase opens, *) where it "
                "closes, (ARG0*) for one word, * elsewhere"
            )
        yield Bracket(place, word, found[1] or "", found[1] is not None, found[2] is not None)


BEGIN, END = "#begin document", "#end document"
WORD = 3
FEWEST_COLUMNS = 5
NO_MENTION = ("-", "_", "*")
MENTION = re.compile(r"(\()?([^()|\s]+)(\))?")
NAME = re.compile(rf"{BEGIN}\s*\((?P<name>.*?)\)\s*(?:;\s*part\s+(?P<part>\S+))?\s*")


def read_conll_coref(path: str | Path, settings: TextSettings) -> list[Document]:
    """The documents of a file, those without any mention too."""
    return list(coref_documents(_lines(path, settings)))


def coref_documents(lines: Iterable[Line]) -> Iterator[Document]:
    """The documents of lines."""
    return (_document(begin, inside) for begin, inside in _documents(lines))


def _documents(lines: Iterable[Line]) -> Iterator[tuple[Line, list[Line]]]:
    """The line that begins each document, and those up to its end."""
    begin: Line | None = None
    inside: list[Line] = []
    for line in lines:
        if line.text.startswith(END) and begin is not None:
            yield begin, inside
            begin, inside = None, []
        elif line.text.startswith(BEGIN):
            _check_ended(begin)
            begin = line
        elif begin is not None:
            inside.append(line)
        elif line.text.strip():
            raise FormatError(
                f"{line.place}: is in no document; files of coreference have the columns of "
                f"CoNLL-2012, and each document begins with {BEGIN!r} and a name"
            )
    _check_ended(begin)


def _check_ended(begin: Line | None) -> None:
    if begin is not None:
        raise FormatError(
            f"{begin.place}: begins a document without an end ({END!r}); is the file cut off?"
        )


def _document(begin: Line, lines: Sequence[Line]) -> Document:
    sentences = [_rows(some) for some in paragraphs(lines)]
    rows = [row for sentence in sentences for row in sentence]
    if not rows:
        raise FormatError(f"{begin.place}: the document has no words; leave it out")
    for line, columns in rows:
        if len(columns) < FEWEST_COLUMNS or not columns[WORD]:
            raise FormatError(
                f"{line.place}: has {len(columns)} columns; the columns of CoNLL-2012 are "
                "document, part, number, word (the fourth), others, and coreference (the last)"
            )
    chains: dict[str, list[Span]] = defaultdict(list)
    for name, start, end in _spans(_mention_brackets(rows), nested=True):
        chains[name].append(Span(start, end))
    return Document(
        sentences=tuple(
            tuple(unescaped(row.columns[WORD]) for row in sentence) for sentence in sentences
        ),
        clusters=make_clusters(chains.values()),
        place=begin.place,
        name=_name(begin),
    )


def _name(begin: Line) -> str:
    found = NAME.fullmatch(begin.text)
    if found is None:
        raise FormatError(
            f"{begin.place}: the document has no name in brackets; write {BEGIN} (name); part 000"
        )
    return found["name"] if found["part"] is None else f"{found['name']}{PART}{found['part']}"


def _mention_brackets(rows: Sequence[ColumnRow]) -> Iterator[Bracket]:
    for word, (line, columns) in enumerate(rows):
        for part in () if columns[-1] in NO_MENTION else columns[-1].split("|"):
            found = MENTION.fullmatch(part)
            if found is None or not (found[1] or found[3]):
                raise FormatError(
                    f"{line.place}: the last column is {columns[-1]!r}, which says nothing of "
                    "coreference; write (3, 3) or (3) with | between them, or -"
                )
            place = f"{line.place}: the last column"
            yield Bracket(place, word, found[2], bool(found[1]), bool(found[3]))
