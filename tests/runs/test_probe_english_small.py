import json
from pathlib import Path

import pytest
from analysis.probes.small_texts import INDEX, SEMCOR, conllu, minimal_pair, write_senses
from helpers import write
from small_models import small_bilm, write_language_model
from static.small_vectors import small_vectors

from elmokit import Embedder
from elmokit.static.vectors import StaticVectors
from elmokit.text.vocabulary import Vocabulary
from runs.context_measures import Pair
from runs.probe_english_small import SEMCOR as PARTS
from runs.probe_english_small import TREEBANK, main
from runs.relatives import CHARACTERS, probe_relatives

WORDS = ["dog", "cat", "bird", "pig", "cow", "hen", "doggy"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Small files in the folders of the data sets."""
    write_senses(tmp_path / "wsd")
    (tmp_path / "wsd" / "tests").rename(tmp_path / "tests")
    for path in (tmp_path / "tests").iterdir():
        path.rename(tmp_path / "wsd" / path.name)
    write(tmp_path / "wsd" / "wordnet-3.0.index.sense.gz", INDEX)
    other = SEMCOR.replace("bank%1:17:01::;", "").replace("Mary", "Ann")
    for part, text in zip(PARTS, (SEMCOR, other, other.replace("14:00", "17:01")), strict=True):
        write(tmp_path / "wsd" / f"semcor3.{part}.tsv.gz", text)
    for part in TREEBANK:
        write(tmp_path / "ud-ewt" / f"en_ewt-ud-{part}.conllu.gz", conllu(*["a/DET b/NOUN"] * 9))
    write(tmp_path / "blimp" / "blimp.jsonl.gz", minimal_pair("The cat sat.", "Cat the sat."))
    write(tmp_path / "wordsim" / "EN-toy.txt", "dog cat 7\nking queen 8\ncar banana 1\n")
    return tmp_path


def test_every_probe_has_a_table_and_all_are_in_one_file(data, tmp_path, capsys):
    model = write_language_model(tmp_path / "model")
    options = ["--model", model, "--data", str(data), "--static", "none"]
    output, picture = tmp_path / "probes.json", tmp_path / "probes.svg"
    probes = ["pos", "wsd", "nearest", "similarity", "blimp"]
    main([*probes, *options, "--json", str(output), "--picture", str(picture)])
    out = capsys.readouterr().out
    reports = json.loads(output.read_text())["reports"]
    names = [report["probe"] for report in reports]
    assert len(names) == len(probes)
    assert all(f"| {name}: " in out for name in names)
    assert "`python -m runs.probe_english_small pos wsd" in out
    assert picture.is_file()


def test_what_is_absent_is_one_line(tmp_path):
    model = write_language_model(tmp_path / "model")
    with pytest.raises(SystemExit, match=r"^[^\n]*en_ewt-ud-train[^\n]*$"):
        main(["pos", "--model", model, "--data", str(tmp_path), "--static", "none"])


def test_relatives_are_near_where_vectors_say_so_and_unknown_to_those_without_subwords():
    embedder = Embedder(small_bilm(), vocabulary=Vocabulary(["<S>", "</S>", "<UNK>", *WORDS]))
    table = [[1.0, 0.1 * number] for number in range(len(WORDS))]
    table[-1] = table[0]
    word2vec = StaticVectors(WORDS, table, name="word2vec")
    fasttext = StaticVectors(
        WORDS, table, name="fastText", subwords=lambda word: small_vectors().rows([0])[0][:2]
    )
    pairs = [Pair("dog", "doggy"), Pair("cat", "kitty")]
    report = probe_relatives(embedder, [word2vec, fasttext], pairs)
    assert report.counts == {"pairs": (1, 1)}
    assert report.scores["word2vec (static)"] == (1.0, None)
    assert report.scores["fastText (static)"][0] == 1.0
    assert report.scores["fastText (static)"][1] is not None
    assert None not in report.scores[CHARACTERS]
    assert list(report.details["pairs"]["word2vec (static)"]) == ["dog doggy"]
