import json
import lzma

from helpers import write
from small_models import write_language_model

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


def test_headings_are_dropped_and_split_words_joined_or_unknown():
    lines = ["= = A = =", "A 3 @.@ 5 m well @-@ to @-@ do .", "= B =", "<unk> , <unk> @-@ like"]
    assert list(sentences_of_wikitext([line.split() for line in lines])) == [
        ["A", "3.5", "m", "well-to-do", "."],
        ["<UNK>", ",", "<UNK>"],
    ]


def test_the_table_has_every_text_in_every_state(tmp_path, capsys):
    model, output = write_language_model(tmp_path / "model"), tmp_path / "heldout.json"
    raw = write(tmp_path / "raw.txt.xz", lzma.compress(RAW.encode()))
    wikitext = write(tmp_path / "wiki.gz", WIKITEXT)
    texts = ["--text", f"books={raw}", "--whitespace", f"wiki={wikitext}"]
    main(["--model", model, *texts, "--json", str(output)])
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
    written = json.loads(output.read_text())["rows"][0]
    assert written == {"source": "books", "sentences": 3, **expected.to_dict()}
