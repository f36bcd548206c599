from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from closeness import CLEARLY, assert_agree, assert_close, distance
from oracle import Oracle, run_stack
from random_models import random_options, random_weights, write_files
from small_models import (
    COUNTED,
    COUNTS,
    WORDS,
    small_bilm,
    small_language_model,
    write_language_model,
)

from elmokit.config import WordEncoderConfig
from elmokit.errors import ConfigError, ElmoError, ElmoWarning, InputError
from elmokit.inference import language_model as module
from elmokit.inference.language_model import LanguageModel
from elmokit.inference.predictions import SentenceScore
from elmokit.text.vocabulary import Vocabulary

SPECIAL = ("<S>", "</S>", "<UNK>")
SENTENCES = [
    ["the", "cat", "sat", "on", "the", "mat", "."],
    [],
    ["the", "aardvark", "sat"],
    ["."],
    ["the", "river", "bank", "on", "the", "river", "sat", "on", "the", "dog", "은행"],
]


def numbers(score: SentenceScore) -> tuple[np.ndarray, np.ndarray]:
    """The log probabilities of both directions, the marker at the end of each read last."""
    return (
        np.append(score.forward, score.forward_end),
        np.append(score.backward[::-1], score.backward_end),
    )


def assert_same_scores(first, second):
    for one, other in zip(first, second, strict=True):
        assert one.words == other.words
        assert_agree(numbers(one), numbers(other))
        np.testing.assert_array_equal(one.unknown, other.unknown)


# Against an independent computation


def oracle_values(oracle: Oracle, sentences: Sequence[Sequence[str]], carry: bool):
    """For each sentence the values (words + 1,) of each direction, in its own order of reading."""
    return list(
        zip(
            oracle_direction(oracle, sentences, carry, 0, ("<S>", "</S>")),
            oracle_direction(oracle, sentences, carry, 1, ("</S>", "<S>")),
            strict=True,
        )
    )


def oracle_direction(oracle, sentences, carry, direction, markers):
    opening, closing = markers
    weight, bias = (oracle.weights[f"softmax/{name}"].astype(np.float64) for name in ("W", "b"))
    state = None
    for sentence in sentences:
        words = list(sentence)[:: -1 if direction else 1]
        vectors = [oracle.token_vector(word) for word in (opening, *words)]
        layers, after = run_stack(oracle.options, oracle.weights, direction, vectors, state)
        state = after if carry else None
        values = []
        for output, target in zip(layers[-1], (*words, closing), strict=True):
            logits = weight @ output + bias
            known = target if target in WORDS else "<UNK>"
            values.append(logits[WORDS.index(known)] - np.log(np.exp(logits).sum()))
        yield np.array(values)


@pytest.fixture(params=["characters", "words", "one layer"])
def both(request, tmp_path: Path) -> tuple[LanguageModel, Oracle]:
    options = random_options(
        word_input=request.param == "words", layers=1 if request.param == "one layer" else 2
    )
    words = len(WORDS) if request.param == "words" else None
    weights = random_weights(options, words=words, softmax_words=len(WORDS))
    (tmp_path / "vocabulary.txt").write_text("\n".join(WORDS), encoding="utf-8")
    paths = write_files(tmp_path, options, weights)
    model = LanguageModel.load(*paths, vocabulary=tmp_path / "vocabulary.txt")
    return model, Oracle(options, weights, WORDS)


@pytest.mark.parametrize("state", ["zero", "carry"])
def test_scores_and_perplexity_are_those_of_the_oracle(both, state, monkeypatch):
    monkeypatch.setattr(module, "TOKENS_PER_WINDOW", {"zero": 9, "carry": 9})
    model, oracle = both
    expected = oracle_values(oracle, SENTENCES, carry=state == "carry")
    for score, (forward, backward) in zip(model.score(SENTENCES, state), expected, strict=True):
        assert_agree(numbers(score), (forward, backward))
        assert_close(score.total_forward, forward.sum())
        assert_close(score.total_backward, backward.sum())
        assert score.total == pytest.approx(score.total_forward + score.total_backward)
    found = model.perplexity(SENTENCES, state)
    assert_close(math.log(found.forward), -np.concatenate([pair[0] for pair in expected]).mean())
    assert_close(math.log(found.backward), -np.concatenate([pair[1] for pair in expected]).mean())
    assert found.mean == pytest.approx(math.sqrt(found.forward * found.backward))
    assert (found.targets, found.words, found.unknown, found.state) == (27, 22, 2, state)


# score


def test_an_unknown_word_is_read_as_written_and_has_the_value_of_the_unknown_one():
    first, second, literal = small_language_model().score(
        [["the", "aardvark", "sat"], ["the", "zebra", "sat"], ["the", "<UNK>", "sat"]]
    )
    assert first.unknown.tolist() == [False, True, False] == literal.unknown.tolist()
    assert_close(first.forward[1], second.forward[1])
    assert_close(first.forward[1], literal.forward[1])
    assert distance([first.forward[2]], [second.forward[2]]) > CLEARLY


def test_a_marker_among_the_words_is_an_unknown_word():
    model = small_language_model()
    with pytest.warns(ElmoWarning, match="sentence marker"):
        (score,) = model.score([["the", "</S>"]])
    assert score.unknown.tolist() == [False, True]
    assert_close(score.forward[1], model.score([["the", "zebra"]])[0].forward[1])


def test_a_sentence_without_words_has_the_values_of_its_markers():
    (score,) = small_language_model().score([[]])
    assert len(score.forward) == len(score.backward) == len(score.unknown) == 0
    assert score.total == pytest.approx(score.forward_end + score.backward_end)
    assert score.forward_end < 0 > score.backward_end
    assert small_language_model().score([]) == []


def test_neither_batch_mates_nor_windows_matter(monkeypatch):
    model = small_language_model()
    apart = [model.score([sentence])[0] for sentence in SENTENCES]
    assert_same_scores(model.score(SENTENCES), apart)
    assert_same_scores(model.score(SENTENCES[::-1]), apart[::-1])
    monkeypatch.setattr(module, "TOKENS_PER_WINDOW", {"zero": 8})
    monkeypatch.setattr(module, "SENTENCES_PER_BATCH", 2)
    assert_same_scores(model.score(SENTENCES), apart)


def test_reversed_sentences_in_swapped_stacks_swap_the_directions():
    model = small_language_model()
    mirrored = copy.deepcopy(model)
    swap = {"forward_lstm": "backward_lstm", "backward_lstm": "forward_lstm"}
    weights = {}
    for name, weight in model.bilm.state_dict().items():
        first, _, rest = name.partition(".")
        weights[f"{swap.get(first, first)}.{rest}"] = weight.clone()
    # The markers change places too: as marks among the characters, and as words of the softmax.
    for name, rows in {
        "encoder.characters.weight": [257, 258],
        "softmax.weight": [0, 1],
        "softmax.bias": [0, 1],
    }.items():
        weights[name][rows] = weights[name][rows[::-1]]
    mirrored.bilm.load_state_dict(weights)
    reversed_scores = mirrored.score([sentence[::-1] for sentence in SENTENCES])
    for score, other in zip(model.score(SENTENCES), reversed_scores, strict=True):
        assert_agree(numbers(score), numbers(other)[::-1])


def test_threads_do_not_disturb_each_other():
    model = small_language_model()
    expected = model.score(SENTENCES)
    with ThreadPoolExecutor(4) as threads:
        for scores in threads.map(model.score, [SENTENCES] * 12):
            assert_same_scores(scores, expected)


@pytest.mark.parametrize("sentences", ["the cat", [["the"], "cat"], [["the", 3]], 3, None])
def test_anything_but_lists_of_words_is_refused(sentences):
    for method in ("score", "perplexity"):
        with pytest.raises(InputError, match=r"sentence|word"):
            getattr(small_language_model(), method)(sentences)


def test_an_unknown_state_and_no_sentences_are_errors():
    with pytest.raises(ConfigError, match="state is 'warm'; use one of 'zero', 'carry'"):
        small_language_model().perplexity(iter(()), "warm")
    with pytest.raises(InputError, match="no sentences"):
        small_language_model().perplexity([])


def test_a_vocabulary_without_the_unknown_word_cannot_score_one():
    words = [word for word in WORDS if word != "<UNK>"]
    model = small_language_model(Vocabulary(words))
    assert model.score([["the", "cat"]])[0].unknown.tolist() == [False, False]
    with pytest.raises(InputError, match="'zebra' is not in the vocabulary"):
        model.score([["zebra"]])
    assert len(model.next_words([], top=100)) == len(words) - 1


# perplexity


def test_perplexity_takes_any_iterable_and_tells_how_far_it_is():
    model = small_language_model()
    seen = []
    found = model.perplexity(
        iter(SENTENCES), progress=lambda done, total: seen.append((done, total))
    )
    assert seen == [(number, None) for number in range(1, 6)]
    model.perplexity(SENTENCES, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (5, 5)
    assert_close(found.mean, model.perplexity(SENTENCES).mean)


def test_perplexity_reads_no_further_ahead_than_a_window(monkeypatch):
    monkeypatch.setattr(module, "TOKENS_PER_WINDOW", {"zero": 4})
    read, ahead = [], []

    def sentences():
        for number in range(20):
            read.append(number)
            yield ["the", "cat"]

    small_language_model().perplexity(
        sentences(), progress=lambda done, total: ahead.append(len(read) - done)
    )
    assert max(ahead) < 2


def test_perplexity_beyond_every_number_is_infinite():
    model = small_language_model()
    with torch.no_grad():
        model.bilm.softmax.bias[3] = -2000.0
    found = model.perplexity([["the"] * 8])
    assert found.mean == math.inf
    assert found.to_dict()["mean"] is None


def test_a_model_in_training_is_measured_as_it_is_and_stays_in_training():
    model = small_language_model()
    before = model.perplexity(SENTENCES)
    model.bilm.train()
    assert_close(model.perplexity(SENTENCES).mean, before.mean)
    with torch.no_grad():
        for parameter in model.bilm.encoder.parameters():
            parameter.mul_(-1.5)
    changed = model.perplexity(SENTENCES)
    assert model.bilm.training
    assert abs(changed.mean - before.mean) > 0.01
    assert LanguageModel(model.bilm, COUNTED).perplexity(SENTENCES) == changed


# Next and previous words


@pytest.mark.parametrize("forward", [True, False])
@pytest.mark.parametrize("cutoffs", [(), (5, 8)])
def test_next_and_previous_words_are_those_that_score_highest(forward, cutoffs):
    model = small_language_model(softmax_cutoffs=cutoffs, softmax_division=2)
    context, closing = ["the", "zebra", "sat"], "</S>" if forward else "<S>"
    likeliest = model.next_words if forward else model.previous_words
    found = dict(likeliest(context, top=100))
    assert set(found) == {*WORDS[3:], closing}
    assert likeliest(context, top=4) == sorted(found.items(), key=lambda one: -one[1])[:4]
    (alone,) = model.score([context])
    if forward:
        scores = [one.forward[-1] for one in model.score([[*context, w] for w in WORDS[3:]])]
    else:
        scores = [one.backward[0] for one in model.score([[w, *context] for w in WORDS[3:]])]
    end = alone.forward_end if forward else alone.backward_end
    assert_close([math.log(found[word]) for word in (*WORDS[3:], closing)], [*scores, end])


@pytest.mark.parametrize("cutoffs", [(), (5, 8)])
def test_probabilities_of_all_words_add_up_to_1(cutoffs):
    model = small_language_model(softmax_cutoffs=cutoffs, softmax_division=2)
    (unknown,) = model.score([["the", "zebra"]])
    # The begin marker is in the softmax like any word, though nothing can lead to it.
    values, _ = model._forward.read_on(["<S>", "the"])
    left_out = math.exp(unknown.forward[1]) + math.exp(values[0])
    offered = sum(word.probability for word in model.next_words(["the"], top=100))
    assert_close(offered + left_out, 1)


# Missing words


def brute_force(model: LanguageModel, before: list[str], after: list[str]) -> dict[str, float]:
    words = WORDS[3:]
    scores = model.score([[*before, word, *after] for word in words])
    total = sum(COUNTS[2:])
    return {
        word: score.forward[len(before)]
        + score.backward[len(before)]
        - math.log(COUNTS[WORDS.index(word)] / total)
        for word, score in zip(words, scores, strict=True)
    }


@pytest.mark.parametrize(
    ("before", "after"), [(["the"], ["sat", "."]), ([], ["sat"]), (["the", "zebra"], []), ([], [])]
)
def test_missing_words_are_ranked_as_trying_every_word_ranks_them(before, after):
    model = small_language_model()
    expected = brute_force(model, before, after)
    found = model.missing_words(before, after, top=100)
    assert [row.word for row in found] == sorted(expected, key=lambda word: -expected[word])
    assert_close([row.score for row in found], [expected[row.word] for row in found])
    for row in found:
        assert row.score == pytest.approx(row.forward + row.backward - row.log_prior)
    assert sum(row.probability for row in found) == pytest.approx(1)
    assert found[0].probability / found[1].probability == pytest.approx(
        math.exp(found[0].score - found[1].score)
    )
    assert model.missing_words(before, after, top=3) == found[:3]


def test_without_counts_every_word_is_taken_as_equally_frequent():
    counted, bare = small_language_model(), small_language_model(Vocabulary(WORDS))
    found = bare.missing_words(["the"], ["sat"], top=100)
    assert all(row.log_prior is None for row in found)
    for row in found:
        assert row.score == pytest.approx(row.forward + row.backward)
    ranked = counted.missing_words(["the"], ["sat"], top=100)
    assert [row.word for row in found] != [row.word for row in ranked]
    assert {row.word: row.forward for row in found} == {row.word: row.forward for row in ranked}


def test_a_word_that_was_never_counted_does_not_fit_everywhere():
    counts = [0 if word == "dog" else count for word, count in zip(WORDS, COUNTS, strict=True)]
    model = small_language_model(Vocabulary(WORDS, counts))
    rows = {row.word: row for row in model.missing_words(["the"], ["sat"], top=100)}
    assert math.isfinite(rows["dog"].score)
    assert rows["dog"].log_prior == pytest.approx(math.log(1 / (sum(counts[2:]) + 1)))


# rank


def test_candidates_are_ranked_with_those_outside_the_vocabulary_last():
    model = small_language_model()
    candidates = ["zebra", "mat", "<UNK>", "dog", "river"]
    ranked = model.rank(["the"], candidates, ["sat"])
    of_all = [row for row in model.missing_words(["the"], ["sat"], 100) if row.word in candidates]
    assert ranked[:3] == of_all
    assert [(row.word, row.known) for row in ranked[3:]] == [("zebra", False), ("<UNK>", False)]
    assert ranked[3].score == -math.inf
    assert ranked[3].to_dict()["score"] is None


def test_candidates_with_words_on_one_side_are_ranked_by_that_direction():
    model = small_language_model()
    forward = model.rank(["the"], ["mat", "dog", "cat"])
    odds = dict(model.next_words(["the"], 100))
    assert [row.word for row in forward] == sorted(
        odds.keys() & {"mat", "dog", "cat"}, key=odds.get
    )[::-1]
    assert_close([row.probability for row in forward], [odds[row.word] for row in forward])
    assert all(row.backward is None and row.log_prior is None for row in forward)
    odds = dict(model.previous_words(["sat"], 100))
    backward = model.rank(None, ["mat", "dog", "cat"], ["sat"])
    assert_close([row.probability for row in backward], [odds[row.word] for row in backward])
    assert all(row.forward is None and row.log_prior is None for row in backward)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["the"], []), "no candidates"),
        ((["the"], ["cat", "dog", "cat"]), "candidate 2 is 'cat' again"),
        ((["the"], ["cat", ""]), "candidate 1 is ''"),
        ((["the"], "cat"), "give a list"),
        (("the", ["cat"]), "not a list of words"),
        ((["the"], ["cat"], "sat"), "not a list of words"),
        ((None, ["cat"]), "neither before nor after"),
    ],
)
def test_candidates_that_cannot_be_ranked_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        small_language_model().rank(*arguments)


# sample


@pytest.mark.parametrize("seed", range(4))
def test_greedy_sampling_takes_the_likeliest_word_each_time(seed):
    model = small_language_model(seed=seed)
    words = ["the"]
    while len(words) < 9 and (word := model.next_words(words, top=1)[0].word) != "</S>":
        words.append(word)
    assert model.sample(["the"], words=8, temperature=0) == words[1:]
    assert model.sample(["the"], words=8, top=1, seed=3) == words[1:]
    words = ["."]
    while len(words) < 9 and (word := model.previous_words(words, top=1)[0].word) != "<S>":
        words.insert(0, word)
    assert model.sample(words=8, temperature=0, after=["."]) == words[:-1]


def test_a_seed_repeats_what_was_drawn_and_leaves_other_random_numbers_alone():
    model = small_language_model()
    torch.manual_seed(1)
    np.random.seed(1)
    expected = torch.rand(1), np.random.rand()
    torch.manual_seed(1)
    np.random.seed(1)
    drawn = [model.sample(["the"], seed=seed) for seed in (1, 2, 3, 1, 2, 3)]
    assert (torch.rand(1), np.random.rand()) == expected
    assert drawn[:3] == drawn[3:]
    assert drawn[0] != drawn[1]


def test_sampling_ends_with_the_sentence_and_draws_words_only():
    model = small_language_model()
    drawn = {word for seed in range(40) for word in model.sample(seed=seed)}
    assert len(drawn) > 3
    assert not drawn & set(SPECIAL)
    with torch.no_grad():
        model.bilm.softmax.bias[1] = 50.0
    assert model.sample(["the"]) == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": -1}, "temperature is -1"),
        ({"temperature": math.nan}, "temperature is nan"),
        ({"words": 0}, "words is 0"),
        ({"top": 0}, "top is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"before": "the"}, "not a list of words"),
        ({"before": ["the"], "after": ["."]}, "both before and after"),
    ],
)
def test_settings_of_sampling_that_cannot_work_are_refused(settings, message):
    with pytest.raises(ElmoError, match=message):
        small_language_model().sample(**settings)


# What can be loaded


def test_a_model_folder_is_loaded_with_its_words_and_tokenizer(tmp_path):
    folder = write_language_model(tmp_path / "model")
    model = LanguageModel.load(folder)
    assert_same_scores(model.score(SENTENCES), small_language_model().score(SENTENCES))
    assert model.vocabulary.counts == tuple(COUNTS)
    assert model.split("The cat sat. It is on the mat!")[1] == ["It", "is", "on", "the", "mat", "!"]
    assert LanguageModel.load(folder, tokenizer="whitespace").split("a b.") == [["a", "b."]]
    assert repr(model) == "LanguageModel(12 words)"


@pytest.mark.parametrize(
    ("changes", "vocabulary", "message"),
    [
        ({}, COUNTED, "has no softmax.*use a model folder"),
        ({"softmax_words": 12}, None, "12 words but does not say which"),
        ({"softmax_words": 13}, COUNTED, "vocabulary has 12 words, the model's softmax 13"),
        ({"softmax_words": 2}, Vocabulary(["<S>", "a"]), "no </S>"),
        (
            {"softmax_words": 12, "encoder": WordEncoderConfig(9)},
            COUNTED,
            "vocabulary has 12 words, the model 9",
        ),
    ],
)
def test_a_model_that_cannot_predict_its_words_is_refused(changes, vocabulary, message):
    with pytest.raises(InputError, match=message):
        LanguageModel(small_bilm(**changes), vocabulary)


def test_weights_that_are_no_numbers_are_noticed():
    model = small_language_model()
    with torch.no_grad():
        model.bilm.softmax.bias[0] = math.nan
    with pytest.raises(InputError, match="NaN"):
        model.next_words(["the"])


def test_anything_but_text_cannot_be_split():
    for method in ("split", "find_place"):
        with pytest.raises(InputError, match="expected a text"):
            getattr(small_language_model(), method)(["the"])
