from __future__ import annotations

from pathlib import Path

import pytest
from helpers import write
from tasks.small_files import read, said_of

from elmokit.tasks.examples import TaggedSentence

CONLL = """-DOCSTART- -X- O O

EU NNP I-NP I-ORG
rejects VBZ I-VP O

-DOCSTART- -X- O O

Peter NNP I-NP I-PER
"""


def columns(folder: Path, contents: str) -> Path:
    return write(folder / "train.conll", contents)


def test_first_column_is_the_word_and_the_last_its_tag(tmp_path):
    path = columns(tmp_path, CONLL)
    assert read("tags", path) == [
        TaggedSentence(("EU", "rejects"), ("I-ORG", "O"), f"{path}, line 3"),
        TaggedSentence(("Peter",), ("I-PER",), f"{path}, line 8"),
    ]


@pytest.mark.parametrize(("word", "tag"), [(1, "2"), ("1", -3), (-4, 2)])
def test_columns_are_numbered_from_either_end(tmp_path, word, tag):
    first, second = read("tags", columns(tmp_path, CONLL), text_column=word, label_column=tag)
    assert (first.words, first.tags) == (("EU", "rejects"), ("NNP", "VBZ"))
    assert (second.words, second.tags) == (("Peter",), ("NNP",))


@pytest.mark.parametrize(
    "contents",
    [
        "a X\nb Y\n\nc X",
        "a X\r\nb Y\r\n\r\nc X\r\n",
        "a\tX\nb\tY\n\nc\tX\n",
        "\n\na   X \nb  Y\n \t\n\n\nc X\n\n",
        "a X\nb Y\n-DOCSTART- O\nc X\n",
        "-DOCSTART-\n\na X\nb Y\n\nc X\n",
    ],
)
def test_ends_of_lines_and_gaps_do_not_matter(tmp_path, contents):
    sentences = read("tags", columns(tmp_path, contents))
    assert [sentence.words for sentence in sentences] == [("a", "b"), ("c",)]
    assert [sentence.tags for sentence in sentences] == [("X", "Y"), ("X",)]


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("10 000\tNUM", "10 000"),
        ("new\u00a0york\tPROPN", "new\u00a0york"),
        ("new\u00a0york I-LOC", "new\u00a0york"),
        ("-DOCSTART-ed O", "-DOCSTART-ed"),
    ],
)
def test_tabs_or_plain_spaces_separate(tmp_path, line, word):
    [sentence] = read("tags", columns(tmp_path, f"{line}\n"))
    assert sentence.words == (word,)


@pytest.mark.parametrize(
    ("contents", "said"),
    [
        ("a X\n\nb Y\nc X Z\n", ", line 4: has 3 columns, but the lines before have 2; fix"),
        ("a X\n\n# sent_id = 2\nb Y\n", ", line 3: has 4 columns, but the lines before have 2; na"),
        ("a\tX\nb\t\n", ", line 2: has an empty column"),
        ("ham,hello\nspam,win\n", ", line 1: has one column only"),
        ("-DOCSTART- O\n\n", ": holds no sentence"),
    ],
)
def test_lines_that_are_not_of_columns_are_one_line_with_their_place(tmp_path, contents, said):
    assert said_of("tags", columns(tmp_path, contents)).startswith(said)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"text_column": 3}, ", line 1: has 2 columns, so there is no column 3"),
        ({"label_column": 0}, ", line 1: has 2 columns, so there is no column 0"),
        ({"label_column": -3}, ", line 1: has 2 columns, so there is no column -3"),
        ({"label_column": "upos"}, ", line 1: is read as CoNLL columns, which have no names"),
        ({"text_column": -2, "label_column": 1}, ", line 1: the word and the tag are both"),
        ({"text_column": ("1", "2")}, ": the words are to be in '1', '2'; name one column"),
    ],
)
def test_columns_that_are_not_there_are_one_line(tmp_path, settings, said):
    assert said_of("tags", columns(tmp_path, "a X\n"), **settings).startswith(said)


# CoNLL-U


def row(number: str, form: str, upos: str, xpos: str) -> str:
    return "\t".join([number, form, "_", upos, xpos, "_", "_", "_", "_", "_"])


SENTENCES = "\n".join(
    [
        "# sent_id = 1",
        "# text = I can't go",
        row("1", "I", "PRON", "PRP"),
        row("2-3", "can't", "_", "_"),
        row("2", "ca", "AUX", "MD"),
        row("3", "n't", "PART", "RB"),
        row("3.1", "really", "ADV", "RB"),
        row("4", "go", "VERB", "VB"),
        "",
        row("1", "#", "SYM", "NN"),
        "",
    ]
)


def conllu(folder: Path, contents: str) -> Path:
    return write(folder / "dev.conllu", contents)


@pytest.mark.parametrize("contents", [SENTENCES, SENTENCES.replace("\n", "\r\n")])
def test_words_have_universal_tags_or_the_language_s_own(tmp_path, contents):
    path = conllu(tmp_path, contents)
    assert read("tags", path) == [
        TaggedSentence(
            ("I", "ca", "n't", "go"), ("PRON", "AUX", "PART", "VERB"), f"{path}, line 1"
        ),
        TaggedSentence(("#",), ("SYM",), f"{path}, line 10"),
    ]
    assert read("tags", path, label_column="xpos")[0].tags == ("PRP", "MD", "RB", "VB")


@pytest.mark.parametrize(
    ("label", "tag"),
    [(None, "upos"), ("upos", "upos"), ("xpos", "xpos"), ("4", "upos"), (5, "xpos"), ("5", "xpos")],
)
def test_tags_of_conllu_have_a_name_and_a_number(tmp_path, label, tag):
    path = conllu(tmp_path, row("1", "a", "upos", "xpos"))
    [example] = read("tags", path, label_column=label, text_column="2")
    assert example.labels == (tag,)


def test_comments_alone_are_no_sentence_and_words_may_have_spaces_in_them(tmp_path):
    assert len(read("tags", conllu(tmp_path, f"# newdoc\n\n{SENTENCES}"))) == 2
    [sentence] = read("tags", conllu(tmp_path, row("1", "10 000", "NUM", "CD")))
    assert sentence.words == ("10 000",)


@pytest.mark.parametrize(
    ("contents", "said"),
    [
        ("# newdoc\n", ": holds no sentence"),
        (f"# a\n{row('1', 'a', 'X', 'Y')}\nb X Y\n", ", line 3: has 1 values between tabs"),
        (row("", "a", "X", "Y"), ", line 1: begins with ''"),
        (row("0", "a", "X", "Y"), ", line 1: begins with '0'"),
        (row("²", "a", "X", "Y"), ", line 1: begins with '²'"),
        (row("1", "a", "", "Y"), ", line 1: has an empty value"),
        (
            f"{row('1', 'a', 'DET', 'DT')}\n{row('2', 'b', '_', 'NN')}\n",
            ", line 2: 'b' has no upos tag, only '_'",
        ),
    ],
)
def test_what_is_not_conllu_is_one_line_with_its_place(tmp_path, contents, said):
    assert said_of("tags", conllu(tmp_path, contents)).startswith(said)


def test_tags_of_the_other_column_may_be_left_open(tmp_path):
    path = conllu(tmp_path, row("1", "a", "_", "NN"))
    assert read("tags", path, label_column="xpos")[0].tags == ("NN",)
    path = conllu(tmp_path, row("1", "a", "X", "_"))
    assert said_of("tags", path, label_column="xpos").endswith("(--label-column upos)")


@pytest.mark.parametrize(
    "settings", [*({"label_column": each} for each in ("3", 10, "-6", "tag")), {"text_column": "3"}]
)
def test_other_columns_of_conllu_cannot_be_chosen(tmp_path, settings):
    assert said_of("tags", conllu(tmp_path, SENTENCES), **settings).startswith(": is CoNLL-U, ")
