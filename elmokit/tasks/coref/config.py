"""The settings that only coreference has."""

from __future__ import annotations

from dataclasses import dataclass

from elmokit.config import check_above_zero, check_flag, check_number, check_size


@dataclass(frozen=True)
class CorefConfig:
    """What is a span, how many are kept, and what each may refer back to."""

    longest_span: int = 10
    """The most words of a mention: L in the paper."""
    spans_per_word: float = 0.4
    """How many spans are kept for each word of a document: lambda in the paper."""
    antecedents: int = 50
    """How many earlier spans are looked at closely for each span, chosen by the coarse score."""
    antecedent_window: int = 1000
    """How many kept spans back an antecedent may be."""
    span_size: int | None = None
    """Spans are projected to this size before pairs are scored; None for as large as they are."""
    scorer_size: int = 150
    """Of both hidden layers of the mention scorer and of the antecedent scorer."""
    feature_size: int = 20
    """Of the vectors for the width of a span and for the distance of two."""
    mention_loss: float = 0.0
    """How much it counts in the loss whether each span is a mention: -log p of that, summed over
    all spans there are, is divided by the number of kept ones, as -log p of antecedents is."""
    singletons: bool = False
    """Whether mentions that corefer with nothing are learnt and found; if not, they are left out
    of the data too."""
    segment_words: int = 1000
    """Longer documents are cut between sentences to be trained on; longer sentences too."""

    def __post_init__(self) -> None:
        for name in ("longest_span", "antecedents", "antecedent_window", "segment_words"):
            check_size(name, getattr(self, name))
        for name in ("scorer_size", "feature_size"):
            check_size(name, getattr(self, name))
        if self.span_size is not None:
            check_size("span_size", self.span_size)
        check_above_zero("spans_per_word", self.spans_per_word)
        check_number("mention_loss", self.mention_loss)
        check_flag("singletons", self.singletons)
