from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from helpers import error_of
from hypothesis import given, settings
from hypothesis import strategies as st
from pretraining.small_runs import prepared
from small_models import ENCODER
from torch import Tensor

from elmokit.config import EncoderConfig, WordEncoderConfig
from elmokit.errors import InputError
from elmokit.pretraining import batches as module
from elmokit.pretraining.batches import (
    BACKWARD,
    FORWARD,
    Batch,
    BatchReader,
    SentenceReader,
    Side,
    StreamReader,
    WordReader,
)
from elmokit.pretraining.config import CorpusConfig, PretrainConfig, TrainingConfig
from elmokit.text.vocabulary import Vocabulary

BEGIN, END, UNKNOWN = "<S>", "</S>", "<UNK>"
BEGIN_WORD, END_WORD = 259, 260
MARKS = {257: BEGIN, 258: END}

VOCABULARY = Vocabulary([BEGIN, END, UNKNOWN, "the", "cat", "sat", "w1", "w2", "w3", "w5", "w7"])
READERS: dict[str, type[BatchReader]] = {"stream": StreamReader, "sentence": SentenceReader}
WAYS: list[dict[str, Any]] = [
    {"mode": "stream"},
    {"mode": "stream", "reset_state": 0.4},
    {"mode": "sentence"},
]

quick = settings(max_examples=25, deadline=None, derandomize=True, database=None)

Sentence = tuple[str, ...]


def varied_text(sentences: int = 41) -> list[Sentence]:
    """Sentences of 1 to 9 words, no two the same, with words that the vocabulary lacks."""
    random = np.random.default_rng(0)
    return [
        (f"s{number}", *(f"w{word}" for word in random.integers(0, 12, random.integers(0, 9))))
        for number in range(sentences)
    ]


TEXT = [*varied_text(), ("은행", "é"), ("the", "cat", "sat", "on", "the", "mat")]


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> WordReader:
    return words_of(tmp_path_factory.mktemp("corpus"), TEXT)


def run_of(block_words: int = 12, **training: Any) -> PretrainConfig:
    settings: dict[str, Any] = {"rows": 4, "unroll": 5, "steps": 1}
    return PretrainConfig(
        corpus=CorpusConfig(block_words=block_words),
        training=TrainingConfig(**(settings | training)),
        model={"encoder": {"filters": [[1, 4]]}, "token_size": 4, "cell_size": 4},
    )


def words_of(
    folder: Path, sentences: Sequence[Sentence], encoder: EncoderConfig = ENCODER
) -> WordReader:
    """Sentences in two files, prepared."""
    half = len(sentences) // 2
    parts = (sentences[:half], sentences[half:])
    texts = ["".join(" ".join(words) + "\n" for words in part) for part in parts]
    return WordReader(prepared(folder, *texts), VOCABULARY, encoder)


def whole(reader: BatchReader, start: int, count: int) -> list[Batch]:
    """Batches of a reader that has all rows in one part."""
    found = []
    for parts in islice(reader.batches(start), count):
        (batch,) = parts
        found.append(batch)
    return found


# Batches back to text, by the character table and nothing else


def spelled(batch: Batch) -> list[str]:
    """The different words of a batch, decoded from their characters."""
    return [decode(row.tolist()) for row in batch.words]


def decode(ids: list[int]) -> str:
    assert ids[0] == BEGIN_WORD
    inside = ids[1 : ids.index(END_WORD)]
    if len(inside) == 1 and inside[0] in MARKS:
        return MARKS[inside[0]]
    return bytes(number - 1 for number in inside).decode()


class Row(NamedTuple):
    """What one row reads in one direction, what it is to predict, and where from zeros."""

    inputs: list[str]
    targets: list[str]
    carried: tuple[bool, ...] = ()  # none where all are


def rows_of(batch: Batch, side: Side) -> list[Row]:
    """Unpack a batch: token t of row r stands r places after the beginning of step t."""
    words = spelled(batch)
    inputs = [words[number] for number in side.inputs.tolist()]
    targets = [VOCABULARY.word_of(number) for number in side.targets.tolist()]
    carried = None if side.carried is None else side.carried.tolist()
    assert len(inputs) == len(targets) == sum(batch.step_sizes)
    starts = [0, *accumulate(batch.step_sizes)]
    rows = []
    for row in range(batch.step_sizes[0]):
        places = [
            start + row for start, size in zip(starts, batch.step_sizes, strict=False) if row < size
        ]
        mine = () if carried is None else tuple(carried[p] for p in places)
        rows.append(Row([inputs[p] for p in places], [targets[p] for p in places], mine))
    return rows


def streams_of(batches: Sequence[Batch], direction: int) -> list[Row]:
    """Every row over several batches."""
    parts = [rows_of(b, (b.forward, b.backward)[direction]) for b in batches]
    return [
        Row(
            [word for part in row for word in part.inputs],
            [word for part in row for word in part.targets],
            tuple(carried for part in row for carried in part.carried),
        )
        for row in zip(*parts, strict=True)
    ]


def known(word: str) -> str:
    return word if word in VOCABULARY else UNKNOWN


def sentences_of(row: Row, direction: int) -> list[Sentence]:
    """Cut a row into sentences in the order of their words, checking every marker and target."""
    opening, closing = (BEGIN, END) if direction == FORWARD else (END, BEGIN)
    sentences: list[list[str]] = []
    for word, target, following in zip(
        row.inputs, row.targets, [*row.inputs[1:], opening], strict=True
    ):
        if word == opening:
            sentences.append([])
        else:
            sentences[-1].append(word)
        assert target == (closing if following == opening else known(following))
    return [tuple(words if direction == FORWARD else words[::-1]) for words in sentences]


def assert_same_batches(found: Sequence[Batch], expected: Sequence[Batch]) -> None:
    for one, other in zip(found, expected, strict=True):
        for left, right in zip(flat(one), flat(other), strict=True):
            assert torch.equal(left, right)
        assert one[3:] == other[3:]


def flat(batch: Batch) -> list[Tensor]:
    tensors = [batch.words, *batch.forward, *batch.backward]
    return [tensor for tensor in tensors if tensor is not None]


# Streams


@pytest.mark.parametrize("direction", [FORWARD, BACKWARD])
@pytest.mark.parametrize(("rows", "block_words"), [(1, 12), (4, 12), (5, 1), (3, 1000), (8, 30)])
def test_rows_together_read_the_whole_text_once_in_every_epoch(
    words: WordReader, rows: int, block_words: int, direction: int
) -> None:
    reader = StreamReader(words, run_of(block_words, rows=rows))
    lengths = [
        [int(np.diff(reader.share(direction, row, epoch)).sum()) for row in range(rows)]
        for epoch in range(3)
    ]
    most = max(sum(lengths[epoch][row] for epoch in range(3)) for row in range(rows))
    streams = streams_of(whole(reader, 0, -(-most // 5)), direction)
    orders = []
    for epoch in range(3):
        read: list[Sentence] = []
        for row, (inputs, targets, _) in enumerate(streams):
            start = sum(lengths[before][row] for before in range(epoch))
            part = slice(start, start + lengths[epoch][row])
            read += sentences_of(Row(inputs[part], targets[part]), direction)
        assert Counter(read) == Counter(TEXT)
        orders.append(read)
    assert orders[0] != orders[1] != orders[2]


def test_one_sentence_is_read_as_the_original_reads_it(tmp_path: Path) -> None:
    words = words_of(tmp_path, [("the", "aardvark", "sat")])
    first, second = whole(StreamReader(words, run_of(rows=1, unroll=3)), 0, 2)
    assert [rows_of(batch, batch.forward)[0] for batch in (first, second)] == [
        Row([BEGIN, "the", "aardvark"], ["the", UNKNOWN, "sat"]),
        Row(["sat", BEGIN, "the"], [END, "the", UNKNOWN]),
    ]
    assert [rows_of(batch, batch.backward)[0] for batch in (first, second)] == [
        Row([END, "sat", "aardvark"], ["sat", UNKNOWN, "the"]),
        Row(["the", END, "sat"], [BEGIN, "sat", UNKNOWN]),
    ]


def test_sentences_of_a_block_keep_their_order(words: WordReader) -> None:
    reader = StreamReader(words, run_of(block_words=20, rows=1))
    targets = sum(len(sentence) + 1 for sentence in TEXT)
    (stream,) = streams_of(whole(reader, 0, targets // 5), FORWARD)
    # The last sentence may be cut by the end of the last batch.
    places = [TEXT.index(s) for s in sentences_of(stream, FORWARD)[:-1] if s in TEXT]
    in_order = sum(later == earlier + 1 for earlier, later in pairwise(places))
    assert len(places) > 0.9 * len(TEXT)
    assert len(places) / 2 < in_order < len(places) - 5


def test_directions_epochs_and_seeds_have_orders_of_their_own(words: WordReader) -> None:
    def order(direction: int, epoch: int, seed: int) -> list[list[int]]:
        reader = StreamReader(words, run_of(rows=1, seed=seed))
        return reader.share(direction, 0, epoch).tolist()

    orders = [
        order(direction, epoch, seed)
        for direction in (FORWARD, BACKWARD)
        for epoch in (0, 1)
        for seed in (1, 2)
    ]
    for number, one in enumerate(orders):
        assert sorted(one) == sorted(orders[0])
        assert one not in orders[:number]


@pytest.mark.parametrize("part", [(0, 1), (1, 2)])
def test_orders_of_epochs_that_are_read_are_not_stored(
    words: WordReader, part: tuple[int, int]
) -> None:
    reader = StreamReader(words, run_of(), part)
    batches = reader.batches(int(5 * reader.batches_per_epoch))
    for _ in islice(batches, int(10 * reader.batches_per_epoch)):
        epochs = {epoch for _, epoch in reader._orders}
        assert len(epochs) <= 3
    assert min(epochs) > 10


def test_batch_names_each_word_once_markers_first(words: WordReader) -> None:
    for batch in whole(StreamReader(words, run_of()), 0, 20):
        found = spelled(batch)
        assert found[:2] == [BEGIN, END]
        assert len(set(found)) == len(found)
        used = {*batch.forward.inputs.tolist(), *batch.backward.inputs.tolist()}
        assert used | {0, 1} == set(range(len(found)))


def test_batch_without_a_border_has_its_words_right(tmp_path: Path) -> None:
    text = tuple(f"w{number}" for number in range(40))
    words = words_of(tmp_path, [text])
    (_, batch) = whole(StreamReader(words, run_of(rows=1, unroll=10)), 0, 2)
    assert rows_of(batch, batch.forward)[0].inputs == list(text[9:19])
    assert rows_of(batch, batch.backward)[0].inputs == list(text[::-1][9:19])


@pytest.mark.parametrize("direction", [FORWARD, BACKWARD])
def test_some_sentences_are_read_from_zeros_each_in_its_share(
    words: WordReader, direction: int
) -> None:
    batches = whole(StreamReader(words, run_of(reset_state=0.4)), 0, 400)
    rows = streams_of(batches, direction)
    opening = (BEGIN, END)[direction]
    starts = [
        carried
        for row in rows
        for word, carried in zip(row.inputs, row.carried, strict=True)
        if word == opening
    ]
    assert 1 - sum(starts) / len(starts) == pytest.approx(0.4, abs=0.03)
    assert all(
        carried
        for row in rows
        for word, carried in zip(row.inputs, row.carried, strict=True)
        if word != opening
    )


def test_directions_batches_and_seeds_have_zeros_of_their_own(words: WordReader) -> None:
    drawn = []
    for seed in (1, 2):
        reader = StreamReader(words, run_of(reset_state=0.5, seed=seed))
        drawn += [sides.tobytes() for number in (0, 1) for sides in reader.resets(number)]
    assert len(set(drawn)) == len(drawn) == 8


def test_targets_are_counted(words: WordReader) -> None:
    reader = StreamReader(words, run_of())
    in_text = sum(len(sentence) + 1 for sentence in TEXT)
    assert reader.batches_per_epoch == pytest.approx(in_text / 20)
    for batch in whole(reader, 0, 10):
        targets = [word for row in rows_of(batch, batch.forward) for word in row.targets]
        assert batch.tokens_in_all == len(targets) == 20
        assert batch.words_in_all == 20 - targets.count(END)
        assert batch.step_sizes == [4] * 5
        assert batch.forward.carried is batch.backward.carried is None


@quick
@given(
    seed=st.integers(0, 2**40),
    rows=st.integers(1, 7),
    unroll=st.integers(1, 30),
    start=st.integers(0, 60),
    way=st.sampled_from(WAYS),
)
def test_batch_is_the_same_read_from_the_start_or_sought(
    words: WordReader, seed: int, rows: int, unroll: int, start: int, way: dict[str, Any]
) -> None:
    config = run_of(seed=seed, rows=rows, unroll=unroll, **way)
    kind = READERS[way["mode"]]
    from_the_start = whole(kind(words, config), 0, start + 3)[start:]
    assert_same_batches(whole(kind(words, config), start, 3), from_the_start)


@quick
@given(
    seed=st.integers(0, 1000),
    sharing=st.sampled_from([(1, 2), (2, 1), (2, 3), (3, 2), (4, 3), (12, 1), (1, 12)]),
    start=st.integers(0, 9),
    way=st.sampled_from(WAYS),
)
def test_rows_are_the_same_however_many_processes_and_parts_share_them(
    words: WordReader, seed: int, sharing: tuple[int, int], start: int, way: dict[str, Any]
) -> None:
    processes, accumulate = sharing
    kind = READERS[way["mode"]]
    (batch,) = whole(kind(words, run_of(rows=12, seed=seed, **way)), start, 1)
    config = run_of(rows=12, seed=seed, accumulate=accumulate, **way)
    parts = [
        part
        for number in range(processes)
        for part in next(kind(words, config, (number, processes)).batches(start))
    ]
    assert len(parts) == processes * accumulate
    for side in ("forward", "backward"):
        expected = rows_of(batch, getattr(batch, side))
        found = [rows_of(part, getattr(part, side)) for part in parts]
        assert {len(rows) for rows in found} == {12 // len(parts)}
        if way["mode"] == "stream":
            assert [row for rows in found for row in rows] == expected
        else:
            # Every part has long and short sentences, so that processes are done together.
            dealt = [row for rows in zip(*found, strict=True) for row in rows]
            assert dealt == expected
    assert {part.tokens_in_all for part in parts} == {batch.tokens_in_all}


def test_words_of_all_parts_are_estimated_from_one(words: WordReader) -> None:
    config = run_of(rows=12, accumulate=3)
    for parts in islice(StreamReader(words, config, (1, 2)).batches(0), 10):
        for part in parts:
            of_this_part = sum(
                target != END for row in rows_of(part, part.forward) for target in row.targets
            )
            assert part.words_in_all == 6 * of_this_part


@pytest.mark.parametrize("kind", READERS.values())
def test_rows_that_cannot_be_shared_are_an_error(
    words: WordReader, kind: type[BatchReader]
) -> None:
    config = run_of(rows=6, accumulate=2)
    error_of(kind, words, config, (0, 2), kind=InputError, after="6 rows cannot be shared by 2")


@pytest.mark.parametrize("mode", READERS)
def test_too_small_a_corpus_is_one_line(tmp_path: Path, mode: str) -> None:
    words = words_of(tmp_path, [("the", "cat"), ("sat",)])
    config = run_of(rows=3, mode=mode)
    problem = error_of(READERS[mode], words, config, kind=InputError, after="the corpus has 2")
    assert problem.endswith("training.rows")


def test_every_row_has_something_to_read_in_a_text_as_short_as_can_be(tmp_path: Path) -> None:
    words = words_of(tmp_path, [("the",), ("cat",), ("sat",)])
    reader = StreamReader(words, run_of(block_words=1000, rows=3, unroll=2))
    for batch in whole(reader, 0, 4):
        rows = rows_of(batch, batch.forward)
        assert {row.inputs[0] for row in rows} == {BEGIN}
        assert {row.inputs[1] for row in rows} == {"the", "cat", "sat"}


def test_word_input_model_reads_rows_of_its_table(tmp_path: Path) -> None:
    encoder = WordEncoderConfig(words=len(VOCABULARY))
    words = words_of(tmp_path, [("the", "aardvark", "cat", "zebra")], encoder)
    (batch,) = whole(StreamReader(words, run_of(rows=1, unroll=5)), 0, 1)
    read = [
        [VOCABULARY.word_of(number - 1) for number in batch.words[side.inputs].tolist()]
        for side in (batch.forward, batch.backward)
    ]
    assert read[FORWARD] == [BEGIN, "the", UNKNOWN, "cat", UNKNOWN]
    assert read[BACKWARD] == [END, UNKNOWN, "cat", UNKNOWN, "the"]
    assert batch.words.dtype == torch.int64
    assert batch.words.min() > 0


# Sentences


def sentence_reader(words: WordReader, **training: Any) -> SentenceReader:
    return SentenceReader(words, run_of(mode="sentence", **training))


def read_sentences(batch: Batch, direction: int = FORWARD) -> list[Sentence]:
    """The sentences of a batch, row by row, each checked to be whole."""
    found = []
    for row in rows_of(batch, (batch.forward, batch.backward)[direction]):
        (sentence,) = sentences_of(row, direction)
        found.append(sentence)
    return found


@pytest.mark.parametrize("batches_per_pool", [3, 64])
def test_sentence_is_read_at_most_once_in_an_epoch(
    words: WordReader, monkeypatch: pytest.MonkeyPatch, batches_per_pool: int
) -> None:
    monkeypatch.setattr(module, "BATCHES_PER_POOL", batches_per_pool)
    reader = sentence_reader(words, rows=4)
    assert reader.batches_per_epoch == len(TEXT) // 4 == 10
    left_over = []
    for epoch in range(4):
        read = [s for batch in whole(reader, 10 * epoch, 10) for s in read_sentences(batch)]
        assert len(set(read)) == len(read) == 40
        left_over.append(frozenset(TEXT) - frozenset(read))
    assert {len(sentences) for sentences in left_over} == {3}
    assert len(set(left_over)) > 1


def test_both_directions_read_the_same_sentences(words: WordReader) -> None:
    for batch in whole(sentence_reader(words), 0, 10):
        assert read_sentences(batch, FORWARD) == read_sentences(batch, BACKWARD)


def test_sentences_of_a_batch_are_packed_longest_first(words: WordReader) -> None:
    for batch in whole(sentence_reader(words, rows=7), 0, 12):
        lengths = [len(sentence) + 1 for sentence in read_sentences(batch)]
        assert lengths == sorted(lengths, reverse=True)
        sizes = [sum(length > step for length in lengths) for step in range(lengths[0])]
        assert batch.step_sizes == sizes
        assert batch.tokens_in_all == sum(lengths)
        assert batch.words_in_all == sum(lengths) - 7


def test_sentences_of_a_batch_are_of_similar_length_and_batches_in_any_order(
    words: WordReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    def waiting(batches: list[Batch]) -> int:
        """Steps in which a row has nothing to read."""
        return sum(len(b.step_sizes) * b.step_sizes[0] - sum(b.step_sizes) for b in batches)

    sorted_together = whole(sentence_reader(words), 0, 10)
    longest = [len(batch.step_sizes) for batch in sorted_together]
    assert longest not in (sorted(longest), sorted(longest, reverse=True))
    monkeypatch.setattr(module, "BATCHES_PER_POOL", 1)
    in_any_order = whole(sentence_reader(words), 0, 10)
    assert waiting(sorted_together) < waiting(in_any_order) / 2


@pytest.mark.parametrize("length", [1, 6, 7, 8, 9, 14, 15, 25])
def test_long_sentence_is_cut_into_pieces_that_have_all_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    monkeypatch.setattr(module, "LONGEST_SENTENCE", 8)
    long = tuple(f"w{number}" for number in range(length))
    reader = sentence_reader(words_of(tmp_path, [("the",), long, ("cat", "sat")]), rows=1)
    count = int(reader.batches_per_epoch)
    for direction in (FORWARD, BACKWARD):
        read = [read_sentences(batch, direction)[0] for batch in whole(reader, 0, count)]
        assert all(0 < len(sentence) < 8 for sentence in read)
        pieces = sorted(set(read) - {("the",), ("cat", "sat")}, key=lambda s: int(s[0][1:]))
        assert tuple(word for piece in pieces for word in piece) == long
        assert len(pieces) == count - 2 == -(-length // 7)
