from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers import write
from tasks.small_files import DEFAULT, read, said_of
from tasks.small_reading import paragraph, write_squad

from elmokit.errors import ElmoWarning

SHARED = Path(__file__).parents[4] / "shared/data/qa"
TEXT = "Ada Lovelace wrote notes in 1843. They were about Babbage's engine."
GOOD = paragraph(TEXT, ("Who wrote notes?", "Ada Lovelace"), ("Whose engine was it?", "Babbage"))


def refusal(path: Path) -> str:
    return said_of("reading", path, DEFAULT)


def changed(name: str, value: Any) -> dict[str, Any]:
    """The good paragraph, whose first question has another value; None takes it away."""
    copy = json.loads(json.dumps(GOOD))
    question = copy["qas"][0]
    if value is None:
        del question[name]
    else:
        question[name] = value
    return copy


def answer(text: str, start: int) -> list[dict[str, Any]]:
    return [{"text": text, "answer_start": start}]


def test_words_offsets_and_answers_of_a_paragraph(tmp_path: Path) -> None:
    path = write_squad(tmp_path / "a.json", GOOD)

    [passage] = read("reading", path, DEFAULT)

    assert passage.text == TEXT
    assert [sentence[-1] for sentence in passage.context] == [".", "."]
    words = [word for sentence in passage.context for word in sentence]
    assert words == [TEXT[start:end] for start, end in passage.offsets]
    who, whose = passage.questions
    assert (who.id, who.words) == ("q1", ("Who", "wrote", "notes", "?"))
    assert (who.answers[0].first_word, who.answers[0].end_word) == (0, 2)
    assert words[whose.answers[0].first_word : whose.answers[0].end_word] == ["Babbage"]
    assert passage.sentences == (*passage.context, who.words, whose.words)


def test_an_answer_within_a_word_has_the_whole_word(tmp_path: Path) -> None:
    path = write_squad(tmp_path / "a.json", paragraph("in the 1990s already", ("When?", "990")))
    [[question]] = [passage.questions for passage in read("reading", path)]
    assert question.answers[0].text == "990"
    assert (question.answers[0].first_word, question.answers[0].end_word) == (2, 3)


def test_compressed_files_and_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    text = write_squad(tmp_path / "a.json", GOOD).read_text()
    packed = write(tmp_path / "a.json.gz", f"\ufeff{text}")
    [passage] = read("reading", packed, DEFAULT)
    assert len(passage.questions) == 2


def test_an_answer_that_is_elsewhere_is_one_line_with_its_question(tmp_path: Path) -> None:
    path = write_squad(tmp_path / "a.json", changed("answers", answer("Ada Lovelace", 4)))
    assert refusal(path) == (
        ", question q1: its answer 'Ada Lovelace' is not in its context at 4, where "
        "'Lovelace wro' stands; fix the file, or leave such questions out (--skip-bad-rows)"
    )


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("answers", answer("Ada", -67), "is not in its context at -67"),
        ("answers", answer(" ", 3), "its answer ' ' holds no word"),
        ("answers", [], "it has no answer"),
        ("question", "  ", "it has no words"),
    ],
)
def test_a_bad_question_is_refused_or_left_out(
    name: str, value: Any, told: str, tmp_path: Path
) -> None:
    path = write_squad(tmp_path / "a.json", changed(name, value))

    assert told in refusal(path)
    with pytest.warns(ElmoWarning, match=r"question q1: .*; 1 bad question left out$"):
        [passage] = read("reading", path, DEFAULT, skip_bad_rows=True)
    assert [question.id for question in passage.questions] == ["q2"]


def test_a_context_without_words_is_refused(tmp_path: Path) -> None:
    empty = {"context": " ", "qas": [{"id": "x", "question": "Who?", "answers": answer(" ", 0)}]}
    path = write_squad(tmp_path / "a.json", empty)
    assert "question x: its context has no words" in refusal(path)


@pytest.mark.parametrize(
    ("contents", "told"),
    [
        ("{", "is not JSON"),
        ('{"text": "a", "label": "b"}\n{"text": "c", "label": "d"}', "is not JSON"),
        ('{"text": "a", "label": "b"}', "not SQuAD's"),
        ("[1]", "not SQuAD's"),
        ('{"data": {}}', "'data' is {} (dict); it must be a list"),
        ('{"data": [3]}', "article 1: is 3 (int); it must be an object"),
        ('{"data": [{}]}', "article 1: has no 'paragraphs'"),
        ('{"data": [{"paragraphs": [{"qas": []}]}]}', "paragraph 1: has no 'context'"),
        ('{"data": []}', "holds no question"),
        ('{"data": [{"paragraphs": [{"context": "a", "qas": []}]}]}', "holds no question"),
        ('{"data": [{"paragraphs": [{"context": "a", "qas": [{}]}]}]}', "question 1: has no 'id'"),
    ],
)
def test_a_file_of_something_else_is_one_line(contents: str, told: str, tmp_path: Path) -> None:
    assert told in refusal(write(tmp_path / "a.json", contents))


@pytest.mark.parametrize("start", ["3", True, 3.0, None])
def test_a_start_that_is_no_number_is_refused(start: Any, tmp_path: Path) -> None:
    path = write_squad(
        tmp_path / "a.json", changed("answers", [{"text": "a", "answer_start": start}])
    )
    assert "question q1: 'answer_start' is" in refusal(path)


def test_the_published_dev_file_reads_as_it_is_described() -> None:
    path = SHARED / "xquad.en.json.gz"
    if not path.exists():
        pytest.skip("needs the shared data")
    passages = read("reading", path)
    questions = [question for passage in passages for question in passage.questions]
    assert (len(passages), len(questions)) == (240, 1190)
