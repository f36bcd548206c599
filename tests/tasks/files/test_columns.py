from __future__ import annotations

from pathlib import Path

import pytest

from elmokit.errors import ElmoError
from elmokit.tasks.examples import TaggedSentence
from elmokit.tasks.files.conll import read_columns

CONLL = """-DOCSTART- -X- O O

EU NNP I-NP I-ORG
rejects VBZ I-VP O

-DOCSTART- -X- O O

Peter NNP I-NP I-PER
"""


def write(folder: Path, contents: str) -> Path:
    path = folder / "train.conll"
    path.write_bytes(contents.encode())
    return path


def message(folder: Path, contents: str, **columns: int) -> str:
    """What is said about a file that is refused, after the name of its folder."""
    with pytest.raises(ElmoError) as caught:
        read_columns(write(folder, contents), **columns)
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{folder}/")


def test_first_column_is_the_word_and_the_last_its_tag(tmp_path):
    path = write(tmp_path, CONLL)
    assert read_columns(path) == [
        TaggedSentence(("EU", "rejects"), ("I-ORG", "O"), f"{path}, line 3"),
        TaggedSentence(("Peter",), ("I-PER",), f"{path}, line 8"),
    ]


@pytest.mark.parametrize(("word", "tag"), [(1, 2), (1, -3), (-4, 2)])
def test_columns_are_numbered_from_either_end(tmp_path, word, tag):
    first, second = read_columns(write(tmp_path, CONLL), word=word, tag=tag)
    assert (first.words, first.tags) == (("EU", "rejects"), ("NNP", "VBZ"))
    assert (second.words, second.tags) == (("Peter",), ("NNP",))


@pytest.mark.parametrize(
    "contents",
    [
        "a X\nb Y\n\nc X\n",
        "a X\nb Y\n\nc X",
        "a X\r\nb Y\r\n\r\nc X\r\n",
        "a\tX\nb\tY\n\nc\tX\n",
        "\n\na   X \nb  Y\n \t\n\n\nc X\n\n",
        "a X\nb Y\n-DOCSTART- O\nc X\n",
        "-DOCSTART-\n\na X\nb Y\n\nc X\n",
    ],
)
def test_ends_of_lines_and_gaps_do_not_matter(tmp_path, contents):
    sentences = read_columns(write(tmp_path, contents))
    assert [sentence.words for sentence in sentences] == [("a", "b"), ("c",)]
    assert [sentence.tags for sentence in sentences] == [("X", "Y"), ("X",)]


def test_between_tabs_a_word_may_hold_blanks(tmp_path):
    [sentence] = read_columns(write(tmp_path, "10 000\tNUM\nnew\u00a0york\tPROPN\n"))
    assert sentence.words == ("10 000", "new\u00a0york")


def test_only_plain_blanks_separate(tmp_path):
    [sentence] = read_columns(write(tmp_path, "new\u00a0york I-LOC\n"))
    assert sentence.words == ("new\u00a0york",)


def test_word_that_begins_like_a_document_is_a_word(tmp_path):
    [sentence] = read_columns(write(tmp_path, "-DOCSTART-ed O\n"))
    assert sentence.words == ("-DOCSTART-ed",)


@pytest.mark.parametrize("short", ["c X Z", "c"])
def test_ragged_columns_are_refused_with_their_line(tmp_path, short):
    count = len(short.split())
    assert message(tmp_path, f"a X\n\nb Y\n{short}\n") == (
        f"train.conll, line 4: has {count} column{'s' if count > 1 else ''}, but the lines before "
        "have 2; fix the line"
    )


def test_comment_suggests_the_format_that_has_them(tmp_path):
    contents = "a X\n\n# sent_id = 2\nb Y\n"
    assert message(tmp_path, contents) == (
        "train.conll, line 3: has 4 columns, but the lines before have 2; name a CoNLL-U file "
        ".conllu"
    )


def test_empty_column_is_refused(tmp_path):
    assert message(tmp_path, "a\tX\nb\t\n") == (
        "train.conll, line 2: has an empty column; fix the line"
    )


def test_one_column_only_is_refused(tmp_path):
    assert message(tmp_path, "ham,hello\nspam,win\n") == (
        "train.conll, line 1: has one column only; a word and its tag are needed, with a tab or a "
        "blank between them"
    )


@pytest.mark.parametrize(("name", "wrong"), [("word", 3), ("tag", 0), ("tag", -3)])
def test_column_that_is_not_there_is_refused(tmp_path, name, wrong):
    assert message(tmp_path, "a X\n", **{name: wrong}) == (
        f"train.conll, line 1: has 2 columns, so {wrong} is not the column of the {name}; count "
        "from 1, or from -1 for the last"
    )


def test_one_column_for_word_and_tag_is_refused(tmp_path):
    assert message(tmp_path, "a X\n", word=-2, tag=1) == (
        "train.conll, line 1: the word and the tag are both column 1; name two"
    )


def test_file_without_a_sentence_is_refused(tmp_path):
    assert message(tmp_path, "-DOCSTART- O\n\n") == (
        "train.conll: holds no sentence; name a file that has some"
    )
