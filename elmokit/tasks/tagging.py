"""The task with a tag for each word: parts of speech, or entities."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from elmokit.errors import InputError
from elmokit.system import counted
from elmokit.tasks.examples import Labels, TaggedSentence
from elmokit.tasks.inputs import BatchVectors, Sizes, join_output
from elmokit.tasks.networks.crf import LinearChainCRF, chain_of, check_allowed, viterbi
from elmokit.tasks.predictions import TagPrediction, as_bio, entities_of
from elmokit.tasks.recurrent import BidirectionalLSTM, VariationalDropout
from elmokit.tasks.scores import Accuracy, Score, score_spans, score_words
from elmokit.tasks.tags import (
    OUTSIDE,
    Scheme,
    allowed_transitions,
    convert,
    convert_sentences,
    entity_tag,
    entity_types,
    scheme_tags,
    shown_type,
)
from elmokit.tasks.task import Given, Task, TaskModel, words_of
from elmokit.text.tokenizer import Tokenizer


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

    def forward(self, words: BatchVectors) -> Tensor:
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


SCHEME: Scheme = "IOBES"
"""How a tagger writes entities, whatever the files do: marked ends make it better."""


class TagTask(Task[TaggedSentence, Tagger, tuple[str, ...]]):
    """A tag for each word: parts of speech, or entities, which the tags themselves tell."""

    kind = "tags"

    @classmethod
    def labels_of(cls, examples: Sequence[TaggedSentence]) -> Labels:
        """Those that occur; of entities, every tag of each type."""
        names = set(chain.from_iterable(example.labels for example in examples))
        if not names or not are_entities(names):
            check_not_mixed(names, examples)
            return Labels.from_examples(examples)
        try:
            return Labels(scheme_tags(entity_types(names), SCHEME))
        except InputError as error:
            raise InputError(f"{examples[0].place} and after: {error}") from None

    @classmethod
    def group_of(cls, example: TaggedSentence) -> Hashable:
        """Its words: a sentence that comes again would give its tags away."""
        return example.words

    @property
    def entities(self) -> bool:
        """Whether tags are those of entities."""
        return are_entities(self.labels.names)

    def labels_said(self) -> str:
        """How many tags there are, or types of entities: how a tagger writes these is its own."""
        if not self.entities:
            return counted(len(self.labels), "tag")
        return f"{counted(len(self.types) - 1, 'type')} of entities"

    @property
    def types(self) -> Labels:
        """Outside, and the types of entities."""
        shown = map(shown_type, entity_types(self.labels.names))
        return Labels(tuple(dict.fromkeys((OUTSIDE, *shown))))

    def prepare(self, examples: Sequence[TaggedSentence]) -> list[TaggedSentence]:
        """Entities as IOBES; every tag being known."""
        prepared = convert_sentences(examples, SCHEME) if self.entities else list(examples)
        types = self.types if self.entities else None
        for example in prepared:
            if example.tags is None:
                raise InputError(f"{example.place}: has no tags; give a file of tagged sentences")
            if types is not None:
                types.numbers(types_of(example.tags), example.place)
            else:
                self.labels.numbers(example.tags, example.place)
        return prepared

    def make_network(self, sizes: Sizes) -> Tagger:
        """BiLSTM, with a CRF that allows legal sequences alone, or without."""
        network = self.config.network
        return Tagger(
            sizes,
            len(self.labels),
            hidden=network.hidden,
            layers=network.layers,
            dropout=network.dropout,
            crf=network.crf,
            allowed=self._allowed() if self.entities else None,
        )

    def _allowed(self) -> Tensor:
        """Which tag may follow which, (tags + 2, tags + 2)."""
        return torch.from_numpy(allowed_transitions(self.labels.names))

    def loss(self, model: TaskModel[Tagger], examples: Sequence[TaggedSentence]) -> Tensor:
        """-log p of the tags: of sentences with a CRF, of words without."""
        words = model.inputs([example.words for example in examples])
        numbers = np.zeros(words.mask.shape, dtype=np.int64)
        for row, example in zip(numbers, examples, strict=True):
            row[: len(example.words)] = self.labels.numbers(example.labels, example.place)
        tags = torch.from_numpy(numbers).to(words.mask.device)
        return model.network.loss(model.network(words), tags, words.mask)

    def guess(
        self, model: TaskModel[Tagger], examples: Sequence[TaggedSentence]
    ) -> list[tuple[str, ...]]:
        """The best tags of each sentence, in the network's own scheme."""
        words = model.inputs([example.words for example in examples])
        return self._named(model.network.decode(model.network(words), words.mask))

    def predict(
        self, model: TaskModel[Tagger], examples: Sequence[TaggedSentence]
    ) -> list[TagPrediction]:
        """The best tags of each sentence, and the probabilities of all for each word."""
        words = model.inputs([example.words for example in examples])
        emissions = model.network(words)
        guesses = self._named(model.network.decode(emissions, words.mask))
        probabilities = model.network.probabilities(emissions, words.mask).cpu().double().tolist()
        return [
            self._prediction(example, guess, rows)
            for example, guess, rows in zip(examples, guesses, probabilities, strict=True)
        ]

    def _prediction(
        self, example: TaggedSentence, guess: Sequence[str], rows: Sequence[Sequence[float]]
    ) -> TagPrediction:
        tags = convert(guess, "BIO") if self.entities else tuple(guess)
        shown = tuple(self._shown(row) for row in rows[: len(example.words)])
        return TagPrediction(example.words, tags, shown)

    def _shown(self, probabilities: Sequence[float]) -> dict[str, float]:
        """The probabilities of one word's tags, those of entities added up to BIO's."""
        if not self.entities:
            return dict(zip(self.labels.names, probabilities, strict=True))
        sums: dict[str, float] = {}
        for name, probability in zip(self.labels.names, probabilities, strict=True):
            sums[as_bio(name)] = sums.get(as_bio(name), 0.0) + probability
        return sums

    def _named(self, numbers: Sequence[Sequence[int]]) -> list[tuple[str, ...]]:
        return [tuple(self.labels.names[number] for number in row) for row in numbers]

    def score(
        self, examples: Sequence[TaggedSentence], guesses: Sequence[tuple[str, ...]]
    ) -> Score:
        """F1 of entities, or the accuracy of words."""
        expected = [example.labels for example in examples]
        if self.entities:
            return score_spans(expected, guesses)
        return score_words(self.labels, expected, guesses)

    def confusion(
        self, examples: Sequence[TaggedSentence], guesses: Sequence[tuple[str, ...]]
    ) -> Accuracy:
        """What words were taken for: tags, or types of entities."""
        expected = [example.labels for example in examples]
        if not self.entities:
            return score_words(self.labels, expected, guesses)
        return score_words(self.types, list(map(types_of, expected)), list(map(types_of, guesses)))

    def given(self, item: Any, tokenizer: Tokenizer, place: str) -> Given:
        """A text, whose sentences are tagged one by one, or the words of one sentence."""
        if not isinstance(item, str):
            words = words_of(item, tokenizer, place)
            return Given([TaggedSentence(words, None, place)] if words else [])
        sentences = tokenizer.sentences(item)
        examples = [
            TaggedSentence(tuple(token.text for token in tokens), None, place)
            for tokens in sentences
        ]
        offsets = ((token.start, token.end) for tokens in sentences for token in tokens)
        return Given(examples, item, tuple(offsets))

    def joined(self, given: Given, predictions: Sequence[TagPrediction]) -> TagPrediction:
        """The sentences of a text in one."""
        words = tuple(chain.from_iterable(each.words for each in predictions))
        tags = tuple(chain.from_iterable(each.tags for each in predictions))
        offsets = None if given.text is None else given.offsets
        return TagPrediction(
            words,
            tags,
            tuple(chain.from_iterable(each.probabilities for each in predictions)),
            offsets,
            entities_of(words, tags, offsets, given.text) if self.entities else None,
        )


def are_entities(names: Sequence[str] | set[str]) -> bool:
    """Whether all tags are those of entities."""
    return all(entity_tag(name) is not None for name in names)


def check_not_mixed(names: set[str], examples: Sequence[TaggedSentence]) -> None:
    """Refuse entities with another tag among them: one slip, and none would be found again."""
    entities = sorted(name for name in names if "-" in name and entity_tag(name) is not None)
    if not entities:
        return
    for example in examples:
        for number, (word, name) in enumerate(zip(example.words, example.labels, strict=True), 1):
            if entity_tag(name) is None:
                raise InputError(
                    f"{example.place}: word {number} of the sentence that begins here, {word!r}, "
                    f"has the tag {name[:40]!r}, which is no entity's, as {entities[0]!r} and "
                    "others are; use O, or B-, I-, E- or S- and a type for every word"
                )


def types_of(tags: Sequence[str]) -> tuple[str, ...]:
    """The type of entity that each word belongs to, or O."""
    parts = (entity_tag(name) for name in tags)
    return tuple(
        OUTSIDE if part is None or part.mark == OUTSIDE else shown_type(part.type) for part in parts
    )
