from __future__ import annotations

import json
from pathlib import Path

import pytest
from analysis.neighbours.small_indexes import sentences, write_corpus
from small_models import small_embedder

from elmokit.cli.neighbours import around
from elmokit.formats.native import SavedModel, write_model

pytest.importorskip("lancedb", reason="the extra analysis is not installed")

LINES = sentences(40)
QUESTION = "the river *bank* of light"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("neighbours")
    write_corpus(folder / "corpus.txt", LINES)
    for seed, name in enumerate(["model", "other"]):
        embedder = small_embedder(seed)
        saved = SavedModel(embedder.config, embedder.bilm.state_dict(), "whitespace")
        write_model(folder / name, saved)
    return folder


@pytest.fixture
def index(folder, elmo) -> Path:
    if not (folder / "index").exists():
        code, _, error = build(elmo, folder, "--layers", "all")
        assert code == 0, error
    return folder / "index"


def build(elmo, folder: Path, *flags: str, name: str = "index") -> tuple[int, str, str]:
    corpus, model = str(folder / "corpus.txt"), str(folder / "model")
    arguments = ("--model", model, "-o", str(folder / name), *flags)
    return elmo("neighbours", "build", corpus, *arguments)


def query(elmo, index: Path, *flags: str, model: str = "model") -> tuple[int, str, str]:
    arguments = ("--model", str(index.parent / model), "--static", "none", *flags)
    return elmo("neighbours", "query", str(index), *arguments)


def test_build_says_what_it_has_kept_and_query_ranks_it(elmo, folder, index):
    code, out, error = query(elmo, index, QUESTION, "--top", "3")
    assert (code, error) == (0, "")
    lines = out.splitlines()
    assert [line.split()[0] for line in lines] == ["1", "2", "3"]
    cosines = [float(line.split()[1]) for line in lines]
    assert cosines == sorted(cosines, reverse=True)
    assert all(line.count("*") == 2 for line in lines)


def test_the_summary_is_json_on_demand(elmo, folder):
    code, out, _ = build(elmo, folder, "--json", name="again")
    summary = json.loads(out)
    assert code == 0
    assert summary["sentences"] == len(LINES)
    assert summary["occurrences"] == sum(map(len, LINES))
    code, out, _ = build(elmo, folder, "--resume", name="again")
    assert code == 0
    assert "already finished" in out


def test_a_query_is_json_on_demand(elmo, index):
    code, out, _ = query(elmo, index, QUESTION, "--json", "--same-word", "--layer", "1")
    answer = json.loads(out)
    assert code == 0
    assert (answer["word"], answer["position"], answer["layer"]) == ("bank", 2, "1")
    assert answer["static"] is None
    assert {one["word"] for one in answer["neighbours"]} == {"bank"}
    for one in answer["neighbours"]:
        assert one["words"][one["position"]] == "bank"


def test_static_neighbours_stand_beside(prints, folder, index):
    vectors = folder / "vectors.txt"
    vectors.write_text("bank 1 0\nmoney 1 0.1\nriver 0 1\n")
    flags = ("--model", str(folder / "model"), "--static", str(vectors), "--top", "1")
    out = prints("neighbours", "query", str(index), QUESTION, *flags)
    assert out.splitlines()[2:] == ["vectors, in every sentence:", "  1   0.995  money"]
    out = prints("neighbours", "query", str(index), "*light* of the", *flags)
    assert "vectors has no vector of 'light'" in out


def test_the_american_spelling_is_the_same_command(prints):
    out = prints("neighbors", "query", "--help")
    assert "INDEX SENTENCE" in out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["the river bank"], "has no marked word; put stars around one word"),
        (["the *bnak*", "--same-word"], "'bnak' does not occur in it; near forms are bank"),
        ([QUESTION, "--layer", "9"], "layer 9 is not in the index"),
    ],
)
def test_bad_questions_are_one_line(elmo, index, flags, message):
    code, out, error = query(elmo, index, *flags)
    assert (code, out) == (1, "")
    assert message in error
    assert error.count("\n") == 1


def test_an_index_is_not_built_on_object_storage(fails, folder):
    corpus, address = str(folder / "corpus.txt"), "s3://bucket/index"
    error = fails("neighbours", "build", corpus, "-o", address)
    assert error.startswith(f"elmo: {address}: is a URL of object storage; build ")


def test_a_question_is_split_as_the_corpus_was(elmo, folder):
    build(elmo, folder, "--tokenizer", "default", name="split")
    code, out, _ = query(elmo, folder / "split", "the river *bank*.", "--json")
    assert code == 0
    assert json.loads(out)["words"] == ["the", "river", "bank", "."]


def test_senses_are_shown_with_examples_and_drawn(prints, folder, index):
    picture = folder / "bank.png"
    out = prints(
        "senses", str(index), "bank", "--senses", "2", "--examples", "1",
        "--picture", str(picture),
    )  # fmt: skip
    assert out.startswith("bank: ")
    assert out.count("\nsense ") == 2
    assert sum("*bank*" in line for line in out.splitlines()) == 2
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_senses_are_json_on_demand(elmo, index):
    code, out, _ = elmo("senses", str(index), "BANK", "--senses", "3", "--json")
    answer = json.loads(out)
    assert code == 0
    assert len(answer["senses"]) == 3
    assert answer["occurrences"] == len(answer["points"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bank", "--senses", "900"], "too few for 900 senses"),
        (["bank", "--picture", "bank.gif"], "give a name that ends so"),
    ],
)
def test_senses_that_cannot_be_are_one_line(fails, index, arguments, message):
    assert message in fails("senses", str(index), *arguments)


def test_a_long_sentence_is_cut_around_its_word():
    words = [f"w{number}" for number in range(100)]
    assert around(words, 50, 30).startswith("… ")
    assert "*w50*" in around(words, 50, 30)
    assert len(around(words, 50, 30)) <= 30
    assert around(words, 99, 30).endswith(" *w99*")
    assert around(words, 0, None).endswith("w99")
