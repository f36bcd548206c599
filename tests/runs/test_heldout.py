import gzip
import json
import lzma
from pathlib import Path

import pytest
from small_language_models import write_language_model

from elmokit.inference.language_model import LanguageModel
from runs.heldout import main, sentences_of_wikitext

RAW = "The cat sat. The dog sat on the mat.\nThe river.\n"
RAW_SENTENCES = [
    ["The", "cat", "sat", "."],
    ["The", "dog", "sat", "on", "the", "mat", "."],
    ["The", "river", "."],
]
WIKITEXT = "\n".join(
    [
        " ",
        " = The cat = ",
        " ",
        " the cat sat . The <unk> sat on 1 @,@ 200 mats . ",
        " = = Its dog = = ",
        " the dog @-@ bank ",
        "",
    ]
)


@pytest.fixture
def model(tmp_path: Path) -> str:
    return write_language_model(tmp_path / "model")


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    path = tmp_path / "raw.txt.xz"
    path.write_bytes(lzma.compress(RAW.encode()))
    return path


@pytest.fixture
def wikitext(tmp_path: Path) -> Path:
    path = tmp_path / "wiki.gz"
    path.write_bytes(gzip.compress(WIKITEXT.encode()))
    return path


def paragraphs(*lines: str) -> list[list[str]]:
    return [line.split() for line in lines]


def test_headings_are_dropped_and_split_words_joined():
    text = paragraphs("= = A = =", "A 3 @.@ 5 m well @-@ to @-@ do cat .", "= B =", "E = m")
    assert list(sentences_of_wikitext(text)) == [
        ["A", "3.5", "m", "well-to-do", "cat", "."],
        ["E", "=", "m"],
    ]


def test_a_word_with_an_unknown_part_is_the_unknown_word():
    text = paragraphs("<unk> cats , <unk> @-@ like")
    assert list(sentences_of_wikitext(text)) == [["<UNK>", "cats", ",", "<UNK>"]]


def test_the_table_has_every_text_in_every_state(model, raw, wikitext, capsys):
    main(["--model", model, "--text", f"books={raw}", "--whitespace", f"wiki={wikitext}"])
    lines = capsys.readouterr().out.splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:6]]
    assert [row[:2] for row in rows] == [
        ["books", "zero"],
        ["books", "carry"],
        ["wiki", "zero"],
        ["wiki", "carry"],
    ]
    assert lines[0].count("|") == lines[1].count("|") == lines[2].count("|")
    # Sentences, words, share of unknown words, targets per direction.
    assert [row[5:] for row in rows[::2]] == [
        ["3", "14", "21.4%", "17"],
        ["3", "13", "38.5%", "16"],
    ]
    expected = LanguageModel.load(model).perplexity(RAW_SENTENCES)
    values = [expected.forward, expected.backward, expected.mean]
    assert rows[0][2:5] == [f"{value:,.1f}" for value in values]


def test_json_holds_the_numbers_of_the_sentences_asked_for(model, raw, tmp_path, capsys):
    output = tmp_path / "results" / "heldout.json"
    main(["--model", model, "--text", f"books={raw}", "--sentences", "2", "--json", str(output)])
    zero, carry = json.loads(output.read_text())["rows"]
    expected = LanguageModel.load(model).perplexity(RAW_SENTENCES[:2], "carry")
    assert carry == {"source": "books", "sentences": 2, **expected.to_dict()}
    assert zero["forward"] != carry["forward"]
    assert " --sentences 2 --json " in capsys.readouterr().out


def test_a_wrong_name_is_told_before_anything_is_measured(model, raw, capsys):
    with pytest.raises(SystemExit, match=r"absent\.txt: is no file") as ended:
        main(["--model", model, "--text", f"books={raw}", "--text", "news=absent.txt"])
    assert "\n" not in str(ended.value)
    assert capsys.readouterr().out == ""
