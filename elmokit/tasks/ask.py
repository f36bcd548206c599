"""Input of `predict`: lines of raw text or rows of a table to items, and answers to lines."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, tee
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from elmokit.errors import ElmoWarning, FormatError, InputError
from elmokit.io.tables import NUMBER, TABLE_SUFFIXES, TableFormat, TableRow, table_rows
from elmokit.io.text_files import (
    ENCODING,
    STANDARD_INPUT,
    Column,
    Line,
    TextSettings,
    read_lines,
    read_text,
    suffix,
)
from elmokit.jobs.progress import Observer
from elmokit.static.files import is_utf8
from elmokit.system import counted
from elmokit.tasks.columns import (
    LABELLED,
    LabelledPart,
    columns_text,
    labelled_format,
    labelled_parts,
)
from elmokit.tasks.config import COLUMN_FORMATS, COLUMN_KINDS, Kind, TaskConfig
from elmokit.tasks.files.conll import CONLLU_TAGS
from elmokit.tasks.files.examples import PAIR, TEXT, TextColumns, text_positions
from elmokit.tasks.files.squad import questions_of
from elmokit.tasks.folder import TaskFolder
from elmokit.tasks.labelling import TagPrediction
from elmokit.tasks.reading.task import AnswerPrediction
from elmokit.tasks.srl.propositions import WithPredicates
from elmokit.tasks.task import Prediction
from elmokit.tasks.trained import TrainedTask
from elmokit.text.conllu import DOCUMENT_START
from elmokit.text.tokenizer import Tokenizer

LABELLED_LINE = re.compile(rf"{DOCUMENT_START}\s|\(\d+ \(")
"""How files of labelled examples begin whose names say nothing: CoNLL's, and sentiment trees."""
ShownAs = Literal["jsonl", "text", "conll"]  # how answers are shown
QUESTION = TextColumns("a question", [("question",)])
QUESTION_AND_CONTEXT = TextColumns("a question and its context", [("question", "context")])
CONTEXT = "context"
PREDICATES = "predicates"


def settings_to_predict(name: str | Path, task: TaskConfig, **given: Any) -> TextSettings:
    """How a file of items is read: as the training files were, unless something else is given.

    Standard input, -, is text unless a format is given. Without an encoding it is that of training
    in CSV and TSV, and UTF-8 elsewhere.
    """
    asks = task.kind == "reading" and suffix(name) == ".json"
    found = labelled_format(name, task.kind, given.get("format")) or given.get("format")
    found = found or ("squad" if asks else format_of(name, task.files.format))
    of_training = {
        "encoding": task.files.encoding if found in ("csv", "tsv", *COLUMN_FORMATS) else ENCODING,
        # What tagged words are in is not a table of texts: its header says nothing here.
        "header": task.kind == "tags" or task.files.header,
    }
    if found == "columns":
        of_training["text_column"] = task.files.text_column
    if found == "conllu" and str(task.files.label_column) in CONLLU_TAGS:
        of_training["label_column"] = task.files.label_column
    return TextSettings(**{**of_training, **given, "format": found})


def format_of(name: str | Path, trained: str | None = None) -> str:
    """What a file is: by its name, or else what the training files were said to be, if a table.

    >>> format_of("a.csv.gz"), format_of("a.txt"), format_of("-", "tsv")
    ('csv', 'text', 'text')
    """
    if suffix(name) in LABELLED:
        raise InputError(
            f"{name}: is a file of labelled examples by its name, and not of this kind of task; "
            "give raw text or a table (.csv, .tsv, .jsonl), or say what it is (--format)"
        )
    if suffix(name) in TABLE_SUFFIXES:
        return TABLE_SUFFIXES[suffix(name)]
    if trained not in TABLE_SUFFIXES.values() or str(name) == STANDARD_INPUT:
        return "text"
    # Since lines of text may look the same:
    warnings.warn(
        f"{name}: is read as {trained}, as the training files were; if it is not, say what it is "
        "(--format text)",
        ElmoWarning,
        stacklevel=3,
    )
    return str(trained)


def how_to_show(settings: TextSettings, on_terminal: bool) -> ShownAs:
    """How the answers to a file are shown where nobody says it."""
    if settings.format in COLUMN_FORMATS:
        return "conll"
    return "text" if on_terminal else "jsonl"


def check_suits(folder: TaskFolder, shown_as: ShownAs, questions: bool, predicates: bool) -> None:
    """Raise for what only tasks of another kind are asked, or answer."""
    place, kind = folder.folder, folder.config.kind
    if questions and kind != "reading":
        raise InputError(f"{place}: answers no questions; give texts as INPUT, not --question")
    if predicates and kind != "srl":
        raise InputError(f"{place}: knows no predicates; give neither --predicates nor --tagger")
    if shown_as == "conll" and kind not in COLUMN_KINDS:
        raise InputError(f"{place}: its answers are not columns; leave out --as conll")


class PredictionItem(NamedTuple):
    """What a prediction is wanted for."""

    place: str  # "file, line 3"
    asked: Any  # as `TrainedTask.predict` takes it
    given: dict[str, Any]  # what a line of the answer begins with
    labelled: LabelledPart | None = None  # the lines that it was read from, of a labelled file


def items_asked(
    task: TaskConfig,
    name: str | None,
    settings: TextSettings,
    questions: Sequence[str] = (),
    context: str | None = None,
) -> Iterator[PredictionItem]:
    """The items of a file, or of questions without one; `context` is a file too.

    The rest of a file is read as it is answered; its first item is looked at here.
    """
    about = None if context is None else read_text(context, settings.encoding)
    lines = read_lines(name, settings.encoding) if name else lines_of_questions(questions)
    items = items_of(lines, task, settings, about)
    return chain(list(islice(items, 1)), items)


def lines_of_questions(questions: Sequence[str]) -> Sequence[Line]:
    """Questions as lines, each with its place; raises for one that asks nothing."""
    for number, question in enumerate(questions, start=1):
        if not question.strip():
            raise InputError(f"question {number}: has no words; ask something")
    return [Line(f"question {number}", each) for number, each in enumerate(questions, start=1)]


def items_of(
    lines: Iterable[Line], task: TaskConfig, settings: TextSettings, context: str | None = None
) -> Iterator[PredictionItem]:
    """The items of a file's lines, which are read as they are asked for; blank ones are left out.

    A line of text is a text, or two with a tab between them. A row of a table has columns, which
    are the fields of a JSON object: a text each, or in JSON a list of words. For a reader it is a
    question, and the text that it is about unless that is given as `context`. For coreference all
    lines of text together are one document.
    Whatever else a row has is given back. SQuAD's JSON is questions with their contexts and ids.
    """
    if context is not None and task.kind != "reading":
        raise InputError("the task answers no questions about a text; give no --context")
    if settings.format == "squad":
        if task.kind != "reading" or context is not None:
            raise InputError(
                "a file of SQuAD has questions with the texts that they are about; ask a reader, "
                "and give no --context"
            )
        return _squad_items(list(lines), settings)
    if settings.format in COLUMN_FORMATS:
        parts = labelled_parts(lines, settings)
        return (PredictionItem(part.place, part.asked, {}, part) for part in parts)
    if settings.format in TABLE_SUFFIXES.values():
        rows = table_rows(lines, cast(TableFormat, settings.format), settings)
        return (_row_item(row, task, settings, context) for row in rows)
    return _text_items(lines, task.kind, settings, context)


def _squad_items(lines: Sequence[Line], settings: TextSettings) -> Iterator[PredictionItem]:
    """The questions of SQuAD's JSON, which stands on lines that mean nothing."""
    if settings.text_columns:
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


def _wanted_by(kind: Kind, context: str | None) -> TextColumns:
    """What an item of a kind is made of."""
    if kind == "reading":
        return QUESTION_AND_CONTEXT if context is None else QUESTION
    return PAIR if kind == "pair" else TEXT


def _text_items(
    lines: Iterable[Line], kind: Kind, settings: TextSettings, context: str | None
) -> Iterator[PredictionItem]:
    """The items of lines of raw text."""
    if kind == "coref":
        lines = list(lines)
    filled = (line for line in lines if line.text.strip())
    first = next(filled, None)
    if first is None:
        return
    if LABELLED_LINE.match(first.text):
        raise InputError(
            f"{first.place}: is labelled, as in CoNLL columns or sentiment trees, and predictions "
            "are of raw text; say what the file is (--format), or measure with elmo task evaluate"
        )
    if settings.text_columns:
        raise InputError(
            f"{first.place}: is plain text, which has no columns; give no --text-column, or say "
            "what the file is (--format)"
        )
    if kind == "coref":
        text = "\n".join(line.text for line in lines)
        yield PredictionItem(first.place, text, {"text": text})
        return
    for line in chain([first], filled):
        yield _text_item(line, kind, context)


def _text_item(line: Line, kind: Kind, context: str | None) -> PredictionItem:
    wanted = _wanted_by(kind, context)
    parts = line.text.split("\t") if wanted.parts == 2 else [line.text]
    if len(parts) != wanted.parts:
        advice = (
            "a pair has two, with one tab between"
            if kind == "pair"
            else "write a question, a tab, and the text it is about, or name that text "
            "(--context FILE)"
        )
        raise FormatError(f"{line.place}: has {counted(len(parts), 'text')} between tabs; {advice}")
    given = dict(zip(wanted.usual[0], parts, strict=True))
    return PredictionItem(line.place, _asked(parts, context), given)


def _asked(parts: Sequence[Any], context: str | None) -> Any:
    """The parts of an item as `TrainedTask.predict` takes them."""
    if context is not None:
        return (*parts, context)
    return tuple(parts) if len(parts) == 2 else parts[0]


def _row_item(
    row: TableRow, task: TaskConfig, settings: TextSettings, context: str | None
) -> PredictionItem:
    """The item of a row."""
    json_lines = settings.format == "jsonl"
    columns = settings.text_columns or _columns_of_training(row, task, settings)
    wanted = _wanted_by(task.kind, context)
    names = [name.lower() for name in row.names]
    lacks_context = "question" in names and CONTEXT not in names
    if wanted == QUESTION_AND_CONTEXT and not columns and lacks_context:
        raise InputError(
            f"{row.named_at}: has a question and no {CONTEXT!r}; add the text that it is about, or "
            "name one for all questions (--context FILE)"
        )
    positions = text_positions(row, wanted, columns, header=settings.header or json_lines)
    texts = [row.values[at] for at in positions]
    named = zip(row.names, row.values, strict=True)
    given = {name: value for name, value in named if name or json_lines}
    if context is not None and not settings.text_columns and CONTEXT in given:
        raise InputError(
            f"{row.place}: has a {CONTEXT!r} of its own; leave that out, or leave out --context"
        )
    asked = _asked(texts, context)
    if task.kind == "srl" and json_lines and PREDICATES in given:
        asked = WithPredicates(asked, given[PREDICATES])
    return PredictionItem(row.place, asked, given)


def _columns_of_training(
    row: TableRow, task: TaskConfig, settings: TextSettings
) -> tuple[Column, ...]:
    """The columns that the texts of training were in, if a row has them."""
    json_lines = settings.format == "jsonl"
    # Numbers of columns that had no names say nothing of JSON, whose fields have names alone.
    if task.kind == "tags" or (json_lines and not task.files.header):
        return ()
    others = [str(column) for column in task.files.text_columns if column not in row.names]
    if not all(map(NUMBER.fullmatch, others)):
        return ()
    if others and json_lines:
        raise InputError(
            f"{row.place}: the task was trained on column {others[0]}, and fields of JSON have no "
            f"numbers of their own; name one of {', '.join(map(repr, row.names))} (--text-column)"
        )
    return task.files.text_columns


def answer_lines(
    trained: TrainedTask,
    items: Iterable[PredictionItem],
    *,
    shown_as: ShownAs = "jsonl",
    probabilities: bool = False,
    observer: Observer | None = None,
) -> Iterator[str]:
    """The answer to each item: JSON, text or columns; items are read as they are answered."""
    items, asked, named = tee(items, 3)
    found = trained.predictions(
        (item.asked for item in asked), places=(item.place for item in named), observer=observer
    )
    for number, (item, prediction) in enumerate(zip(items, found, strict=True), start=1):
        if shown_as == "text":
            yield _text(item, prediction)
        elif shown_as == "conll":
            yield columns_text(prediction, number, item.labelled)
        else:
            yield _json(answer_to(item, prediction.to_answer(probabilities)))


def _text(item: PredictionItem, prediction: Prediction) -> str:
    """An answer for people: marks in what was asked, or the answer before it."""
    if prediction.marks_text:
        return prediction.to_text()
    asked = item.asked[0] if isinstance(prediction, AnswerPrediction) else item.asked
    return f"{prediction.to_text()}  {_on_one_line(asked)}"


def _on_one_line(asked: Any) -> str:
    """A text, words, or a pair of them.

    >>> _on_one_line(("a  b", ["c", "d"]))
    'a b | c d'
    """
    if isinstance(asked, tuple):
        return " | ".join(map(_on_one_line, asked))
    return " ".join(asked.split() if isinstance(asked, str) else asked)


def answer_to(item: PredictionItem, found: Mapping[str, Any]) -> dict[str, Any]:
    """A line of the answer: what was given, then what was found.

    What was given under a name that the answer needs is given back with `given_` before it.

    >>> answer_to(PredictionItem("line 1", "a", {"text": "a", "label": "ham"}), {"label": "spam"})
    {'text': 'a', 'given_label': 'ham', 'label': 'spam'}
    """
    returned: dict[str, Any] = {}
    for name, value in item.given.items():
        if name == "words" and value == found.get(name):
            continue
        free = name
        while free in found or (free != name and free in item.given):
            free = f"given_{free}"
        returned[free] = value
    return returned | dict(found)


def _json(answer: Mapping[str, Any]) -> str:
    line = json.dumps(answer, ensure_ascii=False)
    # Half a pair of surrogates, which JSON can write and UTF-8 cannot, stays escaped.
    return line if is_utf8(line) else json.dumps(answer)


def with_predicates(
    items: Iterator[PredictionItem],
    trained: TrainedTask,
    predicates: str | None,
    tagger: str | None,
    device: str | None,
) -> Iterator[PredictionItem]:
    """Items whose predicates are words, with commas between, or what the tagger calls verbs."""
    if tagger is not None:
        return about_verbs(items, TrainedTask.load(tagger, device=device), trained.tokenizer)
    if predicates is not None:
        return about_words(items, predicates.split(","), trained.tokenizer)
    return items


OF_VERBS = "V"  # what the tags of verbs begin with: VERB, VBZ, VVFIN


def about_words(
    items: Iterable[PredictionItem], words: Sequence[str], tokenizer: Tokenizer
) -> Iterator[PredictionItem]:
    """Items whose predicates are some words, wherever they occur, unless they have their own.

    Those that occur nowhere are named in a warning after the last item. The tokenizer is that of
    the task which is asked.
    """
    named = [word.strip() for word in words if word.strip()]
    if not named:
        raise InputError("--predicates has no words; name some with commas between them")
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
    """Items whose predicates are what a tagger takes for verbs, unless they have their own."""
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
    tags = chain.from_iterable(cast(TagPrediction, each).tags for each in tagged)
    return [number for number, tag in enumerate(tags) if tag.startswith(OF_VERBS)]


def check_knows_verbs(tagger: TrainedTask) -> None:
    """Raise where a task does not tag verbs."""
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
