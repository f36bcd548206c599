from __future__ import annotations

from pathlib import Path

import pytest
from helpers import Heard
from small_models import small_language_model

from elmokit import LanguageModel
from elmokit.analysis.probes.files import MinimalPair, Paradigm, read_minimal_pairs
from elmokit.analysis.probes.probes import probe_minimal_pairs
from elmokit.config import WordEncoderConfig

SHARED = Path(__file__).resolve().parents[3].parent / "shared" / "data" / "blimp"
ISLAND = Paradigm("island_1", "islands", "syntax")
PAIRS = {
    ISLAND: [
        MinimalPair("the cat sat .", "the cat cat ."),
        MinimalPair("the dog sat on the mat .", "the dog sat the mat ."),
        MinimalPair("the river bank", "the cat sat ."),
    ],
    Paradigm("island_2", "islands", "semantics"): [MinimalPair("a dog .", "dog a .")],
    Paradigm("anaphor_1", "anaphors", "syntax"): [
        MinimalPair("cat on mat", "mat on cat"),
        MinimalPair("sat on the bank", "sat the bank on"),
    ],
}


def share(model: LanguageModel, pairs: list[MinimalPair], total: str) -> float:
    """The share of pairs that are right, each sentence scored alone."""
    scores = [[getattr(model.score([text.split()])[0], total) for text in pair] for pair in pairs]
    return sum(good > bad for good, bad in scores) / len(pairs)


@pytest.mark.parametrize("seed", range(3))
def test_accuracy_is_that_of_each_sentence_scored_alone(seed):
    model = small_language_model(seed=seed)
    report = probe_minimal_pairs(model, PAIRS)
    assert report.notes["islands"] == "2 paradigms, 4 pairs"
    assert report.notes["semantics (field)"] == "1 paradigm, 1 pair"
    for number, total in enumerate(("total_forward", "total_backward", "total")):
        island, meaning, anaphor = (share(model, pairs, total) for pairs in PAIRS.values())
        assert {row: scores[number] for row, scores in report.scores.items()} == pytest.approx(
            {
                "anaphors": anaphor,
                "islands": (island + meaning) / 2,
                "semantics (field)": meaning,
                "syntax (field)": (island + anaphor) / 2,
                "all": (island + meaning + anaphor) / 3,
            }
        )
        of_each = [one[report.columns[number]] for one in report.details["paradigms"]]
        assert of_each == pytest.approx([island, meaning, anaphor])


def test_sentences_that_cannot_be_told_apart_count_one_half():
    same = {ISLAND: [MinimalPair("the cat", "the cat")]}
    assert probe_minimal_pairs(small_language_model(), same).scores["all"] == (0.5, 0.5, 0.5)
    # To a model of whole words both are <UNK>; batches of other sizes differ by float noise.
    words = small_language_model(encoder=WordEncoderConfig(12))
    unknown = {ISLAND: [MinimalPair(f"the {'x' * n} sat", f"the {'y' * n} sat") for n in (1, 2)]}
    assert probe_minimal_pairs(words, unknown).scores["all"] == (0.5, 0.5, 0.5)


def test_a_sample_is_taken_from_all_over_each_paradigm():
    model = small_language_model()
    report = probe_minimal_pairs(model, PAIRS, most=2)
    chosen = {**PAIRS, ISLAND: PAIRS[ISLAND][:2]}
    assert report.scores == probe_minimal_pairs(model, chosen).scores
    assert [one["pairs"] for one in report.details["paradigms"]] == [2, 1, 2]


def test_each_different_sentence_is_split_by_the_models_tokenizer_and_scored_once():
    model = LanguageModel(
        small_language_model().bilm, small_language_model().vocabulary, tokenizer="default"
    )
    scored, score = [], model.score
    model.score = lambda sentences: scored.extend(sentences) or score(sentences)
    told = Heard()
    pairs = [MinimalPair("The cat isn't on.", "The cat."), MinimalPair("The cat.", "A dog.")]
    probe_minimal_pairs(model, {ISLAND: pairs}, observer=told)
    assert scored == [
        ["The", "cat", "is", "n't", "on", "."],
        ["The", "cat", "."],
        ["A", "dog", "."],
    ]
    assert told.stages == {"scoring": [(0, 3), (3, 3)]}


def test_the_bundled_model_is_above_chance_on_blimp():
    if not SHARED.is_dir():
        pytest.skip("BLiMP is in ../shared/data, which is not here")
    pairs = read_minimal_pairs([SHARED / "blimp.jsonl.gz"])
    report = probe_minimal_pairs(LanguageModel.load(), pairs, most=2)
    assert report.notes["all"] == "67 paradigms, 134 pairs"
    assert all(0.58 < score < 0.78 for score in report.scores["all"])
