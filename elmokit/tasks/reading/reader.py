"""Where a text answers a question: BiDAF with self-attention (Clark and Gardner 2018)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmokit.config import check_number, check_size
from elmokit.tasks.reading.spans import SpanScores
from elmokit.tasks.recurrent import BidirectionalLSTM, VariationalDropout
from elmokit.tasks.word_vectors import Sizes, WordVectors, join_output


class Reader(nn.Module):
    """Encoder, attention to the question and back, self-attention, a score of starts and of ends.

    A window of a text is encoded once for all questions that are given with it. ELMo at the
    output is joined to the encoder's outputs: the ELMo paper adds it to the input and the output of
    this layer. Dropout is variational, before each LSTM and each dense layer, but not behind the
    LSTMs of answers.

    Args:
        sizes: Of the word vectors, the same for texts and questions.
        hidden: Cells of each direction of the LSTMs; dense layers have twice that. The paper has 90
            (of GRUs).
        dropout: Its rate.
        answer_lstms: An LSTM before the score of starts, and one before that of ends which reads
            the first one's outputs too. The ELMo paper does without.
    """

    def __init__(
        self, sizes: Sizes, *, hidden: int, dropout: float, answer_lstms: bool = True
    ) -> None:
        super().__init__()
        check_size("hidden", hidden)
        check_number("dropout", dropout, below=1.0)
        size = 2 * hidden
        self.dropout = VariationalDropout(dropout)
        self.encoder = BidirectionalLSTM(sizes.at_input, hidden=hidden)
        encoded_size = self.encoder.output_size + sizes.at_output
        self.similarity = TrilinearSimilarity(encoded_size)
        self.merge = nn.Linear(4 * encoded_size, size)
        self.self_encoder = BidirectionalLSTM(size, hidden=hidden)
        self.self_similarity = TrilinearSimilarity(size, one_way=True)
        self.self_merge = nn.Linear(3 * size, size)
        self.start_lstm = BidirectionalLSTM(size, hidden=hidden) if answer_lstms else None
        self.end_lstm = BidirectionalLSTM(2 * size, hidden=hidden) if answer_lstms else None
        # Without a bias: a softmax does not notice what is added to all its scores.
        self.start = nn.Linear(size, 1, bias=False)
        self.end = nn.Linear(size, 1, bias=False)

    def forward(
        self, windows: WordVectors, questions: WordVectors, window_rows: Tensor, asked_rows: Tensor
    ) -> SpanScores:
        """Scores (rows, words): of the words of a window, for a question.

        Args:
            windows: Those of texts.
            questions: Questions.
            window_rows: The window that each row reads, (rows,).
            asked_rows: The question that each row asks, (rows,).
        """
        asked = self.encode(questions).index_select(0, asked_rows)
        mask, asked_mask = windows.mask[window_rows], questions.mask[asked_rows]
        read = self.attend_to_question(self.encode(windows), window_rows, asked, mask, asked_mask)
        return self.score(read + self.attend_to_itself(read, mask), mask)

    def encode(self, words: WordVectors) -> Tensor:
        """The words in their context, (sentences, words, size), ELMo at the output included."""
        return join_output(self.encoder(self.dropout(words.at_input), words.mask), words)

    def attend_to_question(
        self,
        windows: Tensor,
        window_rows: Tensor,
        asked: Tensor,
        mask: Tensor,
        asked_mask: Tensor,
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
        summary = attend_where(nearest.unsqueeze(1), texts, mask.unsqueeze(1))

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
        attended = attend_where(self.self_similarity(encoded, encoded), encoded, others)
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

    Args:
        size: Of the vectors.
        one_way: Leave out w₁·a, which a softmax over all b does not notice.
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


def attend_where(scores: Tensor, vectors: Tensor, allowed: Tensor) -> Tensor:
    """Sum (rows, words, size) by softmax(scores) (rows, queries, words) over what is allowed.

    Where nothing is, as for a text of one word that looks for others, the sum is 0.
    """
    return softmax_where(scores, allowed) @ vectors


def softmax_where(scores: Tensor, allowed: Tensor) -> Tensor:
    """Shares (rows, queries, words) of what is allowed; none where nothing is."""
    shares = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min).softmax(-1)
    return shares.masked_fill(~allowed, 0)
