"""Index of occurrences: which are nearest to a word in its sentence, and what senses it has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from elmokit.analysis.neighbours.store import (
    Hit,
    IndexDescription,
    Location,
    OccurrenceStore,
    form_of,
    read_description,
    storable,
)
from elmokit.analysis.senses import Occurrence, Senses, find_senses
from elmokit.bundled import version_of
from elmokit.config import Count, checked
from elmokit.errors import InputError
from elmokit.static.vectors import near_forms, unit
from elmokit.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from elmokit.inference.embedder import Embedder


MARKED = re.compile(r"(?<![\w*])\*([^\s*]+)\*(?!\*|[^\W가-힣])")  # 배 of 배를 too: *배*를
SHOWN = 60


def find_marked(text: str, tokenizer: Tokenizer) -> Occurrence:
    """The marked word in its sentence; of a text of several, the sentence that has the mark."""
    mark = only_mark(text)
    start, end = mark.start(), mark.start() + len(mark[1])
    plain = text[: mark.start()] + mark[1] + text[mark.end() :]
    for sentence in tokenizer.sentences(plain):
        inside = [n for n, token in enumerate(sentence) if token.start < end and token.end > start]
        found = [sentence[number] for number in inside]
        # Of several morphemes in one syllable it is the first, the stem.
        for number, token in zip(inside, found, strict=True):
            if (token.start, token.end) == (start, end):
                return Occurrence(tuple(token.text for token in sentence), number)
        if found:
            words = " ".join(token.text for token in found)
            raise InputError(f"{mark[1]!r} is not a word; put stars around one word of: {words}")
    raise InputError(f"{text[:SHOWN]!r}: {mark[1]!r} is not a word; mark another one")


def only_mark(text: str) -> re.Match[str]:
    """The only mark of a text; an error where it has none, or several."""
    marks = list(MARKED.finditer(text))
    if len(marks) != 1:
        found = "has no marked word" if not marks else f"has {len(marks)} marked words"
        raise InputError(f"{text[:SHOWN]!r} {found}; put stars around one word: a river *bank*")
    return marks[0]


DIGITS_SHOWN = 12
OWN_EXPECTED = 5
"""So many more than wanted are asked for at first: words of the question's own sentence."""
MOST_OCCURRENCES = 2000
"""Of a word, for its senses; more of them change little, and compare each with each."""


@dataclass(frozen=True)
class Neighbour(Occurrence):
    """An occurrence of a word, and how near it is."""

    cosine: float
    sentence: int  # its number in the index

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return asdict(self) | {"words": list(self.words), "word": self.word}


class NeighbourIndex:
    """Occurrences of words in a corpus, by their vectors. Calls from several threads are safe.

    It is a folder, or at a URL of object storage such as s3://bucket/news.index. The model is that
    which its vectors are of; senses need none.
    """

    def __init__(
        self, path: Location, description: IndexDescription, embedder: Embedder | None = None
    ) -> None:
        self.path = path
        self.description = description
        self.embedder = embedder
        self.store = OccurrenceStore(path, description)

    @classmethod
    def open(
        cls, path: Location, embedder: Embedder | None = None, *, model: str = ""
    ) -> NeighbourIndex:
        """Open an index that `build_index` made, with the same model; `model` is what it is called.

        Without a model the senses of words can be asked for, but no neighbours.
        """
        description = read_description(path)
        if embedder is not None:
            check_model(path, description, embedder, model)
        return cls(path, description, embedder)

    def __repr__(self) -> str:
        found = self.description
        return (
            f"NeighbourIndex({str(self.path)!r}, {found.occurrences} occurrences, "
            f"layers {', '.join(found.layers)})"
        )

    def __len__(self) -> int:
        return self.description.occurrences

    def query(
        self,
        words: Sequence[str],
        position: int,
        *,
        layer: str | int | None = None,
        top: int = 10,
        same_word: bool = False,
        exact: bool = False,
    ) -> list[Neighbour]:
        """The occurrences nearest to the word at a position of a sentence, the nearest first.

        Occurrences in the same sentence are left out, however it is split into words.

        Args:
            words: The sentence.
            position: Of the word, from 0.
            layer: Whose vectors are compared: one of those that the index has, or its last.
            top: How many are wanted.
            same_word: Only occurrences of the same word, in capitals or not: all are compared.
            exact: Compare all vectors, without the vector index.
        """
        checked("top", top, Count)
        if not 0 <= position < len(words):
            raise InputError(f"position is {position}; the sentence has {len(words)} words, from 0")
        column = self.description.column(layer)
        vector = self.vector(words, position, column)
        kept = storable(words)
        form = form_of(kept[position]) if same_word else None
        if form is not None:
            self.check_form(form)
        exact = exact or not self.description.vector_index
        limit = top + OWN_EXPECTED
        while True:
            hits = self.store.nearest(column, vector, limit, form=form, exact=exact)
            found = list(self.elsewhere(hits, kept))
            if len(found) >= top or len(hits) < limit:
                return found[:top]
            limit *= 2

    def query_marked(self, text: str, **settings: Any) -> list[Neighbour]:
        """`query` for a raw sentence with stars around one word: "He sat on the *bank* ."."""
        marked = find_marked(text, self._model().tokenizer)
        return self.query(marked.words, marked.position, **settings)

    def senses(
        self,
        word: str,
        *,
        layer: str | int | None = None,
        senses: int | None = None,
        examples: int = 3,
    ) -> Senses:
        """Part the occurrences of a word, in capitals or not, by their vectors.

        Args:
            word: The word.
            layer: Whose vectors: one of those that the index has, or its last.
            senses: How many there are to be; else as many as lie apart most clearly.
            examples: How many sentences stand for each.
        """
        form = form_of(*storable([word]))
        column = self.description.column(layer)
        self.check_form(form)
        occurrences, vectors, count = self.store.places(form, column, MOST_OCCURRENCES)
        return find_senses(
            form, occurrences, vectors, count=count, layer=column, senses=senses, examples=examples
        )

    def check_form(self, form: str) -> None:
        """Raise for a word that the index has not; say which it has that are spelt nearly so."""
        if self.store.count_of(form):
            return
        near = near_forms(form, self.store.forms())
        advice = f"near forms are {', '.join(near)}" if near else "try another word"
        problem = f"{self.path}: {form!r} does not occur in it; {advice}"
        raise InputError(problem, "word_not_in_index", word=form[:SHOWN], near=", ".join(near))

    def vector(self, words: Sequence[str], position: int, layer: str) -> Any:
        """The vector (size,) of a word in its sentence, of length 1."""
        from elmokit.inference.layers import LayerChoice

        layers = self._model().embed_layers([words])[0][:, position]
        return unit(LayerChoice(layer, len(layers)).of(layers))

    def elsewhere(self, hits: Sequence[Hit], words: Sequence[str]) -> Iterator[Neighbour]:
        """What was found in other sentences than this."""
        texts = self.store.sentences(hit.sentence for hit in hits)
        own = letters_of(words)
        for hit in hits:
            found = texts[hit.sentence]
            if letters_of(found) != own:
                yield Neighbour(found, hit.position, hit.cosine, hit.sentence)

    def _model(self) -> Embedder:
        if self.embedder is None:
            raise InputError(
                f"{self.path}: was opened without a model, which a question needs; give it to "
                "NeighbourIndex.open(path, embedder)"
            )
        return self.embedder


def check_model(
    path: Location, description: IndexDescription, embedder: Embedder, model: str
) -> None:
    """Raise for a model, or a way of reading, that the vectors of an index are not of."""
    fingerprint = embedder.fingerprint()
    if fingerprint != description.fingerprint:
        built, this = (
            version_of(digits) or f"{name or 'a model without a name'} ({digits[:DIGITS_SHOWN]})"
            for name, digits in ((description.model, description.fingerprint), (model, fingerprint))
        )
        raise InputError(
            f"{path}: was built with {built}, this is {this}; use the model it was built with "
            "(--model), or build it again"
        )
    if embedder.state != description.state:
        raise InputError(
            f"{path}: was built in state {description.state!r}, the model is in state "
            f"{embedder.state!r}; use the same"
        )


def letters_of(words: Sequence[str]) -> str:
    """A sentence without its whitespace and capitals: the same however it was split into words.

    >>> letters_of(["I", "can't", "."]) == letters_of(["I", "ca", "n't."])
    True
    """
    return "".join("".join(words).split()).casefold()
