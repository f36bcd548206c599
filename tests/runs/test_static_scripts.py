from pathlib import Path

import pytest
from closeness import assert_close
from helpers import write, write_sentences
from small_models import write_language_model
from static.small_vectors import random_sentences, random_vectors

from elmokit import Embedder, StaticVectors
from elmokit.io.text_files import TextSettings
from elmokit.pretraining.corpus import prepare_corpus
from elmokit.static.training import TrainingSettings, train_vectors
from runs import bundled_vectors, static_scores
from runs.bundled_vectors import PreparedSentences, make_card, measure_english

QUESTIONS = ": one\nw1 w2 w4 w5\nw1 w2 w4 unknown\n"


@pytest.fixture
def wordsim(tmp_path: Path) -> Path:
    """A folder of sets, with a few pairs in each."""
    for name in bundled_vectors.SETS:
        write(tmp_path / f"{name}.txt", "w1\tw2\t3\nw4\tw5\t1\nw7\tw8\t2\nw1\tx\t2\n")
    write(tmp_path / bundled_vectors.ANALOGIES, QUESTIONS)
    return tmp_path


def test_prepared_text_gives_its_sentences_back(tmp_path):
    sentences = [["a", "b"], ["b"], ["c", "a", "b"]]
    text = Path(write_sentences(tmp_path / "text.txt", sentences))
    corpus = prepare_corpus([text], TextSettings(), processes=1)
    found = PreparedSentences(corpus)
    assert list(found) == sentences
    assert list(found) == sentences  # several times
    assert list(PreparedSentences(corpus, most=2)) == sentences[:2]


def test_the_card_has_settings_and_scores(wordsim):
    pytest.importorskip("gensim", reason="the extra static is not installed")
    settings = TrainingSettings(size=4, epochs=1, threads=1)
    trained = train_vectors(random_sentences(), settings)
    scores = measure_english(trained.vectors, wordsim)
    card = make_card("english-small-word2vec", trained, settings, scores, minutes=1.0)
    assert "Static vectors of 30 English words, 4 numbers each" in card
    assert "3 of 4 pairs" in card
    assert "1 of 2 questions" in card
    assert "{" not in card


def test_both_evaluations_give_the_same_scores(wordsim):
    pytest.importorskip("gensim", reason="the extra static is not installed")
    vectors = random_vectors()
    ours = static_scores.our_scores(vectors, wordsim)
    theirs = static_scores.gensim_scores(vectors.to_gensim(), wordsim)
    assert ours.keys() == theirs.keys()
    assert_close(list(ours.values()), list(theirs.values()))
    assert "EN-SIMLEX-999" in [name for name, *_ in static_scores.rows_of([ours], [theirs])]


def test_a_model_s_layers_are_scored_beside_word2vec(wordsim, tmp_path, monkeypatch, capsys):
    pytest.importorskip("gensim", reason="the extra static is not installed")
    monkeypatch.setattr(static_scores.StaticVectors, "load", random_vectors)
    text = write_sentences(tmp_path / "text.txt", random_sentences())
    model = write_language_model(tmp_path / "model")
    arguments = ["--text", text, "--model", model, "--wordsim", str(wordsim), "--epochs", "1"]
    static_scores.main(arguments)
    header, _, *rows, _, _ = capsys.readouterr().out.splitlines()
    names = [name.strip() for name in header.strip("|").split("|")]
    assert names[:4] == ["set", "word2vec, this text", "word2vec, bundled", "layer 0 (static)"]
    assert names[-1] == "average - common"
    found = {row.split(" | ")[0]: row.strip("| ").split(" | ")[1:] for row in rows}
    sentences = [line.split() for line in Path(text).read_text().splitlines()]
    expected = StaticVectors.from_model(Embedder.load(model), sentences, "top")
    words = [word for word in expected.words if word in random_vectors()]
    expected = StaticVectors(words, [expected.vector(word) for word in words])
    score = static_scores.similarity_scores(expected, wordsim)["EN-SIMLEX-999"]
    assert found["| EN-SIMLEX-999"][names.index("layer 2 (top)") - 1] == f"{score:.3f}"
