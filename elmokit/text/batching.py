"""Sentences to batches: similar lengths together, no batch larger than a budget of tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from elmokit.text.characters import Sentence, check_sentence


def batch_by_length(
    lengths: Sequence[int], token_budget: int, max_sentences: int
) -> list[list[int]]:
    """Group sentence numbers into batches, longest first.

    A batch holds at most `max_sentences` sentences and `token_budget` tokens, padding counted; a
    sentence above the budget stands alone.

    >>> batch_by_length([3, 9, 4, 1], token_budget=9, max_sentences=10)
    [[1], [2, 0], [3]]
    """
    batches: list[list[int]] = []
    room = 0
    for number in sorted(range(len(lengths)), key=lambda n: -lengths[n]):
        if room == 0:
            batches.append([])
            room = min(max_sentences, token_budget // max(lengths[number], 1)) or 1
        batches[-1].append(number)
        room -= 1
    return batches


def windows(
    sentences: Iterable[Sentence], tokens: int, most: int, first: int | None = None
) -> Iterator[list[Sentence]]:
    """Cut any number of sentences into lists of about `tokens` tokens and `most` sentences.

    The first has about `first` tokens, and each after it twice as many as the one before, so that
    what comes of a stream comes soon.

    >>> list(windows([["a"], ["b", "c"], ["d"]], tokens=3, most=10))
    [[['a'], ['b', 'c']], [['d']]]
    """
    window: list[Sentence] = []
    size = tokens if first is None else min(first, tokens)
    room = size
    for number, sentence in enumerate(sentences):
        sentence = check_sentence(sentence, number)
        window.append(sentence)
        room -= len(sentence)
        if room <= 0 or len(window) == most:
            yield window
            size = min(2 * size, tokens)
            window, room = [], size
    if window:
        yield window
