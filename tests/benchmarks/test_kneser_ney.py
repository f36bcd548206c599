from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction
from itertools import chain, product
from pathlib import Path

import numpy as np
import pytest
from closeness import EXACT
from hypothesis import given, settings
from hypothesis import strategies as st
from pretraining.small_runs import RUN, sentences, write_text
from small_language_models import COUNTED, small_language_model

from benchmarks.kneser_ney import KneserNey, Row, count_grams, estimate_discounts
from benchmarks.ngram_baseline import (
    corpus_row,
    held_out,
    main,
    outcome_ids,
    perplexity_sums,
    together,
)
from elmokit.errors import InputError
from elmokit.inference.predictions import PerplexitySums
from elmokit.io.text_files import TextSettings
from elmokit.pretraining.corpus import prepare_corpus
from elmokit.text.vocabulary import Vocabulary

Sentences = list[list[int]]
Gram = tuple[int, ...]

quick = settings(max_examples=60, deadline=None, derandomize=True, database=None)
BEGIN, END = -1, 0  # the textbook tells them apart

small_texts = st.integers(2, 5).flatmap(
    lambda outcomes: st.tuples(
        st.lists(
            st.lists(st.integers(1, outcomes - 1), min_size=1, max_size=7), min_size=1, max_size=14
        ),
        st.just(outcomes),
    )
)


def row_of(text: Sentences) -> Row:
    return np.array([0, *chain.from_iterable([*words, 0] for words in text)], np.int32)


def distributions(model: KneserNey, contexts: Sentences) -> list[list[float]]:
    """The probabilities of all outcomes after words that begin a sentence."""
    outcomes = len(model.unigrams)
    found = []
    for context in contexts:
        text = [context, *([*context, word] for word in range(1, outcomes))]
        log_probabilities = model.log_probabilities(row_of(text))
        lengths = [len(context) + 1] + [len(context) + 2] * (outcomes - 1)
        starts = np.cumsum([0, *lengths[:-1]])
        found.append(np.exp(log_probabilities[starts + len(context)]).tolist())
    return found


def contexts_of(outcomes: int, most: int) -> Sentences:
    """Every begin of a sentence of up to so many words."""
    lengths = range(most + 1)
    return [[*words] for n in lengths for words in product(range(1, outcomes), repeat=n)]


class Textbook:
    """The formulas, word for word, in whole fractions."""

    def __init__(self, text: Sentences, outcomes: int, order: int) -> None:
        self.outcomes = outcomes
        self.order = order
        marked = [(BEGIN, *words, END) for words in text]
        occurrences = Counter(
            words[start:end]
            for words in marked
            for end in range(2, len(words) + 1)
            for start in range(max(0, end - order), end)
        )
        before: defaultdict[Gram, set[int]] = defaultdict(set)
        for gram in occurrences:
            before[gram[1:]].add(gram[0])
        self.counts = [
            {
                gram: count if n == order or gram[0] == BEGIN else len(before[gram])
                for gram, count in occurrences.items()
                if len(gram) == n
            }
            for n in range(order + 1)
        ]
        self.discounts = [self.estimate([*counts.values()]) for counts in self.counts]

    @staticmethod
    def estimate(counts: list[int]) -> list[Fraction]:
        n1, n2, n3, n4 = (counts.count(k) for k in (1, 2, 3, 4))
        fallback = [Fraction(0), Fraction(1, 2), Fraction(1), Fraction(3, 2)]
        if 0 in (n1, n2, n3, n4):
            return fallback
        y = Fraction(n1, n1 + 2 * n2)
        d1, d2, d3 = 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3
        return fallback if min(d1, d2, d3) <= 0 else [Fraction(0), d1, d2, d3]

    def probability(self, word: int, context: Gram) -> Fraction:
        counts, discounts = self.counts[len(context) + 1], self.discounts[len(context) + 1]
        lower = self.probability(word, context[1:]) if context else Fraction(1, self.outcomes)
        after = [counts.get((*context, other), 0) for other in range(self.outcomes)]
        if not sum(after):
            return lower
        count = counts.get((*context, word), 0)
        kept = Fraction(count - discounts[min(count, 3)]) / sum(after)
        return kept + sum(discounts[min(c, 3)] for c in after) / sum(after) * lower

    def distribution(self, words: list[int]) -> list[float]:
        context = (BEGIN, *words)[max(0, len(words) + 2 - self.order) :]
        return [float(self.probability(word, context)) for word in range(self.outcomes)]


def random_text(words: int, outcomes: int) -> Sentences:
    """Frequent and rare words, enough of them for every count of counts."""
    random = np.random.default_rng(1)
    ids = np.minimum(random.zipf(1.5, words), outcomes) % outcomes
    return [part.tolist()[1:] for part in np.split(ids, np.flatnonzero(ids == 0)) if len(part) > 1]


@quick
@given(small_texts, st.integers(1, 5))
def test_probabilities_are_those_of_the_textbook(text_and_outcomes, order):
    text, outcomes = text_and_outcomes
    model = KneserNey.train(row_of(text), outcomes, order)
    textbook = Textbook(text, outcomes, order)
    contexts = contexts_of(outcomes, 2) + text
    expected = [textbook.distribution(context) for context in contexts]
    np.testing.assert_allclose(distributions(model, contexts), expected, rtol=EXACT)


@quick
@given(small_texts, st.integers(1, 5))
def test_the_probabilities_of_all_words_and_the_end_add_up_to_one(text_and_outcomes, order):
    text, outcomes = text_and_outcomes
    model = KneserNey.train(row_of(text), outcomes + 2, order)  # and two words that never come
    contexts = contexts_of(outcomes + 2, 2) + [words[:n] for words in text for n in (3, 4, 5)]
    found = np.array(distributions(model, contexts))
    assert found.min() > 0
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=0, atol=1e-9)


@pytest.mark.parametrize("order", [2, 5])
def test_a_text_with_all_counts_of_counts_is_discounted_by_them(order):
    text, outcomes = random_text(4000, 30), 30
    model = KneserNey.train(row_of(text), outcomes, order)
    textbook = Textbook(text, outcomes, order)
    assert all(discounts[1] != Fraction(1, 2) for discounts in textbook.discounts[2:])
    contexts = [words[:n] for words in text[:40] for n in (0, 1, 2, 3, 5)]
    found = np.array(distributions(model, contexts))
    expected = [textbook.distribution(context) for context in contexts]
    np.testing.assert_allclose(found, expected, rtol=EXACT)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=0, atol=1e-9)


def test_bigrams_of_three_words_are_as_computed_by_hand():
    model = KneserNey.train(row_of([[1, 2], [1]]), outcomes=3, order=2)
    # Of the border, 1 and 2: two, one and one different words before; discounts 1, 0.5 and 0.5.
    end, one, two = 1 / 4 + 1 / 6, 0.5 / 4 + 1 / 6, 0.5 / 4 + 1 / 6
    np.testing.assert_allclose(model.unigrams, [end, one, two], rtol=EXACT)
    after_begin, after_one = distributions(model, [[], [1]])
    np.testing.assert_allclose(after_begin, [end / 2, 1 / 2 + one / 2, two / 2], rtol=EXACT)
    np.testing.assert_allclose(after_one, [1 / 4 + end / 2, one / 2, 1 / 4 + two / 2], rtol=EXACT)


def test_a_context_that_never_came_backs_off_wholly():
    model = KneserNey.train(row_of([[1, 2, 3], [1, 2], [3, 1]]), outcomes=5)
    (after_unseen,) = distributions(model, [[1, 4]])
    np.testing.assert_allclose(after_unseen, model.unigrams, rtol=EXACT)
    # Of `1 4 2` only 2 was ever read.
    log_probabilities = model.log_probabilities(row_of([[1, 4, 2, 3]]))
    textbook = Textbook([[1, 2, 3], [1, 2], [3, 1]], 5, 5)
    assert np.exp(log_probabilities[3]) == pytest.approx(float(textbook.probability(3, (2,))))


def test_sentences_of_one_word_have_no_higher_orders():
    model = KneserNey.train(row_of([[1], [2], [1]]), outcomes=3)
    assert [len(order.keys) - 1 for order in model.higher] == [4, 2, 0, 0]
    np.testing.assert_allclose(np.sum(distributions(model, [[], [1], [1, 1, 2]]), axis=1), 1.0)


def test_no_text_gives_every_word_the_same_probability():
    model = KneserNey.train(row_of([]), outcomes=4)
    np.testing.assert_allclose(distributions(model, [[], [1, 2, 3]]), 1 / 4)


def test_no_sentence_sees_the_one_before():
    model = KneserNey.train(row_of([[1, 2, 3], [2, 1], [3, 3]]), outcomes=4)
    alone = [model.log_probabilities(row_of([words])) for words in ([1, 2, 3], [3, 2])]
    both = model.log_probabilities(row_of([[1, 2, 3], [3, 2]]))
    np.testing.assert_array_equal(both, np.concatenate(alone))


def test_the_backward_model_is_that_of_reversed_sentences():
    text = [[1, 2, 3], [2, 1, 1, 3], [3]]
    backward = KneserNey.train(row_of(text)[::-1], outcomes=4)
    of_reversed = KneserNey.train(row_of([words[::-1] for words in text[::-1]]), outcomes=4)
    np.testing.assert_array_equal(backward.unigrams, of_reversed.unigrams)
    for one, other in zip(backward.higher, of_reversed.higher, strict=True):
        np.testing.assert_array_equal(one.shares, other.shares)


def test_begins_of_sentences_keep_their_counts_and_other_n_grams_count_the_words_before():
    _, bigrams, _ = count_grams(row_of([[1, 2], [1, 2], [2, 2]]), outcomes=3, order=3)
    counted = dict(zip(bigrams.keys.tolist(), bigrams.counts.tolist(), strict=True))
    assert counted == {0 * 3 + 1: 2, 0 * 3 + 2: 1, 1 * 3 + 2: 1, 2 * 3 + 0: 2, 2 * 3 + 2: 1}


def test_discounts_come_from_counts_of_counts():
    counts = np.repeat([0, 1, 2, 3, 4, 9], [7, 8, 4, 2, 1, 5])
    assert estimate_discounts(counts).tolist() == [0, 0.5, 1.25, 2.0]


@pytest.mark.parametrize("missing", [1, 2, 3, 4])
def test_discounts_fall_back_where_a_count_of_counts_is_missing(missing):
    counts = np.repeat([1, 2, 3, 4, 9], [8, 4, 2, 1, 5])
    assert estimate_discounts(counts[counts != missing]).tolist() == [0, 0.5, 1.0, 1.5]


def test_discounts_fall_back_where_one_would_not_be_above_zero():
    counts = np.repeat([1, 2, 3, 4], [8, 4, 2, 3])  # the third would be 3 - 4 / 2 * 3 / 2 = 0
    assert estimate_discounts(counts).tolist() == [0, 0.5, 1.0, 1.5]


@pytest.mark.parametrize("row", [[], [1, 0], [0, 1], [0, 5, 0], [0, -1, 0]])
def test_a_row_that_is_not_sentences_between_borders_is_refused(row):
    with pytest.raises(InputError, match="must be"):
        KneserNey.train(np.array(row, np.int32), outcomes=3)


def test_prepared_and_held_out_text_are_the_same_row(tmp_path):
    text = [["cat", "zebra", "the"], ["</S>", "<UNK>", "cat"], ["."]]
    path = tmp_path / "text.txt"
    write_text(path, text)
    corpus = prepare_corpus([path], TextSettings(), cache=tmp_path / "cache", processes=1)
    row = corpus_row(corpus, COUNTED)
    np.testing.assert_array_equal(row, held_out("text", text, COUNTED).row)
    cat, the, stop, unknown = (outcome_ids(COUNTED)[n] for n in (4, 3, 8, 2))
    assert row.tolist() == [0, cat, unknown, the, 0, unknown, unknown, cat, 0, stop, 0]


def test_markers_are_the_border_wherever_they_stand_in_the_vocabulary():
    assert outcome_ids(Vocabulary(["a", "</S>", "b", "<S>", "<UNK>"])).tolist() == [
        1,
        0,
        2,
        0,
        3,
        0,
    ]


@pytest.mark.filterwarnings("ignore:unusual word '<S>'")
def test_targets_and_unknown_words_are_those_of_the_language_model():
    text = [["the", "cat", "sat"], ["zebra"], ["<S>", "the", "<UNK>", "."]]
    expected = small_language_model().perplexity(text)
    (sums,) = perplexity_sums(row_of([[1, 2], [3]]), [held_out("", text, COUNTED)], 11, 3)
    found = sums.perplexity("zero")
    for name in ("targets", "words", "unknown", "state"):
        assert getattr(found, name) == getattr(expected, name)


def test_texts_together_have_the_targets_of_all():
    first = PerplexitySums(forward=-3.0, backward=-4.0, sentences=1, words=3, unknown=1)
    second = PerplexitySums(forward=-5.0, backward=-6.0, sentences=2, words=7, unknown=0)
    assert together([first, second]) == PerplexitySums(-8.0, -10.0, 3, 10, 1)


def test_the_command_prints_a_row_for_each_text_and_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("ELMOKIT_CACHE", str(tmp_path / "cache"))
    lines = sentences(80)
    train = write_text(tmp_path / "train.txt", lines[:60])
    one = write_text(tmp_path / "one.txt", lines[60:65])
    two = write_text(tmp_path / "two.txt", [["unheard", *words] for words in lines[65:]])
    (tmp_path / "run.toml").write_text(RUN)
    run = ["--run", str(tmp_path / "run.toml"), "--train", train, "--valid", one, "--valid", two]
    main([*run, "--orders", "2,5"])
    table = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if " | " in line]
    names = [(row[0].strip("| "), row[1]) for row in table[1:]]
    assert names == [(n, o) for o in "25" for n in ("one.txt", "two.txt", "all of it")]
    forward, backward, mean = map(float, table[1][2:5])
    assert mean == pytest.approx((forward * backward) ** 0.5, abs=0.01)
    assert float(table[4][4]) < mean < 20  # longer contexts know more of such text
    words = sum(map(len, lines[60:65]))
    assert table[1][5] == f"{words + 5:,}"
    assert table[1][6] == "0.00% |"
    assert table[2][6] != "0.00% |"


def test_the_command_tells_in_one_line_what_is_wrong(tmp_path):
    with pytest.raises(SystemExit, match=r"^Error: .*missing\.toml: cannot be read"):
        main(["--run", str(tmp_path / "missing.toml")])
