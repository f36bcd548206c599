from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from elmokit.errors import ElmoError, ElmoWarning
from elmokit.tasks.config import FilesConfig
from elmokit.tasks.examples import PairExample, TextExample
from elmokit.tasks.files.examples import read_pairs, read_texts


def write(folder: Path, name: str, contents: str) -> Path:
    path = folder / name
    path.write_bytes(contents.encode())
    return path


def texts(
    folder: Path, name: str, contents: str, settings: FilesConfig | None = None, **options: Any
) -> list[tuple[str | None, str]]:
    """The label and the joined words of each example."""
    examples = read_texts(write(folder, name, contents), settings, **options)
    return [(example.label, " ".join(example.words)) for example in examples]


def message(
    folder: Path,
    name: str,
    contents: str,
    settings: FilesConfig | None = None,
    read: Any = read_texts,
) -> str:
    """What is said about a table that is refused, after the name of its folder."""
    with pytest.raises(ElmoError) as caught:
        read(write(folder, name, contents), settings)
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{folder}/")


# Rows


def test_rows_of_csv_know_the_line_on_which_they_start(tmp_path):
    contents = 'label,text\r\nham,"Hi, ""you""\r\nthere"\r\n\r\nspam,Win\r\n'
    path = write(tmp_path, "a.csv", contents)
    assert read_texts(path) == [
        TextExample(("Hi,", '"you"', "there"), "ham", f"{path}, line 2"),
        TextExample(("Win",), "spam", f"{path}, line 5"),
    ]


def test_quotation_marks_of_tsv_are_part_of_the_text(tmp_path):
    contents = 'label\ttext\nham\t"Hi, you\n\nspam\tsay "no"\n'
    assert texts(tmp_path, "a.tsv", contents) == [("ham", '"Hi, you'), ("spam", 'say "no"')]


def test_json_lines_hold_texts_or_words_and_labels_of_any_plain_kind(tmp_path):
    rows = [
        {"text": "a  b", "label": "x", "id": 1},
        {"label": 0, "text": ["New York", "City"]},
        {"label": True, "text": "c"},
    ]
    contents = "\n\n".join(map(json.dumps, rows))
    assert texts(tmp_path, "a.jsonl", contents) == [
        ("x", "a b"),
        ("0", "New York City"),
        ("true", "c"),
    ]
    path = write(tmp_path, "a.ndjson", contents)
    assert [example.place for example in read_texts(path)] == [
        f"{path}, line {line}" for line in (1, 3, 5)
    ]
    assert read_texts(path)[1].words == ("New York", "City")


def test_overflow_columns_without_a_name_are_left_alone(tmp_path):
    contents = "v1,v2,,,\nham,Hello,,,\nham,Well, spilt, over,\nspam,Win\n"
    assert texts(tmp_path, "spam.csv", contents) == [
        ("ham", "Hello"),
        ("ham", "Well"),
        ("spam", "Win"),
    ]


@pytest.mark.parametrize(("row", "count"), [("ham,Well, you", 3), ("ham", 1)])
def test_row_with_another_number_of_fields_is_refused(tmp_path, row, count):
    said = message(tmp_path, "a.csv", f"label,text\nham,a\n{row}\n")
    assert said.startswith(f"a.csv, line 3: has {count} field")
    assert said.endswith("(--skip-bad-rows)")
    with pytest.warns(ElmoWarning, match=r"a\.csv, line 3: .* 1 such row left out"):
        found = texts(
            tmp_path, "a.csv", f"label,text\nham,a\n{row}\n", FilesConfig(skip_bad_rows=True)
        )
    assert found == [("ham", "a")]


def test_another_separator_is_named(tmp_path):
    said = message(tmp_path, "a.csv", "label;text\nham;a\n")
    assert said.startswith("a.csv, line 1: is one column, 'label;text', with semicolons in it")


def test_quotation_that_does_not_end_is_refused_where_it_starts(tmp_path):
    assert message(tmp_path, "a.csv", 'label,text\nham,"a\nspam,b\nham,c\n') == (
        "a.csv, line 2: is not CSV (unexpected end of data); put a field that holds commas, "
        "quotation marks or line breaks between quotation marks, and double those in it"
    )


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("{", "is not JSON (Expecting property name enclosed in double quotes at character 2)"),
        ("ham,hello", "is not JSON (Expecting value at character 1); each line must hold"),
        ("[1]", "holds a list; each line must hold a JSON object"),
        ('"text"', "holds a text; each line must hold a JSON object"),
    ],
)
def test_line_that_is_no_object_is_refused(tmp_path, line, what):
    contents = f'{{"label": "x", "text": "a"}}\n{line}\n'
    assert message(tmp_path, "a.jsonl", contents).startswith(f"a.jsonl, line 2: {what}")


def test_long_field_is_read(tmp_path):
    long = "word " * 50_000
    assert texts(tmp_path, "a.csv", f"label,text\nham,{long}\n") == [("ham", long.strip())]


# Columns


@pytest.mark.parametrize(
    "header", ["label,text", "text,label", "Category,Message", "x,Sentence,y,SENTIMENT", "v1,v2,,"]
)
def test_columns_with_usual_names_are_found(tmp_path, header):
    names = header.split(",")
    labels = ("label", "category", "sentiment", "v1")
    row = ",".join("ham" if name.lower() in labels else "hello" for name in names)
    assert texts(tmp_path, "a.csv", f"{header}\n{row}\n") == [("ham", "hello")]


@pytest.mark.parametrize(
    "settings",
    [
        FilesConfig(label="kind", texts=("body",)),
        FilesConfig(label=3, texts=(2,)),
        FilesConfig(label="3", texts=("2",)),
        FilesConfig(label=-1, texts=(-2,)),
        FilesConfig(label="-1", texts=("body",)),
    ],
)
def test_columns_are_named_or_numbered(tmp_path, settings):
    assert texts(tmp_path, "a.csv", "id,body,kind\n7,hello you,ham\n", settings) == [
        ("ham", "hello you")
    ]


def test_name_of_digits_is_a_name_before_it_is_a_number(tmp_path):
    settings = FilesConfig(label="1", texts=("2",))
    assert texts(tmp_path, "a.csv", "2,1\nhello,ham\n", settings) == [("ham", "hello")]
    settings = FilesConfig(label=1, texts=(2,))
    assert texts(tmp_path, "a.csv", "2,1\nham,hello\n", settings) == [("ham", "hello")]


def test_without_a_header_the_label_is_first_unless_numbers_say_otherwise(tmp_path):
    settings = FilesConfig(header=False)
    assert texts(tmp_path, "a.tsv", "3\tIt works\n1\tBad\n", settings) == [
        ("3", "It works"),
        ("1", "Bad"),
    ]
    settings = FilesConfig(header=False, label=2, texts=(1,))
    assert texts(tmp_path, "a.tsv", "It works\t3\n", settings) == [("3", "It works")]


def test_objects_may_have_their_keys_in_any_order(tmp_path):
    contents = '{"text": "a", "label": "x"}\n{"label": "y", "id": 3, "text": "b"}\n'
    assert texts(tmp_path, "a.jsonl", contents) == [("x", "a"), ("y", "b")]


def test_column_that_is_not_there_is_refused_at_the_header(tmp_path):
    contents = "id,body,kind\n7,hello,ham\n"
    assert message(tmp_path, "a.csv", contents, FilesConfig(label="class", texts=("body",))) == (
        "a.csv, line 1: there is no column 'class'; name one of 'id', 'body', 'kind', or count "
        "them from 1"
    )
    for wrong in (0, 4, -4):
        found = message(tmp_path, "a.csv", contents, FilesConfig(label=wrong, texts=("body",)))
        assert found.startswith(f"a.csv, line 1: there is no column {wrong}; name one of 'id'")


def test_unusual_names_are_asked_for(tmp_path):
    said = message(tmp_path, "a.csv", "kind,text,,\nham,hello,,\n")
    assert said.startswith("a.csv, line 1: ")
    assert "'kind', 'text'; name it (--label-column)" in said
    assert said.endswith("(--no-header)")
    said = message(tmp_path, "a.jsonl", '{"label": "x", "body": "a"}')
    assert said.startswith("a.jsonl, line 1: ")
    assert "'label', 'body'; name it (--text-column)" in said


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ('"words": ["New York", "City"]', ("New York", "City")),
        ('"text": "a", "words": ["b", "c"]', ("b", "c")),
        ('"text": "a b c", "words": 3', ("a", "b", "c")),
        ('"text": "a", "Text": "b"', ("a",)),
    ],
)
def test_words_go_before_the_text_that_they_are_of(tmp_path, other, words):
    contents = f'{{"label": "x", "text": "z"}}\n{{"label": "x", {other}}}\n'
    assert read_texts(write(tmp_path, "a.jsonl", contents))[1].words == words


def test_json_lines_name_their_columns_whatever_is_said_of_a_header(tmp_path):
    settings = FilesConfig(header=False)
    contents = '{"text": "a", "label": "x"}\n'
    assert texts(tmp_path, "a.jsonl", contents, settings) == [("x", "a")]


def test_no_break_space_may_be_a_word(tmp_path):
    path = write(tmp_path, "a.jsonl", '{"label": "x", "text": ["a", "\u00a0"]}')
    assert read_texts(path)[0].words == ("a", "\u00a0")


def test_several_usual_names_are_asked_about(tmp_path):
    assert message(tmp_path, "a.jsonl", '{"label": "x", "text": "a", "v2": "b"}').endswith(
        "among 'label', 'text', 'v2'; name it (--text-column)"
    )
    assert message(tmp_path, "a.csv", "label,text,sentence\nham,a,b\n").startswith(
        "a.csv, line 1: there is more than one column that may hold the text among 'label'"
    )


def test_name_that_two_columns_have_is_refused(tmp_path):
    settings = FilesConfig(label="label", texts=("text",))
    assert message(tmp_path, "a.csv", "label,text,text\nham,a,b\n", settings) == (
        "a.csv, line 1: there are 2 columns 'text'; give them different names"
    )


def test_column_for_two_uses_is_refused(tmp_path):
    assert message(
        tmp_path, "a.csv", "label,text\nham,a\n", FilesConfig(label="label", texts=(1,))
    ) == ("a.csv, line 1: one column is to be used twice; name different ones")


def test_one_column_only_is_refused(tmp_path):
    conll = "EU NNP I-NP I-ORG\nrejects VBZ I-VP O\n"
    assert message(tmp_path, "a.csv", conll) == (
        "a.csv, line 1: has too few columns ('EU NNP I-NP I-ORG') for a label and a text; put "
        "commas between them in a .csv, tabs in a .tsv, and both into each object of a .jsonl"
    )
    assert " for a label and two texts; put" in message(
        tmp_path, "a.tsv", "label\ttext\nx\ta\n", read=read_pairs
    )


def test_a_label_that_no_file_can_hold_is_refused(tmp_path):
    found = message(tmp_path, "a.jsonl", '{"label": "\\ud800", "text": "a"}\n')
    assert found == "a.jsonl, line 1: the label '\\ud800' is no text; fix it"


# Values


def test_text_is_split_by_what_is_given(tmp_path):
    contents = "label,text\nham,Hi you.\n"
    assert texts(tmp_path, "a.csv", contents, tokenize=list) == [("ham", "H i   y o u .")]


def test_labels_stay_as_they_are_but_for_blanks_around_them(tmp_path):
    contents = "label,text\nENTAILMENT ,a\n not Spam,b\n"
    assert texts(tmp_path, "a.csv", contents) == [("ENTAILMENT", "a"), ("not Spam", "b")]


@pytest.mark.parametrize("row", ['{"text": "a", "label": null}', '{"text": "a", "label": " "}'])
def test_row_without_a_label_is_refused(tmp_path, row):
    assert message(tmp_path, "a.jsonl", row) == (
        "a.jsonl, line 1: has no label; give it one, or leave the row out"
    )


@pytest.mark.parametrize("text", ['" "', "null", "[]", '""'])
def test_row_without_words_is_refused(tmp_path, text):
    assert message(tmp_path, "a.jsonl", f'{{"label": "x", "text": {text}}}') == (
        "a.jsonl, line 1: column 'text' holds no words; leave the row out"
    )


@pytest.mark.parametrize("text", ["7", '{"a": 1}', '["a", 1]', '["a", " "]'])
def test_text_that_is_no_text_is_refused(tmp_path, text):
    assert message(tmp_path, "a.jsonl", f'{{"label": "x", "text": {text}}}') == (
        f"a.jsonl, line 1: column 'text' holds {text}; it must hold a text or a list of words"
    )


@pytest.mark.parametrize("label", ["0.5", '["x"]'])
def test_label_that_is_no_label_is_refused(tmp_path, label):
    assert message(tmp_path, "a.jsonl", f'{{"label": {label}, "text": "a"}}') == (
        f"a.jsonl, line 1: column 'label' holds {label}; a label is a text or a whole number"
    )


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
def test_header_alone_is_no_example(tmp_path, name):
    contents = "label,text\n" if name == "a.csv" else "label\ttext\n"
    assert (
        message(tmp_path, name, contents) == f"{name}: holds no example; name a file that has some"
    )


def test_name_that_says_nothing_needs_a_format(tmp_path):
    contents = "label\ttext\nham\thello\n"
    assert message(tmp_path, "a.data", contents) == (
        "a.data: its name does not say what kind of table it is; give the format, or a name that "
        "ends in one of .csv, .tsv, .jsonl, .ndjson"
    )
    assert texts(tmp_path, "a.data", contents, FilesConfig(format="tsv")) == [("ham", "hello")]


# Pairs


@pytest.mark.parametrize(
    "header",
    [
        "label\tpremise\thypothesis",
        "label\tfirst\tsecond",
        "gold_label\tsentence1\tsentence2",
        "gold_label\tSentence1\tSentence2",
        "entailment_judgment\tsentence_A\tsentence_B",
    ],
)
def test_pairs_with_usual_names_are_found(tmp_path, header):
    path = write(tmp_path, "a.tsv", f"{header}\tother\nNEUTRAL\tA dog\tA cat\tx\n")
    assert read_pairs(path) == [
        PairExample(("A", "dog"), ("A", "cat"), "NEUTRAL", f"{path}, line 2")
    ]


def test_texts_of_a_pair_are_in_the_order_that_is_given(tmp_path):
    path = write(tmp_path, "a.csv", "a,b,label\none,two,x\n")
    [pair] = read_pairs(path, FilesConfig(texts=("b", "a")))
    assert (pair.first, pair.second) == (("two",), ("one",))


def test_pairs_nobody_agreed_on_are_left_out_and_counted(tmp_path):
    contents = "label,premise,hypothesis\n-,a,b\nneutral,c,d\n-,e,f\n"
    path = write(tmp_path, "snli.csv", contents)
    with pytest.warns(ElmoWarning, match=r"snli\.csv: rows with the label '-' are left out: 2"):
        assert [pair.label for pair in read_pairs(path)] == ["neutral"]


def test_of_texts_no_label_is_left_out(tmp_path):
    contents = "label,text\n-,bad\n+,good\n"
    assert texts(tmp_path, "a.csv", contents) == [("-", "bad"), ("+", "good")]
    said = message(tmp_path, "a.csv", f"{contents},unknown\n")
    assert said.startswith("a.csv, line 4: has no label")


def test_one_column_where_two_texts_are_needed_is_refused(tmp_path):
    contents = "label,premise,hypothesis\nx,a,b\n"
    settings = FilesConfig(texts=("premise",))
    assert message(tmp_path, "a.csv", contents, settings, read_pairs) == (
        "a.csv, line 1: the texts are to be in 'premise'; name 2 (--text-column)"
    )
