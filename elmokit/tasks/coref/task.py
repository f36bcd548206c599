"""Coreference resolution: which spans of a document speak of the same."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, islice
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from elmokit.errors import ElmoWarning, InputError
from elmokit.system import counted, import_extra
from elmokit.tasks.coref.documents import Cluster, Document, Span, make_clusters, segments
from elmokit.tasks.coref.network import (
    CorefNetwork,
    ReadWords,
    antecedent_loss,
    best_antecedents,
    prune,
)
from elmokit.tasks.coref.scores import CorefScore, GapScore, score_clusters, score_pronouns
from elmokit.tasks.examples import Labels, Words, groups_within, size_of
from elmokit.tasks.inputs import Sizes
from elmokit.tasks.task import (
    ParsedInput,
    Prediction,
    Task,
    TaskModel,
    TextSpan,
    bracketed,
    check_has_words,
    sentences_of,
    starts_of,
    words_of,
)
from elmokit.text.characters import batch_by_length
from elmokit.text.tokenizer import Tokenizer


def linked_clusters(
    spans: Sequence[Span], antecedents: Sequence[int | None], alone: Sequence[bool] | None = None
) -> tuple[Cluster, ...]:
    """Clusters of the spans that antecedents, numbers of earlier ones, link.

    `alone` is whether each span is a mention even if nothing is linked to it; without it none is.

    >>> spans = [Span(0, 1), Span(2, 3), Span(4, 5)]
    >>> linked_clusters(spans, [None, None, 0])
    ((Span(start=0, end=1), Span(start=4, end=5)),)
    """
    cluster_of: list[int] = []
    members: list[list[int]] = []
    for number, antecedent in enumerate(antecedents):
        if antecedent is None:
            cluster_of.append(len(members))
            members.append([number])
        else:
            cluster_of.append(cluster_of[antecedent])
            members[cluster_of[antecedent]].append(number)
    kept = (some for some in members if len(some) > 1 or (alone is not None and alone[some[0]]))
    return make_clusters([spans[number] for number in some] for some in kept)


def cluster_numbers(clusters: Sequence[Cluster], spans: Sequence[Span]) -> list[int]:
    """The number of each span's cluster, -1 where it has none."""
    numbers = {span: number for number, cluster in enumerate(clusters) for span in cluster}
    return [numbers.get(span, -1) for span in spans]


Clusters = tuple[Cluster, ...]
READ_AT_ONCE = 4096  # words, padding counted, of the sentences that are read together
LONGEST_DOCUMENT = 20_000
"""Words beyond which a document is resolved in parts, so that any length fits into memory."""


@dataclass(frozen=True, slots=True)
class CorefPrediction(Prediction):
    """The clusters of a document."""

    words: Words
    clusters: tuple[tuple[TextSpan, ...], ...]
    text: str | None = None  # the raw text; None where words were given
    sentences: tuple[int, ...] = (0,)  # the first word of each sentence

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {
            "words": list(self.words),
            "clusters": [[mention._asdict() for mention in cluster] for cluster in self.clusters],
        }

    def to_text(self) -> str:
        """The text with brackets around all mentions, and the number of the cluster in each.

        >>> ann, she = TextSpan("Ann", 0, 1, None, None), TextSpan("she", 2, 3, None, None)
        >>> CorefPrediction(("Ann", "says", "she", "can"), ((ann, she),)).to_text()
        '[1 Ann] says [1 she] can'
        """
        numbered = enumerate(self.clusters, start=1)
        marks = ((str(number), mention) for number, cluster in numbered for mention in cluster)
        return bracketed(self.text, self.words, marks)


class CorefTask(Task[Document, CorefNetwork, Clusters]):
    """Clusters of the mentions in each document. There are no labels."""

    kind = "coref"

    @classmethod
    def labels_of(cls, examples: Sequence[Document]) -> Labels:
        """None; but without any link between mentions, there is nothing to learn."""
        if not any(len(cluster) > 1 for each in examples for cluster in each.clusters or ()):
            where = f"{examples[0].place} and after: " if examples else ""
            raise InputError(
                f"{where}no document has two mentions of the same; give a file that has some"
            )
        return Labels(())

    @classmethod
    def group_of(cls, example: Document) -> Hashable:
        """The document that it is a part of; what asks about a text, by the text."""
        return example.sentences if example.question is not None else example.identity

    def prepare(self, examples: Sequence[Document]) -> list[Document]:
        """The same, without mentions that corefer with nothing unless they are to be found."""
        import_extra("scipy.optimize", "tasks")  # the scores need it: not to fail after an epoch
        prepared = self._with_wanted_mentions(examples)
        if examples and not any(each.clusters or each.question for each in prepared):
            raise InputError(
                f"{examples[0].place} and after: no document has a mention that corefers with "
                "another; give a file of coreference"
            )
        return prepared

    def _with_wanted_mentions(self, examples: Sequence[Document]) -> list[Document]:
        if self.config.coref.singletons:
            return list(examples)
        alone = sum(len(cluster) == 1 for each in examples for cluster in each.clusters or ())
        if alone:
            warnings.warn(
                f"{examples[0].place} and after: mentions that corefer with nothing are left out: "
                f"{alone:,}; --set coref.singletons=true learns them",
                ElmoWarning,
                stacklevel=3,
            )
        return [
            replace(each, clusters=tuple(one for one in each.clusters or () if len(one) > 1))
            for each in examples
        ]

    def for_training(self, examples: Sequence[Document]) -> list[Document]:
        """Long documents in segments."""
        most = self.config.coref.segment_words
        return [part for example in examples for part in segments(example, most)]

    def make_network(self, sizes: Sizes) -> CorefNetwork:
        """Span ranking."""
        return CorefNetwork(sizes, self.config.network, self.config.coref)

    def loss(self, model: TaskModel[CorefNetwork], examples: Sequence[Document]) -> Tensor:
        """-log p of right antecedents, and of what is a mention where that is wanted.

        The sum of both, of the first over kept spans and of the second over all spans there are,
        is divided by the number of kept ones.
        """
        total = torch.zeros((), device=model.inputs.device)
        kept = 0
        for example, words in zip(examples, read_words(model, examples), strict=True):
            spans = self._kept(words, example.given_spans)
            clusters = example.clusters or ()
            numbers = torch.tensor(cluster_numbers(clusters, spans), device=total.device)
            for antecedents in model.network.antecedents(model.network.keep(words, spans)):
                total = total + antecedent_loss(antecedents, numbers)
            # Of a question's document not all mentions are known.
            if self.config.coref.mention_loss and example.question is None:
                total = total + self.config.coref.mention_loss * mention_loss(words, clusters)
            kept += len(spans)
        return total / kept

    def guess(self, model: TaskModel[CorefNetwork], examples: Sequence[Document]) -> list[Clusters]:
        """The clusters of each document."""
        cut = [segments(example, LONGEST_DOCUMENT) for example in examples]
        note_parts(examples, cut)
        groups = groups_within(
            LONGEST_DOCUMENT, chain.from_iterable(cut), lambda some: sum(map(size_of, some))
        )
        resolved = chain.from_iterable(self._resolved(model, some) for some in groups)
        return [joined_parts(parts, list(islice(resolved, len(parts)))) for parts in cut]

    def score(
        self, examples: Sequence[Document], guesses: Sequence[Clusters]
    ) -> CorefScore | GapScore:
        """The mean F1 of three measures; of GAP, the F1 of names."""
        questions = [each.question for each in examples if each.question is not None]
        if not questions:
            return score_clusters([each.clusters or () for each in examples], guesses)
        if len(questions) < len(examples):
            raise InputError(
                f"{examples[0].place} and after: rows of GAP and complete documents have different "
                "scores; evaluate them apart"
            )
        return score_pronouns(questions, guesses)

    def parse_input(self, item: Any, tokenizer: Tokenizer, place: str) -> ParsedInput:
        """A text, its words, or the words of each of its sentences."""
        if isinstance(item, Sequence) and not any(isinstance(each, str) for each in item):
            sentences = (
                words_of(words, tokenizer, f"{place}, sentence {number}")
                for number, words in enumerate(item, start=1)
            )
            parsed = ParsedInput([words for words in sentences if words])
        else:
            parsed = sentences_of(item, tokenizer, place)
        document = Document(tuple(parsed.examples), None, place)
        check_has_words(document.words, place)
        return parsed._replace(examples=[document])

    def merge_predictions(
        self, parsed: ParsedInput, predictions: Sequence[Clusters]
    ) -> CorefPrediction:
        """The clusters with the words of their mentions, and their places in the raw text."""
        [document], [clusters] = parsed.examples, predictions
        words = document.words
        mentions = tuple(
            tuple(parsed.locate(words, *span) for span in cluster) for cluster in clusters
        )
        return CorefPrediction(words, mentions, parsed.text, starts_of(document.sentences))

    def _kept(self, words: ReadWords, given: Sequence[Span]) -> list[Span]:
        """The best spans that do not cross one another; where some are given, those alone.

        Of a document with a question nothing else is known to be a mention, or to be none: whatever
        was learnt of other spans would be wrong.
        """
        scores = words.scores.detach()
        if given:
            return [span for span in sorted(set(given)) if may_be_kept(scores, span)]
        places = (scores > -torch.inf).nonzero()
        order = scores[places[:, 0], places[:, 1]].argsort(descending=True, stable=True)
        best_first = (Span(start, start + width + 1) for start, width in places[order].tolist())
        most = max(1, round(self.config.coref.spans_per_word * len(words.attention)))
        return prune(best_first, most)

    def _resolved(
        self, model: TaskModel[CorefNetwork], documents: Sequence[Document]
    ) -> Iterator[Clusters]:
        """The clusters of each of some documents, which are read together."""
        for document, words in zip(documents, read_words(model, documents), strict=True):
            spans = self._kept(words, document.given_spans)
            kept = model.network.keep(words, spans)
            best = map(best_antecedents, model.network.antecedents(kept))
            alone = (kept.scores > 0).tolist() if self.config.coref.singletons else None
            yield linked_clusters(spans, list(chain.from_iterable(best)), alone)


def note_parts(documents: Sequence[Document], cut: Sequence[Sequence[Document]]) -> None:
    """Say it where documents are too long to be resolved at once."""
    for document, parts in zip(documents, cut, strict=True):
        if len(parts) > 1:
            warnings.warn(
                f"{document.place}: is longer than {LONGEST_DOCUMENT:,} words, and read in "
                f"{counted(len(parts), 'part')}, between which nothing is linked",
                ElmoWarning,
                stacklevel=2,
            )


def may_be_kept(scores: Tensor, span: Span) -> bool:
    """Whether a span is within one sentence, and not too long."""
    width = span.end - span.start - 1
    return width < scores.shape[1] and bool(scores[span.start, width] > -torch.inf)


def joined_parts(parts: Sequence[Document], clusters: Sequence[Clusters]) -> Clusters:
    """The clusters of a document out of those of its parts."""
    begins = accumulate(map(size_of, parts[:-1]), initial=0)
    return tuple(
        tuple(span.moved(begin) for span in cluster)
        for begin, own in zip(begins, clusters, strict=True)
        for cluster in own
    )


def read_words(
    model: TaskModel[CorefNetwork], documents: Sequence[Document]
) -> Iterator[ReadWords]:
    """What the network knows of the words of each document; sentences are read by length."""
    sentences = [words for document in documents for words in document.sentences]
    lengths = [len(words) for words in sentences]
    by_sentence: dict[int, tuple[Tensor, ...]] = {}
    for batch in batch_by_length(lengths, READ_AT_ONCE, len(sentences)):
        read = model.network.read(model.inputs([sentences[number] for number in batch]))
        apart = (part.split_with_sizes([lengths[number] for number in batch]) for part in read)
        by_sentence.update(zip(batch, zip(*apart, strict=True), strict=True))
    in_order = (by_sentence[number] for number in range(len(sentences)))
    for document in documents:
        own = islice(in_order, len(document.sentences))
        yield ReadWords(*(torch.cat(part) for part in zip(*own, strict=True)))


def mention_loss(words: ReadWords, clusters: Sequence[Cluster]) -> Tensor:
    """-log p of each span being a mention or none, summed; a scalar."""
    right = torch.zeros(words.scores.shape, device=words.scores.device)
    for start, end in chain.from_iterable(clusters):
        if end - start <= right.shape[1]:
            right[start, end - start - 1] = 1.0
    there = words.scores > -torch.inf
    return functional.binary_cross_entropy_with_logits(
        words.scores[there], right[there], reduction="sum"
    )
