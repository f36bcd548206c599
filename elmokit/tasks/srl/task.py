"""Semantic role labelling (SRL): who does what to whom, for each predicate of a sentence."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from elmokit.errors import InputError
from elmokit.tasks.examples import Labels, Offsets, Words
from elmokit.tasks.inputs import BatchVectors, Sizes
from elmokit.tasks.networks.crf import BioChain, viterbi
from elmokit.tasks.scores import Accuracy, Counts, SpanScore, count_by_type, score_words
from elmokit.tasks.srl.network import Predicates, RoleTagger, finder_loss, role_loss
from elmokit.tasks.srl.propositions import (
    CONTINUED,
    VERB,
    Proposition,
    RoleSentence,
    WithPredicates,
    in_parts,
    with_found,
    with_given,
)
from elmokit.tasks.tags import OUTSIDE, LabelledSpan, scheme_tags, spans, types_of, write_tags
from elmokit.tasks.task import (
    ParsedInput,
    Prediction,
    Task,
    TaskModel,
    sentences_of,
    starts_of,
)
from elmokit.text.tokenizer import Tokenizer

WORDS_AT_ONCE = 8192
"""Words that are tagged at once where nothing is learnt, counted once for each predicate."""


WordSpan = tuple[int, int]  # the first word of a phrase, and the one after its last


class TaggedPredicate(NamedTuple):
    """A predicate and the BIO tags of its sentence beside it."""

    word: int  # its number in the sentence
    probability: float | None  # None where it was given
    tags: tuple[str, ...]
    log_probabilities: tuple[float, ...]  # of each tag


class FoundArgument(NamedTuple):
    """A phrase and its role: the fields of a `TextSpan` are between these and its probability."""

    role: str
    text: str
    first_word: int
    end_word: int
    start: int | None
    end: int | None
    probability: float  # of the tags of all its words


class FoundPredicate(NamedTuple):
    """A predicate and its arguments."""

    text: str
    word: int  # its number
    start: int | None
    end: int | None
    probability: float | None  # None where it was given
    arguments: tuple[FoundArgument, ...]

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return self._asdict() | {"arguments": [each._asdict() for each in self.arguments]}


@dataclass(frozen=True, slots=True)
class RolePrediction(Prediction):
    """The predicates of a sentence or a text, in their order."""

    words: Words
    predicates: tuple[FoundPredicate, ...]
    offsets: tuple[Offsets, ...] | None = None
    """Where each word stands in the raw text; None where words were given."""
    sentences: tuple[int, ...] = (0,)
    """The first word of each sentence."""

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        values: dict[str, Any] = {"words": list(self.words)}
        if self.offsets is not None:
            values["offsets"] = [list(each) for each in self.offsets]
        return values | {"predicates": [each.to_dict() for each in self.predicates]}

    def to_text(self) -> str:
        """A line for each predicate: its sentence, with brackets around it and its arguments.

        A sentence without any predicate is shown as it is.

        >>> he = FoundArgument("ARG0", "He", 0, 1, None, None, 1.0)
        >>> sold = FoundPredicate("sold", 1, None, None, None, (he,))
        >>> RolePrediction(("He", "sold", "."), (sold,)).to_text()
        '[ARG0 He] [V sold] .'
        """
        lines: list[str] = []
        for first, end in pairwise((*self.sentences, len(self.words))):
            own = [each for each in self.predicates if first <= each.word < end]
            plain = " ".join(self.words[first:end])
            lines += [self._line(each, first, end) for each in own] or [plain]
        return "\n".join(lines)

    def _line(self, predicate: FoundPredicate, begin: int, stop: int) -> str:
        """The words from `begin` to `stop`, with brackets around a predicate and its arguments."""
        words = list(self.words)
        marked = [(each.role, each.first_word, each.end_word) for each in predicate.arguments]
        for role, first, end in ((VERB, predicate.word, predicate.word + 1), *marked):
            words[first] = f"[{role} {words[first]}"
            words[end - 1] += "]"
        return " ".join(words[begin:stop])


def found_predicate(
    parsed: ParsedInput, words: Words, begin: int, tagged: TaggedPredicate
) -> FoundPredicate:
    """A predicate of the sentence that begins at the word `begin`, with its arguments."""
    arguments = tuple(
        FoundArgument(
            role,
            *parsed.locate(words, begin + first, begin + end),
            probability=math.exp(math.fsum(tagged.log_probabilities[first:end])),
        )
        for role, first, end in spans(tagged.tags)
        if role not in (VERB, CONTINUED + VERB)
    )
    number = begin + tagged.word
    text, _, _, start, end = parsed.locate(words, number, number + 1)
    return FoundPredicate(text, number, start, end, tagged.probability, arguments)


@dataclass(frozen=True)
class RoleScore(SpanScore):
    """How many arguments were found complete and with the right role; by role, `by_type`."""

    propositions: int
    """How many predicates there are."""
    perfect: int
    """Those with all of their arguments, and none besides."""
    predicates: Counts
    """How many predicates were found. Arguments are scored beside the right ones, found or not."""

    def describe(self) -> str:
        """One line."""
        share = self.perfect / self.propositions if self.propositions else 0.0
        return (
            f"{super().describe()}; {share:.2%} of {self.propositions:,} predicates without "
            f"a mistake; predicates found with F1 {self.predicates.f1:.2%}"
        )

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return super().to_dict() | {
            "propositions": self.propositions,
            "perfect": self.perfect,
            "predicates": self.predicates.to_dict(),
        }


def score_roles(
    expected: Sequence[Sequence[LabelledSpan]],
    predicted: Sequence[Sequence[LabelledSpan]],
    predicates: Counts,
) -> RoleScore:
    """Compare the phrases beside each predicate with what was predicted for the same ones."""
    pairs = [
        (counted_arguments(right), counted_arguments(found))
        for right, found in zip(expected, predicted, strict=True)
    ]
    perfect = sum(right == found for right, found in pairs)
    return RoleScore(count_by_type(pairs), len(pairs), perfect, predicates)


def counted_arguments(phrases: Iterable[LabelledSpan]) -> set[tuple[str, tuple[WordSpan, ...]]]:
    """The arguments that count, of phrases that do not overlap: roles, and where the phrases are.

    >>> phrases = ("ARG1", 0, 2), ("V", 2, 3), ("C-ARG1", 3, 6)
    >>> counted_arguments(LabelledSpan(*phrase) for phrase in phrases)
    {('ARG1', ((0, 2), (3, 6)))}
    """
    found: list[tuple[str, list[WordSpan]]] = []
    last: dict[str, list[WordSpan]] = {}
    for role, start, end in sorted(phrases, key=lambda phrase: phrase.start):
        base = role.removeprefix(CONTINUED)
        if base == role or base not in last:
            last[base] = []
            found.append((base, last[base]))
        last[base].append((start, end))
    return {(role, tuple(places)) for role, places in found if role != VERB}


class RoleGuess(NamedTuple):
    """What is said of a sentence."""

    predicates: tuple[int, ...]  # those that are found
    tags: tuple[tuple[str, ...], ...]  # BIO, for each of the predicates that are given


class SrlTask(Task[RoleSentence, RoleTagger, RoleGuess]):
    """The arguments of predicates; an example is a sentence with all of them, read once."""

    kind = "srl"

    @classmethod
    def labels_of(cls, examples: Sequence[RoleSentence]) -> Labels:
        """The BIO tags of all roles that occur."""
        roles = {phrase.type for each in propositions_of(examples) for phrase in each.phrases}
        return Labels(scheme_tags(sorted(roles), "BIO"))

    @classmethod
    def group_of(cls, example: RoleSentence) -> Hashable:
        """Its words: a sentence may be in a file twice."""
        return example.words

    def prepare(self, examples: Sequence[RoleSentence]) -> list[RoleSentence]:
        """The same, with at least one predicate. An unknown role is one that is never found."""
        if not any(example.propositions for example in examples):
            where = f"{examples[0].place} and after: " if examples else ""
            raise InputError(f"{where}no word is a predicate; give a file that has some")
        return list(examples)

    def for_training(self, examples: Sequence[RoleSentence]) -> list[RoleSentence]:
        """Sentences with very many predicates in parts."""
        most = self.config.training.batch_tokens
        return [part for example in examples for part in in_parts(example, most)]

    def make_network(self, sizes: Sizes) -> RoleTagger:
        """A deep alternating highway LSTM, and a small one that finds predicates."""
        return RoleTagger(sizes, len(self.labels), self.config.network)

    def loss(self, model: TaskModel[RoleTagger], examples: Sequence[RoleSentence]) -> Tensor:
        """-log p of tags, the mean over words; and of which words are predicates, likewise."""
        words = model.inputs([example.words for example in examples])
        right = right_predicates(examples, words.mask)
        loss = finder_loss(model.network.find(words), right, words.mask)
        predicates = predicates_of(examples, words.mask.device)
        if not len(predicates.sentences):
            return loss
        mask = words.mask[predicates.sentences]
        emissions = model.network(words, predicates)
        return loss + role_loss(emissions, self._right_tags(examples, mask), mask)

    def _right_tags(self, examples: Sequence[RoleSentence], mask: Tensor) -> Tensor:
        """The numbers of the tags of each word beside each predicate, (predicates, words)."""
        rows = [
            self.labels.numbers(write_tags(each.phrases, len(example.words), "BIO"), example.place)
            for example in examples
            for each in example.propositions or ()
        ]
        tags = torch.zeros(mask.shape, dtype=torch.long)
        tags[mask.cpu()] = torch.tensor(list(chain.from_iterable(rows)))
        return tags.to(mask.device)

    def guess(
        self, model: TaskModel[RoleTagger], examples: Sequence[RoleSentence]
    ) -> list[RoleGuess]:
        """The predicates that are found, and the best tags beside those that are given."""
        words = model.inputs([example.words for example in examples])
        found = model.network.find(words) > 0
        tagged = self._tagged(model, words, predicates_of(examples, found.device))
        return [
            RoleGuess(
                tuple(row.nonzero().squeeze(1).tolist()),
                tuple(tags for tags, _ in islice(tagged, len(example.propositions or ()))),
            )
            for example, row in zip(examples, found, strict=True)
        ]

    def predict(
        self, model: TaskModel[RoleTagger], examples: Sequence[RoleSentence]
    ) -> list[list[TaggedPredicate]]:
        """The predicates of each sentence, given or found, and the tags beside each."""
        words = model.inputs([example.words for example in examples])
        probabilities = model.network.find(words).cpu().double().sigmoid().tolist()
        asked = list(map(with_found, examples, probabilities))
        tagged = self._tagged(model, words, predicates_of(asked, words.mask.device))
        return [
            [
                TaggedPredicate(at, None if given.propositions is not None else row[at], *tags)
                for at, tags in zip(sentence.predicates, tagged, strict=False)
            ]
            for sentence, given, row in zip(asked, examples, probabilities, strict=True)
        ]

    def _tagged(
        self, model: TaskModel[RoleTagger], words: BatchVectors, predicates: Predicates
    ) -> Iterator[tuple[tuple[str, ...], tuple[float, ...]]]:
        """The best legal tags beside each predicate, and log p of each; some at once."""
        step = max(1, WORDS_AT_ONCE // max(1, words.mask.shape[1]))
        for start in range(0, len(predicates.sentences), step):
            some = Predicates(*(part[start : start + step] for part in predicates))
            read, among_them = with_their_sentences(words, some)
            scores = model.network(read, among_them).log_softmax(-1)
            found = viterbi(scores, words.mask[some.sentences], BioChain.like(scores))
            for row, numbers in zip(scores, found, strict=True):
                chosen = row[torch.arange(len(numbers)), numbers].tolist()
                yield tuple(self.labels.names[number] for number in numbers), tuple(chosen)

    def score(self, examples: Sequence[RoleSentence], guesses: Sequence[RoleGuess]) -> RoleScore:
        """F1 of arguments, as the CoNLL evaluation counts."""
        return score_roles(
            [each.phrases for each in propositions_of(examples)],
            [spans(tags) for guess in guesses for tags in guess.tags],
            Counts.of_sets(
                (set(example.predicates), set(guess.predicates))
                for example, guess in zip(examples, guesses, strict=True)
            ),
        )

    def confusion(self, examples: Sequence[RoleSentence], guesses: Sequence[RoleGuess]) -> Accuracy:
        """What the roles of words were taken for."""
        expected = [
            types_of(write_tags(each.phrases, len(example.words), "BIO"))
            for example in examples
            for each in example.propositions or ()
        ]
        predicted = [types_of(tags) for guess in guesses for tags in guess.tags]
        names = {VERB, *chain.from_iterable(expected), *chain.from_iterable(predicted)}
        labels = Labels((OUTSIDE, *sorted(names - {OUTSIDE})))
        return score_words(labels, expected, predicted)

    def parse_input(self, item: Any, tokenizer: Tokenizer, place: str) -> ParsedInput:
        """A text, or the words of one sentence; its predicates may be given with it."""
        asked = item.text if isinstance(item, WithPredicates) else item
        parsed = sentences_of(asked, tokenizer, place)
        examples = [RoleSentence(words, None, place) for words in parsed.examples]
        if isinstance(item, WithPredicates):
            examples = with_given(examples, item.predicates, place)
        return parsed._replace(examples=examples)

    def merge_predictions(
        self, parsed: ParsedInput, predictions: Sequence[Sequence[TaggedPredicate]]
    ) -> RolePrediction:
        """The sentences of a text in one."""
        sentences = [example.words for example in parsed.examples]
        words = tuple(chain.from_iterable(sentences))
        starts = starts_of(sentences)
        predicates = tuple(
            found_predicate(parsed, words, begin, each)
            for begin, some in zip(starts, predictions, strict=False)
            for each in some
        )
        offsets = None if parsed.text is None else parsed.offsets
        return RolePrediction(words, predicates, offsets, starts)


def propositions_of(examples: Sequence[RoleSentence]) -> list[Proposition]:
    """Those of all sentences."""
    return [each for example in examples for each in example.propositions or ()]


def predicates_of(examples: Sequence[RoleSentence], device: torch.device) -> Predicates:
    """The predicates of a batch whose arguments are asked for."""
    counts = [len(example.propositions or ()) for example in examples]
    positions = [each.predicate for each in propositions_of(examples)]
    sentences = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts, dtype=torch.long))
    return Predicates(
        sentences.to(device), torch.tensor(positions, dtype=torch.long, device=device)
    )


def with_their_sentences(
    words: BatchVectors, predicates: Predicates
) -> tuple[BatchVectors, Predicates]:
    """The sentences that predicates, in their order, are of, and the predicates among these."""
    first, last = (int(predicates.sentences[at]) for at in (0, -1))
    rows = slice(first, last + 1)
    at_output = None if words.at_output is None else words.at_output[rows]
    read = BatchVectors(words.at_input[rows], at_output, words.mask[rows])
    return read, predicates._replace(sentences=predicates.sentences - first)


def right_predicates(examples: Sequence[RoleSentence], mask: Tensor) -> Tensor:
    """Which words are predicates, (sentences, words) bool."""
    right = torch.zeros(mask.shape, dtype=torch.bool)
    for row, example in zip(right, examples, strict=True):
        row[list(example.predicates)] = True
    return right.to(mask.device)
