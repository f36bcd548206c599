from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tasks.small_tasks import config

from elmokit.errors import ConfigError, ElmoWarning, InputError
from elmokit.tasks.ask import ItemSettings, format_of, item_settings


def trained(name: str = "spam", **files: Any) -> Any:
    """The settings of a task that was trained on such files."""
    return config(name, {f"files.{key}": value for key, value in files.items()})


def test_the_name_says_what_a_file_is() -> None:
    names = ("a.jsonl", "b.NDJSON", "c.csv", "d.TSV.gz", "e.txt", "-")
    assert [format_of(name) for name in names] == [
        "jsonl", "jsonl", "csv", "tsv", "text", "text",
    ]  # fmt: skip


@pytest.mark.parametrize("table", ["csv", "tsv", "jsonl"])
def test_a_name_that_says_nothing_is_read_as_training_said(table: str) -> None:
    task = trained(format=table)
    with pytest.warns(ElmoWarning, match=rf"^in\.txt: is read as {table}, as the training files"):
        assert item_settings("in.txt", task).format == table
    assert item_settings("in.txt", task, format="text").format == "text"
    assert item_settings("-", task).format == "text"
    assert item_settings("in.jsonl", task).format == "jsonl"


def test_training_files_that_are_no_tables_say_nothing_of_text() -> None:
    assert item_settings("in.txt", trained("sst", format="trees")).format == "text"
    assert item_settings("in.txt", trained("pos", format="columns")).format == "text"


def test_a_name_of_labelled_examples_is_refused_whatever_training_said() -> None:
    with pytest.raises(InputError, match="is a file of labelled examples by its name"):
        item_settings("in.conll", trained(format="csv"))
    assert item_settings("in.conll", trained(), format="text").format == "text"


def test_tables_are_read_as_in_training_unless_something_else_is_said() -> None:
    task = trained(texts=["body"], header=False, encoding="latin-1")
    assert item_settings("in.csv", task) == ItemSettings(
        "csv", usual=("body",), header=False, encoding="latin-1"
    )
    assert item_settings(
        "in.tsv", task, columns=["2"], header=True, skip_bad_rows=True, encoding="utf-16"
    ) == ItemSettings("tsv", ("2",), ("body",), True, True, "utf-16")


def test_the_encoding_of_training_is_that_of_csv_and_tsv_alone() -> None:
    task = trained(encoding="latin-1")
    assert item_settings("in.txt", task).encoding == "utf-8"
    assert item_settings("in.jsonl", task).encoding == "utf-8"


def test_numbers_of_columns_without_names_say_nothing_of_json() -> None:
    task = trained(texts=["2"], header=False)
    assert item_settings("in.jsonl", task).usual == ()
    assert item_settings("in.tsv", task).usual == ("2",)


def test_columns_of_tagged_words_are_none_of_texts() -> None:
    settings = item_settings("in.csv", trained("ner", texts=["2"], header=False))
    assert (settings.usual, settings.header) == ((), True)


def test_the_context_is_read_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("It rains.\n")
    settings = item_settings("-", trained("squad"), context=tmp_path / "text.txt")
    assert settings.context == "It rains.\n"


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ConfigError, match="format is 'xml'; use one of 'text', 'jsonl'"):
        ItemSettings("xml")  # type: ignore[arg-type]
