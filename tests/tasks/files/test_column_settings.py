from __future__ import annotations

import pytest

from elmokit.errors import InputError
from elmokit.tasks.config import Column, FilesConfig, Format, Kind
from elmokit.tasks.files.examples import FORMATS, after_training, fixed_format_of, read_examples


def refused(kind: Kind, name: str, files: FilesConfig) -> str:
    """What is said about settings that a file is not read with."""
    with pytest.raises(InputError) as caught:
        read_examples(kind, name, files)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("label", "tag"),
    [(None, "upos"), ("upos", "upos"), ("xpos", "xpos"), ("4", "upos"), (5, "xpos"), ("5", "xpos")],
)
def test_tags_of_conllu_have_a_name_and_a_number(tmp_path, label: Column | None, tag: str):
    path = tmp_path / "a.conllu"
    path.write_text("1\ta\ta\tupos\txpos\t_\t_\t_\t_\t_\n\n")
    [example] = read_examples("tags", path, FilesConfig(label=label, texts=("2",)))
    assert example.labels == (tag,)


@pytest.mark.parametrize("label", ["3", 10, "-6", "tag"])
def test_other_tags_of_conllu_are_refused(label: Column):
    assert refused("tags", "a.conllu", FilesConfig(label=label)) == (
        "a.conllu: is CoNLL-U, whose tags are upos (column 4) or xpos (column 5), and not "
        f"{label!r}; give one of them (--label-column)"
    )


def test_words_of_conllu_are_in_their_own_column():
    assert refused("tags", "a.txt", FilesConfig(format="conllu", texts=("3",))) == (
        "a.txt: is CoNLL-U, whose words are column 2, and not '3'; leave out --text-column, or say "
        "that it is something else (--format columns)"
    )


@pytest.mark.parametrize("label", ["upos", "tag"])
def test_columns_of_conll_files_have_no_names(label):
    assert refused("tags", "a.conll", FilesConfig(label=label)) == (
        f"a.conll: is read as CoNLL columns, which have no names such as {label!r}; give the "
        "number from 1 (--label-column), or say that it is CoNLL-U (--format conllu)"
    )
    assert "(--text-column)" in refused("tags", "a.conll", FilesConfig(texts=("word",)))


@pytest.mark.parametrize("name", ["a.conll", "a.conllu"])
def test_words_are_in_one_column(name):
    found = refused("tags", name, FilesConfig(texts=("1", "2")))
    assert found == f"{name}: the words are to be in '1', '2'; name one column (--text-column)"


def test_trees_have_no_columns():
    assert refused("text", "a.txt", FilesConfig(label="kind")) == (
        "a.txt: is read as 'trees', in which no column can be chosen; leave out --label-column, or "
        "say that it is something else (--format)"
    )
    assert "leave out --text-column, or" in refused("text", "a.txt", FilesConfig(texts=(1,)))


@pytest.mark.parametrize("kind", ["reading", "coref", "srl"])
def test_formats_of_other_kinds_let_nobody_choose(kind: Kind):
    for each in FORMATS[kind]:
        found: Format = fixed_format_of(kind, "a", FilesConfig(format=each))
        assert found == each
        with pytest.raises(InputError, match=rf"is read as '{each}', in which no column can be"):
            fixed_format_of(kind, "a", FilesConfig(format=each, label="1"))


def test_columns_of_training_stay_where_they_can_be_chosen():
    training = FilesConfig(label="kind", texts=("body",))
    assert after_training("text", "a.csv", training, training) == training
    assert after_training("text", "a.txt", training, training) == FilesConfig()
    other = FilesConfig(label="class", texts=("body",))
    assert after_training("text", "a.txt", other, training) == FilesConfig(label="class")
