from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tasks.small_tasks import config

from elmokit.errors import ElmoError, ElmoWarning
from elmokit.io.text_files import Line, read_lines
from elmokit.tasks.ask import ItemSettings, PredictionItem, item_settings, items_of


def items(
    lines: list[str], kind: Any = "text", item_format: Any = "text", **settings: Any
) -> list[PredictionItem]:
    numbered = [Line(f"in.txt, line {n}", text, n) for n, text in enumerate(lines, start=1)]
    return list(items_of(numbered, kind, ItemSettings(item_format, **settings)))


def test_lines_of_text_are_texts_and_blank_ones_are_left_out() -> None:
    assert items(["A prize!", " ", "Home."]) == [
        PredictionItem("in.txt, line 1", "A prize!", {"text": "A prize!"}),
        PredictionItem("in.txt, line 3", "Home.", {"text": "Home."}),
    ]


def test_a_pair_of_texts_has_a_tab_between() -> None:
    [item] = items(["It rains.\tIt is wet."], "pair")
    assert item.asked == ("It rains.", "It is wet.")
    assert item.given == {"first": "It rains.", "second": "It is wet."}


@pytest.mark.parametrize(
    ("line", "kind", "asked"),
    [
        ('{"words": ["a", "b"], "id": 7}', "tags", ["a", "b"]),
        ('{"text": "a b"}', "text", "a b"),
        ('{"sentence": "a b"}', "text", "a b"),
        ('{"first": "a", "second": ["b"]}', "pair", ("a", ["b"])),
        ('{"premise": "a", "hypothesis": "b"}', "pair", ("a", "b")),
        ('{"label": "x", "message": "a b"}', "text", "a b"),
        ('{"sentence_A": "a", "sentence_B": "b"}', "pair", ("a", "b")),
        ('{"Text": "a b"}', "tags", "a b"),
        ('{"text": "a b", "words": ["a", "b"]}', "tags", ["a", "b"]),
        ('{"text": "a b c", "words": 3}', "text", "a b c"),
        ('{"words": [["a"], ["b"]]}', "coref", [["a"], ["b"]]),
        ('{"Question": "a", "Context": "b"}', "reading", ("a", "b")),
    ],
)
def test_json_lines_have_texts_or_words(line: str, kind: str, asked: Any) -> None:
    [item] = items([line], kind, "jsonl")
    assert item.asked == asked


def test_whatever_else_a_json_line_has_is_kept() -> None:
    [item] = items(['{"id": 7, "text": "a", "": null}'], item_format="jsonl")
    assert item.given == {"id": 7, "text": "a", "": None}


@pytest.mark.parametrize("item_format", ["csv", "tsv", "jsonl"])
def test_the_column_of_training_goes_before_a_usual_one_in_every_table(item_format: str) -> None:
    mark = "\t" if item_format == "tsv" else ","
    lines = [mark.join(("text", "body")), mark.join(("a", "b"))]
    if item_format == "jsonl":
        lines = ['{"text": "a", "body": "b"}']
    [item] = items(lines, item_format=item_format, usual=("body",))
    assert item.asked == "b"
    assert item.given == {"text": "a", "body": "b"}


def test_a_field_of_json_is_named_and_its_number_in_training_says_nothing() -> None:
    lines = ['{"id": "a", "text": "b"}']
    with pytest.raises(ElmoError, match=r"trained on column 1, .* name one of 'id', 'text'"):
        items(lines, item_format="jsonl", usual=("1",))
    [item] = items(lines, item_format="jsonl", usual=("1",), columns=("text",))
    assert item.asked == "b"
    [item] = items(lines, item_format="jsonl", header=False)
    assert item.asked == "b"


def test_predicates_are_those_of_json_lines_alone() -> None:
    [item] = items(["text,predicates", "a b,b"], "srl", "csv")
    assert item.asked == "a b"


@pytest.mark.parametrize(
    ("line", "kind", "item_format", "message"),
    [
        ("no tab", "pair", "text", "in.txt, line 1: has 1 text between tabs"),
        ("{", "text", "jsonl", "in.txt, line 1: is not JSON"),
        ("[1]", "text", "jsonl", "in.txt, line 1: holds a list; each line must hold a JSON object"),
        ('{"id": 1}', "text", "jsonl", "name it (--text-column)"),
        ('{"text": "a"}', "pair", "jsonl", "name it (--text-column)"),
        ('{"text": "a", "sentence": "b"}', "text", "jsonl", "more than one column that may hold"),
        ('{"question": "a"}', "reading", "jsonl", "line 1: has a question and no 'context'"),
    ],
)
def test_lines_that_ask_nothing_are_refused(
    line: str, kind: str, item_format: str, message: str
) -> None:
    with pytest.raises(ElmoError) as caught:
        items([line], kind, item_format)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_row_of_a_table_is_asked_about_its_text_and_keeps_the_rest() -> None:
    lines = ["id,text,label", '7,"A prize, now",ham', "8,Home,"]
    assert items(lines, item_format="csv") == [
        PredictionItem(
            "in.txt, line 2", "A prize, now", {"id": "7", "text": "A prize, now", "label": "ham"}
        ),
        PredictionItem("in.txt, line 3", "Home", {"id": "8", "text": "Home", "label": ""}),
    ]


@pytest.mark.parametrize(
    ("lines", "settings", "asked"),
    [
        (["id\tbody", "7\ta b"], {"columns": ("body",)}, "a b"),
        (["id\tbody", "7\ta b"], {"columns": ("2",)}, "a b"),
        (["id\tbody", "7\ta b"], {"usual": ("body",)}, "a b"),
        (["body\ttext", "c\ta b"], {"usual": ("gone",)}, "a b"),
        (["body\ttext", "c\ta b"], {"usual": ("2",)}, "a b"),
        (["ham\ta b"], {"header": False}, "a b"),
        (["a b"], {"header": False}, "a b"),
    ],
)
def test_the_column_of_a_text_is_named_or_that_of_training_or_a_usual_one(
    lines: list[str], settings: dict[str, Any], asked: str
) -> None:
    [item] = items(lines, item_format="tsv", **settings)
    assert item.asked == asked


def test_pairs_are_in_two_columns() -> None:
    lines = ["a,premise,hypothesis", "1,It rains.,It is wet."]
    [item] = items(lines, "pair", "csv")
    assert item.asked == ("It rains.", "It is wet.")
    [item] = items(lines, "pair", "csv", columns=("hypothesis", "premise"))
    assert item.asked == ("It is wet.", "It rains.")
    [item] = items(['{"a": "x", "b": "y"}'], "pair", "jsonl", columns=("a", "b"))
    assert item.asked == ("x", "y")


@pytest.mark.parametrize(
    ("line", "kind", "item_format", "columns", "message"),
    [
        ("a text", "text", "text", ("a",), "is plain text, which has no columns"),
        ('{"text": "a"}', "text", "jsonl", ("body",), "in.txt, line 1: there is no column 'body'"),
        ('{"a": "a"}', "text", "jsonl", ("a", "b"), "name 1 (--text-column)"),
        ("a,b\n1,2", "text", "csv", ("c",), "there is no column 'c'; name one of 'a', 'b'"),
        ("a,b\n1,2", "text", "csv", (), "no column that usually holds the text"),
        ("a;text\n1;2", "text", "csv", (), "is one column, 'a;text', with semicolons in it"),
    ],
)
def test_columns_that_are_not_there_are_one_line(
    line: str, kind: str, item_format: str, columns: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ElmoError) as caught:
        items(line.split("\n"), kind, item_format, columns=columns)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bad_rows_are_left_out_on_wish() -> None:
    lines = ["id,text", "1,a", "2", "3,b,c"]
    with pytest.raises(ElmoError, match=r"in\.txt, line 3: has 1 field, .* \(--skip-bad-rows\)"):
        items(lines, item_format="csv")
    with pytest.warns(ElmoWarning, match=r"in\.txt, line 3: .* 2 such rows left out"):
        [item] = items(lines, item_format="csv", skip_bad_rows=True)
    assert item.asked == "a"


def test_a_file_is_read_as_the_training_files_were(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_bytes("text,body\na,caf\xe9\n".encode("latin-1"))
    task = config("spam", {"files.texts": ["body"], "files.encoding": "latin-1"})
    settings = item_settings(path, task)
    [item] = items_of(read_lines(path, settings.encoding), task.kind, settings)
    assert item.asked == "caf\xe9"


@pytest.mark.parametrize(("item_format", "line"), [("text", "a"), ("jsonl", '{"text": "a"}')])
def test_lines_are_read_as_items_are_asked_for(item_format: Any, line: str) -> None:
    read = []

    def lines() -> Iterator[Line]:
        for number in range(1, 10):
            read.append(number)
            yield Line(f"in.txt, line {number}", line, number)

    found = items_of(lines(), "text", ItemSettings(item_format))
    next(found)
    assert read == [1]
    assert len(list(found)) == 8


SQUAD = """{"data": [{"paragraphs": [{"context": "Ann.", "qas": [
    {"id": "1", "question": "Who?"}, {"id": "2", "question": " "}
]}]}]}"""


def test_questions_of_squad_have_their_ids_and_bad_ones_are_left_out_on_wish() -> None:
    found = items(SQUAD.split("\n"), "reading", "squad")
    assert [item.place for item in found] == ["in.txt, question 1", "in.txt, question 2"]
    assert found[0].asked == ("Who?", "Ann.")
    assert found[0].given == {"id": "1", "question": "Who?"}
    with pytest.warns(ElmoWarning, match="question 2: it has no words; 1 bad question left out"):
        kept = items(SQUAD.split("\n"), "reading", "squad", skip_bad_rows=True)
    assert kept == found[:1]


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("text", {}, "ask a reader, and give no --context"),
        ("reading", {"context": "Bo."}, "ask a reader, and give no --context"),
        ("reading", {"columns": ("question",)}, "has no columns; give no --text-column"),
    ],
)
def test_squad_is_for_readers_and_has_all_they_need(
    kind: str, settings: dict[str, Any], message: str
) -> None:
    if kind == "reading":
        assert items(SQUAD.split("\n"), kind, "squad")
    with pytest.raises(ElmoError, match=message):
        items(SQUAD.split("\n"), kind, "squad", **settings)


def test_a_context_is_known_however_it_is_written_and_may_be_no_more_than_kept() -> None:
    [item] = items(['{"Question": "Who?", "Context": "Ann."}'], "reading", "jsonl")
    assert item.asked == ("Who?", "Ann.")
    named = {"columns": ("question",), "context": "Bo."}
    [item] = items(["question,context", "Who?,Ann."], "reading", "csv", **named)
    assert item.asked == ("Who?", "Bo.")
