from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from closeness import assert_close
from helpers import error_of
from tasks.small_reading import LONG, passage, reading_config
from tasks.small_tasks import untrained

from elmokit.errors import ConfigError, InputError
from elmokit.tasks import trainer as evaluation
from elmokit.tasks.catalogue import task_config
from elmokit.tasks.examples import Labels
from elmokit.tasks.reading import task as reading_task
from elmokit.tasks.reading.network import TextWindow, Window, reading_of
from elmokit.tasks.reading.task import AnswerPrediction, ReadingTask, padded_words, right_words
from elmokit.tasks.trained import TrainedTask
from elmokit.text.tokenizer import DefaultTokenizer, load_tokenizer


def small_task() -> ReadingTask:
    return ReadingTask(reading_config(), Labels(()))


def test_a_reader_learns_to_answer(trained_reader: TrainedTask) -> None:
    answers = trained_reader.predict([("HOW MUCH", LONG), ("who", LONG)])
    assert [answer.to_dict()["answer"] for answer in answers] == ["1000", "MOTHER"]
    for answer in answers:
        assert isinstance(answer, AnswerPrediction)
        assert LONG[answer.start : answer.end] == answer.answer
        assert 0.2 < answer.probability <= 1


def test_texts_that_are_there_twice_are_held_out_together() -> None:
    one, other = passage("a b", place="here"), passage("a b", answers=[(1, 2)], place="there")
    assert ReadingTask.group_of(one) == ReadingTask.group_of(other)
    assert ReadingTask.group_of(one) != ReadingTask.group_of(passage("a b c"))


# Windows


def test_the_answer_is_the_best_over_all_windows_by_brute_force() -> None:
    task = small_task()
    model = untrained(task)
    text = passage("the a we MOTHER you it", "is was", "see 1000 go at on")
    longest = task.config.network.longest_answer
    scores: dict[tuple[int, int], list[float]] = {}
    with torch.no_grad():
        for piece in task.all_pieces([text]):
            reading = reading_of(model.inputs, [piece], text.questions)
            found = model.network(*reading)
            for first in range(piece.window.end - piece.window.first):
                for last in range(first, min(first + longest, found.start.shape[1])):
                    span = piece.window.first + first, piece.window.first + last + 1
                    value = found.start[0, first] + found.end[0, last]
                    scores.setdefault(span, []).append(value.item())

        [[answer]] = task.guess(model, [text])

    assert len(task.windows(text)) == 4
    best = max(scores, key=lambda span: max(scores[span]))
    assert (answer.start, answer.end) == (text.offsets[best[0]][0], text.offsets[best[1] - 1][1])
    every = torch.tensor([value for values in scores.values() for value in values])
    assert_close(answer.probability, every.softmax(0).max())


def test_answers_do_not_depend_on_what_else_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    task = small_task()
    model = untrained(task)
    texts = [passage("a we 777$ see"), passage("the a we MOTHER you", "it was"), passage("boo")]
    together = task.guess(model, texts)
    alone = [task.guess(model, [text])[0] for text in texts]
    monkeypatch.setattr(reading_task, "WORDS_AT_ONCE", 1)
    bit_by_bit = task.guess(model, texts)

    for others in (alone, bit_by_bit):
        for [one], [other] in zip(together, others, strict=True):
            assert one.answer == other.answer
            assert_close(one.probability, other.probability)


def test_training_reads_windows_with_the_answer_and_one_without() -> None:
    task = small_task()
    text = passage(LONG, answers=[(3, 4)])
    windows = task.windows(text)
    assert [tuple(window) for window in windows] == [(0, 5), (3, 8), (6, 11), (8, 13)]
    drawn = set()
    for seed in range(20):
        torch.manual_seed(seed)
        read = [piece.window for piece in task.training_pieces([text])]
        assert len(read) == 3
        assert set(windows[:2]) < set(read)
        drawn |= set(read) - set(windows[:2])
    assert drawn == set(windows[2:])


def test_right_words_are_marked_in_their_windows() -> None:
    task = small_task()
    text = passage(LONG, answers=[(3, 5), (9, 10)])
    torch.manual_seed(0)
    pieces = list(task.training_pieces([text]))
    assert [piece.window for piece in pieces] == task.windows(text)  # an answer is in each
    starts, ends = right_words(pieces, torch.ones(4, 5, dtype=torch.bool))
    assert starts.nonzero().tolist() == [[0, 3], [1, 0], [2, 3], [3, 1]]
    assert ends.nonzero().tolist() == [[0, 4], [1, 1], [2, 3], [3, 1]]


def test_the_loss_is_that_of_hand_computation() -> None:
    task = small_task()
    model = untrained(task)
    texts = [passage("a we 777$ see", answers=[(2, 3), (1, 3)]), passage("boo", answers=[(0, 1)])]

    loss = task.loss(model, texts)

    pieces = list(task.all_pieces(texts))
    questions = [question for text in texts for question in text.questions]
    found = model.network(*reading_of(model.inputs, pieces, questions))
    start, end = found.start[0].softmax(0), found.end[0].softmax(0)
    # The second text is one word: its answer is certain.
    expected = -((start[1] + start[2]).log() + end[2].log()) / 2
    assert_close(loss, expected)


def test_many_questions_about_a_text_are_trained_on_in_parts() -> None:
    text = passage(LONG)
    many = replace(text, questions=tuple(replace(text.questions[0], id=str(n)) for n in range(23)))
    task = small_task()
    parts = task.for_training(task.prepare([many]))
    assert [len(part.questions) for part in parts] == [10, 10, 3]
    assert [q.id for part in parts for q in part.questions] == [str(n) for n in range(23)]


def test_many_questions_about_a_text_are_read_some_at_once() -> None:
    text = passage(LONG)
    many = replace(text, questions=text.questions * 23)
    pieces = list(small_task().all_pieces([many]))
    assert [len(piece.asked) for piece in pieces] == [10, 10, 3] * len(small_task().windows(text))


def test_a_window_with_a_part_of_the_answer_is_not_one_without() -> None:
    task = small_task()
    text = passage(LONG, answers=[(4, 6)])  # whole in the second window, begun in the first
    for seed in range(10):
        torch.manual_seed(seed)
        read = [piece.window for piece in task.training_pieces([text])]
        assert task.windows(text)[0] not in read


def test_a_text_is_read_once_for_all_that_ask_about_it(
    trained_reader: TrainedTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However long it is: a batch has room for one such text alone.
    monkeypatch.setattr(evaluation, "TOKENS", 16)
    asked = [("who", LONG), ("HOW MUCH", "boo is 1000"), ("HOW MUCH", LONG), ("where", LONG)]
    alone = [trained_reader.predict([item])[0] for item in asked]
    read: list[list[str]] = []
    predict = trained_reader.task.predict

    def counting(model: Any, examples: Any) -> Any:
        read.extend([text.text, *(asked.words[0] for asked in text.questions)] for text in examples)
        return predict(model, examples)

    monkeypatch.setattr(trained_reader.task, "predict", counting)
    together = trained_reader.predict(asked)

    assert sorted(read) == [["boo is 1000", "HOW"], [LONG, "who", "HOW", "where"]]
    assert [each.answer for each in together] == [each.answer for each in alone]


def test_padding_counts_in_what_is_read_at_once() -> None:
    text = passage(LONG)
    narrow, wide = TextWindow(text, Window(0, 2), (0, 1)), TextWindow(text, Window(0, 5), (2,))
    assert padded_words([narrow, narrow]) == 8
    assert padded_words([narrow, wide]) == 15


# What cannot be


def refusal(task: ReadingTask, item: Any) -> str:
    return error_of(task.parse_input, item, DefaultTokenizer(), "line 3", kind=InputError)


def test_what_cannot_be_asked_is_one_line() -> None:
    task = small_task()
    assert refusal(task, ("", "a text")) == "line 3: the question has no words; ask something"
    assert "asks about a text that has no words" in refusal(task, ("who", " \n"))
    assert "write (question, text)" in refusal(task, "who")
    assert "write (question, text)" in refusal(task, ("who", "a", "b"))
    assert "asks about 3 (int); give a text" in refusal(task, ("who", 3))
    assert "give a text, or a list of words" in refusal(task, (7, "a text"))


def test_questions_about_one_text_share_it() -> None:
    task = small_task()
    tokenizer = load_tokenizer("whitespace")
    one, other = (task.parse_input((asked, "a b"), tokenizer, asked).examples[0] for asked in "xy")
    assert one.context is other.context
    assert (one.place, other.place) == ("x", "y")
    assert task.parse_input(("x", "c"), tokenizer, "x").examples[0].context == (("c",),)


@pytest.mark.parametrize(
    "settings", [{"network.window": 100}, {"network.overlap": 15}, {"network.longest_answer": 102}]
)
def test_windows_must_overlap_enough_and_go_on(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"^network: overlap is \d+; it must be below window"):
        task_config("squad", settings=settings)


def test_paper_has_the_sizes_of_the_supplement() -> None:
    paper = task_config("squad", "paper")
    assert (paper.network.hidden, paper.network.dropout) == (90, 0.2)
    assert (paper.network.longest_answer, paper.network.answer_lstms) == (17, False)
    assert (paper.inputs.elmo, paper.inputs.mix_penalty) == ("both", 0.0)
