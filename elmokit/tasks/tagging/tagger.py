"""A tag for each word: bidirectional LSTM, and a CRF or a softmax."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from elmokit.tasks.recurrent import BidirectionalLSTM, VariationalDropout
from elmokit.tasks.tagging.crf import LinearChainCRF, chain_of, check_allowed, viterbi
from elmokit.tasks.word_vectors import Sizes, WordVectors, join_output


class Tagger(nn.Module):
    """LSTM layers, dropout, a dense layer that gives emissions; a CRF or a softmax over those.

    ELMo at the output is joined to the outputs of the last LSTM layer.

    Args:
        sizes: Of the word vectors.
        tags: How many.
        hidden: Cells of each direction of the LSTM layers: 200 in the paper's entity recogniser.
        layers: Of the LSTM.
        dropout: Variational, between the layers and of the last one's outputs.
        crf: Whether tags are chosen together, by a CRF, or each by a softmax of its own.
        allowed: (tags + 2, tags + 2) bool, from and to, the last two are start and end: which tag
            may follow which. A CRF learns with it; both decode nothing else. None for any.
    """

    allowed: Tensor | None

    def __init__(
        self,
        sizes: Sizes,
        tags: int,
        *,
        hidden: int,
        layers: int,
        dropout: float,
        crf: bool,
        allowed: Tensor | None = None,
    ) -> None:
        super().__init__()
        if allowed is not None:
            check_allowed(allowed, tags)
        self.context = BidirectionalLSTM(
            sizes.at_input, hidden=hidden, layers=layers, dropout=dropout
        )
        self.dropout = VariationalDropout(dropout)
        self.emission = nn.Linear(self.context.output_size + sizes.at_output, tags)
        self.crf = LinearChainCRF(tags, allowed) if crf else None
        self.register_buffer("allowed", allowed, persistent=False)

    def forward(self, words: WordVectors) -> Tensor:
        """Emissions (sentences, words, tags): what each tag scores at each word."""
        contexts = self.dropout(self.context(words.at_input, words.mask))
        return self.emission(join_output(contexts, words))

    def loss(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """-log p of tags (sentences, words): mean per sentence of a CRF, per word of a softmax.

        Whatever stands on padding does not count.
        """
        if self.crf is not None:
            return -self.crf.log_likelihood(emissions, tags, mask).mean()
        total = functional.cross_entropy(emissions[mask], tags[mask], reduction="sum")
        return total / mask.sum().clamp(min=1)

    def decode(self, emissions: Tensor, mask: Tensor) -> list[list[int]]:
        """The best tags of each sentence, as many as it has words."""
        if self.crf is not None:
            return self.crf.decode(emissions, mask)
        if self.allowed is not None:
            any_score = emissions.new_zeros(self.allowed.shape)
            return viterbi(emissions, mask, chain_of(any_score, self.allowed))
        tags, lengths = emissions.argmax(-1).tolist(), mask.sum(1).tolist()
        return [row[:length] for row, length in zip(tags, lengths, strict=True)]

    def probabilities(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """The p of each tag at each word (sentences, words, tags), 0 on padding.

        Those of a CRF are marginals; those of a softmax do not know of `allowed`.
        """
        if self.crf is not None:
            return self.crf.marginals(emissions, mask)
        return emissions.softmax(-1).masked_fill(~mask.unsqueeze(-1), 0)
