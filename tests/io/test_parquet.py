from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from helpers import error_of

from elmokit.io import tables as parquet
from elmokit.io.tables import Row, parquet_rows
from elmokit.io.text_files import TextSettings

REASON = "the extra parquet is not installed"
pa = pytest.importorskip("pyarrow", reason=REASON)
pq = pytest.importorskip("pyarrow.parquet", reason=REASON)


def file_of(folder: Path, columns: dict[str, object], **options) -> Path:
    path = folder / "table.parquet"
    pq.write_table(pa.table(columns), path, **options)
    return path


def rows(path: Path, columns: TextSettings | None = None, start: int = 1) -> list[Row]:
    found = parquet_rows(path, columns or TextSettings(), start)
    return [row._replace(position=0) for row in found]


def values(path: Path, errors: str = "strict") -> list[object]:
    return [row.value for row in parquet_rows(path, TextSettings(errors=errors))]


def message(path: Path, columns: TextSettings | None = None) -> str:
    return error_of(rows, path, columns, after=f"{path.parent}/")


def test_row_has_a_text_and_its_id(tmp_path):
    path = file_of(tmp_path, {"n": [7, None], "text": ["a b", "ć\0"], "name": ["x", "y"]})
    assert rows(path) == [Row(1, "a b"), Row(2, "ć\0")]
    assert rows(path, TextSettings(text_column="name", keep="n")) == [
        Row(1, "x", 7),
        Row(2, "y", None),
    ]
    assert rows(path, TextSettings(text_column="text", keep="text")) == [
        Row(1, "a b", "a b"),
        Row(2, "ć\0", "ć\0"),
    ]


TEXTS, WORDS = ["é", None, "b", "é"], [["é", "b"], None, []]


@pytest.mark.parametrize(
    ("given", "type"),
    [
        (TEXTS, pa.string()),
        (TEXTS, pa.large_string()),
        (TEXTS, pa.binary()),
        (TEXTS, pa.dictionary(pa.int32(), pa.string())),
        (WORDS, pa.list_(pa.string())),
        (WORDS, pa.large_list(pa.large_string())),
        ([None, None], pa.null()),
    ],
)
def test_text_and_words_of_any_type_are_read_and_null_is_a_blank_text(tmp_path, given, type):
    array = pa.array(given).cast(type)
    assert values(file_of(tmp_path, {"text": array})) == ["" if v is None else v for v in given]


@pytest.mark.parametrize("group", [1, 3, 100])
@pytest.mark.parametrize("batch", [1, 4, 100])
def test_rows_from_any_start_are_the_rest(tmp_path, monkeypatch, group, batch):
    monkeypatch.setattr(parquet, "BATCH_ROWS", batch)
    texts = [str(number) for number in range(1, 12)]
    path = file_of(tmp_path, {"text": texts, "n": range(11)}, row_group_size=group)
    expected = [Row(number, str(number), number - 1) for number in range(1, 12)]
    for start in range(1, 14):
        assert rows(path, TextSettings(keep="n"), start) == expected[start - 1 :]


def test_position_grows_to_the_size_of_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "BATCH_ROWS", 10)
    path = file_of(tmp_path, {"text": ["a"] * 100})
    positions = [row.position for row in parquet_rows(path, TextSettings())]
    assert positions == sorted(positions)
    assert 0 < positions[50] < positions[-1] == path.stat().st_size


def test_column_that_is_not_there_is_named_with_those_that_are(tmp_path):
    path = file_of(tmp_path, {"a": [1], "text": ["b"]})
    said = message(path, TextSettings(text_column="c"))
    assert said.startswith("table.parquet: has no column 'c'; ")
    assert said.endswith("(--text-column): 'a', 'text'")
    assert "(--keep)" in message(path, TextSettings(keep="c"))


@pytest.mark.parametrize("chosen", [{"text_column": 2}, {"text_column": "a", "keep": "3"}])
def test_columns_of_one_name_are_an_error_also_by_number(tmp_path, chosen):
    table = pa.table([["x"], ["y"], ["z"]], names=["a", "b", "b"])
    pq.write_table(table, tmp_path / "table.parquet")
    said = message(tmp_path / "table.parquet", TextSettings(**chosen))
    assert said.startswith("table.parquet: has 2 columns 'b'")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (1, "holds 1; it must hold a text or a list of words"),
        (datetime.date(2020, 1, 1), "holds a date; it must"),
        ({"a": "b"}, "holds an object; it must"),
        ([1], "has 1 in its list of words; a word is a text without whitespace"),
        (["a", None], "has null in its list of words"),
        (["a b"], "has 'a b' in its list of words"),
    ],
)
def test_value_that_is_no_text_is_named_by_its_row(tmp_path, value, said):
    told = message(file_of(tmp_path, {"text": [None, value]}))
    assert told.startswith(f"table.parquet, row 2: column 'text' {said}")


@pytest.mark.parametrize("value", [1.5, True, [1]])
def test_value_that_cannot_be_kept_is_named_by_its_row(tmp_path, value):
    told = message(file_of(tmp_path, {"text": ["a"], "id": [value]}), TextSettings(keep="id"))
    assert told.startswith("table.parquet, row 1: column 'id' holds ")
    assert told.endswith("; only a text or a whole number can be kept")


def test_bytes_that_are_not_utf_8_are_named_by_their_row_or_replaced(tmp_path):
    broken = pa.array([b"good", b"caf\xe9"])
    text = pa.Array.from_buffers(pa.string(), 2, broken.buffers())
    for column in (broken, text, pa.ListArray.from_arrays(pa.array([0, 1, 2]), text)):
        path = file_of(tmp_path, {"text": column})
        assert message(path).startswith("table.parquet, row 2: is not UTF-8 (")
        assert values(path, "replace")[1] in ("caf\ufffd", ["caf\ufffd"])


def test_damaged_file_is_one_line(tmp_path):
    path = file_of(tmp_path, {"text": [str(number) for number in range(1000)]})
    whole = path.read_bytes()
    for damaged in (b"not Parquet", whole[:-20], whole[len(whole) // 2 :]):
        path.write_bytes(damaged)
        told = message(path)
        assert told.startswith("table.parquet: is not a complete Parquet file (")
        assert told.endswith("); get it again")


def test_file_with_nothing_in_it_or_not_there_is_named(tmp_path):
    path = tmp_path / "table.parquet"
    assert message(path) == "table.parquet: cannot be read (No such file or directory)"
    path.write_bytes(b"")
    assert message(path).startswith("table.parquet: holds no text")
