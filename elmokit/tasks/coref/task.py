"""The task of coreference: which spans of a document speak of the same."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import accumulate, chain, islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from elmokit.errors import ElmoWarning, InputError
from elmokit.system import counted, import_extra
from elmokit.tasks.config import FilesConfig
from elmokit.tasks.coref.documents import (
    Cluster,
    Document,
    Span,
    make_clusters,
    segments,
    without_singletons,
)
from elmokit.tasks.coref.network import (
    CorefNetwork,
    ReadWords,
    antecedent_loss,
    best_antecedents,
    prune,
)
from elmokit.tasks.coref.predictions import CorefPrediction, mentions_of
from elmokit.tasks.coref.scores import CorefScore, GapScore, score_clusters, score_pronouns
from elmokit.tasks.examples import Labels, Words, size_of
from elmokit.tasks.files.conll import read_conll_coref
from elmokit.tasks.files.examples import fixed_format_of
from elmokit.tasks.files.gap import read_gap
from elmokit.tasks.inputs import Sizes
from elmokit.tasks.task import Given, Task, TaskModel, check_has_words, check_words
from elmokit.text.batching import batch_by_length
from elmokit.text.characters import short
from elmokit.text.tokenizer import Tokenizer


def linked_clusters(
    spans: Sequence[Span], antecedents: Sequence[int | None], alone: Sequence[bool] | None = None
) -> tuple[Cluster, ...]:
    """Clusters of the spans that antecedents link.

    Args:
        spans: In the order of the document.
        antecedents: The number of the earlier span that each refers back to; None for none.
        alone: Whether each span is a mention even if nothing is linked to it. Without it none is.

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
READ_AT_ONCE = 4096
"""Words, padding counted, of the sentences that are read together."""
LONGEST_DOCUMENT = 20_000
"""Words beyond which a document is resolved in parts, so that any length fits into memory."""


class CorefTask(Task[Document, CorefNetwork, Clusters]):
    """Clusters of the mentions in each document. There are no labels."""

    kind = "coref"

    @classmethod
    def read(cls, path: str | Path, files: FilesConfig, tokenizer: Tokenizer) -> list[Document]:
        """The documents of a file of CoNLL-2012, or the rows of one of GAP."""
        if fixed_format_of(cls.kind, path, files) == "gap":
            return read_gap(
                path, tokenizer, encoding=files.encoding, skip_bad_rows=files.skip_bad_rows
            )
        return read_conll_coref(path, encoding=files.encoding)

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
        return example.sentences if example.question is not None else example.whole

    def prepare(self, examples: Sequence[Document]) -> list[Document]:
        """The same, without mentions that corefer with nothing unless they are to be found."""
        import_extra("scipy.optimize", "tasks")  # the scores need it: not to fail after an epoch
        for example in examples:
            if example.clusters is None:
                raise InputError(f"{example.place}: has no clusters; give a file of coreference")
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
        return [without_singletons(example) for example in examples]

    def for_training(self, examples: Sequence[Document]) -> list[Document]:
        """Long documents in segments."""
        most = self.config.coref.segment_words
        return [part for example in examples for part in segments(example, most)]

    def make_network(self, sizes: Sizes) -> CorefNetwork:
        """Span ranking."""
        network = self.config.network
        return CorefNetwork(
            sizes,
            self.config.coref,
            hidden=network.hidden,
            layers=network.layers,
            dropout=network.dropout,
        )

    def loss(self, model: TaskModel[CorefNetwork], examples: Sequence[Document]) -> Tensor:
        """-log p of right antecedents, and of what is a mention where that is wanted.

        The sum of both, of the first over kept spans and of the second over all spans there are,
        is divided by the number of kept ones.
        """
        total = torch.zeros((), device=model.inputs.device)
        count = 0
        for example, words in zip(examples, read_words(model, examples), strict=True):
            spans = self._kept(words, example.given_spans)
            clusters = example.clusters or ()
            numbers = torch.tensor(cluster_numbers(clusters, spans), device=total.device)
            for antecedents in model.network.antecedents(model.network.keep(words, spans)):
                total = total + antecedent_loss(antecedents, numbers)
            # Of a question's document not all mentions are known.
            if self.config.coref.mention_loss and example.question is None:
                total = total + self.config.coref.mention_loss * mention_loss(words, clusters)
            count += len(spans)
        return total / count

    def guess(self, model: TaskModel[CorefNetwork], examples: Sequence[Document]) -> list[Clusters]:
        """The clusters of each document."""
        cut = [segments(example, LONGEST_DOCUMENT) for example in examples]
        note_parts(examples, cut)
        resolved = chain.from_iterable(
            self._resolved(model, some) for some in in_groups(chain.from_iterable(cut))
        )
        return [joined_parts(parts, list(islice(resolved, len(parts)))) for parts in cut]

    def predict(
        self, model: TaskModel[CorefNetwork], examples: Sequence[Document]
    ) -> list[CorefPrediction]:
        """The clusters of each document, with the words of their mentions."""
        return [
            CorefPrediction(example.words, mentions_of(clusters, example.words))
            for example, clusters in zip(examples, self.guess(model, examples), strict=True)
        ]

    def score(
        self, examples: Sequence[Document], guesses: Sequence[Clusters]
    ) -> CorefScore | GapScore:
        """The mean F1 of three measures; of GAP, the F1 of names."""
        questions = [each.question for each in examples if each.question is not None]
        if not questions:
            return score_clusters([each.clusters or () for each in examples], guesses)
        if len(questions) < len(examples):
            raise InputError(
                f"{examples[0].place} and after: rows of GAP and whole documents have different "
                "scores; evaluate them apart"
            )
        return score_pronouns(questions, guesses)

    def given(self, item: Any, tokenizer: Tokenizer, place: str) -> Given:
        """A text, its words, or the words of each of its sentences."""
        if isinstance(item, str):
            tokens = tokenizer.sentences(item)
            sentences = tuple(tuple(token.text for token in some) for some in tokens)
            offsets = tuple((token.start, token.end) for some in tokens for token in some)
        else:
            sentences, offsets = sentences_of(item, place), ()
        words = tuple(chain.from_iterable(sentences))
        check_words(words, place)
        check_has_words(words, place)
        text = item if isinstance(item, str) else None
        return Given([Document(sentences, None, place)], text, offsets)

    def joined(self, given: Given, predictions: Sequence[CorefPrediction]) -> CorefPrediction:
        """The prediction, with the places of mentions in the raw text."""
        [prediction] = predictions
        return prediction if given.text is None else prediction.within(given.text, given.offsets)

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
    """Say it where documents are too long to be resolved whole."""
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


def in_groups(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Documents in lists, each of no more words than the longest document may have."""
    group: list[Document] = []
    room = LONGEST_DOCUMENT
    for document in documents:
        size = size_of(document)
        if group and size > room:
            yield group
            group, room = [], LONGEST_DOCUMENT
        group.append(document)
        room -= size
    if group:
        yield group


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
    """What the network knows of the words of each document, in their order.

    Sentences of similar length are read together, whichever document they are of.
    """
    sentences = [words for document in documents for words in document.sentences]
    lengths = [len(words) for words in sentences]
    batches = batch_by_length(lengths, READ_AT_ONCE, len(sentences))
    parts = [
        model.network.read(model.inputs([sentences[number] for number in batch]))
        for batch in batches
    ]
    # Where the words of each sentence are in what was read.
    starts, total = [0] * len(sentences), 0
    for number in chain.from_iterable(batches):
        starts[number] = total
        total += lengths[number]
    joined = [torch.cat(part) for part in zip(*parts, strict=True)]
    number = 0
    for document in documents:
        some = range(number, number + len(document.sentences))
        number = some.stop
        rows = [row for n in some for row in range(starts[n], starts[n] + lengths[n])]
        places = torch.tensor(rows, device=joined[0].device)
        yield ReadWords(*(part.index_select(0, places) for part in joined))


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


def sentences_of(item: Any, place: str) -> tuple[Words, ...]:
    """Sentences of words: those given, or the one that is."""
    if isinstance(item, Sequence):
        if all(isinstance(word, str) for word in item):
            return (tuple(item),) if item else ()
        if all(isinstance(some, Sequence) and not isinstance(some, str) for some in item):
            sentences = tuple(tuple(some) for some in item if some)
            if all(isinstance(word, str) for some in sentences for word in some):
                return sentences
    raise InputError(f"{place}: is {short(item)}; give a text, or a list of words or of sentences")
