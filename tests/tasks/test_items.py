from __future__ import annotations

from typing import Any

import pytest

from elmokit.errors import ElmoError, ElmoWarning
from elmokit.tasks.files.lines import numbered
from elmokit.tasks.items import Item, ItemSettings, answer_to, format_of, items_of


def items(
    lines: list[str], kind: Any = "text", item_format: Any = "text", **settings: Any
) -> list[Item]:
    found = items_of(numbered("in.txt", lines), kind, ItemSettings(item_format, **settings))
    return list(found)


def test_lines_of_text_are_texts_and_blank_ones_are_left_out() -> None:
    assert items(["A prize!", " ", "Home."]) == [
        Item("in.txt, line 1", "A prize!", {"text": "A prize!"}),
        Item("in.txt, line 3", "Home.", {"text": "Home."}),
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
    ],
)
def test_json_lines_have_texts_or_words(line: str, kind: str, asked: Any) -> None:
    [item] = items([line], kind, "jsonl")
    assert item.asked == asked


def test_whatever_else_a_json_line_has_is_kept() -> None:
    [item] = items(['{"id": 7, "text": "a"}'], item_format="jsonl")
    assert item.given == {"id": 7, "text": "a"}


@pytest.mark.parametrize(
    ("line", "kind", "item_format", "message"),
    [
        ("no tab", "pair", "text", "in.txt, line 1: has 1 text between tabs"),
        ("{", "text", "jsonl", "in.txt, line 1: is not valid JSON"),
        ("[1]", "text", "jsonl", "in.txt, line 1: is no JSON object"),
        ('{"id": 1}', "text", "jsonl", 'has neither "words" nor "text"'),
        ('{"text": "a"}', "pair", "jsonl", "has no pair"),
    ],
)
def test_lines_that_ask_nothing_are_refused(
    line: str, kind: str, item_format: str, message: str
) -> None:
    with pytest.raises(ElmoError) as caught:
        items([line], kind, item_format)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_name_says_what_a_file_is() -> None:
    names = ("a.jsonl", "b.NDJSON", "c.csv", "d.TSV.gz", "e.txt", "-")
    assert [format_of(name) for name in names] == [
        "jsonl", "jsonl", "csv", "tsv", "text", "text",
    ]  # fmt: skip


def test_a_row_of_a_table_is_asked_about_its_text_and_keeps_the_rest() -> None:
    lines = ["id,text,label", '7,"A prize, now",ham', "8,Home,"]
    assert items(lines, item_format="csv") == [
        Item("in.txt, line 2", "A prize, now", {"id": "7", "text": "A prize, now", "label": "ham"}),
        Item("in.txt, line 3", "Home", {"id": "8", "text": "Home", "label": ""}),
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
        ('{"text": "a"}', "text", "jsonl", ("body",), "in.txt, line 1: has no 'body'"),
        ('{"a": "a"}', "text", "jsonl", ("a", "b"), "name one column"),
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


def test_answers_keep_what_was_given_under_their_names() -> None:
    lines = ['{"text": "a", "label": "ham", "given_label": 1}']
    [item] = items(lines, item_format="jsonl")
    assert answer_to(item, {"label": "spam"}) == {
        "text": "a", "given_given_label": "ham", "given_label": 1, "label": "spam",
    }  # fmt: skip


def test_words_that_were_given_are_not_repeated() -> None:
    [item] = items(['{"words": ["a", "b"], "tags": ["X", "Y"]}'], "tags", "jsonl")
    found = {"words": ["a", "b"], "tags": ["O", "O"]}
    assert answer_to(item, found) == {"given_tags": ["X", "Y"], **found}
