"""CoNLL columns of answers: what evaluation tools read, and columns added to labelled files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, get_args

from elmokit.errors import InputError
from elmokit.io.text_files import ExampleFormat, Line, TextSettings, suffix
from elmokit.tasks.config import COLUMN_FORMATS, COLUMN_KINDS, Kind
from elmokit.tasks.coref.task import CorefPrediction
from elmokit.tasks.examples import Words
from elmokit.tasks.files.conll import (
    BEGIN,
    COMMENT,
    END,
    LAYOUTS,
    NO_MENTION,
    NO_ROLESET,
    PropsFormat,
    conllu_tag,
    coref_documents,
    role_sentence,
    words_of_lines,
)
from elmokit.tasks.files.examples import format_of
from elmokit.tasks.labelling import TagPrediction
from elmokit.tasks.srl.propositions import VERB, WithPredicates
from elmokit.tasks.srl.task import RolePrediction
from elmokit.tasks.tags import OUTSIDE, LabelledSpan, spans, write_tags
from elmokit.tasks.task import Prediction
from elmokit.text.conllu import DOCUMENT_START, POSITIONS, UNSPECIFIED, columns_of

LABELLED = (".conll", ".conllu", ".bio", ".iob", ".json")  # suffixes of files of labelled examples


class LabelledPart(NamedTuple):
    """The lines of a sentence, or of a document, of a labelled file."""

    place: str
    asked: Words | tuple[Words, ...] | WithPredicates
    lines: Sequence[str]
    are_words: Sequence[bool]  # whether each line is a word; others are copied
    settings: TextSettings


def labelled_format(name: str | Path, kind: Kind, given: str | None) -> ExampleFormat | None:
    """The format of a labelled file that answers can be added to; None for any other file."""
    by_name = given is None and kind in COLUMN_KINDS and suffix(name) in LABELLED
    return format_of(kind, name, given) if by_name or given in COLUMN_FORMATS else None


def labelled_parts(lines: Iterable[Line], settings: TextSettings) -> Iterator[LabelledPart]:
    """The sentences, or the documents, of a labelled file, as they are read."""
    ends = _ends_document if settings.format == "coref" else _ends_sentence
    block: list[Line] = []
    for line in lines:
        block.append(line)
        if ends(line) and (part := _labelled_part(block, settings)):
            yield part
            block = []
    if part := _labelled_part(block, settings):
        yield part


def _ends_sentence(line: Line) -> bool:
    return not line.text.strip() or line.text.startswith(DOCUMENT_START)


def _ends_document(line: Line) -> bool:
    return line.text.startswith(END)


def _labelled_part(block: Sequence[Line], settings: TextSettings) -> LabelledPart | None:
    """A part with words; None where there are comments alone, which belong to the next."""
    are_words = [_is_word(line, settings.format) for line in block]
    rows = [line for line, is_word in zip(block, are_words, strict=True) if is_word]
    if not rows:
        return None
    asked: Words | tuple[Words, ...] | WithPredicates
    match settings.format:
        case "propbank" | "conll2012":
            sentence = role_sentence(rows, LAYOUTS[settings.format])
            asked = WithPredicates(sentence.words, sentence.predicates)
        case "coref":
            [document] = coref_documents(block)
            asked = document.sentences
        case _:
            asked = words_of_lines(rows, settings)
    return LabelledPart(rows[0].place, asked, [line.text for line in block], are_words, settings)


def _is_word(line: Line, format: str | None) -> bool:
    """Whether a line is of a word."""
    if _ends_sentence(line):
        return format not in ("columns", "conllu") and bool(line.text.strip())
    if format == "conllu":
        return columns_of(line)[0].isdecimal()
    no_word = {"coref": (BEGIN, END), "columns": ()}.get(str(format), COMMENT)
    return not line.text.startswith(no_word)


def columns_text(prediction: Prediction, number: int, labelled: LabelledPart | None = None) -> str:
    """An answer in columns: behind those of a labelled file, or with a word before them.

    The tags of words are a word and its tag; roles are PropBank columns; a document has its number
    for a name, and the last column, those of CoNLL-2012.
    """
    match prediction:
        case TagPrediction():
            rows = [[tag] for tag in prediction.tags]
        case RolePrediction():
            rows = _role_rows(prediction)
        case CorefPrediction():
            rows = [[chain] for chain in _chains(prediction)]
        case _:
            raise InputError("the answers of this task are not columns; leave out --as conll")
    if labelled is not None:
        return "\n".join(_added(labelled, rows))
    bounds = pairwise((*prediction.sentences, len(prediction.words)))
    blocks = ("\n".join(_own_lines(prediction, rows, *bound, number)) for bound in bounds)
    text = "\n\n".join(blocks)
    if isinstance(prediction, CorefPrediction):
        return f"{BEGIN} ({number}); part 000\n{text}\n\n{END}"
    return f"{text}\n"


def _own_lines(
    prediction: TagPrediction | RolePrediction | CorefPrediction,
    rows: Sequence[Sequence[str]],
    first: int,
    end: int,
    document: int,
) -> Iterator[str]:
    """The lines of a sentence of raw text."""
    words = prediction.words[first:end]
    plain = isinstance(prediction, TagPrediction) and not any(" " in word for word in words)
    for n, (word, row) in enumerate(zip(words, rows[first:end], strict=True)):
        match prediction:
            case TagPrediction():
                before = [word]
            case RolePrediction():
                before = [str(n + 1), word, UNSPECIFIED, UNSPECIFIED]
            case CorefPrediction():
                before = [str(document), "0", str(n), word]
        yield (" " if plain else "\t").join([*before, *row])


def _role_rows(prediction: RolePrediction) -> list[list[str]]:
    """For each word what is in place of a roleset, and its brackets beside each predicate."""
    rows = [[NO_ROLESET] for _ in prediction.words]
    for first, end in pairwise((*prediction.sentences, len(prediction.words))):
        for predicate in prediction.predicates:
            if first <= predicate.word < end:
                rows[predicate.word][0] = prediction.words[predicate.word]
                phrases = [LabelledSpan(*each[:1], *each[2:4]) for each in predicate.arguments]
                tags = list(write_tags(phrases, len(rows), "BIO"))
                tags[predicate.word] = f"B-{VERB}"  # also in the midst of an argument
                for row, bracket in zip(rows[first:end], _brackets(tags[first:end]), strict=True):
                    row.append(bracket)
    return rows


def _brackets(tags: Sequence[str]) -> list[str]:
    """Phrases as PropBank's files write them.

    >>> _brackets(["B-ARG0", "I-ARG0", "B-V", "O"])
    ['(ARG0*', '*)', '(V*)', '*']
    """
    cells = ["*"] * len(tags)
    for role, start, end in spans(tags):
        cells[start] = f"({role}*"
        cells[end - 1] += ")"
    return cells


def _chains(prediction: CorefPrediction) -> Iterator[str]:
    """The last column of CoNLL-2012: ends of mentions, mentions of one word, then beginnings."""
    cells: list[list[tuple[int, str]]] = [[] for _ in prediction.words]
    for chain, cluster in enumerate(prediction.clusters):
        for mention in cluster:
            first, last = mention.first_word, mention.end_word - 1
            if first == last:
                cells[first].append((1, f"({chain})"))
            else:
                cells[first].append((2, f"({chain}"))
                cells[last].append((0, f"{chain})"))
    for cell in cells:
        yield "|".join(text for _, text in sorted(cell)) or NO_MENTION[0]


def _added(part: LabelledPart, rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a labelled part with what was found; what is no word is copied."""
    found = iter(rows)
    for line, is_word in zip(part.lines, part.are_words, strict=True):
        if not is_word:
            # Evaluation scripts want as many columns in each line.
            of_tags = part.settings.format == "columns" and line.startswith(DOCUMENT_START)
            yield f"{line}{_separator(line)}{OUTSIDE}" if of_tags else line
            continue
        yield _separator(line).join(_with_answer(line, next(found), part.settings))
    if part.settings.format != "coref" and part.are_words[-1]:
        yield ""


def _separator(line: str) -> str:
    return "\t" if "\t" in line else " "


def _with_answer(line: str, row: Sequence[str], settings: TextSettings) -> list[str]:
    """The columns of a word with its answer: behind them, or in its place where that is fixed."""
    columns = columns_of(Line("", line))
    if settings.format == "conllu":
        columns[POSITIONS[conllu_tag("", settings)]] = row[0]
        return columns
    if settings.format in get_args(PropsFormat):
        layout = LAYOUTS[settings.format]  # type: ignore[index]
        return [*columns[: layout.first], *row[1:], *columns[len(columns) - layout.after :]]
    return [*columns, *row]
