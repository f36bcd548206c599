from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers import error_of
from tasks.small_tasks import config

from elmokit.errors import ElmoError, ElmoWarning, InputError
from elmokit.io.text_files import Line, TextSettings, read_lines
from elmokit.tasks.ask import PredictionItem, format_of, items_of, settings_to_predict

TASKS = {"text": "spam", "tags": "ner", "pair": "nli", "reading": "squad"}


def trained(name: str = "spam", **files: Any) -> Any:
    """The settings of a task that was trained on such files."""
    return config(name, {f"files.{key}": value for key, value in files.items()})


def items(
    lines: list[str],
    kind: str = "text",
    item_format: Any = "text",
    *,
    usual: Any = (),
    context: str | None = None,
    **settings: Any,
) -> list[PredictionItem]:
    """The items of a task's input, whose training files had their texts in the `usual` columns."""
    numbered = [Line(f"in.txt, line {n}", text, n) for n, text in enumerate(lines, start=1)]
    task = trained(TASKS.get(kind, kind), texts=usual)
    given = TextSettings(format=item_format, **settings)
    return list(items_of(numbered, task, given, context))


# How a file is read


def test_the_name_says_what_a_file_is() -> None:
    names = ("a.jsonl", "b.NDJSON", "c.csv", "d.TSV.gz", "e.txt", "-")
    assert [format_of(name) for name in names] == ["jsonl", "jsonl", "csv", "tsv", "text", "text"]


@pytest.mark.parametrize("table", ["csv", "tsv", "jsonl"])
def test_a_name_that_says_nothing_is_read_as_training_said(table: str) -> None:
    task = trained(format=table)
    with pytest.warns(ElmoWarning, match=rf"^in\.txt: is read as {table}, as the training files"):
        assert settings_to_predict("in.txt", task).format == table
    assert settings_to_predict("in.txt", task, format="text").format == "text"
    assert settings_to_predict("-", task).format == "text"
    assert settings_to_predict("in.jsonl", task).format == "jsonl"


def test_training_files_that_are_no_tables_say_nothing_of_text() -> None:
    assert settings_to_predict("in.txt", trained("sst", format="trees")).format == "text"
    tagged = trained("ner", format="columns", texts=["2"], header=False)
    assert settings_to_predict("in.txt", tagged).format == "text"
    assert settings_to_predict("in.csv", tagged).header
    lines = [Line("in.csv, line 1", "id,text", 1), Line("in.csv, line 2", "1,a b", 2)]
    [item] = items_of(lines, tagged, settings_to_predict("in.csv", tagged))
    assert item.asked == "a b"


def test_a_name_of_labelled_examples_is_an_error_whatever_training_said() -> None:
    with pytest.raises(InputError, match=r"^in\.conll: is a file of labelled examples"):
        settings_to_predict("in.conll", trained(format="csv"))
    assert settings_to_predict("in.conll", trained(), format="text").format == "text"


def test_tables_are_read_as_in_training_unless_something_else_is_said() -> None:
    task = trained(header=False, encoding="latin-1")
    assert settings_to_predict("in.csv", task) == TextSettings(
        format="csv", header=False, encoding="latin-1"
    )
    given = {"text_column": "2", "header": True, "skip_bad_rows": True, "encoding": "cp1252"}
    assert settings_to_predict("in.tsv", task, **given) == TextSettings(format="tsv", **given)
    for name in ("in.txt", "in.jsonl"):
        assert settings_to_predict(name, task).encoding == "utf-8"


# Items


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
        ('{"first": "a", "second": ["b"]}', "pair", ("a", ["b"])),
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
    [item] = items(lines, item_format="jsonl", usual=("1",), text_column=("text",))
    assert item.asked == "b"
    unnamed = trained(texts=["1"], header=False)
    [item] = items_of([Line("in, line 1", *lines)], unnamed, TextSettings(format="jsonl"))
    assert item.asked == "b"


def test_predicates_are_those_of_json_lines_alone() -> None:
    [item] = items(["text,predicates", "a b,b"], "srl", "csv")
    assert item.asked == "a b"


@pytest.mark.parametrize(
    ("lines", "kind", "item_format", "columns", "message"),
    [
        ("no tab", "pair", "text", (), "in.txt, line 1: has 1 text between tabs"),
        ("(3 (2 It) (4 works))", "text", "text", (), "in.txt, line 1: is labelled"),
        ("a text", "text", "text", "a", "in.txt, line 1: is plain text, which has no columns"),
        ('{"id": 1}', "text", "jsonl", (), "name it (--text-column)"),
        ('{"text": "a"}', "text", "jsonl", "body", "in.txt, line 1: has no column 'body'"),
        ('{"a": "a"}', "text", "jsonl", ("a", "b"), "name 1 (--text-column)"),
        ('{"question": "a"}', "reading", "jsonl", (), "line 1: has a question and no 'context'"),
        ("a,b\n1,2", "text", "csv", (), "no column that usually holds the text"),
        ("a;text\n1;2", "text", "csv", (), "is one column, 'a;text', with semicolons in it"),
    ],
)
def test_what_asks_nothing_is_one_line(
    lines: str, kind: str, item_format: str, columns: Any, message: str
) -> None:
    found = error_of(items, lines.split("\n"), kind, item_format, text_column=columns)
    assert message in found


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
        (["id\tbody", "7\ta b"], {"text_column": ("body",)}, "a b"),
        (["id\tbody", "7\ta b"], {"text_column": ("2",)}, "a b"),
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
    [item] = items(lines, "pair", "csv", text_column=("hypothesis", "premise"))
    assert item.asked == ("It is wet.", "It rains.")
    [item] = items(['{"a": "x", "b": "y"}'], "pair", "jsonl", text_column=("a", "b"))
    assert item.asked == ("x", "y")


def test_bad_rows_are_left_out_where_that_is_asked() -> None:
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
    settings = settings_to_predict(path, task)
    [item] = items_of(read_lines(path, settings.encoding), task, settings)
    assert item.asked == "caf\xe9"


@pytest.mark.parametrize(("item_format", "line"), [("text", "a"), ("jsonl", '{"text": "a"}')])
def test_lines_are_read_as_items_are_asked_for(item_format: Any, line: str) -> None:
    read = []

    def lines() -> Iterator[Line]:
        for number in range(1, 10):
            read.append(number)
            yield Line(f"in.txt, line {number}", line, number)

    found = items_of(lines(), trained(), TextSettings(format=item_format))
    next(found)
    assert read == [1]
    assert len(list(found)) == 8


SQUAD = """{"data": [{"paragraphs": [{"context": "Ann.", "qas": [
    {"id": "1", "question": "Who?"}, {"id": "2", "question": " "}
]}]}]}"""


def test_questions_of_squad_have_their_ids_and_bad_ones_may_be_left_out() -> None:
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
        ("reading", {"text_column": ("question",)}, "has no columns; give no --text-column"),
    ],
)
def test_squad_is_for_readers_and_has_all_they_need(
    kind: str, settings: dict[str, Any], message: str
) -> None:
    assert message in error_of(items, SQUAD.split("\n"), kind, "squad", **settings)


def test_a_context_of_a_row_may_be_no_more_than_given_back() -> None:
    named = {"text_column": ("question",), "context": "Bo."}
    [item] = items(["question,context", "Who?,Ann."], "reading", "csv", **named)
    assert item.asked == ("Who?", "Bo.")
