from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers import error_of
from tasks import small_files
from tasks.small_files import DEFAULT

from elmokit.errors import ElmoWarning
from elmokit.tasks.coref.documents import Document, Span
from elmokit.tasks.files.gap import NEEDED

TEXT = "Ann's sister is Eve Lee. She sings."
ROW = {
    "ID": "test-1",
    "Text": TEXT,
    "Pronoun": "She",
    "Pronoun-offset": "25",
    "A": "Ann",
    "A-offset": "0",
    "A-coref": "FALSE",
    "B": "Eve Lee",
    "B-offset": "16",
    "B-coref": "TRUE",
}


def write(folder: Path, *rows: dict[str, str], names: tuple[str, ...] = NEEDED) -> Path:
    path = folder / "gap.tsv"
    lines = [names, *([row[name] for name in names] for row in rows)]
    path.write_text("".join("\t".join(line) + "\n" for line in lines), encoding="utf-8")
    return path


def read(path: Path, **settings: Any) -> list[Document]:
    return small_files.read("coref", path, DEFAULT, **settings)


def refusal(path: Path) -> str:
    return error_of(read, path, after=path)


def test_a_row_is_a_document_with_a_question(tmp_path: Path) -> None:
    [document] = read(write(tmp_path, ROW))
    assert document.sentences[0] == ("Ann", "'s", "sister", "is", "Eve", "Lee", ".")
    question = document.question
    assert question is not None
    words = [" ".join(document.words[start:end]) for start, end in question[:3]]
    assert words == ["She", "Ann", "Eve Lee"]
    assert (question.is_first, question.is_second, question.feminine) == (False, True, True)
    assert document.clusters == ((Span(4, 6), Span(7, 8)),)
    assert document.name == "test-1"
    assert document.place.endswith("line 2")


def test_neither_name_is_no_cluster(tmp_path: Path) -> None:
    [document] = read(write(tmp_path, {**ROW, "B-coref": "False"}))
    assert document.clusters == ()


def test_a_name_within_a_word_is_the_word(tmp_path: Path) -> None:
    [document] = read(write(tmp_path, {**ROW, "A": "nn", "A-offset": "1"}))
    assert document.question is not None
    assert document.question.first == Span(0, 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"A-offset": "3"}, "line 2: A is 'Ann', but the text has \"'s \" at its offset 3"),
        ({"A-offset": "9" * 5000}, "A is 'Ann', but the text has '' at its offset 999"),
        ({"A-offset": "-3"}, "A is 'Ann', but the text has '' at its offset -3"),
        ({"B": " ", "B-offset": "5"}, "B is ' ', but the text has ' ' at its offset 5"),
        ({"B-coref": "yes"}, "line 2: B-coref is 'yes'; it must be TRUE or FALSE"),
        ({"Pronoun": "sings", "Pronoun-offset": "29"}, "line 2: the pronoun is 'sings'; use one"),
    ],
)
def test_what_is_wrong_with_a_row_is_said_with_its_line(
    change: dict[str, str], message: str, tmp_path: Path
) -> None:
    assert message in refusal(write(tmp_path, {**ROW, **change}))


def test_another_table_is_refused_with_the_columns_that_are_needed(tmp_path: Path) -> None:
    message = refusal(write(tmp_path, ROW, names=("ID", "Text")))
    assert "line 1: has no column 'Pronoun'; a .tsv for coreference has the columns of" in message


def test_columns_of_roles_are_refused_as_such_and_not_as_ragged_rows(tmp_path: Path) -> None:
    path = tmp_path / "roles.tsv"
    path.write_text("# sent_id = 1\n1\tShe\tPRP\tshe\t-\n2\tsleeps\tVBZ\tsleep\tsleep.01\n")
    assert "line 1: has no column 'ID'; a .tsv for coreference" in refusal(path)


def test_ragged_rows_are_left_out_where_that_is_wanted(tmp_path: Path) -> None:
    path = write(tmp_path, ROW)
    with path.open("a", encoding="utf-8") as file:
        file.write("test-2\tonly two\n")
    assert "line 3" in refusal(path)
    with pytest.warns(ElmoWarning, match="1 such row left out"):
        assert len(read(path, skip_bad_rows=True)) == 1


def test_a_header_alone_is_refused(tmp_path: Path) -> None:
    assert "holds no row but the names of columns" in refusal(write(tmp_path))
