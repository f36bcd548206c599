from __future__ import annotations

from elmokit.text.characters import batch_by_length, windows


def test_every_sentence_is_in_exactly_one_batch():
    lengths = [5, 1, 9, 3, 3, 12, 0, 7]
    batches = batch_by_length(lengths, token_budget=12, max_sentences=3)
    assert sorted(number for batch in batches for number in batch) == list(range(8))


def test_no_batch_exceeds_its_budget_unless_one_sentence_does():
    lengths = [30, 4, 4, 4, 3, 2, 2, 1]
    for batch in batch_by_length(lengths, token_budget=10, max_sentences=4):
        padded = len(batch) * max(lengths[number] for number in batch)
        assert padded <= 10 or len(batch) == 1
        assert len(batch) <= 4


def test_sentences_of_one_batch_have_similar_lengths():
    lengths = [1, 50, 2, 49, 3, 48]
    batches = batch_by_length(lengths, token_budget=200, max_sentences=3)
    assert [sorted(lengths[number] for number in batch) for batch in batches] == [
        [48, 49, 50],
        [1, 2, 3],
    ]


def test_no_sentences_make_no_batches():
    assert batch_by_length([], token_budget=10, max_sentences=3) == []


def test_windows_keep_order_and_lose_nothing():
    sentences = [["w"] * (number % 5) for number in range(23)]
    cut = list(windows(sentences, tokens=7, most=4))
    assert [sentence for window in cut for sentence in window] == sentences
    assert max(map(len, cut)) <= 4


def test_windows_are_read_one_at_a_time():
    taken = []

    def source():
        for number in range(100):
            taken.append(number)
            yield ["word"]

    next(windows(source(), tokens=10, most=100))
    assert len(taken) == 10
