from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from closeness import CLEARLY, assert_agree, assert_close, distance
from small_language_models import COUNTED, WORDS, small_language_model, write_language_model
from small_models import small_bilm, small_embedder

from elmokit import Embedder
from elmokit.errors import InputError
from elmokit.text.vocabulary import Vocabulary
from runs import context_check, context_measures
from runs.context_check import Report, document
from runs.context_measures import (
    KINDS,
    SETS,
    Item,
    Nearness,
    Pair,
    Senses,
    check_perplexities,
    check_senses,
    check_spellings,
    check_states,
    draw_words,
    embed_shuffled,
    frequent_words,
    points_of,
    read_questions,
    share_farther,
    summary,
    surface_controls,
    token_vectors,
    wilson_interval,
)

QUESTIONS = read_questions()
ALL_ITEMS = [item for items in QUESTIONS.items.values() for item in items]
PAIRS = [*QUESTIONS.typos.items(), *QUESTIONS.relatives.items()]


def item(word: str, kind: str, *sentences: str) -> Item:
    anchor, same, other = (tuple(sentence.split()) for sentence in sentences)
    return Item(word, kind, (anchor, same, other))


ITEMS = (
    item("bank", "noun/noun", "the river bank .", "a dog on the bank", "the bank sat"),
    item("mat", "noun/verb", "the cat on the mat", "a mat .", "they mat the river"),
)
FAKE = Senses(
    ITEMS,
    {
        "layer 0": np.array([[1.0, 1.0], [1.0, 1.0]]),
        "layer 1": np.array([[0.9, 0.2], [0.7, 0.4]]),
        "layer 2": np.array([[0.9, 0.2], [0.3, 0.4]]),
    },
)


# The questions


@pytest.mark.parametrize("name", SETS)
def test_there_are_enough_items_of_every_kind(name: str):
    items = QUESTIONS.items[name]
    assert len(items) >= 70
    assert len({item.word for item in items}) >= 30
    for kind in KINDS:
        assert sum(item.kind == kind for item in items) >= 30


def test_there_are_enough_spellings():
    for kinds in (QUESTIONS.typos, QUESTIONS.relatives):
        assert sum(map(len, kinds.values())) >= 40


@pytest.mark.parametrize("item", ALL_ITEMS, ids=lambda item: f"{item.word} {item.kind}")
def test_a_word_stands_once_in_each_sentence_of_its_item(item: Item):
    assert item.kind in KINDS
    for words in item.sentences:
        assert words.count(item.word) == [word.casefold() for word in words].count(item.word) == 1
        assert 6 <= sum(word.isalnum() for word in words) <= 14
        assert words[-1] == "."  # apart from the word before it


def test_no_sentence_comes_twice():
    sentences = [words for item in ALL_ITEMS for words in item.sentences]
    assert len(set(sentences)) == len(sentences)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("name", "margin"), [("balanced", 0.06), ("everyday", 0.1)])
def test_the_surface_of_the_sentences_does_not_give_the_sense_away(
    name: str, margin: float, kind: str
):
    controls = surface_controls(QUESTIONS.items[name])
    for clue in controls.likeness:
        assert controls.score(clue, kind).share == pytest.approx(0.5, abs=margin), clue


@pytest.mark.parametrize(("kind", "pairs"), PAIRS, ids=[kind for kind, _ in PAIRS])
def test_what_is_written_differs_from_its_word_and_comes_once(kind: str, pairs: list[Pair]):
    assert len(set(pairs)) == len(pairs)
    for pair in pairs:
        assert pair.word != pair.written
        assert pair.word.islower()
        assert pair.written.islower()


# Scores


def test_a_tie_counts_half_and_float_noise_is_a_tie():
    likeness = np.array([[0.9, 0.1], [0.1, 0.9], [0.5, 0.5], [1.0, 1 - 1e-7], [1.0, 1 - 1e-5]])
    assert points_of(likeness).tolist() == [1, 0, 0.5, 0.5, 1]


@pytest.mark.parametrize(
    ("points", "items", "low", "high"),
    [(8, 10, 0.4902, 0.9433), (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (1, 2, 0.0945, 0.9055)],
)
def test_the_interval_is_wilson_s(points: float, items: int, low: float, high: float):
    assert wilson_interval(points, items) == pytest.approx((low, high), abs=5e-5)


def test_scores_are_counted_by_kind():
    assert FAKE.score("layer 2").share == 0.5
    assert FAKE.score("layer 2", "noun/noun").share == 1
    assert FAKE.score("layer 2", "noun/verb").share == 0
    assert FAKE.score("layer 2", "noun/verb").items == 1


def test_the_best_layer_has_the_most_points_and_is_the_lowest_of_equals():
    assert FAKE.best == "layer 1"
    assert Senses(ITEMS, {"a": FAKE.likeness["layer 2"], "b": FAKE.likeness["layer 0"]}).best == "a"


# Senses


def test_a_static_vector_scores_exactly_one_half():
    senses = check_senses(small_embedder(), ALL_ITEMS[:6])
    assert senses.score("layer 0 (static)").share == 0.5
    assert set(senses.points("layer 1")) <= {0, 1}


def test_cosines_are_those_of_the_word_in_its_sentences():
    embedder = small_embedder()
    found = check_senses(embedder, ITEMS).likeness["layer 1"][1]
    at = [vectors[position] for vectors, position in zip(
        embedder.embed(ITEMS[1].sentences, layers=1), (4, 1, 1), strict=True
    )]  # fmt: skip
    lengths = [np.linalg.norm(vector) for vector in at]
    expected = [at[0] @ at[other] / (lengths[0] * lengths[other]) for other in (1, 2)]
    assert_close(found, expected)


def test_the_surface_is_compared_by_neighbours_by_words_and_by_place():
    likeness = surface_controls(ITEMS).likeness
    assert likeness["the words beside it"].tolist() == [[0, 0], [0, 0]]
    assert likeness["the words of the sentence"].tolist() == [[1, 1], [0, 1]]
    assert likeness["the place in the sentence"].tolist() == [[-3, -1], [-4, -5]]


def test_the_same_neighbour_counts_only_on_its_own_side():
    one = item("bank", "noun/noun", "A far bank of clay", "the far bank lay", "of bank far")
    assert surface_controls([one]).likeness["the words beside it"].tolist() == [[1, 0]]


# States


def test_the_order_matters_in_state_carry_alone():
    sentences = [words for item in ITEMS for words in item.sentences]
    vectors = {
        state: embed_shuffled(small_embedder(state=state), sentences)
        for state in ("zero", "carry", "warm")
    }
    alone = small_embedder().embed_layers(sentences)
    assert_agree(vectors["zero"], alone)
    # The first that is read has nothing to carry.
    changed = [
        distance([one], [other]) > CLEARLY
        for one, other in zip(vectors["carry"], alone, strict=True)
    ]
    assert sum(changed) == len(sentences) - 1


def test_asking_twice_in_state_carry_gives_the_same_numbers():
    embedder = small_embedder(state="carry")
    first, second = (check_senses(embedder, ITEMS).likeness["average"] for _ in range(2))
    assert_close(first, second)


def test_every_state_is_checked():
    assert list(check_states(small_embedder(), ITEMS)) == ["zero", "carry", "warm"]


def test_perplexity_is_of_the_text_in_each_state_of_a_language_model(tmp_path: Path):
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on the mat .\nthe dog sat .\n")
    language_model = small_language_model()
    embedder = Embedder(language_model.bilm, vocabulary=COUNTED, tokenizer="whitespace")
    found = check_perplexities(embedder, str(text))
    sentences = [line.split() for line in text.read_text().splitlines()]
    assert list(found) == ["zero", "carry"]
    for state in ("zero", "carry"):
        assert_close(found[state].mean, language_model.perplexity(sentences, state).mean)
    assert distance([found["zero"].mean], [found["carry"].mean]) > CLEARLY


# Spellings


def test_frequent_words_are_of_lower_case_letters_in_the_order_of_the_vocabulary():
    vocabulary = Vocabulary(["<S>", "</S>", "<UNK>", "the", ",", "The", "b4", "naïve", "cat"])
    assert frequent_words(vocabulary) == ["the", "cat"]


def test_a_model_without_words_is_refused():
    with pytest.raises(InputError, match="no vocabulary to draw random words from"):
        check_spellings(small_embedder(), {"swapped": [Pair("bank", "bnak")]})


def test_random_words_are_about_as_long_as_the_word_and_not_of_its_pair():
    frequent = ["dog", "doggy", "cat", "it", "horse", "bird", "a"]
    drawn = draw_words(frequent, Pair("dog", "it"))
    assert sorted(drawn) == ["bird", "cat"]
    assert drawn == draw_words(frequent, Pair("dog", "it"))


def test_a_vocabulary_without_words_of_that_length_is_refused():
    with pytest.raises(InputError, match="no frequent word of about 10 letters"):
        draw_words(["dog", "cat"], Pair("government", "goverment"))


def test_no_more_random_words_are_drawn_than_wanted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(context_measures, "RANDOM_WORDS", 3)
    drawn = draw_words(["cat", "mat", "sat", "rat", "hat"], Pair("dog", "doggy"))
    assert len(set(drawn)) == 3


def test_token_vectors_are_layer_0_of_the_word_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(context_measures, "WORDS_AT_ONCE", 2)
    embedder = small_embedder()
    vectors = token_vectors(embedder, ["bank", "bnak", "mat"])
    for word, vector in vectors.items():
        (alone,) = embedder.embed([[word]], layers=0)
        assert_close(alone[0], np.tile(vector, 2))


def test_the_share_farther_counts_random_words_and_half_the_ties():
    written, word = np.array([1.0, 0.0], np.float32), np.array([1.0, 1.0], np.float32)
    drawn = np.array([[0, 1], [-1, 0], [2, 2], [1, 0]], np.float32)
    assert share_farther(written, word, drawn) == (1 + 1 + 0.5 + 0) / 4


def test_a_summary_counts_words_nearer_than_the_median_and_than_all():
    pair = Pair("bank", "bnak")
    found = summary([Nearness(pair, farther) for farther in (1.0, 0.75, 0.5, 0.25)])
    assert found.farther == 0.625
    assert found.nearer_than_median.share == 0.5
    assert found.nearer_than_all.share == 0.25


def test_a_word_written_as_it_is_would_be_nearer_than_all():
    embedder = Embedder(small_bilm(), vocabulary=COUNTED, tokenizer="whitespace")
    found = check_spellings(embedder, {"same": [Pair("river", "river")]})
    assert found["same"][0].farther == 1


# The document


def report(**changes: object) -> Report:
    nearness = {"swapped": [Nearness(Pair("bank", "bnak"), 0.75)]}
    states = {"balanced": {"zero": FAKE, "carry": FAKE, "warm": FAKE}}
    settings = {"typos": nearness, "relatives": nearness, "perplexities": {}} | changes
    return Report("a model", states, **settings)  # type: ignore[arg-type]


def test_the_document_names_the_best_layer_and_how_it_was_chosen():
    text = document(report(), failures=False)
    assert "Best: layer 1, 100.0% (aim: at least 80%, reached). The layer is chosen on" in text
    assert "| layer 0 | 50.0% | 9.5% to 90.5% | 50.0% |" in text
    assert "| swapped | 1 | 75.0% | 100.0% | 0.0% |" in text
    assert "perplexity" not in text
    assert "Failures" not in text


def test_every_row_of_a_table_has_the_cells_of_its_header():
    text = document(report(), failures=True)
    for block in text.split("\n\n"):
        if block.startswith("|"):
            assert len({line.count("|") for line in block.splitlines()}) == 1, block


def test_perplexities_fill_a_column_where_there_is_a_text():
    language_model = small_language_model()
    found = {"zero": language_model.perplexity([["the", "cat"]])}
    text = document(report(perplexities=found), failures=False)
    assert f"| {found['zero'].mean:,.2f} |" in text
    assert text.count("| none |") == 2


def test_failures_are_the_items_without_a_whole_point_the_worst_first():
    senses = Senses(ITEMS, {"layer 1": np.array([[0.5, 0.5], [0.1, 0.4]])})
    text = context_check.failures_part("balanced", senses)
    rows = [line for line in text.splitlines() if "noun/" in line]
    assert [row.split(" | ")[0] for row in rows] == ["| mat", "| bank"]
    assert "0.100 | 0.400 | the cat on the mat | a mat . | they mat the river |" in rows[0]
    assert "| mat |" not in context_check.failures_part("balanced", FAKE)


def test_the_command_prints_a_document_and_writes_its_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    lengths = ["".join(letters) for letters in ("ab" * 3, "cd" * 4, "ef" * 5, "gh" * 2)]
    model = write_language_model(tmp_path / "model", Vocabulary([*WORDS, *lengths]))
    numbers = tmp_path / "numbers.json"
    monkeypatch.setattr(
        context_check, "read_questions", lambda: QUESTIONS._replace(items={"balanced": ITEMS})
    )
    monkeypatch.setattr(sys, "argv", ["", "--model", model, "--json", str(numbers), "--failures"])
    context_check.main()
    assert capsys.readouterr().out.startswith(f"# Context check of {model}\n\n## Senses\n")
    found = json.loads(numbers.read_text())
    senses = found["senses"]["balanced"]
    assert senses["states"]["zero"]["scores"]["layer 0 (static)"]["all"]["share"] == 0.5
    assert [one["word"] for one in senses["items"]] == ["bank", "mat"]
    assert set(found["typos"]["scores"]) == {*QUESTIONS.typos, "all"}


def test_a_model_that_is_not_there_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "argv", ["", "--model", str(tmp_path / "none")])
    with pytest.raises(SystemExit, match=r"^error: .*none"):
        context_check.main()
