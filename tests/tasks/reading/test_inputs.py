from __future__ import annotations

import torch
from closeness import assert_close
from tasks.small_reading import passage
from tasks.small_tasks import embedder, of_characters

from elmokit.tasks.config import InputConfig
from elmokit.tasks.inputs import TaskInputs, build_inputs
from elmokit.tasks.reading.network import TextWindow, Window, reading_of, window_vectors
from elmokit.tasks.reading.questions import Question

TEXT = passage("a bb ccc", "d", "ee a f")
OTHER = passage("a bb ccc", "g")


def inputs() -> TaskInputs:
    torch.manual_seed(0)
    return of_characters().eval()


def test_every_word_of_a_window_has_its_own_vector() -> None:
    some = inputs()
    pieces = [
        TextWindow(TEXT, Window(1, 6), (0,)),
        TextWindow(OTHER, Window(0, 4), (1,)),
        TextWindow(TEXT, Window(6, 7), (0,)),
    ]

    found = window_vectors(some, pieces)

    assert found.mask.sum(1).tolist() == [5, 4, 1]
    for row, words in enumerate((["bb", "ccc", "d", "ee", "a"], ["a", "bb", "ccc", "g"], ["f"])):
        assert_close(found.at_input[row, : len(words)], some([words]).at_input[0])
        assert not found.at_input[row, len(words) :].any()
    assert found.at_output is None


@torch.no_grad()
def test_elmo_at_both_places_is_that_of_whole_sentences() -> None:
    some = build_inputs(InputConfig(elmo="both"), embedder()).eval()
    some.mixes[1].weights.copy_(torch.tensor([-1.0, 0.0, 1.0]))
    pieces = [TextWindow(TEXT, Window(1, 6), (0,)), TextWindow(OTHER, Window(2, 4), (0,))]

    found = window_vectors(some, pieces)

    for row, (text, window, *_) in enumerate(pieces):
        length = window.end - window.first
        alone = [some([sentence]) for sentence in text.context]
        for place in ("at_input", "at_output"):
            vectors = getattr(found, place)[row]
            whole = torch.cat([getattr(each, place)[0] for each in alone])
            assert_close(vectors[:length], whole[window.first : window.end])
            assert not vectors[length:].any()


def test_rows_name_the_window_and_the_question() -> None:
    questions = [Question(str(n), (word,)) for n, word in enumerate(("what", "who", "why"))]
    pieces = [TextWindow(TEXT, Window(0, 4), (0, 2)), TextWindow(TEXT, Window(3, 7), (2,))]

    reading = reading_of(inputs(), pieces, questions)

    assert reading.window_rows.tolist() == [0, 0, 1]
    assert reading.asked_rows.tolist() == [0, 1, 1]  # the second question is not asked
    assert len(reading.questions.mask) == 2
    assert [piece.window.end - piece.window.first for piece in pieces] == [4, 4]
