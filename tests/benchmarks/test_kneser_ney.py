from collections import Counter, defaultdict
from fractions import Fraction
from itertools import chain

import numpy as np
import pytest
from closeness import EXACT
from helpers import write_sentences
from pretraining.small_runs import RUN, sentences
from small_models import COUNTED

from benchmarks.kneser_ney import KneserNey, Row
from benchmarks.ngram_baseline import corpus_row, held_out, main, outcome_ids
from elmokit.io.text_files import TextSettings
from elmokit.pretraining.corpus import prepare_corpus

Sentences = list[list[int]]
Gram = tuple[int, ...]

BEGIN, END = -1, 0  # the textbook tells them apart


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


@pytest.mark.parametrize("order", [1, 2, 5])
def test_probabilities_are_those_of_the_textbook_and_add_up_to_one(order):
    text, outcomes = random_text(4000, 30), 30  # with all counts of counts
    model = KneserNey.train(row_of(text), outcomes, order)
    textbook = Textbook(text, outcomes, order)
    assert all(discounts[1] != Fraction(1, 2) for discounts in textbook.discounts[2:])
    distinct = {tuple(words[:n]) for words in text[:40] for n in (0, 1, 2, 3, 5)}
    contexts = [list(words) for words in sorted(distinct)]
    found = np.array(distributions(model, contexts))
    expected = [textbook.distribution(context) for context in contexts]
    np.testing.assert_allclose(found, expected, rtol=EXACT)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=0, atol=1e-9)


def test_prepared_and_held_out_text_are_the_same_row(tmp_path):
    text = [["cat", "zebra", "the"], ["</S>", "<UNK>", "cat"], ["."]]
    path = tmp_path / "text.txt"
    write_sentences(path, text)
    corpus = prepare_corpus([path], TextSettings(), cache=tmp_path / "cache", processes=1)
    row = corpus_row(corpus, COUNTED)
    np.testing.assert_array_equal(row, held_out("text", text, COUNTED).row)
    cat, the, stop, unknown = (outcome_ids(COUNTED)[n] for n in (4, 3, 8, 2))
    assert row.tolist() == [0, cat, unknown, the, 0, unknown, unknown, cat, 0, stop, 0]


def test_the_command_prints_a_row_for_each_text_and_order(tmp_path, capsys):
    lines = sentences(80)
    train = write_sentences(tmp_path / "train.txt", lines[:60])
    one = write_sentences(tmp_path / "one.txt", lines[60:65])
    two = write_sentences(tmp_path / "two.txt", [["unheard", *words] for words in lines[65:]])
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
