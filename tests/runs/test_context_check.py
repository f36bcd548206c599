import sys

import numpy as np
import pytest
from closeness import assert_close
from helpers import write
from small_models import WORDS, small_embedder, write_language_model

from elmokit.text.tokenizer import load_tokenizer
from elmokit.text.vocabulary import Vocabulary
from runs import context_check
from runs.context_measures import (
    KOREAN_QUESTIONS,
    Item,
    check_senses,
    points_of,
    read_questions,
    surface_controls,
    wilson_interval,
)

QUESTIONS = read_questions()
KINDS = ("noun/noun", "noun/verb")


def item(word: str, kind: str, *sentences: str) -> Item:
    return Item(word, kind, tuple(tuple(sentence.split()) for sentence in sentences))


ITEMS = (
    item("bank", "noun/noun", "the river bank .", "a dog on the bank", "the bank sat"),
    item("mat", "noun/verb", "the cat on the mat", "a mat .", "they mat the river"),
)


@pytest.mark.parametrize("name", ["everyday", "balanced"])
def test_a_set_has_enough_items_of_every_kind_each_with_its_word_once_a_sentence(name):
    items = QUESTIONS.items[name]
    assert len({item.word for item in items}) >= 30
    for kind in KINDS:
        assert sum(item.kind == kind for item in items) >= 30
    for item in items:
        for words in item.sentences:
            assert [word.casefold() for word in words].count(item.word) == 1, item
            assert words[-1] == ".", item  # apart from the word before it


def test_no_sentence_and_no_spelling_comes_twice():
    items = [item for items in QUESTIONS.items.values() for item in items]
    sentences = [words for item in items for words in item.sentences]
    assert len(set(sentences)) == len(sentences)
    for kinds in (QUESTIONS.typos, QUESTIONS.relatives):
        pairs = [pair for pairs in kinds.values() for pair in pairs]
        assert len(pairs) >= 40
        assert all(pair.word != pair.written for pair in pairs)
        assert all(len(set(pairs)) == len(pairs) for pairs in kinds.values())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("name", "margin"), [("balanced", 0.06), ("everyday", 0.1)])
def test_the_surface_of_the_sentences_does_not_give_the_sense_away(name, margin, kind):
    controls = surface_controls(QUESTIONS.items[name])
    for clue in controls.likeness:
        assert controls.score(clue, kind).share == pytest.approx(0.5, abs=margin), clue


def test_a_tie_counts_half_and_float_noise_is_a_tie():
    likeness = np.array([[0.9, 0.1], [0.1, 0.9], [0.5, 0.5], [1.0, 1 - 1e-7], [1.0, 1 - 1e-5]])
    assert points_of(likeness).tolist() == [1, 0, 0.5, 0.5, 1]
    assert wilson_interval(8, 10) == pytest.approx((0.4902, 0.9433), abs=5e-5)


def test_cosines_are_those_of_the_word_in_its_sentences():
    embedder = small_embedder()
    found = check_senses(embedder, ITEMS).likeness["layer 1"][1]
    vectors = embedder.embed(ITEMS[1].sentences, layers=1)
    at = [one[position] for one, position in zip(vectors, (4, 1, 1), strict=True)]
    lengths = [np.linalg.norm(vector) for vector in at]
    assert_close(found, [at[0] @ at[n] / (lengths[0] * lengths[n]) for n in (1, 2)])


def test_kiwi_gives_the_word_of_each_korean_item_once_a_sentence():
    pytest.importorskip("kiwipiepy", reason="Kiwi is an extra: elmokit[korean]")
    kiwi = load_tokenizer("kiwi")
    items = read_questions(
        KOREAN_QUESTIONS, lambda text: [token.text for token in kiwi.words(text)]
    ).items["senses"]
    assert len(items) == 76
    assert all(words.count(item.word) == 1 for item in items for words in item.sentences)


def test_an_item_whose_word_the_tokenizer_hides_counts_as_wrong(tmp_path, monkeypatch, capsys):
    lost = item("mat", "noun/noun", "the mat sat", "the cat on mats", "a mat .")
    found = check_senses(small_embedder(), (ITEMS[0], lost))
    assert all(found.points(layer)[1] == 0 for layer in found.likeness)

    model = write_language_model(tmp_path / "model", Vocabulary(WORDS))
    monkeypatch.setattr(sys, "argv", ["", "--korean", "--model", model])
    context_check.main()  # whose words are those between spaces
    out = capsys.readouterr().out
    assert "### Senses: 76 items, 53 words; the tokenizer hides the word of 76 of them" in out
    assert "| verb/verb (12) |" in out
    assert "## Typos" not in out


def test_the_command_prints_a_document(tmp_path, monkeypatch, capsys):
    lengths = ["ab" * 3, "cd" * 4, "ef" * 5, "gh" * 2]
    model = write_language_model(tmp_path / "model", Vocabulary([*WORDS, *lengths]))
    text = write(tmp_path / "text.txt", "the cat sat on the mat .\nthe dog sat .\n")
    monkeypatch.setattr(
        context_check, "read_questions", lambda: QUESTIONS._replace(items={"balanced": ITEMS})
    )
    options = ["--model", model, "--failures", "--text", str(text)]
    monkeypatch.setattr(sys, "argv", ["", *options])
    context_check.main()
    out = capsys.readouterr().out
    assert out.startswith(f"# Context check of {model}\n\n## Senses\n")
    for block in out.split("\n\n"):
        if block.startswith("|"):
            assert len({line.count("|") for line in block.splitlines()}) == 1, block
    assert "| layer 0 (static) | 50.0% | " in out
    assert all(f"| {name} |" in out for name in (*QUESTIONS.typos, "zero", "carry", "warm"))
