"""What a trained task is asked about: lines of raw text, JSON lines, or rows of a table."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from elmokit.errors import FormatError, InputError
from elmokit.plurals import counted
from elmokit.tasks.config import Column, Kind
from elmokit.tasks.files.columns import DOCUMENT_START
from elmokit.tasks.files.lines import ENCODING, Line, suffix
from elmokit.tasks.files.rows import Row
from elmokit.tasks.files.table_columns import NUMBER, TableSettings, text_positions
from elmokit.tasks.files.tables import ROWS, SUFFIXES
from elmokit.tasks.srl.propositions import WithPredicates

ItemFormat = Literal["text", "jsonl", "csv", "tsv"]
LABELLED = (".conll", ".conllu", ".bio", ".iob", ".json")
LABELLED_LINE = re.compile(rf"{DOCUMENT_START}\s|\(\d+ \(")
"""How files of labelled examples begin whose names say nothing: CoNLL's, and sentiment trees."""
ONE = ("words", "text", "sentence")
PAIRS = (("first", "second"), ("premise", "hypothesis"), ("sentence1", "sentence2"))


class Wanted(NamedTuple):
    """What an item of a kind is made of."""

    names: Sequence[tuple[str, ...]]  # that its parts may have; an answer uses the first
    lacks: str
    example: str

    @property
    def parts(self) -> int:
        """How many texts it has."""
        return len(self.names[0])


TEXT = Wanted([(name,) for name in ONE], 'has neither "words" nor "text"', '{"text": "…"}')
PAIR = Wanted(PAIRS, "has no pair", '{"first": "…", "second": "…"}')
QUESTION = Wanted([("question",)], 'has no "question"', '{"question": "…"}')
QUESTION_AND_CONTEXT = Wanted(
    [("question", "context")],
    'has no "question" with its "context"',
    '{"question": "…", "context": "…"}',
)


@dataclass(frozen=True)
class ItemSettings:
    """How lines become items.

    Attributes:
        format: What they are.
        columns: Of a table: that of the text, or the two of a pair; none for the usual ones.
        usual: Columns that are taken before those with usual names, where a table has them.
        header: Of CSV and TSV: the first line names the columns.
        skip_bad_rows: Of CSV and TSV: leave out rows with more or fewer values than columns.
        table_encoding: How CSV and TSV are written as bytes.
        context: Of a reader: the text that all questions are about; None where each has its own.
    """

    format: ItemFormat = "text"
    columns: tuple[Column, ...] = ()
    usual: tuple[Column, ...] = ()
    header: bool = True
    skip_bad_rows: bool = False
    table_encoding: str = ENCODING
    context: str | None = None

    @property
    def encoding(self) -> str:
        """How the lines are written as bytes, if nobody says otherwise."""
        return self.table_encoding if self.format in ("csv", "tsv") else ENCODING


class Item(NamedTuple):
    """What a prediction is wanted for."""

    place: str  # "file, line 3"
    asked: Any  # as `TrainedTask.predict` takes it
    given: dict[str, Any]  # what a line of the answer begins with


def format_of(name: str) -> ItemFormat:
    """What a file is by its name.

    >>> format_of("a.csv.gz"), format_of("-")
    ('csv', 'text')
    """
    if suffix(name) in LABELLED:
        raise InputError(
            f"{name}: is a file of labelled examples by its name, and predictions are of raw text, "
            "or of JSON lines (.jsonl) with text or words; say that it is text (--format text), or "
            "measure with elmo task evaluate"
        )
    return SUFFIXES.get(suffix(name), "text")


def items_of(
    lines: Sequence[Line], kind: Kind, settings: ItemSettings | None = None
) -> Iterator[Item]:
    """The items of a file's lines; blank lines are left out.

    A line of text is a text, or two with a tab between them. A JSON object has "words" or "text",
    or "first" and "second", each a text or a list of words; a row of CSV or TSV has columns. For a
    reader it is a question, and the context that it is about unless the settings have that. For
    coreference all lines of text together are one document.
    Whatever else a row has is kept.
    """
    settings = settings or ItemSettings()
    if settings.context is not None and kind != "reading":
        raise InputError("the task answers no questions about a text; give no --context")
    if settings.format in ("csv", "tsv"):
        rows = ROWS[settings.format](lines, settings.header, settings.skip_bad_rows)
        return (_row_item(row, kind, settings) for row in rows)
    filled = [line for line in lines if line.text.strip()]
    if settings.format == "jsonl":
        return (_json_item(line, kind, settings) for line in filled)
    if filled and LABELLED_LINE.match(filled[0].text):
        raise InputError(
            f"{filled[0].place}: is labelled, as in CoNLL columns or sentiment trees, and "
            "predictions are of raw text; measure with elmo task evaluate, or take the labels out"
        )
    if settings.columns and filled:
        raise InputError(
            f"{filled[0].place}: is plain text, which has no columns; give no --text-column, or "
            "say what the file is (--format)"
        )
    if kind == "coref":
        return iter([_document(lines, filled[0].place)] if filled else [])
    return (_text_item(line, kind, settings) for line in filled)


def wanted_by(kind: Kind, settings: ItemSettings) -> Wanted:
    """What an item of a kind is made of."""
    if kind == "reading":
        return QUESTION_AND_CONTEXT if settings.context is None else QUESTION
    return PAIR if kind == "pair" else TEXT


def answer_to(item: Item, found: Mapping[str, Any]) -> dict[str, Any]:
    """A line of the answer: what was given, then what was found.

    What was given under a name that the answer needs is kept with `given_` before it.

    >>> answer_to(Item("line 1", "a", {"text": "a", "label": "ham"}), {"label": "spam"})
    {'text': 'a', 'given_label': 'ham', 'label': 'spam'}
    """
    kept: dict[str, Any] = {}
    for name, value in item.given.items():
        if name == "words" and value == found.get(name):
            continue
        free = name
        while free in found or (free != name and free in item.given):
            free = f"given_{free}"
        kept[free] = value
    return kept | dict(found)


def _document(lines: Sequence[Line], place: str) -> Item:
    text = "\n".join(line.text for line in lines)
    return Item(place, text, {"text": text})


def _text_item(line: Line, kind: Kind, settings: ItemSettings) -> Item:
    wanted = wanted_by(kind, settings)
    if wanted == TEXT:
        return Item(line.place, line.text, {"text": line.text})
    parts = line.text.split("\t") if wanted.parts == 2 else [line.text]
    if len(parts) != wanted.parts:
        raise FormatError(
            f"{line.place}: has {counted(len(parts), 'text')} between tabs; {_two_texts(kind)}"
        )
    return Item(line.place, _asked(parts, settings), dict(zip(wanted.names[0], parts, strict=True)))


def _two_texts(kind: Kind) -> str:
    if kind == "pair":
        return "a pair has two, with one tab between"
    return "write a question, a tab, and the text it is about, or name that text (--context FILE)"


def _asked(parts: Sequence[Any], settings: ItemSettings) -> Any:
    """The parts of an item as `TrainedTask.predict` takes them."""
    if settings.context is not None:
        return (*parts, settings.context)
    return tuple(parts) if len(parts) == 2 else parts[0]


def _row_item(row: Row, kind: Kind, settings: ItemSettings) -> Item:
    """The item of a row of CSV or TSV."""
    columns = settings.columns
    if not columns and all(_has(row, column) for column in settings.usual):
        columns = settings.usual
    wanted = wanted_by(kind, settings)
    if not columns and kind == "reading" and settings.header:
        columns = wanted.names[0]
    table = TableSettings(texts=columns, header=settings.header)
    texts = [row.values[at] for at in text_positions(row, table, wanted.parts)]
    given = {name: value for name, value in zip(row.names, row.values, strict=True) if name}
    return Item(row.place, _asked(texts, settings), given)


def _has(row: Row, column: Column) -> bool:
    return str(column) in row.names or NUMBER.fullmatch(str(column)) is not None


def _json_item(line: Line, kind: Kind, settings: ItemSettings) -> Item:
    values = _object(line)
    wanted = wanted_by(kind, settings)
    names = tuple(map(str, settings.columns)) or _usual_names(values, wanted)
    if names is None:
        raise InputError(
            f"{line.place}: {wanted.lacks}; write {wanted.example}, or name it (--text-column)"
        )
    if len(names) != wanted.parts:
        columns = "two columns" if wanted.parts == 2 else "one column"
        raise InputError(f"the texts are to be in {', '.join(names)}; name {columns}")
    for name in names:
        if name not in values:
            raise InputError(f"{line.place}: has no {name!r}; name a field that every line has")
    asked = _asked([values[name] for name in names], settings)
    if kind == "srl" and "predicates" in values:
        asked = WithPredicates(asked, values["predicates"])
    return Item(line.place, asked, values)


def _usual_names(values: Mapping[str, Any], wanted: Wanted) -> tuple[str, ...] | None:
    """The names, of those which are usual, that an object has."""
    return next((names for names in wanted.names if values.keys() >= set(names)), None)


def _object(line: Line) -> dict[str, Any]:
    try:
        values = json.loads(line.text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{line.place}: is not valid JSON ({error}); mend the line") from error
    if not isinstance(values, dict):
        raise FormatError(f'{line.place}: is no JSON object; write {{"text": "…"}}')
    return values
