"""CoNLL columns: a word and its tags on each line, a blank line between sentences.

Columns are separated by tabs, or by whitespace on a line without a tab. `-DOCSTART-` lines, which
begin a document in the files of CoNLL-2003, belong to no sentence.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from elmokit.config import check_choice
from elmokit.errors import ElmoWarning, FormatError, InputError
from elmokit.io.text_files import ENCODING, Line, paragraphs, read_lines
from elmokit.system import counted
from elmokit.tasks.coref.documents import PART, Cluster, Document, Span, make_clusters
from elmokit.tasks.examples import TaggedSentence
from elmokit.tasks.files.trees import unescaped
from elmokit.tasks.srl.propositions import VERB, Proposition, RoleSentence
from elmokit.tasks.tags import LabelledSpan
from elmokit.text.conllu import UNSPECIFIED, TaggedWord, tagged_words
from elmokit.text.conllu import PartOfSpeech as PartOfSpeech

DOCUMENT_START = "-DOCSTART-"


def read_columns(
    path: str | Path, *, word: int = 1, tag: int = -1, encoding: str = ENCODING
) -> list[TaggedSentence]:
    """The sentences of a file.

    Args:
        path: The file.
        word: The column of the words, from 1; -1 is the last one, -2 the one before it.
        tag: The column of the tags, likewise.
        encoding: How the file writes characters as bytes.
    """
    lines = _without_document_starts(read_lines(path, encoding))
    sentences = list(paragraphs(lines))
    if not sentences:
        raise InputError(f"{path}: holds no sentence; name a file that has some")
    first = sentences[0][0]
    width = len(_fields(first))
    word_at, tag_at = _positions(word, tag, width, first.place)
    return [_column_sentence(lines, width, word_at, tag_at) for lines in sentences]


def columns_of(line: Line) -> list[str]:
    """The columns of a line: separated by tabs, or by whitespace where there is no tab."""
    if "\t" in line.text:
        return [column.strip() for column in line.text.split("\t")]
    # At plain whitespace alone: a word may have others in it, as in "10 000" with one that holds.
    return [stripped for column in line.text.split(" ") if (stripped := column.strip())]


def _without_document_starts(lines: Iterable[Line]) -> Iterator[Line]:
    """The lines, with a blank one where a document starts: no sentence continues across it."""
    for line in lines:
        starts = line.text.startswith(DOCUMENT_START) and _fields(line)[0] == DOCUMENT_START
        yield line._replace(text="") if starts else line


def _column_sentence(lines: list[Line], width: int, word_at: int, tag_at: int) -> TaggedSentence:
    rows = [_fields(line) for line in lines]
    for line, row in zip(lines, rows, strict=True):
        _check_row(row, width, line)
    words = tuple(row[word_at] for row in rows)
    tags = tuple(row[tag_at] for row in rows)
    return TaggedSentence(words, tags, lines[0].place)


def _fields(line: Line) -> list[str]:
    """The columns of a line that is not blank."""
    if "\t" in line.text:
        return [field.strip() for field in line.text.split("\t")]
    # A no-break space and the like are part of a word: only plain whitespace separates.
    return [field for field in line.text.split(" ") if field]


def _check_row(row: list[str], width: int, line: Line) -> None:
    if len(row) != width:
        fix = "name a CoNLL-U file .conllu" if line.text.startswith("#") else "fix the line"
        raise FormatError(
            f"{line.place}: has {counted(len(row), 'column')}, but the lines before have {width}; "
            f"{fix}"
        )
    if not all(row):
        raise FormatError(f"{line.place}: has an empty column; fix the line")


def _positions(word: int, tag: int, width: int, place: str) -> tuple[int, int]:
    """Where the word and its tag are among the `width` values of a line."""
    if width < 2:
        raise InputError(
            f"{place}: has one column only; a word and its tag are needed, with a tab or a blank "
            "between them"
        )
    word_at, tag_at = _position("word", word, width, place), _position("tag", tag, width, place)
    if word_at == tag_at:
        raise InputError(f"{place}: the word and the tag are both column {word_at + 1}; name two")
    return word_at, tag_at


def _position(name: str, column: int, width: int, place: str) -> int:
    if column == 0 or abs(column) > width:
        raise InputError(
            f"{place}: has {counted(width, 'column')}, so {column} is not the column of the "
            f"{name}; count from 1, or from -1 for the last"
        )
    return column - 1 if column > 0 else width + column


def read_conllu(
    path: str | Path, *, tag: PartOfSpeech = "upos", encoding: str = ENCODING
) -> list[TaggedSentence]:
    """The sentences of a file, in which every word has a tag.

    Args:
        path: The file.
        tag: "upos" for the universal parts of speech, "xpos" for the language's own.
        encoding: How the file writes characters as bytes.
    """
    check_choice("tag", tag, get_args(PartOfSpeech))
    found = (_conllu_sentence(lines, tag) for lines in paragraphs(read_lines(path, encoding)))
    sentences = [sentence for sentence in found if sentence.words]
    if not sentences:
        raise InputError(f"{path}: holds no sentence; name a file that has some")
    return sentences


def _conllu_sentence(lines: list[Line], tag: PartOfSpeech) -> TaggedSentence:
    """The words of a sentence; none if there are only comments."""
    words = tagged_words(lines, tag)
    for word in words:
        _check_tag(word, tag)
    return TaggedSentence(
        words=tuple(word.form for word in words),
        tags=tuple(word.tag for word in words),
        place=lines[0].place,
    )


def _check_tag(word: TaggedWord, tag: PartOfSpeech) -> None:
    """Refuse a tag that is left open: it would be learnt as a class of its own."""
    if word.tag == UNSPECIFIED:
        other = next(each for each in get_args(PartOfSpeech) if each != tag)
        raise FormatError(
            f"{word.place}: {word.form!r} has no {tag} tag, only {UNSPECIFIED!r}; give it one, or "
            f"take the other column (--label-column {other})"
        )


PropsFormat = Literal["propbank", "conll2012"]
COMMENT = "#"
NO_ROLESET = "-"
ROLE_BRACKET = re.compile(r"(?:\(([^()*\s]+))?\*(\))?")


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


class PropsRow(NamedTuple):
    """A line and its columns."""

    line: Line
    columns: list[str]


class OpenRole(NamedTuple):
    """A phrase that is not closed yet."""

    role: str
    start: int
    line: Line


def read_props(
    path: str | Path, format: PropsFormat, *, encoding: str = ENCODING
) -> list[RoleSentence]:
    """The sentences of a file, those without a predicate too.

    Args:
        path: The file.
        format: What its columns are.
        encoding: How the file writes characters as bytes.
    """
    lines = (line for line in read_lines(path, encoding) if not line.text.startswith(COMMENT))
    sentences = [_role_sentence(some, LAYOUTS[format]) for some in paragraphs(lines)]
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


def _role_sentence(lines: Sequence[Line], layout: PropsLayout) -> RoleSentence:
    rows = [_row(line, layout) for line in lines]
    width = len(rows[0].columns)
    for line, columns in rows:
        if len(columns) != width:
            raise FormatError(
                f"{line.place}: has {counted(len(columns), 'column')}, but its sentence begins "
                f"with {width}; fix the line"
            )
    return RoleSentence(
        words=tuple(unescaped(columns[layout.word]) for _, columns in rows),
        propositions=tuple(_propositions(rows, layout)),
        place=lines[0].place,
    )


def _row(line: Line, layout: PropsLayout) -> PropsRow:
    columns = columns_of(line)
    if not layout.fits(columns):
        raise FormatError(
            f"{line.place}: has {counted(len(columns), 'column')} which are not those of semantic "
            f"roles: {layout.columns}"
        )
    if not columns[layout.word]:
        raise FormatError(f"{line.place}: has no word; fix the line")
    return PropsRow(line, columns)


def _propositions(rows: Sequence[PropsRow], layout: PropsLayout) -> Iterator[Proposition]:
    """The proposition of each column."""
    numbers = range(layout.first, len(rows[0].columns) - layout.after)
    phrases = [_phrases(rows, number) for number in numbers]
    predicates = [
        _verb(rows[0].line, some, number) for number, some in zip(numbers, phrases, strict=True)
    ]
    if layout.roleset is not None:
        # What is marked as the predicate may be another word of it: "off" of "take off".
        predicates = [
            n for n, row in enumerate(rows) if row.columns[layout.roleset] not in (NO_ROLESET, "")
        ]
        _check_one_each(rows[0].line, len(predicates), len(phrases))
    for predicate, some in zip(predicates, phrases, strict=True):
        yield Proposition(predicate, some)


def _check_one_each(line: Line, predicates: int, columns: int) -> None:
    if predicates != columns:
        raise FormatError(
            f"{line.place}: the sentence has {counted(predicates, 'word')} with a roleset, but "
            f"{counted(columns, 'column')} of arguments; give each predicate one"
        )


def _verb(line: Line, phrases: Sequence[LabelledSpan], number: int) -> int:
    """The first word of a column's predicate."""
    for role, start, _ in phrases:
        if role == VERB:
            return start
    raise FormatError(
        f"{line.place}: column {number + 1} of the sentence has no predicate; mark it ({VERB}*)"
    )


def _phrases(rows: Sequence[PropsRow], number: int) -> tuple[LabelledSpan, ...]:
    """The phrases of a column."""
    found: list[LabelledSpan] = []
    opened: OpenRole | None = None
    for position, (line, columns) in enumerate(rows):
        role, closes = _bracket(line, columns[number], number)
        if role is not None:
            if opened is not None:
                raise _unbalanced(line, number, f"opens ({role} while ({opened.role} is open")
            opened = OpenRole(role, position, line)
        if closes:
            if opened is None:
                raise _unbalanced(line, number, "closes a phrase that was not opened")
            found.append(LabelledSpan(opened.role, opened.start, position + 1))
            opened = None
    if opened is not None:
        problem = f"opens ({opened.role}, which is not closed in its sentence"
        raise _unbalanced(opened.line, number, problem)
    return tuple(found)


def _bracket(line: Line, column: str, number: int) -> tuple[str | None, bool]:
    """The role of a phrase that opens at a word, if one does, and whether one closes."""
    bracket = ROLE_BRACKET.fullmatch(column)
    if bracket is None:
        raise FormatError(
            f"{line.place}: column {number + 1} is {column!r}; write (ARG0* where a phrase opens, "
            "*) where it closes, (ARG0*) for one word, * elsewhere"
        )
    return bracket[1], bracket[2] is not None


def _unbalanced(line: Line, number: int, problem: str) -> FormatError:
    return FormatError(f"{line.place}: column {number + 1} {problem}; fix the brackets")


BEGIN, END = "#begin document", "#end document"
WORD = 3
FEWEST_COLUMNS = 5
NO_MENTION = ("-", "_", "*")
MENTION_BRACKET = re.compile(r"(\()?([^()|\s]+)(\))?")
NAME = re.compile(rf"{BEGIN}\s*\((?P<name>.*?)\)\s*(?:;\s*part\s+(?P<part>\S+))?\s*")


class OpenMention(NamedTuple):
    """A bracket that is not closed yet."""

    start: int  # the number of its word in the document
    line: Line


def read_conll_coref(path: str | Path, *, encoding: str = ENCODING) -> list[Document]:
    """The documents of a file, those without any mention too.

    Args:
        path: The file.
        encoding: How the file writes characters as bytes.
    """
    return [
        _document(begin, lines) for begin, lines in _documents(read_lines(path, encoding), path)
    ]


def _documents(lines: Iterable[Line], path: str | Path) -> Iterator[tuple[Line, list[Line]]]:
    """The line that begins each document, and those up to its end."""
    begin: Line | None = None
    inside: list[Line] = []
    for line in lines:
        if line.text.startswith(END):
            if begin is None:
                raise FormatError(f"{line.place}: ends a document that did not begin; fix the file")
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
    rows = [[(line, _columns(line)) for line in some] for some in paragraphs(lines)]
    if not rows:
        raise FormatError(f"{begin.place}: the document has no words; leave it out")
    chains = ((line, columns[-1]) for sentence in rows for line, columns in sentence)
    return Document(
        sentences=tuple(
            tuple(unescaped(columns[WORD]) for _, columns in sentence) for sentence in rows
        ),
        clusters=_clusters(chains),
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


def _columns(line: Line) -> list[str]:
    columns = columns_of(line)
    if len(columns) < FEWEST_COLUMNS or not columns[WORD]:
        raise FormatError(
            f"{line.place}: has {len(columns)} columns; the columns of CoNLL-2012 are document, "
            "part, number, word (the fourth), others, and coreference (the last)"
        )
    return columns


def _clusters(words: Iterable[tuple[Line, str]]) -> tuple[Cluster, ...]:
    """The clusters that the brackets of all words stand for."""
    opened: dict[str, list[OpenMention]] = {}
    chains: dict[str, list[Span]] = {}
    for number, (line, column) in enumerate(words):
        for opens, chain, closes in _brackets(line, column):
            if opens:
                opened.setdefault(chain, []).append(OpenMention(number, line))
            if closes:
                # As in the reference scorer: a bracket closes the one of its chain opened last.
                before = opened.get(chain)
                if not before:
                    raise FormatError(
                        f"{line.place}: {chain}) closes a mention that was not opened; fix the "
                        "brackets"
                    )
                chains.setdefault(chain, []).append(Span(before.pop().start, number + 1))
    for chain, left in opened.items():
        if left:
            raise FormatError(
                f"{left[-1].line.place}: ({chain} opens a mention that is not closed in its "
                "document; fix the brackets"
            )
    return make_clusters(chains.values())


def _brackets(line: Line, column: str) -> Iterator[tuple[bool, str, bool]]:
    """For each chain of a word, whether a mention opens there, and whether one closes."""
    if column in NO_MENTION:
        return
    for part in column.split("|"):
        found = MENTION_BRACKET.fullmatch(part)
        if found is None or not (found[1] or found[3]):
            raise FormatError(
                f"{line.place}: the last column is {column!r}, which says nothing of coreference; "
                "write (3, 3) or (3) with | between them, or -"
            )
        yield bool(found[1]), found[2], bool(found[3])
