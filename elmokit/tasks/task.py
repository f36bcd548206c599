"""Task, the contract of every kind: its labels, its network, its predictions and its score.

The training loop, saved tasks and the command line know of `Task` alone: another kind is another
class of it, and a line in `KINDS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from torch import Tensor, nn

from elmokit.errors import InputError
from elmokit.system import counted
from elmokit.tasks.config import Kind, TaskConfig
from elmokit.tasks.examples import AnyExample, Labels, Offsets, Words, is_word
from elmokit.tasks.inputs import Sizes, TaskInputs
from elmokit.tasks.scores import Accuracy, Score
from elmokit.text.characters import short
from elmokit.text.tokenizer import Tokenizer

Network = TypeVar("Network", bound=nn.Module)
AnExample = TypeVar("AnExample", bound=AnyExample)
Guess = TypeVar("Guess")


class TaskModel(nn.Module, Generic[Network]):
    """All that a task learns: its inputs, mixes included, and its network."""

    def __init__(self, inputs: TaskInputs, network: Network) -> None:
        super().__init__()
        self.inputs = inputs
        self.network = network


PROBABILITY_DIGITS = 4
PROBABILITIES = ("probability", "probabilities")
WORD_NUMBERS = ("first_word", "end_word", "word")


class Prediction(ABC):
    """What a trained task says of a text, of words, or of a pair."""

    marks_text: ClassVar[bool] = True  # whether `to_text` is what was given, with marks in it

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """All of it, as plain values for JSON."""

    @abstractmethod
    def to_text(self) -> str:
        """For people: what was found, as marks in what was given where it has places there."""

    def to_answer(self, probabilities: bool = False) -> dict[str, Any]:
        """Labels and spans, as the command line and the service give them.

        Spans are counted in characters, or in words where those were given. With `probabilities`
        it is all of `to_dict`, to four digits.
        """
        found = self.to_dict()
        if probabilities:
            return _plain(found, short=False)
        named = "tags" in found and "entities" not in found  # the tags themselves are the answer
        left_out = ("offsets", *PROBABILITIES, *(() if named else ("words", "tags")))
        return _plain({name: found[name] for name in found if name not in left_out}, short=True)


def _plain(value: Any, short: bool) -> Any:
    """Plain values with four digits; or without probabilities, and with one place of each span."""
    if isinstance(value, list | tuple):
        return [_plain(each, short) for each in value]
    if not isinstance(value, Mapping):
        return round(value, PROBABILITY_DIGITS) if isinstance(value, float) else value
    if short:
        numbers = WORD_NUMBERS if value.get("start") is not None else ()
        kept = (name for name in value if name not in (*numbers, *PROBABILITIES))
        value = {name: value[name] for name in kept if value[name] is not None}
    return {name: _plain(each, short) for name, each in value.items()}


class TextSpan(NamedTuple):
    """Some words of a sentence or a text, and where they are."""

    text: str  # as it stands in the raw text; without one, its words with spaces between them
    first_word: int  # its words are words[first_word:end_word]
    end_word: int
    start: int | None  # text[start:end] of the raw text; None where words were given
    end: int | None

    def place(self, words: Words) -> Offsets:
        """Where it is in the raw text, or in all words with spaces between them."""
        if self.start is not None and self.end is not None:
            return self.start, self.end
        start = sum(len(word) + 1 for word in words[: self.first_word])
        return start, start + len(self.text)


def bracketed(text: str | None, words: Words, marks: Iterable[tuple[str, TextSpan]]) -> str:
    """A text, or words, with brackets around spans that may be in one another, and their names.

    >>> bracketed("Ann left.", ("Ann", "left", "."), [("PER", TextSpan("Ann", 0, 1, 0, 3))])
    '[PER Ann] left.'
    """
    text = " ".join(words) if text is None else text
    places = [(*span.place(words), name) for name, span in marks]
    # At one place brackets close before others open; the longest opens first, and closes last.
    opening = [((start, 1, -end), f"[{name} ") for start, end, name in places]
    closing = [((end, 0, -start), "]") for start, end, _ in places]
    parts, done = [], 0
    for (place, _, _), bracket in sorted(opening + closing):
        parts += [text[done:place], bracket]
        done = place
    return "".join([*parts, text[done:]])


class ParsedInput(NamedTuple):
    """What somebody wants a prediction for, as sentences or as examples."""

    examples: list[Any]
    text: str | None = None  # the raw text, where it was one
    offsets: tuple[Offsets, ...] = ()  # of the words in the raw text

    def locate(self, words: Words, first: int, end: int) -> TextSpan:
        """Words of all examples, words[first:end], with their place in the raw text."""
        if self.text is None:
            return TextSpan(" ".join(words[first:end]), first, end, None, None)
        start, stop = self.offsets[first][0], self.offsets[end - 1][1]
        return TextSpan(self.text[start:stop], first, end, start, stop)


class Task(ABC, Generic[AnExample, Network, Guess]):
    """A task with its settings, and its labels as the network knows them; a task may have none."""

    kind: ClassVar[Kind]

    def __init__(self, config: TaskConfig, labels: Labels) -> None:
        self.config = config
        self.labels = labels

    def describe_labels(self) -> str:
        """How many labels there are, for people."""
        return counted(len(self.labels), "label")

    @classmethod
    def labels_of(cls, examples: Sequence[AnExample]) -> Labels:
        """The labels that a network trained on examples knows; none, for a task without."""
        del examples
        return Labels(())

    @classmethod
    def group_of(cls, example: AnExample) -> Hashable:
        """What examples share that are held out together: a text would give its label away."""
        return example.sentences

    def prepare(self, examples: Sequence[AnExample]) -> list[AnExample]:
        """Labelled examples as the network knows them; an unknown label is an error."""
        return list(examples)

    def for_training(self, examples: Sequence[AnExample]) -> list[AnExample]:
        """Prepared examples as they are trained on: long ones may be cut."""
        return list(examples)

    @abstractmethod
    def make_network(self, sizes: Sizes) -> Network:
        """A new network, random by torch's generator."""

    @abstractmethod
    def loss(self, model: TaskModel[Network], examples: Sequence[AnExample]) -> Tensor:
        """What is minimised, of a batch of prepared examples: a scalar."""

    @abstractmethod
    def guess(self, model: TaskModel[Network], examples: Sequence[AnExample]) -> list[Guess]:
        """The best answer to each example, for scoring."""

    def predict(self, model: TaskModel[Network], examples: Sequence[AnExample]) -> list[Any]:
        """The answer to each example, with probabilities."""
        return self.guess(model, examples)

    def predict_batches(
        self, examples: Sequence[AnExample], answers: Callable[[Sequence[AnExample]], list[Any]]
    ) -> list[Any]:
        """What `answers` gives for examples; a task may have it read less than all of them."""
        return answers(examples)

    @abstractmethod
    def score(self, examples: Sequence[AnExample], guesses: Sequence[Guess]) -> Score:
        """How good guesses are."""

    def confusion(self, examples: Sequence[AnExample], guesses: Sequence[Guess]) -> Accuracy | None:
        """What was taken for what; None for a task without labels."""
        del examples, guesses
        return None

    @abstractmethod
    def parse_input(self, item: Any, tokenizer: Tokenizer, place: str) -> ParsedInput:
        """Examples of what somebody wants a prediction for; `place` names it in errors."""

    def merge_predictions(self, parsed: ParsedInput, predictions: Sequence[Any]) -> Prediction:
        """The prediction for one input, out of those of its examples."""
        del parsed
        [prediction] = predictions
        return prediction


AnyTask = Task[Any, Any, Any]
EMPTY_TEXT = "empty_text"  # what programs know the error by that is about a text without words


def words_of(item: Any, tokenizer: Tokenizer, place: str) -> Words:
    """The words of a text, or those given."""
    if isinstance(item, str):
        return tuple(token.text for token in tokenizer.words(item))
    if not isinstance(item, Sequence) or not all(isinstance(word, str) for word in item):
        raise InputError(f"{place}: is {short(item)}; give a text, or a list of words")
    for number, word in enumerate(item):
        if not is_word(word):
            raise InputError(f"{place}: word {number}, from 0, is blank ({word!r}); leave it out")
    return tuple(item)


def sentences_of(item: Any, tokenizer: Tokenizer, place: str) -> ParsedInput:
    """The sentences of a text, or the one whose words are given; none is without words."""
    if not isinstance(item, str):
        words = words_of(item, tokenizer, place)
        return ParsedInput([words] if words else [])
    tokens = tokenizer.sentences(item)
    return ParsedInput(
        [tuple(token.text for token in sentence) for sentence in tokens],
        item,
        tuple((token.start, token.end) for sentence in tokens for token in sentence),
    )


def starts_of(sentences: Sequence[Words]) -> tuple[int, ...]:
    """The number of the first word of each sentence, counted through all of them.

    >>> starts_of([("a", "b"), ("c",)])
    (0, 2)
    """
    return tuple(accumulate(map(len, sentences), initial=0))[:-1] or (0,)


def check_has_words(words: Words, place: str) -> None:
    """Raise for what no class can be told of."""
    if not words:
        problem = f"{place}: has no words, so nothing can be said of it; leave it out"
        raise InputError(problem, EMPTY_TEXT)
