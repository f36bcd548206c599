"""Which format a file is read in, by its name or by what the user says."""

from __future__ import annotations

import pytest
from helpers import loaded_by, write
from tasks.small_files import DEFAULT, read, said_of

from elmokit.errors import ConfigError
from elmokit.io.text_files import TextSettings
from elmokit.tasks.config import Kind
from elmokit.tasks.examples import PairExample, TaggedSentence, TextExample
from elmokit.tasks.files.examples import after_training

CSV = "label,text\nham,Hello you\n"
TSV = CSV.replace(",", "\t")
JSON = '{"label": "ham", "text": "Hello you"}\n'
PAIRS = "label,premise,hypothesis\nneutral,A dog,A cat\n"
TREE = "(3 (2 Hello) (3 you))\n"
COLUMNS = "Jim NNP I-PER\n"
CONLLU = "1\tJim\tJim\tPROPN\tNNP\t_\t_\t_\t_\t_\n"


@pytest.mark.parametrize(
    ("name", "contents", "label"),
    [
        ("a.csv", CSV, "ham"),
        ("a.tsv.gz", TSV, "ham"),
        ("a.JSONL", JSON, "ham"),
        ("a.ndjson", JSON, "ham"),
        ("a.ptb.gz", TREE, "3"),
        ("trees", TREE, "3"),
    ],
)
def test_texts_are_read_by_the_suffix(tmp_path, name, contents, label):
    path = write(tmp_path / name, contents)
    [example] = read("text", path)
    line = 2 if label == "ham" and "JSON" not in name and "json" not in name else 1
    assert example == TextExample(("Hello", "you"), label, f"{path}, line {line}")


@pytest.mark.parametrize(
    ("name", "contents", "tag"),
    [
        ("eng.train", COLUMNS, "I-PER"),
        ("eng.testb.gz", COLUMNS, "I-PER"),
        ("a.tsv", COLUMNS.replace(" ", "\t"), "I-PER"),
        ("a.conllu.gz", CONLLU, "PROPN"),
    ],
)
def test_tagged_sentences_are_read_by_the_suffix(tmp_path, name, contents, tag):
    path = write(tmp_path / name, contents)
    assert read("tags", path) == [TaggedSentence(("Jim",), (tag,), f"{path}, line 1")]


def test_pairs_are_read_by_the_suffix(tmp_path):
    path = write(tmp_path / "a.tsv.gz", PAIRS.replace(",", "\t"))
    assert read("pair", path) == [
        PairExample(("A", "dog"), ("A", "cat"), "neutral", f"{path}, line 2")
    ]


def test_bytes_are_utf_8_unless_an_encoding_is_named_and_utf_16_by_its_mark(tmp_path):
    path = write(tmp_path / "a.csv", "label,text\nham,£ 5\n".encode("latin-1"))
    assert said_of("text", path).startswith(", line 2: is not UTF-8")
    assert read("text", path, encoding="latin-1")[0].words == ("£", "5")
    path = write(tmp_path / "b.csv", "label,text\nham,£ 5\n".encode("utf-16"))
    assert read("text", path)[0].words == ("£", "5")


def test_texts_are_split_by_the_tokenizer_that_is_given(tmp_path):
    path = write(tmp_path / "a.csv", "label,text\nham,It can't be.\n")
    assert read("text", path)[0].words == ("It", "can't", "be.")
    assert read("text", path, DEFAULT)[0].words == ("It", "ca", "n't", "be", ".")


@pytest.mark.parametrize(
    ("kind", "name", "contents", "format"),
    [
        ("text", "a.txt", TSV, "tsv"),
        ("text", "a.tsv", CSV, "csv"),
        ("text", "a.conll", TREE, "trees"),
        ("tags", "a.csv", COLUMNS, "columns"),
        ("tags", "a.txt", CONLLU, "conllu"),
        ("pair", "a.txt", PAIRS, "csv"),
    ],
)
def test_format_that_is_named_goes_before_the_suffix(tmp_path, kind, name, contents, format):
    assert len(read(kind, write(tmp_path / name, contents), format=format)) == 1


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        ("text", "a.conllu", ": is a .conllu file, but the task needs labelled texts"),
        ("text", "a.conll.gz", ": is a .conll file, but the task needs labelled texts"),
        ("tags", "a.csv", ": is a .csv file, but the task needs tagged words"),
        ("tags", "a.jsonl", ": is a .jsonl file, but the task needs tagged words"),
        ("pair", "a.conll", ": is a .conll file, but the task needs labelled pairs of texts"),
        ("pair", "pairs", ": is without a suffix, but the task needs labelled pairs of texts"),
        ("reading", "a.csv", ": is a .csv file, but the task needs questions about texts"),
        ("coref", "a.json.gz", ": is a .json file, but the task needs documents with chains"),
        ("srl", "a.conllu", ": is a .conllu file, but the task needs semantic roles"),
    ],
)
def test_file_of_another_task_is_known_by_its_name(kind: Kind, name, said):
    assert said_of(kind, name).startswith(said)


@pytest.mark.parametrize(
    ("kind", "name"),
    [("text", "a.csv"), ("text", "a.txt"), ("tags", "a.conll"), ("tags", "a.conllu")],
)
def test_empty_file_is_an_error_in_every_format(tmp_path, kind: Kind, name):
    assert said_of(kind, write(tmp_path / name, "\n\n")).startswith(": holds no ")


def test_format_of_another_task_and_an_unknown_one_are_errors(tmp_path):
    path = write(tmp_path / "a.csv", CSV)
    assert ": is read as 'csv', but the task needs" in said_of("tags", path, format="csv")
    with pytest.raises(ConfigError, match="format is 'xml'"):
        TextSettings(format="xml")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "each"),
    [
        ("text", "trees"), ("reading", "squad"), ("coref", "coref"), ("coref", "gap"),
        ("srl", "propbank"), ("srl", "conll2012"),
    ],
)  # fmt: skip
def test_formats_in_which_everything_has_its_place_have_no_columns_to_choose(kind: Kind, each: str):
    said = said_of(kind, "a", format=each, label_column="3", text_column=1)
    assert said.startswith(f": is read as {each!r}, in which no column can be chosen; ")
    assert "leave out --label-column and --text-column" in said


def test_columns_of_training_stay_where_they_can_be_chosen():
    training = TextSettings(label_column="kind", text_column="body")
    assert after_training("text", "a.csv", training, training) == training
    assert after_training("text", "a.txt", training, training) == TextSettings()
    other = TextSettings(label_column="class", text_column="body")
    assert after_training("text", "a.txt", other, training) == TextSettings(label_column="class")


def test_files_tags_and_scores_need_no_torch():
    modules = "elmokit.tasks.files.examples, elmokit.tasks.tags, elmokit.tasks.scores"
    assert not loaded_by(f"import {modules}", ["torch"])
