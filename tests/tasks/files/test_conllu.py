from __future__ import annotations

from pathlib import Path

import pytest

from elmokit.errors import ConfigError, ElmoError
from elmokit.tasks.examples import TaggedSentence
from elmokit.tasks.files.conll import read_conllu


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


def write(folder: Path, contents: str) -> Path:
    path = folder / "dev.conllu"
    path.write_bytes(contents.encode())
    return path


def message(folder: Path, contents: str) -> str:
    """What is said about a file that is refused, after the name of its folder."""
    with pytest.raises(ElmoError) as caught:
        read_conllu(write(folder, contents))
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{folder}/")


def test_words_have_universal_tags_or_the_language_s_own(tmp_path):
    path = write(tmp_path, SENTENCES)
    words = ("I", "ca", "n't", "go")
    assert read_conllu(path) == [
        TaggedSentence(words, ("PRON", "AUX", "PART", "VERB"), f"{path}, line 1"),
        TaggedSentence(("#",), ("SYM",), f"{path}, line 10"),
    ]
    assert read_conllu(path, tag="xpos")[0].tags == ("PRP", "MD", "RB", "VB")


def test_line_ends_of_windows_are_no_part_of_the_last_value(tmp_path):
    assert read_conllu(write(tmp_path, SENTENCES.replace("\n", "\r\n")))[0].words[0] == "I"


def test_comments_alone_are_no_sentence(tmp_path):
    assert len(read_conllu(write(tmp_path, f"# newdoc\n\n{SENTENCES}"))) == 2
    assert message(tmp_path, "# newdoc\n") == (
        "dev.conllu: holds no sentence; name a file that has some"
    )


def test_word_with_a_blank_in_it_stays_whole(tmp_path):
    assert read_conllu(write(tmp_path, row("1", "10 000", "NUM", "CD")))[0].words == ("10 000",)


def test_line_with_another_number_of_values_is_refused(tmp_path):
    contents = f"# a\n{row('1', 'a', 'X', 'Y')}\nb X Y\n"
    assert message(tmp_path, contents) == (
        "dev.conllu, line 3: has 1 values between tabs; a line of CoNLL-U has 10"
    )


@pytest.mark.parametrize("number", ["", "x", "0", "1a", "²"])
def test_line_that_does_not_begin_with_a_number_is_refused(tmp_path, number):
    assert message(tmp_path, row(number, "a", "X", "Y")) == (
        f"dev.conllu, line 1: begins with {number!r}; a line of CoNLL-U begins with the number of "
        "its word, as 3, 3-4 or 8.1"
    )


def test_empty_value_is_refused(tmp_path):
    assert message(tmp_path, row("1", "a", "", "Y")) == (
        "dev.conllu, line 1: has an empty value; CoNLL-U writes it as '_'"
    )


def test_first_word_without_the_tag_that_is_asked_for_is_refused(tmp_path):
    rows = [row("1", "a", "DET", "DT"), row("2", "b", "_", "NN"), row("3", "c", "_", "NN")]
    assert message(tmp_path, "\n".join(rows)) == (
        "dev.conllu, line 2: 'b' has no upos tag, only '_'; give it one, or take the other column "
        "(--label-column xpos)"
    )


def test_tags_of_the_other_column_may_be_left_open(tmp_path):
    path = write(tmp_path, row("1", "a", "_", "NN"))
    assert read_conllu(path, tag="xpos")[0].tags == ("NN",)
    with pytest.raises(ElmoError, match=r"\(--label-column upos\)$"):
        read_conllu(write(tmp_path, row("1", "a", "X", "_")), tag="xpos")


def test_other_columns_cannot_be_asked_for(tmp_path):
    with pytest.raises(ConfigError, match="tag is 'lemma'; use one of 'upos', 'xpos'"):
        read_conllu(write(tmp_path, SENTENCES), tag="lemma")  # type: ignore[arg-type]
