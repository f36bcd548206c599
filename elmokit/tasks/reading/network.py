"""Reading network: BiDAF with self-attention (Clark and Gardner 2018) scores spans of a text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from elmokit.tasks.config import NetworkConfig
from elmokit.tasks.examples import Words
from elmokit.tasks.inputs import BatchVectors, Sizes, TaskInputs, at_each_word, join_output
from elmokit.tasks.networks.texts import attend, softmax_where
from elmokit.tasks.reading.questions import Passage, Question
from elmokit.tasks.recurrent import BidirectionalLSTM, VariationalDropout

WordSpan = tuple[int, int]  # the first word, and the one after the last


class Window(NamedTuple):
    """Words of a text that are read together: words[first:end]."""

    first: int
    end: int


class SpanScores(NamedTuple):
    """What a reader gives the words of windows: how well an answer begins or ends there."""

    start: Tensor  # (rows, words)
    end: Tensor  # (rows, words)
    mask: Tensor  # (rows, words) bool, False on padding


class BestSpans(NamedTuple):
    """The best legal span of each row."""

    score: Tensor  # (rows,): that of its start and that of its end, added
    first: Tensor  # (rows,)
    last: Tensor  # (rows,): its last word
    total: Tensor  # (rows,): log of the sum of exp(score) over all legal spans


def windows_of(words: int, window: int, overlap: int) -> list[Window]:
    """Windows over so many words, each beginning before the one before it ends.

    The last is as long as the others: it reaches back to be.

    >>> [tuple(each) for each in windows_of(10, 6, 2)], tuple(windows_of(11, 6, 2)[-1])
    ([(0, 6), (4, 10)], (5, 11))
    """
    starts = [*range(0, max(words - window, 0), window - overlap), max(words - window, 0)]
    return [Window(first, min(first + window, words)) for first in starts]


def right_spans(question: Question, windows: Sequence[Window]) -> dict[int, list[WordSpan]]:
    """Where a question's answers are in those windows that hold one, counted from their beginning.

    An answer that no window holds completely is cut where the windows end that hold its beginning.
    """
    found: dict[int, list[WordSpan]] = {}
    for cut in (False, True):
        found = found or {
            number: spans
            for number, window in enumerate(windows)
            if (spans := _spans_in(question, window, cut))
        }
    return found


def windows_without(question: Question, windows: Sequence[Window]) -> list[int]:
    """The windows that no word of an answer is in."""
    return [
        number
        for number, window in enumerate(windows)
        if all(
            answer.end_word <= window.first or window.end <= answer.first_word
            for answer in question.answers
        )
    ]


def _spans_in(question: Question, window: Window, cut: bool) -> list[WordSpan]:
    return [
        (answer.first_word - window.first, min(answer.end_word, window.end) - window.first)
        for answer in question.answers
        if window.first <= answer.first_word < window.end and (cut or answer.end_word <= window.end)
    ]


def best_spans(scores: SpanScores, longest: int) -> BestSpans:
    """The best span of one to `longest` words of each row; of equal ones the first, shortest."""
    start = scores.start.masked_fill(~scores.mask, -torch.inf)
    end = scores.end.masked_fill(~scores.mask, -torch.inf)
    # (rows, words, longest): a span by its first word, and by how many words follow that.
    ends = functional.pad(end, (0, longest - 1), value=-torch.inf).unfold(1, longest, 1)
    spans = (start.unsqueeze(-1) + ends).flatten(1)
    best = spans.argmax(1)
    first = best // longest
    return BestSpans(
        spans.gather(1, best.unsqueeze(1)).squeeze(1),
        first,
        first + best % longest,
        spans.logsumexp(1),
    )


def shared_loss(scores: Tensor, right: Tensor, mask: Tensor, rows: Sequence[int]) -> Tensor:
    """-log p of the right words, p being shared by all windows of a question: (questions,).

    Where there are several right words, because people answered differently, it is the p of any
    (Clark and Gardner 2018: the sum objective, with shared normalisation). All are (rows, words);
    `rows` has the number of each row's question, from 0, none left out.
    """
    places = _places(rows)
    shape = (max(rows) + 1, max(place for _, place in places) + 1, scores.shape[1])
    # The smallest number, and not -inf: a window without the answer would have no gradient at all.
    least = torch.finfo(scores.dtype).min
    at = tuple(torch.tensor(places, device=scores.device).unbind(1))

    def of_questions(which: Tensor) -> Tensor:
        everywhere = scores.new_full(shape, least)
        chosen = scores.masked_fill(~which, least)
        return everywhere.index_put(at, chosen).flatten(1).logsumexp(1)

    return of_questions(mask) - of_questions(right & mask)


def _places(rows: Sequence[int]) -> list[tuple[int, int]]:
    """The question of each row, and how many rows of that question come before."""
    seen: dict[int, int] = {}
    places = []
    for question in rows:
        places.append((question, seen.get(question, 0)))
        seen[question] = seen.get(question, 0) + 1
    return places


class ReadingNetwork(nn.Module):
    """Encoder, attention to the question and back, self-attention, a score of starts and of ends.

    A window of a text is encoded once for all questions that are given with it. ELMo at the
    output is joined to the encoder's outputs: the ELMo paper adds it to the input and the output of
    this layer. Dropout is variational, before each LSTM and each dense layer, but not behind the
    LSTMs of answers.

    `config.hidden` is the cells of each direction of the LSTMs; dense layers have twice that. The
    paper has 90 (of GRUs). With `answer_lstms` there is an LSTM before the score of starts, and one
    before that of ends which reads the first one's outputs too. The ELMo paper does without.
    """

    def __init__(self, sizes: Sizes, config: NetworkConfig) -> None:
        super().__init__()
        hidden, size = config.hidden, 2 * config.hidden
        self.dropout = VariationalDropout(config.dropout)
        self.encoder = BidirectionalLSTM(sizes.at_input, hidden=hidden)
        encoded_size = self.encoder.output_size + sizes.at_output
        self.similarity = TrilinearSimilarity(encoded_size)
        self.merge = nn.Linear(4 * encoded_size, size)
        self.self_encoder = BidirectionalLSTM(size, hidden=hidden)
        self.self_similarity = TrilinearSimilarity(size, one_way=True)
        self.self_merge = nn.Linear(3 * size, size)
        with_lstms = config.answer_lstms
        self.start_lstm = BidirectionalLSTM(size, hidden=hidden) if with_lstms else None
        self.end_lstm = BidirectionalLSTM(2 * size, hidden=hidden) if with_lstms else None
        # Without a bias: a softmax does not notice what is added to all its scores.
        self.start = nn.Linear(size, 1, bias=False)
        self.end = nn.Linear(size, 1, bias=False)

    def forward(
        self,
        windows: BatchVectors,
        questions: BatchVectors,
        window_rows: Tensor,
        asked_rows: Tensor,
    ) -> SpanScores:
        """Scores (rows, words): of the words of a window, for a question; see `Reading`."""
        asked = self.encode(questions).index_select(0, asked_rows)
        mask, asked_mask = windows.mask[window_rows], questions.mask[asked_rows]
        read = self.attend_to_question(self.encode(windows), window_rows, asked, mask, asked_mask)
        return self.score(read + self.attend_to_itself(read, mask), mask)

    def encode(self, words: BatchVectors) -> Tensor:
        """The words in their context, (sentences, words, size), ELMo at the output included."""
        return join_output(self.encoder(self.dropout(words.at_input), words.mask), words)

    def attend_to_question(
        self, windows: Tensor, window_rows: Tensor, asked: Tensor, mask: Tensor, asked_mask: Tensor
    ) -> Tensor:
        """What each word of a text means to the question: (rows, words, 2 * hidden).

        That is relu(W [t; a; t ⊙ a; s ⊙ a] + b) for a word t, where a is the mean of the question's
        words that t attends to, and s that of the text's words nearest to the question. W is cut in
        four: its product with t is the same for all questions about a window, and as a is a mean of
        a few words, two others are cheaper of these words. Only that with t ⊙ a is of every row.
        """
        texts = windows.index_select(0, window_rows)
        scores = self.similarity(texts, asked)
        shares = softmax_where(scores, asked_mask.unsqueeze(1))
        nearest = scores.masked_fill(~asked_mask.unsqueeze(1), -torch.inf).amax(-1)
        summary = attend(nearest.unsqueeze(1), texts, mask.unsqueeze(1))

        of_word, of_attended, of_both, of_summary = self.merge.weight.chunk(4, dim=1)
        of_words = functional.linear(self.dropout(windows), of_word, self.merge.bias)
        of_asked = functional.linear(self.dropout(asked), of_attended)
        of_asked = of_asked + functional.linear(self.dropout(summary * asked), of_summary)
        both = texts * (shares @ self.dropout(asked))
        merged = of_words.index_select(0, window_rows) + shares @ of_asked
        return torch.relu(merged + functional.linear(both, of_both))

    def attend_to_itself(self, read: Tensor, mask: Tensor) -> Tensor:
        """What the other words of a text add to each: (rows, words, 2 * hidden)."""
        encoded = self.self_encoder(self.dropout(read), mask)
        itself = torch.eye(encoded.shape[1], dtype=torch.bool, device=encoded.device)
        others = mask.unsqueeze(1) & ~itself
        attended = attend(self.self_similarity(encoded, encoded), encoded, others)
        joined = torch.cat([encoded, attended, encoded * attended], dim=-1)
        return torch.relu(self.self_merge(self.dropout(joined)))

    def score(self, read: Tensor, mask: Tensor) -> SpanScores:
        """How well an answer begins and ends at each word."""
        starts = ends = self.dropout(read)
        if self.start_lstm is not None and self.end_lstm is not None:
            starts = self.start_lstm(starts, mask)
            ends = self.end_lstm(self.dropout(torch.cat([read, starts], dim=-1)), mask)
        return SpanScores(self.start(starts).squeeze(-1), self.end(ends).squeeze(-1), mask)


class TrilinearSimilarity(nn.Module):
    """How much two vectors have to do with each other: w₁·a + w₂·b + w₃·(a ⊙ b).

    One way, without w₁·a, which a softmax over all b does not notice.
    """

    def __init__(self, size: int, one_way: bool = False) -> None:
        super().__init__()
        self.of_one = None if one_way else glorot(size)
        self.of_other = glorot(size)
        self.of_both = glorot(size)

    def forward(self, one: Tensor, other: Tensor) -> Tensor:
        """Each of (rows, words, size) with each of (rows, others, size): (rows, words, others)."""
        products = one @ (other * self.of_both).transpose(1, 2)
        similarity = products + (other @ self.of_other).unsqueeze(1)
        return similarity if self.of_one is None else similarity + (one @ self.of_one).unsqueeze(2)


def glorot(size: int) -> nn.Parameter:
    """Weights (size,) of one output, random by torch's generator."""
    return nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, size)).squeeze(0))


class TextWindow(NamedTuple):
    """A window of a text, and the questions that are asked about it."""

    passage: Passage
    window: Window
    asked: tuple[int, ...]  # their numbers
    right: tuple[Sequence[WordSpan], ...] = ()  # where each is answered, to learn from


class Reading(NamedTuple):
    """What a reader reads at once."""

    windows: BatchVectors
    questions: BatchVectors
    window_rows: Tensor  # (rows,): which window; piece by piece, question by question
    asked_rows: Tensor  # (rows,): which question


def reading_of(
    inputs: TaskInputs, pieces: Sequence[TextWindow], questions: Sequence[Question]
) -> Reading:
    """The vectors of pieces and of those questions that are asked about them."""
    asked = sorted({number for piece in pieces for number in piece.asked})
    rows = {number: row for row, number in enumerate(asked)}
    window_rows = [row for row, piece in enumerate(pieces) for _ in piece.asked]
    asked_rows = [rows[number] for piece in pieces for number in piece.asked]
    return Reading(
        window_vectors(inputs, pieces),
        inputs([questions[number].words for number in asked]),
        torch.tensor(window_rows, device=inputs.device),
        torch.tensor(asked_rows, device=inputs.device),
    )


def window_vectors(inputs: TaskInputs, pieces: Sequence[TextWindow]) -> BatchVectors:
    """The vectors of windows; ELMo reads sentence by sentence, as it was trained to."""
    parts = [list(parts_of(piece.passage.context, piece.window)) for piece in pieces]
    sentences = list(dict.fromkeys(sentence for each in parts for sentence, _, _ in each))
    vectors = inputs(sentences)
    padding, width = vectors.mask.numel(), vectors.mask.shape[1]
    begins = {sentence: row * width for row, sentence in enumerate(sentences)}
    # Where each word of each window stands among all words, (windows, words).
    rows = [
        torch.tensor([begins[words] + at for words, *span in each for at in range(*span)])
        for each in parts
    ]
    places = pad_sequence(rows, batch_first=True, padding_value=padding)
    at_output = vectors.at_output
    return BatchVectors(
        at_each_word(vectors.at_input.flatten(0, 1), places),
        None if at_output is None else at_each_word(at_output.flatten(0, 1), places),
        (places < padding).to(inputs.device),
    )


def parts_of(context: Sequence[Words], window: Window) -> Iterator[tuple[Words, int, int]]:
    """The sentences of a text that a window holds words of, and the first and the end of these.

    >>> list(parts_of([("a", "b", "c"), ("d",), ("e", "f")], Window(2, 5)))[-1]
    (('e', 'f'), 0, 1)
    """
    before = 0
    for sentence in context:
        first = max(window.first - before, 0)
        end = min(window.end - before, len(sentence))
        if first < end:
            yield sentence, first, end
        before += len(sentence)
