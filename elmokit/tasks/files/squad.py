"""SQuAD v1.1: articles of paragraphs, each with questions whose answers stand in its text.

One JSON object: `data` is a list of articles, an article's `paragraphs` have a `context` and `qas`,
each with `id`, `question` and `answers`, and an answer has its `text` and `answer_start`, the
number of characters before it. Whatever else there is, titles for example, is not used.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from elmokit.errors import ElmoWarning, FormatError, InputError
from elmokit.io.text_files import TextSettings, read_text
from elmokit.system import counted
from elmokit.tasks.examples import shown, words_between
from elmokit.tasks.reading.questions import Answer, Passage, Question, read_passage
from elmokit.text.characters import short
from elmokit.text.tokenizer import Tokenizer

Value = TypeVar("Value")
KINDS = {dict: "an object", list: "a list", str: "a text", int: "a whole number"}
SKIP = "leave such questions out (--skip-bad-rows)"


class Paragraph(NamedTuple):
    """A paragraph as the file has it."""

    place: str
    context: str
    questions: list[Any]


class Asked(NamedTuple):
    """A question, whatever people have answered."""

    place: str
    id: str
    question: str
    context: str


def read_squad(path: str | Path, settings: TextSettings, tokenizer: Tokenizer) -> list[Passage]:
    """The paragraphs of a file that have questions.

    With `skip_bad_rows`, questions without words, without an answer, or with one that is not where
    the file says are left out; a warning counts them.
    """
    left_out: list[str] = []
    passages = []
    for paragraph in _paragraphs(_contents(read_text(path, settings.encoding), path), path):
        passage = _passage(paragraph, path, tokenizer, left_out if settings.skip_bad_rows else None)
        if passage.questions:
            passages.append(passage)
    if left_out:
        warnings.warn(
            f"{left_out[0]}; {counted(len(left_out), 'bad question')} left out",
            ElmoWarning,
            stacklevel=2,
        )
    if not passages:
        raise InputError(f"{path}: holds no question; name a file that has some")
    return passages


def questions_of(text: str, path: str | Path) -> Iterator[Asked]:
    """The questions of a file's text, answered or not, to be asked of a reader."""
    for place, context, questions in _paragraphs(_contents(text, path), path):
        for number, asked in enumerate(questions, start=1):
            name = _value(asked, "id", str, f"{place}, question {number}")
            where = f"{path}, question {name}"
            yield Asked(where, name, _value(asked, "question", str, where), context)


def _contents(text: str, path: str | Path) -> dict[str, Any]:
    try:
        contents = json.loads(text.removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        raise FormatError(
            f"{path}, line {error.lineno}: is not JSON ({error.msg}); name a file of SQuAD v1.1"
        ) from error
    except (ValueError, RecursionError) as error:
        why = str(error).partition(":")[0].partition(";")[0]
        raise FormatError(f"{path}: is not JSON ({why}); name a file of SQuAD v1.1") from error
    if not isinstance(contents, dict) or "data" not in contents:
        raise FormatError(
            f"{path}: is JSON, but not SQuAD's: it has no object with a list of articles as "
            '"data"; name a file of SQuAD v1.1'
        )
    return contents


def _paragraphs(contents: Mapping[str, Any], path: str | Path) -> Iterator[Paragraph]:
    articles = _value(contents, "data", list, str(path))
    for article_number, article in enumerate(articles, start=1):
        place = f"{path}, article {article_number}"
        paragraphs = _value(article, "paragraphs", list, place)
        for number, paragraph in enumerate(paragraphs, start=1):
            where = f"{place}, paragraph {number}"
            context = _value(paragraph, "context", str, where)
            yield Paragraph(where, context, _value(paragraph, "qas", list, where))


def _passage(
    paragraph: Paragraph, path: str | Path, tokenizer: Tokenizer, left_out: list[str] | None
) -> Passage:
    """A paragraph with its questions; what is wrong with some goes into `left_out`, if it may."""
    passage = read_passage(paragraph.context, tokenizer, paragraph.place)
    questions = []
    for number, asked in enumerate(paragraph.questions, start=1):
        name = _value(asked, "id", str, f"{paragraph.place}, question {number}")
        place = f"{path}, question {name}"
        tokens = tokenizer.words(_value(asked, "question", str, place))
        words = tuple(token.text for token in tokens)
        answers = [
            _answer(answer, passage, place) for answer in _value(asked, "answers", list, place)
        ]
        wrong = _wrong(passage, words, answers)
        if not wrong:
            right = tuple(answer for answer in answers if isinstance(answer, Answer))
            questions.append(Question(name, words, right))
        elif left_out is None:
            raise FormatError(f"{place}: {wrong}; fix the file, or {SKIP}")
        else:
            left_out.append(f"{place}: {wrong}")
    return replace(passage, questions=tuple(questions))


def _answer(answer: Any, passage: Passage, place: str) -> Answer | str:
    """An answer and its words, or what is wrong with it."""
    text = _value(answer, "text", str, place)
    start = _value(answer, "answer_start", int, place)
    if start < 0 or passage.text[start : start + len(text)] != text:
        there = shown(passage.text[max(start, 0) :][: max(len(text), 1)])
        return f"its answer {shown(text)} is not in its context at {start}, where {there} stands"
    first, end = words_between(passage.offsets, start, start + len(text))
    if first == end:
        return f"its answer {shown(text)} holds no word"
    return Answer(text, first, end)


def _wrong(passage: Passage, words: tuple[str, ...], answers: list[Answer | str]) -> str | None:
    """Why a question cannot be used, the first reason."""
    if not passage.offsets:
        return "its context has no words"
    if not words:
        return "it has no words"
    if not answers:
        return "it has no answer, which SQuAD v1.1 always has"
    return next((answer for answer in answers if isinstance(answer, str)), None)


def _value(values: Any, name: str, kind: type[Value], place: str) -> Value:
    """A field that must be there and of a kind."""
    if not isinstance(values, dict):
        raise FormatError(f"{place}: is {short(values)}; it must be an object; is it SQuAD v1.1?")
    if name not in values:
        raise FormatError(f"{place}: has no {name!r}; is it SQuAD v1.1?")
    value = values[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise FormatError(
            f"{place}: {name!r} is {short(value)}; it must be {KINDS[kind]}; is it SQuAD v1.1?"
        )
    return value
