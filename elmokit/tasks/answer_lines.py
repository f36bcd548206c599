"""What a trained task answers, as lines: JSON, or the text itself with marks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from elmokit.errors import InputError
from elmokit.formats.fetch import Progress
from elmokit.formats.word_vector_items import is_utf8
from elmokit.tasks.items import Item
from elmokit.tasks.predictions import Prediction, ReadablePrediction

if TYPE_CHECKING:
    from elmokit.tasks.saved_task import TrainedTask


def answer_lines(
    trained: TrainedTask,
    items: Sequence[Item],
    *,
    as_text: bool = False,
    progress: Progress | None = None,
    looking_up: Progress | None = None,
) -> Iterator[str]:
    """The answer to each item, as a line of JSON or as text.

    Args:
        trained: What is asked.
        items: What it is asked about.
        as_text: Mark what was given with what was found, in place of JSON.
        progress: Told how many words of the items are read.
        looking_up: Told how many bytes of static vectors are read for new words.
    """
    found = trained.predictions(
        [item.asked for item in items],
        places=[item.place for item in items],
        progress=progress,
        looking_up=looking_up,
    )
    for item, prediction in zip(items, found, strict=True):
        yield _text(prediction) if as_text else _json(answer_to(item, prediction.to_dict()))


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


def _json(answer: Mapping[str, Any]) -> str:
    line = json.dumps(answer, ensure_ascii=False)
    # Half a pair of surrogates, which JSON can write and UTF-8 cannot, stays escaped.
    return line if is_utf8(line) else json.dumps(answer)


def _text(prediction: Prediction) -> str:
    if not isinstance(prediction, ReadablePrediction):
        raise InputError("the answers of this task are no text; leave out --as text")
    return prediction.to_text()
