from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from elmokit.errors import ConfigError, InputError
from elmokit.tasks.config import FilesConfig, Kind
from elmokit.tasks.examples import PairExample, TaggedSentence, TextExample
from elmokit.tasks.files.examples import read_examples

CSV = "label,text\nham,Hello you\n"
TSV = CSV.replace(",", "\t")
JSON = '{"label": "ham", "text": "Hello you"}\n'
PAIRS = "label,premise,hypothesis\nneutral,A dog,A cat\n"
TREE = "(3 (2 Hello) (3 you))\n"
COLUMNS = "Jim NNP I-PER\n"
CONLLU = "1\tJim\tJim\tPROPN\tNNP\t_\t_\t_\t_\t_\n"


def write(folder: Path, name: str, contents: str) -> Path:
    path = folder / name
    data = contents.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


@pytest.mark.parametrize(
    ("name", "contents", "label"),
    [
        ("a.csv", CSV, "ham"),
        ("a.tsv.gz", TSV, "ham"),
        ("a.JSONL", JSON, "ham"),
        ("a.ndjson", JSON, "ham"),
        ("a.txt", TREE, "3"),
        ("a.ptb.gz", TREE, "3"),
        ("trees", TREE, "3"),
    ],
)
def test_texts_are_read_by_the_suffix(tmp_path, name, contents, label):
    [example] = read_examples("text", write(tmp_path, name, contents))
    assert isinstance(example, TextExample)
    assert (example.words, example.label) == (("Hello", "you"), label)


@pytest.mark.parametrize(
    ("name", "contents", "tag"),
    [
        ("a.conll", COLUMNS, "I-PER"),
        ("eng.train", COLUMNS, "I-PER"),
        ("eng.testb.gz", COLUMNS, "I-PER"),
        ("a.txt", COLUMNS, "I-PER"),
        ("a.tsv", COLUMNS.replace(" ", "\t"), "I-PER"),
        ("a.conllu.gz", CONLLU, "PROPN"),
    ],
)
def test_tagged_sentences_are_read_by_the_suffix(tmp_path, name, contents, tag):
    [example] = read_examples("tags", write(tmp_path, name, contents))
    assert isinstance(example, TaggedSentence)
    assert (example.words, example.tags) == (("Jim",), (tag,))


@pytest.mark.parametrize(
    ("name", "contents"), [("a.csv", PAIRS), ("a.tsv.gz", PAIRS.replace(",", "\t"))]
)
def test_pairs_are_read_by_the_suffix(tmp_path, name, contents):
    path = write(tmp_path, name, contents)
    assert read_examples("pair", str(path)) == [
        PairExample(("A", "dog"), ("A", "cat"), "neutral", f"{path}, line 2")
    ]


def test_settings_reach_the_reader_of_each_format(tmp_path):
    table = FilesConfig(encoding="latin-1", label="kind", texts=("body",))
    path = tmp_path / "a.csv"
    path.write_bytes("kind,body\nham,£ 5\n".encode("latin-1"))
    [example] = read_examples("text", path, table, tokenize=list)
    assert example.sentences == (("£", " ", "5"),)

    escaped = write(tmp_path, "a.txt", "(3 (2 -LRB-) (3 you))\n")
    assert read_examples("text", escaped)[0].sentences == (("(", "you"),)
    phrases = read_examples("text", escaped, FilesConfig(phrases=True))
    assert [example.sentences for example in phrases] == [(("(", "you"),), (("(",),), (("you",),)]
    long = read_examples("text", escaped, FilesConfig(phrases=True, shortest_phrase=2))
    assert long == phrases[:1]

    [columns] = read_examples(
        "tags", write(tmp_path, "a.conll", COLUMNS), FilesConfig(texts=(2,), label=1)
    )
    assert (columns.sentences, columns.labels) == ((("NNP",),), ("Jim",))
    [conllu] = read_examples("tags", write(tmp_path, "a.conllu", CONLLU), FilesConfig(label="xpos"))
    assert conllu.labels == ("NNP",)


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
    path = write(tmp_path, name, contents)
    assert len(read_examples(kind, path, FilesConfig(format=format))) == 1


@pytest.mark.parametrize(
    ("kind", "name", "line"),
    [
        ("text", "a.conllu", "is a .conllu file, but the task needs labelled texts: a table (.csv"),
        ("text", "a.conll.gz", "is a .conll file, but the task needs labelled texts: a table"),
        ("tags", "a.csv", "is a .csv file, but the task needs tagged words: CoNLL columns (.conll"),
        ("tags", "a.jsonl", "is a .jsonl file, but the task needs tagged words: CoNLL columns"),
        (
            "pair",
            "a.conll",
            "is a .conll file, but the task needs labelled pairs of texts: a table",
        ),
        ("pair", "pairs", "is without a suffix, but the task needs labelled pairs of texts"),
    ],
)
def test_file_of_another_task_is_refused_by_its_name(tmp_path, kind: Kind, name, line):
    path = write(tmp_path, name, "x")
    with pytest.raises(InputError) as caught:
        read_examples(kind, path)
    assert str(caught.value).startswith(f"{path}: {line}")


@pytest.mark.parametrize(
    ("kind", "contents", "line"),
    [
        (
            "text",
            COLUMNS * 2,
            "line 1: has too few columns ('Jim NNP I-PER') for a label and a text",
        ),
        ("text", PAIRS, "line 1: there is no column that usually holds the text among 'label'"),
        ("pair", CSV, "line 1: has too few columns ('label', 'text') for a label and two texts"),
        ("text", "text\nHello\n", "line 1: has too few columns ('text') for a label and a text"),
    ],
)
def test_file_of_another_task_is_refused_by_what_it_holds(tmp_path, kind: Kind, contents, line):
    path = write(tmp_path, "a.csv", contents)
    with pytest.raises(InputError) as caught:
        read_examples(kind, path)
    assert str(caught.value).startswith(f"{path}, {line}")


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("text", "a.csv"),
        ("text", "a.txt"),
        ("tags", "a.conll"),
        ("tags", "a.conllu"),
        ("pair", "a.tsv"),
    ],
)
def test_empty_file_is_refused_in_every_format(tmp_path, kind: Kind, name):
    path = write(tmp_path, name, "\n \n")
    with pytest.raises(InputError, match=f"{path}: holds no "):
        read_examples(kind, path)


def test_format_of_another_task_is_refused(tmp_path):
    path = write(tmp_path, "a.csv", CSV)
    with pytest.raises(InputError, match=r"is read as 'csv', but the task needs tagged words"):
        read_examples("tags", path, FilesConfig(format="csv"))


def test_unknown_kind_and_format_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="kind is 'image'; use one of 'text', 'tags', 'pair'"):
        read_examples("image", tmp_path / "a.csv")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="format is 'xml'; use one of None, 'csv'"):
        FilesConfig(format="xml")  # type: ignore[arg-type]


def test_files_tags_and_scores_need_no_torch():
    modules = "elmokit.tasks.files.examples, elmokit.tasks.tags, elmokit.tasks.scores"
    check = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
