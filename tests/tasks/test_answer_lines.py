from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, cast

import pytest
from helpers import Heard

from elmokit.errors import InputError
from elmokit.jobs.progress import Observer
from elmokit.tasks.ask import PredictionItem, answer_lines, answer_to
from elmokit.tasks.labelling import LabelPrediction
from elmokit.tasks.trained import TrainedTask

PLACE = "in.txt, line 1"


class Says:
    """A task that gives every text the same label."""

    def predictions(
        self, items: Iterable[Any], *, places: Iterable[str], observer: Observer | None
    ) -> Iterator[LabelPrediction]:
        with (observer or Observer()).stage("predicting", "word") as progress:
            progress(2, 2)
        return (LabelPrediction("ham", {"ham": 0.76543}) for _ in zip(items, places, strict=True))


TRAINED = cast(TrainedTask, Says())


def test_every_item_is_a_line_of_json_and_progress_is_told() -> None:
    items = [
        PredictionItem(PLACE, "\xe9", {"text": "\xe9"}),
        PredictionItem(PLACE, "b", {"text": "b"}),
    ]
    told = Heard()
    lines = list(answer_lines(TRAINED, items, observer=told))
    assert '"text": "\xe9"' in lines[0]
    assert json.loads(lines[1]) == {"text": "b", "label": "ham"}
    assert told.stages["predicting"][-1] == (2, 2)
    *_, last = answer_lines(TRAINED, items, probabilities=True)
    assert json.loads(last)["probabilities"] == {"ham": 0.7654}


def test_an_item_is_answered_before_the_next_is_read() -> None:
    read = []

    def items() -> Iterator[PredictionItem]:
        for number in range(3):
            read.append(number)
            yield PredictionItem(PLACE, "a", {"text": "a"})

    lines = answer_lines(TRAINED, items())
    next(lines)
    assert read == [0]
    assert len(list(lines)) == 2


def test_half_a_pair_of_surrogates_stays_escaped() -> None:
    [line] = answer_lines(TRAINED, [PredictionItem(PLACE, "a", {"text": "a\ud800"})])
    assert '"a\\ud800"' in line
    assert line.encode()


def test_a_label_is_before_its_text_and_is_no_column() -> None:
    items = [PredictionItem(PLACE, asked, {}) for asked in ("a\nb", ["a", "b"], ("a b", ["c"]))]
    shown = list(answer_lines(TRAINED, items, shown_as="text"))
    assert shown == ["ham   76.5%  a b", "ham   76.5%  a b", "ham   76.5%  a b | c"]
    with pytest.raises(InputError, match="leave out --as conll"):
        list(answer_lines(TRAINED, items, shown_as="conll"))


def test_answers_keep_what_was_given_under_their_names() -> None:
    item = PredictionItem(PLACE, "a", {"text": "a", "label": "ham", "given_label": 1})
    assert answer_to(item, {"label": "spam"}) == {
        "text": "a", "given_given_label": "ham", "given_label": 1, "label": "spam",
    }  # fmt: skip


def test_words_that_were_given_are_not_repeated() -> None:
    item = PredictionItem(PLACE, ["a", "b"], {"words": ["a", "b"], "tags": ["X", "Y"]})
    found = {"words": ["a", "b"], "tags": ["O", "O"]}
    assert answer_to(item, found) == {"given_tags": ["X", "Y"], **found}
