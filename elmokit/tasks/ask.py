"""What a trained task is asked about: lines of raw text, or rows of a table (JSON lines too)."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, tee
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from elmokit.config import check_choice
from elmokit.errors import ElmoWarning, FormatError, InputError
from elmokit.io.fetch import Progress
from elmokit.io.tables import TABLE_SUFFIXES, TableRow, table_rows
from elmokit.io.text_files import ENCODING, Line, read_text, suffix
from elmokit.static.files import is_utf8
from elmokit.system import counted
from elmokit.tasks.config import Column, FilesConfig, Format, Kind, TaskConfig
from elmokit.tasks.files.conll import DOCUMENT_START
from elmokit.tasks.files.examples import (
    NUMBER,
    PAIR,
    TEXT,
    TextColumns,
    text_positions,
)
from elmokit.tasks.files.squad import questions_of
from elmokit.tasks.predictions import Prediction, ReadablePrediction
from elmokit.tasks.srl.propositions import WithPredicates
from elmokit.tasks.trained import TrainedTask
from elmokit.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from elmokit.tasks.trained import TrainedTask


ItemFormat = Literal["text", "jsonl", "csv", "tsv", "squad"]
LABELLED = (".conll", ".conllu", ".bio", ".iob", ".json")
SQUAD = ".json"
STANDARD_INPUT = "-"


@dataclass(frozen=True)
class ItemSettings:
    """How lines become items.

    Attributes:
        format: What they are.
        columns: Of a table: that of the text, or the two of a pair; none for the usual ones.
        usual: Columns that are taken before those with usual names, where a table has them.
        header: Of CSV and TSV: the first line names the columns.
        skip_bad_rows: Of CSV and TSV: leave out rows with more or fewer values than columns.
        encoding: How the lines are written as bytes.
        context: Of a reader: the text that all questions are about; None where each has its own.
    """

    format: ItemFormat = "text"
    columns: tuple[Column, ...] = ()
    usual: tuple[Column, ...] = ()
    header: bool = True
    skip_bad_rows: bool = False
    encoding: str = ENCODING
    context: str | None = None

    def __post_init__(self) -> None:
        check_choice("format", self.format, get_args(ItemFormat))


def item_settings(
    name: str | Path,
    task: TaskConfig,
    *,
    format: ItemFormat | None = None,
    columns: Sequence[Column] = (),
    header: bool | None = None,
    skip_bad_rows: bool = False,
    encoding: str | None = None,
    context: str | Path | None = None,
) -> ItemSettings:
    """How a file of items is read: as the training files were, unless something else is said.

    Args:
        name: The file; - for standard input, which is text unless `format` says otherwise.
        task: The settings that the task was trained with.
        format: None for what the name says, or else that of training if it is one of tables.
        columns: Of a table: that of the text, or the two of a pair; none for those of training, or
            else those with usual names.
        header: Of CSV and TSV: whether the first line names the columns.
        skip_bad_rows: Of CSV and TSV: leave out rows with more or fewer values than columns.
        encoding: None for that of training in CSV and TSV, and UTF-8 elsewhere.
        context: Of a reader: the file of the text that all questions are about.
    """
    asks = task.kind == "reading" and suffix(name) == SQUAD
    found = format or ("squad" if asks else _format_to_read(name, task.files.format))
    # What tagged words are in is no table of texts: its columns and its header say nothing here.
    tagged = task.kind == "tags"
    # Numbers of columns that had no names say nothing of JSON, whose fields have names alone.
    unnamed = found == "jsonl" and not task.files.header
    if encoding is None:
        encoding = task.files.encoding if found in ("csv", "tsv") else ENCODING
    return ItemSettings(
        format=found,
        columns=tuple(columns),
        usual=() if tagged or unnamed else task.files.texts,
        header=(tagged or task.files.header) if header is None else header,
        skip_bad_rows=skip_bad_rows,
        encoding=encoding,
        context=None if context is None else read_text(context, encoding),
    )


def format_of(name: str | Path, trained: Format | None = None) -> ItemFormat:
    """What a file is: by its name, or else what the training files were said to be, if a table.

    >>> format_of("a.csv.gz"), format_of("a.txt"), format_of("a.txt", "tsv"), format_of("-", "tsv")
    ('csv', 'text', 'tsv', 'text')
    """
    if suffix(name) in LABELLED:
        raise InputError(
            f"{name}: is a file of labelled examples by its name; measure with elmo task evaluate, "
            "give raw text or a table (.csv, .tsv, .jsonl) to predict, or say what it is (--format)"
        )
    if suffix(name) in TABLE_SUFFIXES:
        return TABLE_SUFFIXES[suffix(name)]
    if trained in ("csv", "tsv", "jsonl") and str(name) != STANDARD_INPUT:
        return trained
    return "text"


def _format_to_read(name: str | Path, trained: Format | None) -> ItemFormat:
    """What a file is; it is said where training decides, since lines of text may look the same."""
    found = format_of(name, trained)
    if found != format_of(name):
        warnings.warn(
            f"{name}: is read as {found}, as the training files were; if it is not, say what it is "
            "(--format text)",
            ElmoWarning,
            stacklevel=3,
        )
    return found


LABELLED_LINE = re.compile(rf"{DOCUMENT_START}\s|\(\d+ \(")
"""How files of labelled examples begin whose names say nothing: CoNLL's, and sentiment trees."""
QUESTION = TextColumns("a question", [("question",)])
QUESTION_AND_CONTEXT = TextColumns("a question and its context", [("question", "context")])
CONTEXT = "context"
PREDICATES = "predicates"


class PredictionItem(NamedTuple):
    """What a prediction is wanted for."""

    place: str  # "file, line 3"
    asked: Any  # as `TrainedTask.predict` takes it
    given: dict[str, Any]  # what a line of the answer begins with


def items_of(
    lines: Iterable[Line], kind: Kind, settings: ItemSettings | None = None
) -> Iterator[PredictionItem]:
    """The items of a file's lines, which are read as they are asked for; blank ones are left out.

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
        return _squad_items(list(lines), kind, settings)
    if settings.format != "text":
        header, skip_bad = settings.header, settings.skip_bad_rows
        rows = table_rows(lines, settings.format, header=header, skip_bad=skip_bad)
        return (_row_item(row, kind, settings) for row in rows)
    if kind == "coref":
        lines = list(lines)
    filled = (line for line in lines if line.text.strip())
    first = next(filled, None)
    if first is None:
        return iter(())
    if LABELLED_LINE.match(first.text):
        raise InputError(
            f"{first.place}: is labelled, as in CoNLL columns or sentiment trees, and predictions "
            "are of raw text; measure with elmo task evaluate, or take the labels out"
        )
    if settings.columns:
        raise InputError(
            f"{first.place}: is plain text, which has no columns; give no --text-column, or say "
            "what the file is (--format)"
        )
    if kind == "coref":
        return iter([_document(lines, first.place)])
    return (_text_item(line, kind, settings) for line in chain([first], filled))


def _squad_items(
    lines: Sequence[Line], kind: Kind, settings: ItemSettings
) -> Iterator[PredictionItem]:
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
        yield PredictionItem(place, (question, context), {"id": number, "question": question})


def wanted_by(kind: Kind, settings: ItemSettings) -> TextColumns:
    """What an item of a kind is made of."""
    if kind == "reading":
        return QUESTION_AND_CONTEXT if settings.context is None else QUESTION
    return PAIR if kind == "pair" else TEXT


def _document(lines: Iterable[Line], place: str) -> PredictionItem:
    text = "\n".join(line.text for line in lines)
    return PredictionItem(place, text, {"text": text})


def _text_item(line: Line, kind: Kind, settings: ItemSettings) -> PredictionItem:
    wanted = wanted_by(kind, settings)
    if wanted == TEXT:
        return PredictionItem(line.place, line.text, {"text": line.text})
    parts = line.text.split("\t") if wanted.parts == 2 else [line.text]
    if len(parts) != wanted.parts:
        raise FormatError(
            f"{line.place}: has {counted(len(parts), 'text')} between tabs; {_two_texts(kind)}"
        )
    return PredictionItem(
        line.place, _asked(parts, settings), dict(zip(wanted.usual[0], parts, strict=True))
    )


def _two_texts(kind: Kind) -> str:
    if kind == "pair":
        return "a pair has two, with one tab between"
    return "write a question, a tab, and the text it is about, or name that text (--context FILE)"


def _asked(parts: Sequence[Any], settings: ItemSettings) -> Any:
    """The parts of an item as `TrainedTask.predict` takes them."""
    if settings.context is not None:
        return (*parts, settings.context)
    return tuple(parts) if len(parts) == 2 else parts[0]


def _row_item(row: TableRow, kind: Kind, settings: ItemSettings) -> PredictionItem:
    """The item of a row."""
    json_lines = settings.format == "jsonl"
    table = FilesConfig(
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
    return PredictionItem(row.place, asked, given)


def is_question_alone(row: TableRow) -> bool:
    """Whether a row has a question, but no text that it is about."""
    names = [name.lower() for name in row.names]
    return "question" in names and CONTEXT not in names


def _columns_of_training(row: TableRow, settings: ItemSettings) -> tuple[Column, ...]:
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


def answer_lines(
    trained: TrainedTask,
    items: Iterable[PredictionItem],
    *,
    as_text: bool = False,
    progress: Progress | None = None,
    looking_up: Progress | None = None,
) -> Iterator[str]:
    """The answer to each item, as a line of JSON or as text; items are read as they are answered.

    Args:
        trained: What is asked.
        items: What it is asked about.
        as_text: Mark what was given with what was found, in place of JSON.
        progress: Told how many words of the items are read.
        looking_up: Told how many bytes of static vectors are read for new words.
    """
    items, asked, named = tee(items, 3)
    found = trained.predictions(
        (item.asked for item in asked),
        places=(item.place for item in named),
        progress=progress,
        looking_up=looking_up,
    )
    for item, prediction in zip(items, found, strict=True):
        yield _text(prediction) if as_text else _json(answer_to(item, prediction.to_dict()))


def answer_to(item: PredictionItem, found: Mapping[str, Any]) -> dict[str, Any]:
    """A line of the answer: what was given, then what was found.

    What was given under a name that the answer needs is kept with `given_` before it.

    >>> answer_to(PredictionItem("line 1", "a", {"text": "a", "label": "ham"}), {"label": "spam"})
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


def _json(answer: Mapping[str, Any]) -> str:
    line = json.dumps(answer, ensure_ascii=False)
    # Half a pair of surrogates, which JSON can write and UTF-8 cannot, stays escaped.
    return line if is_utf8(line) else json.dumps(answer)


def _text(prediction: Prediction) -> str:
    if not isinstance(prediction, ReadablePrediction):
        raise InputError("the answers of this task are no text; leave out --as text")
    return prediction.to_text()


OF_VERBS = "V"
"""What the tags of verbs begin with: VERB, VBZ, VVFIN."""


def about_words(
    items: Iterable[PredictionItem], words: Sequence[str], tokenizer: Tokenizer
) -> Iterator[PredictionItem]:
    """Items whose predicates are some words, wherever they occur, unless they have their own.

    Args:
        items: Texts, or lists of words.
        words: The predicates; those that occur nowhere are named in a warning after the last item.
        tokenizer: That of the task which is asked.
    """
    named = [word.strip() for word in words if word.strip()]
    if not named:
        raise InputError("--predicates has no words; name some with commas between them")
    return _about_words(items, named, tokenizer)


def _about_words(
    items: Iterable[PredictionItem], named: Sequence[str], tokenizer: Tokenizer
) -> Iterator[PredictionItem]:
    missing = {word.lower(): word for word in named}
    for item in items:
        for sentence in _sentences(item.asked, tokenizer) if missing else ():
            for word in sentence:
                missing.pop(str(word).lower(), None)
        yield _about(item, named)
    for word in missing.values():
        warnings.warn(f"the predicate {word!r} occurs nowhere", ElmoWarning, stacklevel=2)


def about_verbs(
    items: Iterable[PredictionItem], tagger: TrainedTask, tokenizer: Tokenizer
) -> Iterator[PredictionItem]:
    """Items whose predicates are what a tagger takes for verbs, unless they have their own.

    Args:
        items: Texts, or lists of words.
        tagger: A task that has learnt parts of speech.
        tokenizer: That of the task which is asked: numbers of words are by its own.
    """
    check_knows_verbs(tagger)
    of_items = ((item, _sentences(item.asked, tokenizer)) for item in items)
    split, asked, named = tee(of_items, 3)
    tagged = tagger.predictions(
        (sentence for _, some in asked for sentence in some),
        places=(item.place for item, some in named for _ in some),
    )
    return (_about(item, _verbs(islice(tagged, len(some)))) for item, some in split)


def _verbs(tagged: Iterable[Prediction]) -> list[int]:
    """The numbers of the words that are verbs, in the sentences of an item."""
    tags = chain.from_iterable(each.to_dict()["tags"] for each in tagged)
    return [number for number, tag in enumerate(tags) if tag.startswith(OF_VERBS)]


def check_knows_verbs(tagger: TrainedTask) -> None:
    """Refuse what does not tag verbs."""
    if tagger.config.kind != "tags" or not any(
        name.startswith(OF_VERBS) for name in tagger.labels.names
    ):
        raise InputError(
            f"the tagger is a task of kind {tagger.config.kind!r} without a tag for verbs (VERB, "
            "VB, …); train one: elmo task train pos"
        )


def _about(item: PredictionItem, predicates: Sequence[int | str]) -> PredictionItem:
    if isinstance(item.asked, WithPredicates):
        return item
    return item._replace(asked=WithPredicates(item.asked, predicates))


def _sentences(asked: Any, tokenizer: Tokenizer) -> list[Any]:
    """The sentences of a text as words; words as they are; none where predicates are given."""
    if isinstance(asked, WithPredicates):
        return []
    if isinstance(asked, str):
        return [[token.text for token in some] for some in tokenizer.sentences(asked)]
    return [asked]
