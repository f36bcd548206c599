from __future__ import annotations

from pathlib import Path

import pytest
from helpers import write
from tasks.small_files import read, said_of

from elmokit.tasks.coref.documents import Span


def document_of(folder: Path, *rows: str, separator: str = "\t", ended: bool = True) -> Path:
    """A document whose words are given as `word` or `word coreference`; "" ends a sentence."""
    lines = ["#begin document (made/up); part 000"]
    for number, row in enumerate(rows):
        word, _, chains = row.partition(" ")
        columns = ["made/up", "0", str(number), word, "NN", chains or "-"]
        lines.append(separator.join(columns) if row else "")
    return write(folder / "some.conll", [*lines, "", *["#end document"] * ended])


def test_words_sentences_and_chains_are_read(tmp_path: Path) -> None:
    path = document_of(
        tmp_path, "Ann (1)", "sleeps", "", "Her (2|(1)", "dog 2)", "too", "", "She (1)"
    )
    [document] = read("coref", path)
    assert document.sentences == (("Ann", "sleeps"), ("Her", "dog", "too"), ("She",))
    assert document.clusters == ((Span(0, 1), Span(2, 3), Span(5, 6)), (Span(2, 4),))
    assert document.name == "made/up; part 000"
    assert document.place == f"{path}, line 1"


def test_brackets_and_slashes_are_read_as_running_text_has_them(tmp_path: Path) -> None:
    [document] = read("coref", document_of(tmp_path, "-LRB- -", "and\\/or -", "-RRB- -"))
    assert document.words == ("(", "and/or", ")")


def test_mentions_of_one_chain_may_be_within_one_another(tmp_path: Path) -> None:
    [document] = read("coref", document_of(tmp_path, "a (1", "b (1", "c 1)", "d 1)"))
    assert document.clusters == ((Span(0, 4), Span(1, 3)),)


def test_the_original_columns_are_separated_by_blanks_and_have_more_between(tmp_path: Path) -> None:
    path = write(
        tmp_path / "original.v4_gold_conll",
        "#begin document (bc/cctv/00/cctv_0000); part 000\n"
        "bc/cctv/00/cctv_0000   0   0     He    PRP  (TOP(S*  -  -  -  Speaker#1  *  (12)\n"
        "bc/cctv/00/cctv_0000   0   1  waits    VBZ     (VP*) wait 01 1 Speaker#1 (V*)   -\n"
        "\n#end document\n",
    )
    [document] = read("coref", path)
    assert document.sentences == (("He", "waits"),)
    assert document.clusters == ((Span(0, 1),),)


def test_compressed_files_and_several_documents_are_read(tmp_path: Path) -> None:
    plain = document_of(tmp_path, "Ann (1)", "sleeps").read_text()
    path = write(tmp_path / "both.conll.gz", plain + plain)
    first, second = read("coref", path)
    assert first.clusters == second.clusters
    assert second.place.endswith("line 6")


def test_a_document_without_mentions_is_kept(tmp_path: Path) -> None:
    [document] = read("coref", document_of(tmp_path, "Nothing", "happens"))
    assert document.clusters == ()


def test_a_span_of_two_chains_belongs_to_the_first(tmp_path: Path) -> None:
    [document] = read("coref", document_of(tmp_path, "a (1)|(2)", "b (2)", "c (1)"))
    assert document.clusters == ((Span(0, 1), Span(2, 3)), (Span(1, 2),))


def test_a_bracket_that_is_not_opened_is_refused_with_its_line(tmp_path: Path) -> None:
    message = said_of("coref", document_of(tmp_path, "Ann (1)", "", "she 2)"))
    assert "line 4: the last column closes a phrase that was not opened" in message


def test_a_bracket_that_is_not_closed_is_refused_with_the_line_that_opens_it(
    tmp_path: Path,
) -> None:
    message = said_of("coref", document_of(tmp_path, "Ann (1)", "her (2", "dog"))
    assert "line 3: the last column opens (2, which is not closed" in message


@pytest.mark.parametrize("column", ["1", "(1|", "((1)", "B-PER", "1(", "()"])
def test_what_is_no_bracket_is_refused(column: str, tmp_path: Path) -> None:
    message = said_of("coref", document_of(tmp_path, f"Ann {column}"))
    assert f"line 2: the last column is {column!r}, which says nothing of coreference" in message


@pytest.mark.parametrize(
    "text", ["EU\tB-ORG\nrejects\tO\n", "label,text\nham,see you\n", "Once upon a time.\n"]
)
def test_a_file_of_another_task_is_refused(text: str, tmp_path: Path) -> None:
    path = write(tmp_path / "other.txt", text)
    assert "line 1: is in no document; files of coreference have the columns" in said_of(
        "coref", path
    )


def test_too_few_columns_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "few.conll", "#begin document (a)\nAnn\t(1)\n#end document\n")
    assert "line 2: has 2 columns; the columns of CoNLL-2012 are document" in said_of("coref", path)


def test_a_file_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    message = said_of("coref", document_of(tmp_path, "Ann (1)", ended=False))
    assert "line 1: begins a document without an end ('#end document')" in message


def test_a_document_within_another_and_a_second_end_are_refused(tmp_path: Path) -> None:
    path = write(
        tmp_path / "bad.conll", "#begin document (a)\n#begin document (b)\n#end document\n"
    )
    assert "line 1: begins a document without an end" in said_of("coref", path)
    write(path, "#end document\n")
    assert "line 1: is in no document" in said_of("coref", path)


def test_a_document_without_words_or_without_a_name_is_refused(tmp_path: Path) -> None:
    assert "line 1: the document has no words" in said_of("coref", document_of(tmp_path, ""))
    path = write(tmp_path / "nameless.conll", "#begin document\na\t0\t0\tAnn\t-\n#end document\n")
    assert "line 1: the document has no name in brackets" in said_of("coref", path)
