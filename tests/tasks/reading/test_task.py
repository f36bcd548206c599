from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from closeness import assert_close
from tasks.small_reading import (
    paragraph,
    passage,
    reading_config,
    train_reader,
    write_questions,
    write_squad,
)
from tasks.small_tasks import (
    Interrupting,
    Listening,
    assert_same_predictions,
    draw_nothing,
    embedder,
    weights,
)

from elmokit.errors import ConfigError, InputError
from elmokit.tasks import trainer as evaluation
from elmokit.tasks.catalogue import task_config
from elmokit.tasks.examples import Labels
from elmokit.tasks.inputs import build_inputs
from elmokit.tasks.reading import task as reading_task
from elmokit.tasks.reading.network import ReadingNetwork, TextWindow, Window, reading_of
from elmokit.tasks.reading.passages import AnswerPrediction, Passage, Question
from elmokit.tasks.reading.task import ReadingTask, right_words
from elmokit.tasks.task import TaskModel
from elmokit.tasks.trained import TrainedTask
from elmokit.text.tokenizer import DefaultTokenizer, load_tokenizer

LONG = "the a we MOTHER you it is was see 1000 go at on"
CHANCE = {"network.dropout": 0.3, "inputs.dropout": 0.2}
WINDOWS = {"network.window": 5, "network.overlap": 2, "network.longest_answer": 3}


@pytest.fixture(autouse=True)
def _no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    draw_nothing(monkeypatch)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> TrainedTask:
    """A reader that has learnt."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        draw_nothing(monkeypatch)
        folder = tmp_path_factory.mktemp("trained")
        return train_reader(folder, {"training.epochs": 12, **WINDOWS}).trained


def new_model(task: ReadingTask) -> TaskModel[ReadingNetwork]:
    torch.manual_seed(1)
    inputs = build_inputs(task.config.inputs, embedder())
    return TaskModel(inputs, task.make_network(inputs.sizes)).eval()


def small_task(**settings: Any) -> ReadingTask:
    return ReadingTask(reading_config(**WINDOWS, **settings), Labels(()))


# Learning


def test_a_reader_learns_to_answer(trained: TrainedTask) -> None:
    answers = trained.predict([("HOW MUCH", LONG), ("who", LONG)])
    assert [answer.to_dict()["answer"] for answer in answers] == ["1000", "MOTHER"]
    for answer in answers:
        assert isinstance(answer, AnswerPrediction)
        assert LONG[answer.start : answer.end] == answer.answer
        assert 0.2 < answer.probability <= 1


def test_a_reader_is_evaluated_on_a_file(trained: TrainedTask, tmp_path: Path) -> None:
    found = trained.evaluate(write_questions(tmp_path, "test"))
    assert found.confusion is None
    assert found.score.main > 0.6
    assert found.score.to_dict()["questions"] == 30


@pytest.mark.parametrize("place", ["input", "output", "both"])
def test_elmo_may_join_anywhere(place: str, tmp_path: Path) -> None:
    settings = {"training.epochs": 1, "inputs.elmo": place, "inputs.characters": True}
    result = train_reader(tmp_path, settings)
    assert [mix.place for mix in result.mixes] == {"both": ["input", "output"]}.get(place, [place])


def test_a_run_writes_results_without_labels_and_says_so(tmp_path: Path) -> None:
    told = Listening()
    result = train_reader(tmp_path, {"training.epochs": 1}, watcher=told)

    results = json.loads((result.folder / "results.json").read_text())
    assert results["dev"]["questions"] == 30
    assert results["examples"]["train"] == 60
    assert "exact match" in (result.folder / "report.txt").read_text()
    assert "60 examples to train on, 15 for dev" in told.notes
    loaded = TrainedTask.load(result.folder, bilm=embedder())
    asked = [("who", LONG), ("HOW MUCH", "a 777$")]
    assert_same_predictions(loaded.predict(asked), result.trained.predict(asked))


def test_a_stopped_run_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    settings = {**CHANCE, **WINDOWS}  # in windows, of which one is drawn by chance
    train_reader(tmp_path, settings, output=tmp_path / "whole")

    def stop() -> None:
        raise KeyboardInterrupt

    crash = Interrupting(2, 2, stop)
    with pytest.raises(BaseException, match="resume"):
        train_reader(tmp_path, settings, output=tmp_path / "halves", watcher=crash)
    train_reader(tmp_path, settings, output=tmp_path / "halves", resume=True)

    one, other = weights(tmp_path / "whole"), weights(tmp_path / "halves")
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_texts_that_are_there_twice_are_held_out_together(tmp_path: Path) -> None:
    texts = [f"word{number} a" for number in range(10)]
    paragraphs = [paragraph(text, ("who", "a"), name=text) for text in [*texts, *texts]]
    file = write_squad(tmp_path / "twice.json", *paragraphs)

    config = reading_config(**{"files.tokenizer": "whitespace", "training.epochs": 1})
    result = reading_task_run(config, tmp_path, file)

    assert result.examples == {"train": 18, "dev": 2, "test": 0}
    assert result.dev.score.to_dict()["questions"] == 2


def reading_task_run(config: Any, folder: Path, file: Path) -> Any:
    from elmokit.tasks.run import train_task

    return train_task(config, folder / "out", train=file, bilm=embedder())


# Windows


def test_the_answer_is_the_best_over_all_windows_by_brute_force() -> None:
    task = small_task()
    model = new_model(task)
    text = passage("the a we MOTHER you it", "is was", "see 1000 go at on")
    longest = task.config.network.longest_answer
    scores: dict[tuple[int, int], list[float]] = {}
    with torch.no_grad():
        for piece in task.all_pieces([text]):
            reading = reading_of(model.inputs, [piece], text.questions)
            found = reading_task.scores_of(model.network, reading)
            for first in range(piece.window.end - piece.window.first):
                for last in range(first, min(first + longest, found.start.shape[1])):
                    span = piece.window.first + first, piece.window.first + last + 1
                    value = found.start[0, first] + found.end[0, last]
                    scores.setdefault(span, []).append(value.item())

        [[answer]] = task.guess(model, [text])

    assert len(task.windows(text)) == 4
    best = max(scores, key=lambda span: max(scores[span]))
    assert (answer.start, answer.end) == text.between(*best)
    every = torch.tensor([value for values in scores.values() for value in values])
    assert_close(answer.probability, every.softmax(0).max())


def test_answers_do_not_depend_on_what_else_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    task = small_task()
    model = new_model(task)
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
    starts, ends = right_words(pieces, text.questions, torch.ones(4, 5, dtype=torch.bool))
    assert starts.nonzero().tolist() == [[0, 3], [1, 0], [2, 3], [3, 1]]
    assert ends.nonzero().tolist() == [[0, 4], [1, 1], [2, 3], [3, 1]]


def test_the_loss_is_that_of_hand_computation() -> None:
    task = small_task()
    model = new_model(task)
    texts = [passage("a we 777$ see", answers=[(2, 3), (1, 3)]), passage("boo", answers=[(0, 1)])]

    loss = task.loss(model, texts)

    pieces = list(task.all_pieces(texts))
    questions = [question for text in texts for question in text.questions]
    found = reading_task.scores_of(model.network, reading_of(model.inputs, pieces, questions))
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
    trained: TrainedTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However long it is: a batch has room for one such text alone.
    monkeypatch.setattr(evaluation, "TOKENS", 16)
    asked = [("who", LONG), ("HOW MUCH", "boo is 1000"), ("HOW MUCH", LONG), ("where", LONG)]
    alone = [trained.predict([item])[0] for item in asked]
    read: list[list[str]] = []
    predict = trained.task.predict

    def counting(model: Any, examples: Any) -> Any:
        read.extend([text.text, *(asked.words[0] for asked in text.questions)] for text in examples)
        return predict(model, examples)

    monkeypatch.setattr(trained.task, "predict", counting)
    together = trained.predict(asked)

    assert sorted(read) == [["boo is 1000", "HOW"], [LONG, "who", "HOW", "where"]]
    assert [each.answer for each in together] == [each.answer for each in alone]


def test_padding_counts_in_what_is_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_task, "WORDS_AT_ONCE", 14)
    text = passage(LONG)
    narrow, wide = TextWindow(text, Window(0, 2), (0, 1)), TextWindow(text, Window(0, 5), (2,))
    grouped = list(reading_task.some_at_once([narrow, narrow, wide, wide]))
    assert [len(some) for some in grouped] == [2, 2]  # 4 rows of 2, and 2 rows of 5


# What cannot be


def refusal(task: ReadingTask, item: Any) -> str:
    with pytest.raises(InputError) as caught:
        task.given(item, DefaultTokenizer(), "line 3")
    assert "\n" not in str(caught.value)
    return str(caught.value)


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
    one, other = (task.given((asked, "a b"), tokenizer, asked).examples[0] for asked in "xy")
    assert one.context is other.context
    assert (one.place, other.place) == ("x", "y")
    assert task.given(("x", "c"), tokenizer, "x").examples[0].context == (("c",),)


def test_a_question_without_an_answer_cannot_teach() -> None:
    text = passage(LONG)
    asked = replace(text, questions=(Question("q7", ("who",)),))
    with pytest.raises(InputError, match=r"^here, question q7: has no answer; give a file of"):
        small_task().prepare([asked])


def test_a_file_of_another_task_is_one_line(tmp_path: Path) -> None:
    task = small_task()
    for name in ("a.csv", "a.conllu", "a"):
        with pytest.raises(InputError, match=r"needs questions about texts: SQuAD v1\.1"):
            task.read(tmp_path / name, task.config.files, DefaultTokenizer())


@pytest.mark.parametrize(
    "settings",
    [{"network.window": 100}, {"network.overlap": 15}, {"network.longest_answer": 102}],
)
def test_windows_must_overlap_enough_and_go_on(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"^network: overlap is \d+; it must be below window"):
        task_config("squad", settings=settings)


def test_paper_has_the_sizes_of_the_supplement() -> None:
    paper = task_config("squad", "paper")
    assert (paper.network.hidden, paper.network.dropout) == (90, 0.2)
    assert (paper.network.longest_answer, paper.network.answer_lstms) == (17, False)
    assert (paper.inputs.elmo, paper.inputs.mix_penalty) == ("both", 0.0)


def test_examples_know_what_needs_vectors() -> None:
    text: Passage = passage("a b", "c")
    assert text.sentences == (("a", "b"), ("c",), ("who", "?"))
    assert text.between(1, 3) == (2, 5)
