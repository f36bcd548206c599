from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers import write
from tasks.small_files import read, said_of

from elmokit.errors import ElmoWarning
from elmokit.tasks.examples import PairExample, TextExample


def texts(path: Path, **settings: Any) -> list[tuple[str, str]]:
    """The label and the joined words of each example."""
    return [(each.label, " ".join(each.words)) for each in read("text", path, **settings)]


def json_line(**values: Any) -> str:
    return json.dumps({"label": "x", "text": "a"} | values)


# Rows


def test_rows_of_csv_know_the_line_on_which_they_start(tmp_path):
    contents = 'label,text\r\nham,"Hi, ""you""\r\n\r\nthere"\r\nspam,Win\r\n\r\n'
    path = write(tmp_path / "a.csv", contents)
    assert read("text", path) == [
        TextExample(("Hi,", '"you"', "there"), "ham", f"{path}, line 2"),
        TextExample(("Win",), "spam", f"{path}, line 5"),
    ]


def test_json_lines_hold_texts_or_words_and_labels_of_any_plain_kind(tmp_path):
    rows = [
        {"text": "a  b", "label": "x", "id": 1},
        {"label": 0, "text": ["New York", "City", "\u00a0"]},
        {"label": True, "text": "c"},
    ]
    path = write(tmp_path / "a.ndjson", map(json.dumps, rows))
    assert read("text", path) == [
        TextExample(("a", "b"), "x", f"{path}, line 1"),
        TextExample(("New York", "City", "\u00a0"), "0", f"{path}, line 2"),
        TextExample(("c",), "true", f"{path}, line 3"),
    ]


@pytest.mark.parametrize(
    ("name", "contents"),
    [
        ("a.csv", "label,text\nham,a\n\n\nspam,b\n"),
        ("a.tsv", "label\ttext\nham\ta\n\nspam\tb\n"),
        ("a.jsonl", f"{json_line()}\n{json_line()}\n \n{json_line()}\n"),
        ("a.txt", "(3 (2 It) (4 works))\n(3 (2 It) (4 works))\n\n(3 (2 It) (4 works))\n"),
    ],
)
def test_a_blank_line_is_an_error_unless_nothing_follows_it(tmp_path, name, contents):
    path = write(tmp_path / name, contents)
    assert said_of("text", path).startswith(", line 3: is ")
    before = contents.splitlines()[:2]
    assert read("text", write(path, [*before, "", ""])) == read("text", write(path, before))


def test_overflow_columns_without_a_name_are_left_alone(tmp_path):
    contents = "v1,v2,,,\nham,Hello,,,\nham,Well, spilt, over,\nspam,Win\n"
    assert texts(write(tmp_path / "spam.csv", contents)) == [
        ("ham", "Hello"),
        ("ham", "Well"),
        ("spam", "Win"),
    ]


@pytest.mark.parametrize("row", ["ham,Well, you", "ham"])
def test_row_with_another_number_of_fields_is_an_error_or_left_out(tmp_path, row):
    path = write(tmp_path / "a.csv", f"label,text\nham,a\n{row}\n")
    said = said_of("text", path)
    assert said.startswith(", line 3: has ")
    assert said.endswith("(--skip-bad-rows)")
    with pytest.warns(ElmoWarning, match=r"a\.csv, line 3: .* 1 such row left out"):
        assert texts(path, skip_bad_rows=True) == [("ham", "a")]


# Columns


@pytest.mark.parametrize(
    "header",
    ["label,text", "text,label", "Category,Message", "x,Sentence,y,SENTIMENT", "v1,v2,,",
     "class,document"],
)  # fmt: skip
def test_columns_with_usual_names_are_found(tmp_path, header):
    names = header.split(",")
    labels = ("label", "category", "sentiment", "v1", "class")
    row = ",".join("ham" if name.lower() in labels else "hello" for name in names)
    assert texts(write(tmp_path / "a.csv", f"{header}\n{row}\n")) == [("ham", "hello")]


@pytest.mark.parametrize(
    ("label", "text"), [("kind", "body"), (3, 2), ("3", "2"), (-1, -2), ("-1", "body")]
)
def test_columns_are_named_or_numbered(tmp_path, label, text):
    path = write(tmp_path / "a.csv", "id,body,kind\n7,hello you,ham\n")
    assert texts(path, label_column=label, text_column=text) == [("ham", "hello you")]


def test_name_of_digits_is_a_name_before_it_is_a_number(tmp_path):
    path = write(tmp_path / "a.csv", "2,1\nhello,ham\n")
    assert texts(path, label_column="1", text_column="2") == [("ham", "hello")]
    assert texts(path, label_column=2, text_column=1) == [("ham", "hello")]


def test_without_a_header_the_label_is_first_unless_numbers_say_otherwise(tmp_path):
    path = write(tmp_path / "a.tsv", "3\tIt works\n1\tBad\n")
    assert texts(path, header=False) == [("3", "It works"), ("1", "Bad")]
    path = write(tmp_path / "a.tsv", "It works\t3\n")
    assert texts(path, header=False, label_column=2, text_column=1) == [("3", "It works")]


def test_objects_name_their_keys_in_any_order_whatever_is_said_of_a_header(tmp_path):
    contents = ['{"text": "a", "label": "x"}', '{"label": "y", "id": 3, "text": "b"}']
    path = write(tmp_path / "a.jsonl", contents)
    assert texts(path) == texts(path, header=False) == [("x", "a"), ("y", "b")]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"words": ["New York", "City"]}, ("New York", "City")),
        ({"text": "a b c", "words": 3}, ("a", "b", "c")),
        ({"text": "a", "Text": "b"}, ("a",)),
    ],
)
def test_words_go_before_the_text_that_they_are_of(tmp_path, other, words):
    path = write(tmp_path / "a.jsonl", [json_line(text="z"), json_line(**other)])
    assert read("text", path)[1].words == words


@pytest.mark.parametrize(
    ("contents", "settings", "said"),
    [
        ("id,body,kind\n7,a,x\n", {"label_column": "class", "text_column": 2}, "no column 'class'"),
        ("id,body,kind\n7,a,x\n", {"label_column": 4, "text_column": 2}, "has no column 4"),
        ("id,body,kind\n7,a,x\n", {"label_column": -4, "text_column": 2}, "has no column -4"),
        ("kind,text,,\nham,hello,,\n", {}, "'kind', 'text'; name it (--label-column)"),
        ("label,body\nham,hello\n", {}, "name it (--text-column), or say that the first line"),
        ("label,text,sentence\nham,a,b\n", {}, "more than one column that may hold the text"),
        ("label,text,text\nham,a,b\n", {"text_column": "text"}, "has 2 columns 'text'"),
        ("label,text\nham,a\n", {"text_column": 1}, "one column is to be used twice"),
        ("label;text\nham;a\n", {}, "is one column, 'label;text', with semicolons in it"),
        ("EU NNP I-ORG\nhas VBZ O\n", {}, "has too few columns ('EU NNP I-ORG') for a label and"),
        ("label,premise\nx,a\n", {"text_column": ("label", "premise")}, "name 1 (--text-column)"),
    ],
)
def test_columns_that_cannot_be_chosen_are_told_at_the_header(tmp_path, contents, settings, said):
    found = said_of("text", write(tmp_path / "a.csv", contents), **settings)
    assert found.startswith(", line 1: ")
    assert said in found


# Values


def test_labels_stay_as_they_are_but_for_whitespace_around_them(tmp_path):
    path = write(tmp_path / "a.csv", "label,text\nENTAILMENT ,a\n not Spam,b\n-,c\n")
    assert texts(path) == [("ENTAILMENT", "a"), ("not Spam", "b"), ("-", "c")]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("ham,hello", "is not JSON"),
        (json_line(label=None), "has no label"),
        (json_line(label=0.5), "column 'label' holds 0.5"),
        (json_line(label="\ud800"), "the label '\\ud800' is not a text"),
        (json_line(text=" "), "column 'text' holds no words"),
        (json_line(text=[]), "column 'text' holds no words"),
        (json_line(text=["a", " "]), "column 'text' holds"),
    ],
)
def test_what_is_not_a_labelled_text_is_an_error_with_its_line(tmp_path, row, said):
    path = write(tmp_path / "a.jsonl", [json_line(), row])
    assert said_of("text", path).startswith(f", line 2: {said}")


@pytest.mark.parametrize(
    ("row", "said"),
    [(",unknown", "has no label"), ('ham,""', "column 'text' holds no words"),
     ('ham,"a', "is not CSV (unexpected end of data)")],
)  # fmt: skip
def test_a_blank_cell_of_csv_and_an_open_quotation_are_errors_with_their_line(tmp_path, row, said):
    path = write(tmp_path / "a.csv", f"label,text\nham,a\n{row}\n")
    assert said_of("text", path).startswith(f", line 3: {said}")


def test_header_alone_is_no_example(tmp_path):
    assert said_of("text", write(tmp_path / "a.csv", "label,text\n")).startswith(": holds no exam")
    assert said_of("text", write(tmp_path / "a.tsv", "label\ttext\n")).startswith(": holds no exam")


# Pairs


@pytest.mark.parametrize(
    "header",
    [
        "label\tpremise\thypothesis",
        "label\tfirst\tsecond",
        "gold_label\tSentence1\tSentence2",
        "entailment_judgment\tsentence_A\tsentence_B",
    ],
)
def test_pairs_with_usual_names_are_found(tmp_path, header):
    path = write(tmp_path / "a.tsv", f"{header}\tother\nNEUTRAL\tA dog\tA cat\tx\n")
    assert read("pair", path) == [
        PairExample(("A", "dog"), ("A", "cat"), "NEUTRAL", f"{path}, line 2")
    ]


def test_texts_of_a_pair_are_in_the_order_that_is_given(tmp_path):
    path = write(tmp_path / "a.csv", "a,b,label\none,two,x\n")
    [pair] = read("pair", path, text_column=("b", "a"))
    assert (pair.first, pair.second) == (("two",), ("one",))
    assert "name 2 (--text-column)" in said_of("pair", path, text_column="b")
    path = write(tmp_path / "a.csv", "label,text\nx,a\n")
    assert "has too few columns" in said_of("pair", path)


def test_pairs_nobody_agreed_on_are_left_out_and_counted(tmp_path):
    contents = "label,premise,hypothesis\n-,a,b\nneutral,c,d\n-,e,f\n"
    path = write(tmp_path / "snli.csv", contents)
    with pytest.warns(ElmoWarning, match=r"snli\.csv: rows with the label '-' are left out: 2"):
        assert [pair.label for pair in read("pair", path)] == ["neutral"]
