"""What a trained task is asked about: lines of raw text, or rows of a table (JSON lines too)."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from elmokit.errors import ElmoWarning, FormatError, InputError
from elmokit.plurals import counted
from elmokit.tasks.config import Column, Kind, TaskConfig
from elmokit.tasks.files.columns import DOCUMENT_START
from elmokit.tasks.files.lines import Line, read_lines
from elmokit.tasks.files.rows import Row
from elmokit.tasks.files.squad import questions_of
from elmokit.tasks.files.table_columns import (
    NUMBER,
    PAIR,
    TEXT,
    TableSettings,
    Texts,
    text_positions,
)
from elmokit.tasks.files.tables import ROWS
from elmokit.tasks.item_settings import ItemSettings, item_settings
from elmokit.tasks.srl.propositions import WithPredicates

LABELLED_LINE = re.compile(rf"{DOCUMENT_START}\s|\(\d+ \(")
"""How files of labelled examples begin whose names say nothing: CoNLL's, and sentiment trees."""
QUESTION = Texts("a question", [("question",)])
QUESTION_AND_CONTEXT = Texts("a question and its context", [("question", "context")])
CONTEXT = "context"
PREDICATES = "predicates"


class Item(NamedTuple):
    """What a prediction is wanted for."""

    place: str  # "file, line 3"
    asked: Any  # as `TrainedTask.predict` takes it
    given: dict[str, Any]  # what a line of the answer begins with


def read_items(
    path: str | Path, task: TaskConfig, settings: ItemSettings | None = None
) -> list[Item]:
    """The items of a file, to be asked of a trained task.

    Args:
        path: Raw text, or a table: CSV, TSV or JSON lines, plain or compressed.
        task: The settings that the task was trained with: `TrainedTask.config`.
        settings: How the file is read; None for what `item_settings` finds by its name.
    """
    settings = settings or item_settings(path, task)
    return list(items_of(read_lines(path, settings.encoding), task.kind, settings))


def items_of(
    lines: Sequence[Line], kind: Kind, settings: ItemSettings | None = None
) -> Iterator[Item]:
    """The items of a file's lines; blank lines are left out.

    A line of text is a text, or two with a tab between them. A row of a table has columns, which
    are the fields of a JSON object: a text each, or in JSON a list of words. For a reader it is a
    question, and the context that it is about unless the settings have that. For coreference all
    lines of text together are one document.
    Whatever else a row has is kept. SQuAD's JSON is questions with their contexts and ids.
    """
    settings = settings or ItemSettings()
    if settings.context is not None and kind != "reading":
        raise InputError("the task answers no questions about a text; give no --context")
    if settings.format == "squad":
        return _squad_items(lines, kind, settings)
    if settings.format != "text":
        rows = ROWS[settings.format](lines, settings.header, settings.skip_bad_rows)
        return (_row_item(row, kind, settings) for row in rows)
    filled = [line for line in lines if line.text.strip()]
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


def _squad_items(lines: Sequence[Line], kind: Kind, settings: ItemSettings) -> Iterator[Item]:
    """The questions of SQuAD's JSON, which stands on lines that mean nothing."""
    if kind != "reading" or settings.context is not None:
        raise InputError(
            "a file of SQuAD has questions with the texts that they are about; ask a reader, and "
            "give no --context"
        )
    if settings.columns:
        raise InputError("a file of SQuAD has no columns; give no --text-column")
    name, of_file, _ = lines[0].place.rpartition(", line ") if lines else ("", "", "")
    if not of_file:
        raise InputError("the questions of SQuAD are in a file; name one that has some as INPUT")
    asked = list(questions_of("\n".join(line.text for line in lines), name))
    if not asked:
        raise InputError(f"{name}: holds no question; name a file that has some")
    bad = [each for each in asked if not each.question.strip()]
    if bad and settings.skip_bad_rows:
        warnings.warn(
            f"{bad[0].place}: it has no words; {counted(len(bad), 'bad question')} left out",
            ElmoWarning,
            stacklevel=2,
        )
        asked = [each for each in asked if each.question.strip()]
    for place, number, question, context in asked:
        yield Item(place, (question, context), {"id": number, "question": question})


def wanted_by(kind: Kind, settings: ItemSettings) -> Texts:
    """What an item of a kind is made of."""
    if kind == "reading":
        return QUESTION_AND_CONTEXT if settings.context is None else QUESTION
    return PAIR if kind == "pair" else TEXT


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
    return Item(line.place, _asked(parts, settings), dict(zip(wanted.usual[0], parts, strict=True)))


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
    """The item of a row."""
    json_lines = settings.format == "jsonl"
    table = TableSettings(
        texts=settings.columns or _columns_of_training(row, settings),
        header=settings.header or json_lines,
    )
    wanted = wanted_by(kind, settings)
    if wanted == QUESTION_AND_CONTEXT and not table.texts and is_question_alone(row):
        raise InputError(
            f"{row.named_at}: has a question and no {CONTEXT!r}; add the text that it is about, or "
            "name one for all questions (--context FILE)"
        )
    texts = [row.values[at] for at in text_positions(row, table, wanted)]
    named = zip(row.names, row.values, strict=True)
    given = {name: value for name, value in named if name or json_lines}
    if settings.context is not None and not settings.columns and CONTEXT in given:
        raise InputError(
            f"{row.place}: has a {CONTEXT!r} of its own; leave that out, or leave out --context"
        )
    asked = _asked(texts, settings)
    if kind == "srl" and json_lines and PREDICATES in given:
        asked = WithPredicates(asked, given[PREDICATES])
    return Item(row.place, asked, given)


def is_question_alone(row: Row) -> bool:
    """Whether a row has a question, but no text that it is about."""
    names = [name.lower() for name in row.names]
    return "question" in names and CONTEXT not in names


def _columns_of_training(row: Row, settings: ItemSettings) -> tuple[Column, ...]:
    """The columns that the texts of training were in, if a row has them."""
    others = [str(column) for column in settings.usual if column not in row.names]
    if not all(map(NUMBER.fullmatch, others)):
        return ()
    if others and settings.format == "jsonl":
        raise InputError(
            f"{row.place}: the task was trained on column {others[0]}, and fields of JSON have no "
            f"numbers of their own; name one of {', '.join(map(repr, row.names))} (--text-column)"
        )
    return settings.usual
