"""What is wrong with a body, in plain words: pydantic's own speak of its insides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

LONGEST_NAME = 40
NO_OBJECT = (
    "the body is not a JSON object; send one, with the header Content-Type: application/json"
)
A_TEXT, A_NUMBER, A_WHOLE_NUMBER = (
    "should be a text",
    "should be a number",
    "should be a whole number",
)
WORDS = {
    "missing": "is missing; send it",
    "extra_forbidden": "is not a field of this request; /docs lists them",
    "model_attributes_type": "should be an object",
    "model_type": "should be an object",
    "dict_type": "should be an object",
    "list_type": "should be a list",
    "string_type": A_TEXT,
    "string_unicode": A_TEXT,
    "string_too_short": "is empty; send a text",
    "bool_type": "should be true or false",
    "float_type": A_NUMBER,
    "finite_number": A_NUMBER,
    "int_type": A_WHOLE_NUMBER,
    "int_from_float": A_WHOLE_NUMBER,
    "int_parsing_size": A_WHOLE_NUMBER,
    "literal_error": "should be {expected}",
    "greater_than_equal": "should be {ge:,.19g} or more",
    "less_than_equal": "should be {le:,.19g} or less",
    "less_than": "should be less than {lt:,.19g}",
}  # fmt: skip
"""For each of pydantic's kinds of error that a body can have."""


class Mistake(NamedTuple):
    """What is wrong with a body."""

    message: str
    field: str | None  # as a program would find it: sentences.0.1


def mistake_of(error: Mapping[str, Any]) -> Mistake:
    """One of pydantic's errors, as people would say it.

    >>> mistake_of({"type": "string_type", "loc": ("body", "sentences", 0, 1), "msg": "…"}).message
    'entry 2 of entry 1 of sentences should be a text'
    """
    kind, place = error["type"], error["loc"][1:]
    if kind == "json_invalid" or not place:
        return Mistake(NO_OBJECT, None)
    field = ".".join(str(part)[:LONGEST_NAME] for part in place)
    if kind in WORDS:
        words = WORDS[kind].format(**error.get("ctx", {}))
        return Mistake(f"{name_of(place)} {words}", field)
    return Mistake(f"{name_of(place)}: {error['msg'].removeprefix('Value error, ')}", field)


def name_of(place: Sequence[str | int]) -> str:
    """A field as people call it; they count from 1.

    >>> name_of(["mix", "weights", 2])
    'entry 3 of mix.weights'
    """
    name = ""
    for part in place:
        if isinstance(part, int):
            name = f"entry {part + 1} of {name}"
        else:
            name = f"{name}.{part[:LONGEST_NAME]}" if name else part[:LONGEST_NAME]
    return name
