from __future__ import annotations

from typing import Any

import pytest

from elmokit.errors import ElmoError
from elmokit.tasks.items import Item, answer_to, format_of, items_of


def items(lines: list[str], kind: Any = "text", item_format: Any = "text") -> list[Item]:
    return list(items_of(lines, "in.txt", kind, item_format))


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
        ("no tab", "pair", "text", "in.txt, line 1: has 1 texts between tabs"),
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
    assert [format_of(name) for name in ("a.jsonl", "b.NDJSON", "c.txt", "-")] == [
        "jsonl", "jsonl", "text", "text",
    ]  # fmt: skip


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
