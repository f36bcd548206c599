"""Tasks of labels: the class of a text or of a pair of sentences, a tag for each word."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, pairwise
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from elmokit.errors import InputError
from elmokit.system import counted
from elmokit.tasks.config import NetworkConfig
from elmokit.tasks.examples import Labels, Offsets, PairExample, TaggedSentence, TextExample, Words
from elmokit.tasks.inputs import BatchVectors, Sizes, join_output
from elmokit.tasks.networks.crf import LinearChainCRF, chain_of, viterbi
from elmokit.tasks.networks.texts import BiattentiveClassifier, PairNetwork, PooledClassifier
from elmokit.tasks.recurrent import BidirectionalLSTM, VariationalDropout
from elmokit.tasks.scores import Accuracy, Score, score_labels, score_spans, score_words
from elmokit.tasks.tags import (
    OUTSIDE,
    Scheme,
    allowed_transitions,
    convert,
    entity_tag,
    entity_types,
    scheme_tags,
    shown_type,
    spans,
    types_of,
)
from elmokit.tasks.task import (
    Network,
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
from elmokit.text.characters import short
from elmokit.text.tokenizer import Tokenizer

Labelled = TypeVar("Labelled", TextExample, PairExample)


@dataclass(frozen=True, slots=True)
class LabelPrediction(Prediction):
    """The class of a text or of a pair."""

    marks_text: ClassVar[bool] = False
    label: str
    probabilities: Mapping[str, float]  # of every class

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {"label": self.label, "probabilities": dict(self.probabilities)}

    def to_text(self) -> str:
        """The class, as wide as any, and its probability.

        >>> LabelPrediction("ham", {"ham": 0.75, "spam": 0.25}).to_text()
        'ham    75.0%'
        """
        width = max(map(len, self.probabilities))
        return f"{self.label:<{width}}  {self.probabilities[self.label]:6.1%}"


class LabelTask(Task[Labelled, Network, str]):
    """Tasks with one label an example: logits, cross-entropy, accuracy."""

    unit: ClassVar[str]

    @abstractmethod
    def logits(self, model: TaskModel[Network], examples: Sequence[Labelled]) -> Tensor:
        """Scores of all classes, (examples, classes)."""

    @classmethod
    def labels_of(cls, examples: Sequence[Labelled]) -> Labels:
        """Those that occur."""
        return Labels.from_examples(examples)

    def prepare(self, examples: Sequence[Labelled]) -> list[Labelled]:
        """The same, every label being known."""
        for example in examples:
            self.labels.numbers(example.labels, example.place)
        return list(examples)

    def loss(self, model: TaskModel[Network], examples: Sequence[Labelled]) -> Tensor:
        """Cross-entropy, the mean over examples."""
        logits = self.logits(model, examples)
        numbers = self.labels.numbers(_expected(examples))
        return functional.cross_entropy(logits, torch.tensor(numbers, device=logits.device))

    def guess(self, model: TaskModel[Network], examples: Sequence[Labelled]) -> list[str]:
        """The class of the highest score."""
        return [self.labels.names[n] for n in self.logits(model, examples).argmax(-1).tolist()]

    def predict(
        self, model: TaskModel[Network], examples: Sequence[Labelled]
    ) -> list[LabelPrediction]:
        """The most probable class, and the probabilities of all."""
        probabilities = self.logits(model, examples).cpu().double().softmax(-1)
        return [
            LabelPrediction(self.labels.names[best], dict(zip(self.labels.names, row, strict=True)))
            for best, row in zip(
                probabilities.argmax(-1).tolist(), probabilities.tolist(), strict=True
            )
        ]

    def score(self, examples: Sequence[Labelled], guesses: Sequence[str]) -> Accuracy:
        """Accuracy."""
        return score_labels(self.labels, _expected(examples), guesses, unit=self.unit)

    def confusion(self, examples: Sequence[Labelled], guesses: Sequence[str]) -> Accuracy:
        """The same: an accuracy knows what was taken for what."""
        return self.score(examples, guesses)


def _expected(examples: Iterable[TextExample | PairExample]) -> list[str]:
    return [label for example in examples for label in example.labels]


class TextTask(LabelTask[TextExample, PooledClassifier | BiattentiveClassifier]):
    """A class for each text."""

    kind = "text"
    unit = "texts"

    def make_network(self, sizes: Sizes) -> PooledClassifier | BiattentiveClassifier:
        """A dense layer over pooled words, or biattention."""
        network = self.config.network
        kind = BiattentiveClassifier if network.name == "biattentive" else PooledClassifier
        return kind(sizes, len(self.labels), network)

    def logits(
        self,
        model: TaskModel[PooledClassifier | BiattentiveClassifier],
        examples: Sequence[TextExample],
    ) -> Tensor:
        """Scores of all classes, (texts, classes)."""
        return model.network(model.inputs([example.words for example in examples]))

    def parse_input(self, item: Any, tokenizer: Tokenizer, place: str) -> ParsedInput:
        """A text, or its words."""
        words = words_of(item, tokenizer, place)
        check_has_words(words, place)
        return ParsedInput([TextExample(words, None, place)])


class PairTask(LabelTask[PairExample, PairNetwork]):
    """A class for each pair of sentences."""

    kind = "pair"
    unit = "pairs"

    @classmethod
    def group_of(cls, example: PairExample) -> Hashable:
        """Its first sentence: pairs that share it are seldom of one label, so it gives one away."""
        return example.first

    def make_network(self, sizes: Sizes) -> PairNetwork:
        """ESIM."""
        return PairNetwork(sizes, len(self.labels), self.config.network)

    def logits(self, model: TaskModel[PairNetwork], examples: Sequence[PairExample]) -> Tensor:
        """Scores of all classes, (pairs, classes)."""
        first = model.inputs([example.first for example in examples])
        second = model.inputs([example.second for example in examples])
        return model.network(first, second)

    def parse_input(self, item: Any, tokenizer: Tokenizer, place: str) -> ParsedInput:
        """Two texts, or the words of two."""
        if isinstance(item, str) or not isinstance(item, Sequence) or len(item) != 2:
            raise InputError(f"{place}: is {short(item)}, not a pair; write (first, second)")
        first, second = (words_of(part, tokenizer, place) for part in item)
        check_has_words(first, place)
        check_has_words(second, place)
        return ParsedInput([PairExample(first, second, None, place)])


class Tagger(nn.Module):
    """LSTM layers, dropout, a dense layer that gives emissions; a CRF or a softmax over those.

    ELMo at the output is joined to the outputs of the last LSTM layer.

    `config.hidden` is the cells of each direction of the LSTM layers: 200 in the paper's entity
    recogniser. Dropout is variational, between the layers and of the last one's outputs. With `crf`
    tags are chosen together, else each by a softmax of its own. Which tag may follow which is
    `allowed`, as of a `LinearChainCRF`, which learns with it; both decode nothing else.
    """

    allowed: Tensor

    def __init__(
        self, sizes: Sizes, tags: int, config: NetworkConfig, allowed: Tensor | None = None
    ) -> None:
        super().__init__()
        self.context = BidirectionalLSTM(
            sizes.at_input, hidden=config.hidden, layers=config.layers, dropout=config.dropout
        )
        self.dropout = VariationalDropout(config.dropout)
        self.emission = nn.Linear(self.context.output_size + sizes.at_output, tags)
        if allowed is None:
            allowed = torch.ones(tags + 2, tags + 2, dtype=torch.bool)
        self.crf = LinearChainCRF(tags, allowed) if config.crf else None
        self.register_buffer("allowed", allowed, persistent=False)

    def forward(self, words: BatchVectors) -> Tensor:
        """Emissions (sentences, words, tags): what each tag scores at each word."""
        contexts = self.dropout(self.context(words.at_input, words.mask))
        return self.emission(join_output(contexts, words))

    def loss(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """-log p of tags (sentences, words), not padding: mean per sentence of a CRF, or word."""
        if self.crf is not None:
            return -self.crf.log_likelihood(emissions, tags, mask).mean()
        return functional.cross_entropy(emissions[mask], tags[mask])

    def decode(self, emissions: Tensor, mask: Tensor) -> list[list[int]]:
        """The best tags of each sentence, as many as it has words."""
        if self.crf is not None:
            return self.crf.decode(emissions, mask)
        any_score = emissions.new_zeros(self.allowed.shape)
        return viterbi(emissions, mask, chain_of(any_score, self.allowed))

    def probabilities(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """The p of each tag at each word (sentences, words, tags), 0 on padding.

        Those of a CRF are marginals; those of a softmax do not know of `allowed`.
        """
        if self.crf is not None:
            return self.crf.marginals(emissions, mask)
        return emissions.softmax(-1).masked_fill(~mask.unsqueeze(-1), 0)


class Entity(NamedTuple):
    """An entity in a sentence or a text: its type, and the fields of a `TextSpan`."""

    type: str
    text: str
    first_word: int
    end_word: int
    start: int | None
    end: int | None


@dataclass(frozen=True, slots=True)
class TagPrediction(Prediction):
    """The tags of words, and the entities that they stand for."""

    words: Words
    tags: tuple[str, ...]
    """One for each word; those of entities are written as BIO."""
    probabilities: tuple[Mapping[str, float], ...]
    """Of every tag, for each word."""
    offsets: tuple[Offsets, ...] | None = None
    """Where each word stands in the raw text; None where words were given."""
    entities: tuple[Entity, ...] | None = None
    """None where tags are not those of entities."""
    text: str | None = None
    """The raw text; None where words were given."""
    sentences: tuple[int, ...] = (0,)
    """The first word of each sentence."""

    def to_text(self) -> str:
        """Brackets around entities; or each word with its tag, a line for each sentence.

        >>> TagPrediction(("It", "rains"), ("PRON", "VERB"), ({}, {})).to_text()
        'It/PRON rains/VERB'
        """
        if self.entities is not None:
            marks = ((entity.type, TextSpan(*entity[1:])) for entity in self.entities)
            return bracketed(self.text, self.words, marks)
        tagged = [f"{word}/{tag}" for word, tag in zip(self.words, self.tags, strict=True)]
        bounds = pairwise((*self.sentences, len(tagged)))
        return "\n".join(" ".join(tagged[first:end]) for first, end in bounds)

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        values: dict[str, Any] = {
            "words": list(self.words),
            "tags": list(self.tags),
            "probabilities": [dict(each) for each in self.probabilities],
        }
        if self.offsets is not None:
            values["offsets"] = [list(each) for each in self.offsets]
        if self.entities is not None:
            values["entities"] = [entity._asdict() for entity in self.entities]
        return values


SCHEME: Scheme = "IOBES"
"""How a tagger writes entities, whatever the files do: marked ends make it better."""
AS_BIO = {"E": "I", "S": "B"}  # the marks of IOBES that BIO has not, and what it has in their place


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

    @cached_property
    def entities(self) -> bool:
        """Whether tags are those of entities."""
        return are_entities(self.labels.names)

    def describe_labels(self) -> str:
        """How many tags there are, or types of entities: how a tagger writes these is its own."""
        if not self.entities:
            return counted(len(self.labels), "tag")
        return f"{counted(len(self.types) - 1, 'type')} of entities"

    @cached_property
    def types(self) -> Labels:
        """Outside, and the types of entities."""
        shown = map(shown_type, entity_types(self.labels.names))
        return Labels(tuple(dict.fromkeys((OUTSIDE, *shown))))

    def prepare(self, examples: Sequence[TaggedSentence]) -> list[TaggedSentence]:
        """Entities as IOBES; every tag being known."""
        return list(map(self._prepared, examples))

    def _prepared(self, example: TaggedSentence) -> TaggedSentence:
        if not self.entities:
            self.labels.numbers(example.labels, example.place)
            return example
        try:
            self.types.numbers(types_of(example.labels))
            return replace(example, tags=convert(example.labels, SCHEME))
        except InputError as error:
            raise InputError(f"{example.place}: {error}") from None

    def make_network(self, sizes: Sizes) -> Tagger:
        """BiLSTM, with a CRF that allows legal sequences alone, or without."""
        allowed = None
        if self.entities:
            allowed = torch.from_numpy(allowed_transitions(self.labels.names))
        return Tagger(sizes, len(self.labels), self.config.network, allowed)

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
            tag = AS_BIO.get(name[0], name[0]) + name[1:]
            sums[tag] = sums.get(tag, 0.0) + probability
        return sums

    def _named(self, numbers: Sequence[Sequence[int]]) -> list[tuple[str, ...]]:
        return [tuple(self.labels.names[number] for number in row) for row in numbers]

    def score(
        self, examples: Sequence[TaggedSentence], guesses: Sequence[tuple[str, ...]]
    ) -> Score:
        """F1 of entities, or the accuracy of words."""
        if self.entities:
            return score_spans([example.labels for example in examples], guesses)
        return self.confusion(examples, guesses)

    def confusion(
        self, examples: Sequence[TaggedSentence], guesses: Sequence[tuple[str, ...]]
    ) -> Accuracy:
        """What words were taken for: tags, or types of entities."""
        expected = [example.labels for example in examples]
        if not self.entities:
            return score_words(self.labels, expected, guesses)
        return score_words(self.types, list(map(types_of, expected)), list(map(types_of, guesses)))

    def parse_input(self, item: Any, tokenizer: Tokenizer, place: str) -> ParsedInput:
        """A text, whose sentences are tagged one by one, or the words of one sentence."""
        parsed = sentences_of(item, tokenizer, place)
        return parsed._replace(
            examples=[TaggedSentence(words, None, place) for words in parsed.examples]
        )

    def merge_predictions(
        self, parsed: ParsedInput, predictions: Sequence[TagPrediction]
    ) -> TagPrediction:
        """The sentences of a text in one."""
        words = tuple(chain.from_iterable(each.words for each in predictions))
        tags = tuple(chain.from_iterable(each.tags for each in predictions))
        entities = [
            Entity(shown_type(kind), *parsed.locate(words, first, end))
            for kind, first, end in (spans(tags) if self.entities else ())
        ]
        return TagPrediction(
            words,
            tags,
            tuple(chain.from_iterable(each.probabilities for each in predictions)),
            None if parsed.text is None else parsed.offsets,
            tuple(entities) if self.entities else None,
            parsed.text,
            starts_of([each.words for each in predictions]),
        )


def are_entities(names: Sequence[str] | set[str]) -> bool:
    """Whether all tags are those of entities."""
    return all(entity_tag(name) is not None for name in names)


def check_not_mixed(names: set[str], examples: Sequence[TaggedSentence]) -> None:
    """Raise for entities with another tag among them: one slip, and none would be found again."""
    entities = sorted(name for name in names if "-" in name and entity_tag(name) is not None)
    if not entities:
        return
    for example in examples:
        for number, (word, name) in enumerate(zip(example.words, example.labels, strict=True), 1):
            if entity_tag(name) is None:
                raise InputError(
                    f"{example.place}: word {number} of the sentence that begins here, {word!r}, "
                    f"has the tag {name[:40]!r}, which is not an entity's, as {entities[0]!r} and "
                    "others are; use O, or B-, I-, E- or S- and a type for every word"
                )
