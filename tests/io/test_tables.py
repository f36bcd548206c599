from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from helpers import error_of
from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit.errors import ElmoWarning
from elmokit.io.tables import TABLE_SUFFIXES, Row, text_rows
from elmokit.io.text_files import TextSettings, read_lines

quick = settings(max_examples=100, deadline=None, derandomize=True, database=None)
TEXT = TextSettings(text_column="text")


def rows(
    folder: Path, suffix: str, contents: str | bytes, columns: TextSettings = TEXT, start: int = 1
) -> list[Row]:
    path = folder / f"table{suffix}"
    path.write_bytes(contents if isinstance(contents, bytes) else contents.encode())
    found = text_rows(read_lines(path), TABLE_SUFFIXES[suffix], columns, start)
    return [row._replace(position=0) for row in found]


def message(folder: Path, suffix: str, contents: str, columns: TextSettings = TEXT) -> str:
    """What is said about a table that is refused, after the name of its folder."""
    return error_of(rows, folder, suffix, contents, columns, after=f"{folder}/")


def test_each_line_of_json_is_a_row_with_a_text_or_words(tmp_path):
    contents = '{"text": "a b", "n": 1}\r\n{"n": [], "text": ["c", "d\\u0000"]}\n'
    assert rows(tmp_path, ".jsonl", contents) == [Row(1, "a b"), Row(2, ["c", "d\0"])]
    assert rows(tmp_path, ".ndjson", contents, start=2) == [Row(2, ["c", "d\0"])]
    contents = '{"text": null}\n{"text": ""}\n{"text": []}\n'
    assert [row.value for row in rows(tmp_path, ".jsonl", contents)] == ["", "", []]


def test_each_row_of_csv_has_the_number_of_the_line_it_starts_on(tmp_path):
    contents = 'id,text\r\n1,a b\r\n2,"c, ""d""\r\ne"\r\n3,\r\n'
    expected = [Row(2, "a b"), Row(3, 'c, "d"\ne'), Row(5, "")]
    assert rows(tmp_path, ".csv", contents) == expected
    for start in range(1, 8):
        after = [row for row in expected if row.line >= start]
        assert rows(tmp_path, ".csv", contents, start=start) == after


def test_tsv_knows_no_quotation(tmp_path):
    contents = 'id\ttext\n1\t"a, b\n2\tc"\rd\n\n3\t\n'
    expected = [Row(2, '"a, b'), Row(3, 'c"\rd'), Row(5, "")]
    assert rows(tmp_path, ".tsv", contents) == expected
    assert rows(tmp_path, ".tsv", contents, start=3) == expected[1:]


@pytest.mark.parametrize(
    ("suffix", "contents"),
    [
        (".jsonl", '\n{"text": "a"}\n \t\r\n\n{"text": "b"}\n\n'),
        (".csv", "\ntext\n\na\r\n\r\nb\n\n"),
        (".tsv", "\ntext\n\na\r\n\r\nb\n\n"),
    ],
)
def test_line_with_nothing_on_it_is_no_row(tmp_path, suffix, contents):
    assert [row.value for row in rows(tmp_path, suffix, contents)] == ["a", "b"]


@pytest.mark.parametrize("name", ["sentence", "text", "Document", "message", "v2"])
def test_usual_column_is_found_without_being_named(tmp_path, name):
    assert rows(tmp_path, ".csv", f"id,{name}\n1,a\n", TextSettings()) == [Row(2, "a")]
    assert rows(tmp_path, ".jsonl", f'{{"id": 1, "{name}": "a"}}', TextSettings()) == [Row(1, "a")]


def test_a_column_may_be_numbered_and_the_text_is_in_one(tmp_path):
    table = "id,body,body\n1,a b,c\n"
    assert rows(tmp_path, ".csv", table, TextSettings(text_column=-1)) == [Row(2, "c")]
    assert rows(tmp_path, ".csv", table, TextSettings(text_column="2")) == [Row(2, "a b")]
    said = message(tmp_path, ".csv", table, TextSettings(text_column=("id", "2")))
    assert said.startswith("table.csv, line 1: the text is in one column")
    said = message(tmp_path, ".csv", table, TextSettings(text_column="body"))
    assert said == "table.csv, line 1: has 2 columns 'body'; give them different names"


def test_kept_column_becomes_the_id(tmp_path):
    keep = TextSettings(keep="id")
    contents = '{"text": "a", "id": 7}\n{"text": "b", "id": "x"}\n{"text": "c", "id": null}\n'
    assert [row.id for row in rows(tmp_path, ".jsonl", contents, keep)] == [7, "x", None]
    assert rows(tmp_path, ".csv", "id,text\n7,a\n", keep) == [Row(2, "a", "7")]
    assert rows(tmp_path, ".tsv", "text\tid\na\t7\n", keep) == [Row(2, "a", "7")]


def test_column_that_is_not_there_is_named_with_those_that_are(tmp_path):
    said = message(tmp_path, ".csv", "a, b\n1,2\n")
    assert said.startswith("table.csv, line 1: has no column 'text'")
    assert said.endswith("(--text-column): 'a', 'b'")
    said = message(tmp_path, ".jsonl", '{"text": "a"}\n{"a": 1}')
    assert said.startswith("table.jsonl, line 2: has no column 'text'")
    said = message(tmp_path, ".tsv", "text\na\n", TextSettings(keep="id"))
    assert said.startswith("table.tsv, line 1: has no column 'id'")
    assert said.endswith("(--keep): 'text'")
    assert message(tmp_path, ".jsonl", "{}").endswith("(--text-column): none")
    many = json.dumps({str(number): number for number in range(1000)})
    assert message(tmp_path, ".jsonl", many).endswith("'18', '19', …")


@pytest.mark.parametrize("names", ["text,sentence", "a,b"])
def test_column_must_be_named_where_some_or_none_of_the_usual_ones_are_there(tmp_path, names):
    said = message(tmp_path, ".csv", f"{names}\n1,2\n", TextSettings())
    assert said.startswith("table.csv, line 1: there is ")
    assert said.endswith("(--text-column)")


@pytest.mark.parametrize("fields", ["a", "1,a,b"])
def test_row_with_too_few_or_too_many_fields_is_named(tmp_path, fields):
    count = fields.count(",") + 1
    for suffix, separator in ((".csv", ","), (".tsv", "\t")):
        contents = f"id,text\n1,a\n{fields}\n".replace(",", separator)
        plural = "" if count == 1 else "s"
        said = message(tmp_path, suffix, contents)
        assert said.startswith(f"table{suffix}, line 3: has {count} field{plural}, ")
        assert said.endswith("(--skip-bad-rows)")


@pytest.mark.parametrize(("suffix", "separator"), [(".csv", ","), (".tsv", "\t")])
def test_rows_of_another_width_are_left_out_on_wish_and_counted(tmp_path, suffix, separator):
    contents = "id,text\n1,a\nb\n2,c\n3,d,e\n".replace(",", separator)
    with pytest.warns(ElmoWarning, match="line 3: .* 2 such rows left out"):
        found = rows(
            tmp_path,
            suffix,
            contents,
            TextSettings(text_column="text", keep="id", skip_bad_rows=True),
        )
    assert [(row.id, row.value) for row in found] == [("1", "a"), ("2", "c")]


@pytest.mark.parametrize(
    ("suffix", "header", "named"),
    [
        (".csv", "id;text", "semicolons"),
        (".csv", "id\ttext", "tabs"),
        (".tsv", "id,text", "commas"),
    ],
)
def test_another_separator_is_named(tmp_path, suffix, header, named):
    said = message(tmp_path, suffix, f"{header}\n1;a\n", TextSettings())
    assert said.startswith(f"table{suffix}, line 1: is one column, {header!r}, with {named} in it")


def test_a_table_of_one_column_may_have_any_name(tmp_path):
    assert rows(tmp_path, ".csv", "a;b\nx y\n", TextSettings(text_column="a;b"))[0].value == "x y"


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ('1,"a\n2,b\n', "unexpected end of data"),
        ('1,"a" b\n', "',' expected after '\"'"),
        ("1,a\rb\n", "new-line character seen in unquoted field"),
    ],
)
def test_bad_csv_is_named_by_the_line_on_which_its_row_starts(tmp_path, row, why):
    said = message(tmp_path, ".csv", f"id,text\n1,a\n{row}")
    assert said.startswith(f"table.csv, line 3: is not CSV ({why}); put a field")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[1]", "holds a list; each line must hold a JSON object"),
        ("null", "holds null; each line must hold a JSON object"),
        (
            "{'text': 1}",
            "is not JSON (Expecting property name enclosed in double quotes at charact",
        ),
        ("plain text", "is not JSON (Expecting value at character 1); each line must hold an obje"),
        ("[" * 100_000, "is not JSON ("),
        (f'{{"text": {"9" * 5000}}}', "is not JSON (Exceeds the limit"),
        ('{"text": NaN}', "column 'text' holds nan; it must hold a text or a list of words"),
        ('{"text": 5}', "column 'text' holds 5; it must hold a text or a list of words"),
        ('{"text": {"a": 1}}', "column 'text' holds an object; it must"),
        ('{"text": ["a", "b c"]}', "column 'text' has 'b c' in its list of words; a word is a te"),
        ('{"text": ["a\\u00a0b"]}', "column 'text' has 'a\\xa0b' in its list of words"),
        ('{"text": ["", "a"]}', "column 'text' has '' in its list of words"),
        ('{"text": ["a", null]}', "column 'text' has null in its list of words"),
    ],
)
def test_json_line_that_cannot_be_used_is_named(tmp_path, line, said):
    told = message(tmp_path, ".jsonl", f'{{"text": "ok"}}\n{line}\n')
    assert told.startswith(f"table.jsonl, line 2: {said}")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("1.5", "holds 1.5; only a text or a whole number can be kept"),
        ("true", "holds True; only"),
        ("[1]", "holds a list; only"),
        ("9223372036854775808", "holds a number of more than 64 bits; write it as a text"),
        ("9" * 400, "holds a number of more than 64 bits; write it as a text"),
    ],
)
def test_value_that_cannot_be_kept_is_named(tmp_path, value, said):
    contents = f'{{"text": "a", "id": {value}}}'
    told = message(tmp_path, ".jsonl", contents, TextSettings(keep="id"))
    assert told.startswith(f"table.jsonl, line 1: column 'id' {said}")


def test_field_may_be_longer_than_the_library_s_own_limit(tmp_path):
    limit = csv.field_size_limit(1000)
    try:
        assert rows(tmp_path, ".csv", f"text\n{'a ' * 1000}\n") == [Row(2, "a " * 1000)]
    finally:
        csv.field_size_limit(limit)


@quick
@given(
    texts=st.lists(st.text(st.sampled_from(list("ab,\"' \0\x85\u2028\n")), max_size=6)),
    ends=st.sampled_from(["\n", "\r\n"]),
)
def test_csv_gives_what_a_writer_of_csv_was_given(tmp_path_factory, texts, ends):
    path = tmp_path_factory.mktemp("csv") / "table.csv"
    written = io.StringIO(newline="")
    pairs = list(zip(texts, texts, strict=True))
    csv.writer(written, lineterminator=ends).writerows([("text", "n"), *pairs])
    path.write_bytes(written.getvalue().encode())
    found = list(text_rows(read_lines(path), "csv", TextSettings(keep="n")))
    assert [(row.value, row.id) for row in found] == pairs
