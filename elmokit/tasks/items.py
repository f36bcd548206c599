"""What a trained task is asked about: lines of raw text, or JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from elmokit.errors import FormatError, InputError
from elmokit.tasks.config import Kind

ItemFormat = Literal["text", "jsonl"]
JSON_SUFFIXES = (".jsonl", ".ndjson")
ONE = ("words", "text", "sentence")
PAIRS = (("first", "second"), ("premise", "hypothesis"), ("sentence1", "sentence2"))


class Item(NamedTuple):
    """What a prediction is wanted for."""

    place: str  # "file, line 3"
    asked: Any  # as `TrainedTask.predict` takes it
    given: dict[str, Any]  # what a line of the answer begins with


def format_of(name: str) -> ItemFormat:
    """What a file is by its name."""
    return "jsonl" if name.lower().endswith(JSON_SUFFIXES) else "text"


def items_of(
    lines: Iterable[str], name: str, kind: Kind, item_format: ItemFormat
) -> Iterator[Item]:
    """The items of a file's lines; blank lines are left out.

    A line of text is a text, or two with a tab between them. A JSON object has "words" or "text",
    or "first" and "second", each a text or a list of words; whatever else it has is kept.
    """
    read = _json_item if item_format == "jsonl" else _text_item
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield read(line, kind, f"{name}, line {number}")


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


def _text_item(line: str, kind: Kind, place: str) -> Item:
    if kind != "pair":
        return Item(place, line, {"text": line})
    parts = line.split("\t")
    if len(parts) != 2:
        raise FormatError(
            f"{place}: has {len(parts)} texts between tabs; a pair has two, with one tab between"
        )
    return Item(place, tuple(parts), dict(zip(PAIRS[0], parts, strict=True)))


def _json_item(line: str, kind: Kind, place: str) -> Item:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{place}: is not valid JSON ({error}); mend the line") from error
    if not isinstance(values, dict):
        raise FormatError(f'{place}: is no JSON object; write {{"text": "…"}}')
    if kind == "pair":
        for names in PAIRS:
            if values.keys() >= set(names):
                return Item(place, tuple(values[name] for name in names), values)
        raise InputError(f'{place}: has no pair; write {{"first": "…", "second": "…"}}')
    for name in ONE:
        if name in values:
            return Item(place, values[name], values)
    raise InputError(f'{place}: has neither "words" nor "text"; write {{"text": "…"}}')
