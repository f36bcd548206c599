"""Static vectors of words: looked up, compared, and embedded as `Embedder` does it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property
from itertools import tee
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from elmokit.bundled import BUNDLED, BUNDLED_VECTORS, ENGLISH_SMALL_WORD2VEC, is_bundled
from elmokit.config import Count, check_choice, checked
from elmokit.errors import InputError
from elmokit.io.fetch import Progress
from elmokit.jobs.progress import Observer
from elmokit.static.files import (
    VECTORS_FILE,
    Subwords,
    import_gensim,
    read_word_vectors,
    save_word_vectors,
)
from elmokit.text.characters import Sentence, check_sentence, check_sentences, short
from elmokit.text.tokenizer import AnyTokenizer, SplitsText, Tokenizer, tokenizer_of

Vectors = NDArray[np.float32]


def cosine(first: Vectors, second: Vectors) -> float:
    """Cosine of the angle between two vectors (size,); 0 where one of them is zero."""
    # Rounding may lead a little above 1.
    return min(1.0, max(-1.0, float(unit(first) @ unit(second))))


def unit(vectors: Vectors) -> Vectors:
    """Bring vectors (…, size) to length 1; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    lengths[lengths == 0] = 1
    return vectors / lengths


MOST_FORMS = 4
WORDS_LOOKED_AT = 50_000


def near_forms(word: str, words: Sequence[str]) -> list[str]:
    """The words that begin alike and are spelt nearly so, the nearest first; then longer ones.

    Of many words, the first are looked at: the frequent ones, as a rule.

    >>> near_forms("banks", ["bank", "river", "bankers", "Bank"])
    ['bank', 'bankers', 'Bank']
    """
    first = word[:1].casefold()
    alike = [other for other in words[:WORDS_LOOKED_AT] if other[:1].casefold() == first]
    candidates = [other for other in alike if abs(len(other) - len(word)) <= len(word) // 2]
    near = get_close_matches(word, candidates, MOST_FORMS)
    longer = [other for other in alike if word and other.startswith(word)]
    return list(dict.fromkeys([*near, *longer]))[:MOST_FORMS]


NAMES = {"skip-gram": "word2vec", "cbow": "word2vec", "fasttext": "fastText", "mean": "ELMo mean"}
"""What vectors are called, by the method that made them."""
ROWS_AT_ONCE = 1 << 15


class WordNeighbour(NamedTuple):
    """A word, and how near it is."""

    word: str
    cosine: float


class Contextual(Protocol):
    """What embeds words in their sentences, as an `Embedder` does."""

    tokenizer: Tokenizer

    def embed_stream(self, sentences: Iterable[Sentence], layers: Any) -> Iterator[Vectors]:
        """An array (words, size) for each sentence, in order."""


class StaticVectors(SplitsText):
    """One vector for a word, wherever it stands.

    A word is looked up as it is written, then in lower case. One that has no vector is made of its
    subwords where they are fastText's; else it is zeros.

    Args:
        words: Different words, frequent ones first as a rule.
        vectors: A vector for each, (words, size). They stay in their precision; what is computed
            is float32.
        name: What to call them.
        tokenizer: What `tokenize` and `encode` split raw text with; as of an `Embedder`.
        lowercase: Whether a word without a vector takes that of its lower case.
        subwords: Gives other words a vector.
        description: What is known of them: `method`, for one.
    """

    def __init__(
        self,
        words: Sequence[str],
        vectors: ArrayLike,
        *,
        name: str = "static vectors",
        tokenizer: AnyTokenizer = "default",
        lowercase: bool = True,
        subwords: Subwords | None = None,
        description: Mapping[str, str] | None = None,
    ) -> None:
        table = np.asarray(vectors)
        if not np.issubdtype(table.dtype, np.floating):
            table = table.astype(np.float32)
        if table.ndim != 2 or len(words) != len(table) or 0 in table.shape:
            raise InputError(
                f"{len(words)} words have vectors of shape {table.shape}; give (words, size)"
            )
        self.words = list(words)
        self.name = name
        self.tokenizer = tokenizer_of(tokenizer)
        self.lowercase = lowercase
        self.description = dict(description or {})
        self._table = table
        self._subwords = subwords
        self._rows = {word: row for row, word in enumerate(self.words)}
        if len(self._rows) != len(self.words):
            raise InputError("static vectors were given for a word twice; give different words")

    @classmethod
    def load(
        cls,
        path: str | Path | None = None,
        *,
        tokenizer: AnyTokenizer | None = None,
        lowercase: bool = True,
        progress: Progress | None = None,
    ) -> Self:
        """Load bundled vectors, or a file of any format that `elmo static` reads.

        `load()` (English), `load("korean-small-word2vec")`, `load("glove.6B.50d.txt.gz")`.
        The tokenizer is the one the vectors were trained with, where the file says it, unless
        given.
        """
        path = Path(path or ENGLISH_SMALL_WORD2VEC)
        if is_bundled(path, BUNDLED_VECTORS):
            path = BUNDLED / str(path).lower() / VECTORS_FILE
        words, table, description, subwords = read_word_vectors(path, progress=progress)
        chosen = description.get("tokenizer", "default") if tokenizer is None else tokenizer
        return cls(
            words,
            table,
            name=NAMES.get(description.get("method", ""), path.name.partition(".")[0]),
            tokenizer=chosen,
            lowercase=lowercase,
            subwords=subwords,
            description=description,
        )

    @classmethod
    def from_model(
        cls,
        embedder: Contextual,
        sentences: Iterable[Sentence],
        layers: str | int = "average",
        *,
        min_count: int = 5,
        max_words: int | None = None,
        observer: Observer | None = None,
    ) -> Self:
        """Static vectors out of a biLM: the mean of a word's vectors wherever a text has it.

        Args:
            embedder: An `Embedder`.
            sentences: Can be read twice, as a list can: to count words, and to embed them.
            layers: One of them, or "average" or "sum", as in `Embedder.embed`.
            min_count: Words that come less often get no vector.
            max_words: Keep no more words than these, the most frequent; all of them if None.
            observer: Told the words that are embedded.
        """
        if layers == "all":
            raise InputError("a word has one vector: layers is 'all'; use 'average', or a number")
        if iter(sentences) is sentences:
            raise InputError("sentences are read twice, and a generator once; give a list")
        counts = Counter(word for sentence in sentences for word in sentence)
        kept = [word for word, n in counts.most_common(max_words) if n >= min_count]
        if not kept:
            raise InputError(f"no word comes {min_count} times; give more text, or lower min_count")
        sums, done = {word: np.zeros(1) for word in kept}, 0
        again, embedded = tee(sentences)
        with (observer or Observer()).stage("embedding", "word", counts.total()) as progress:
            for vectors, words in zip(embedder.embed_stream(embedded, layers), again, strict=True):
                for word, vector in zip(words, vectors, strict=True):
                    if word in sums:
                        sums[word] = sums[word] + vector  # in double precision
                done += len(words)
                progress(done, None)
        if done != counts.total():
            raise InputError(f"sentences had {counts.total()} words, then {done}; give a list")
        means = np.array([sums[word] / counts[word] for word in kept], np.float32)
        about, tokenizer = {"method": "mean", "layers": str(layers)}, embedder.tokenizer
        return cls(kept, means, name=NAMES["mean"], tokenizer=tokenizer, description=about)

    def save(self, path: str | Path, *, words: int | None = None) -> None:
        """Write the vectors, or those of the first `words`; the file's name says the format.

        Subwords are not written: only training writes fastText's own file.
        """
        if words is not None:
            checked("words", words, Count)
        description = {"tokenizer": self.tokenizer.name, **self.description}
        save_word_vectors(path, self.words[:words], self._table[:words], description)

    def to_gensim(self, *, words: int | None = None) -> Any:
        """The vectors, or those of the first `words`, as gensim's `KeyedVectors`; no subwords."""
        keyed = import_gensim().KeyedVectors(self.vector_size)
        keyed.add_vectors(self.words[:words], self.rows(slice(words)))
        return keyed

    def __repr__(self) -> str:
        return f"StaticVectors({self.name!r}, {len(self)} words of {self.vector_size})"

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return self.row_of(word) is not None

    @property
    def vector_size(self) -> int:
        """Size of a word's vector."""
        return int(self._table.shape[1])

    def row_of(self, word: str) -> int | None:
        """The row of a word in the table; None where it has none."""
        forms = forms_of(word, self.lowercase)
        return next((self._rows[form] for form in forms if form in self._rows), None)

    def rows(self, numbers: Sequence[int] | slice) -> Vectors:
        """The vectors of some rows of the table, (rows, size)."""
        rows = numbers if isinstance(numbers, slice) else np.asarray(numbers, dtype=np.intp)
        return self._table[rows].astype(np.float32)

    def find(self, word: str) -> Vectors | None:
        """The vector (size,) of a word, by its subwords if need be; None where it has none."""
        row = self.row_of(word)
        if row is not None:
            return self.rows([row])[0]
        return None if self._subwords is None else self._subwords(word)

    def vector(self, word: str) -> Vectors:
        """The vector (size,) of a word; an error that names near forms where it has none."""
        found = self.find(word)
        if found is None:
            near = ", ".join(near_forms(word, self.words))
            advice = f"near forms that have one: {near}" if near else "try another word"
            raise InputError(f"{word!r} has no vector in {self.name}; {advice}")
        return found

    def embed(self, sentences: Sequence[Sentence], layers: str | int = "average") -> list[Vectors]:
        """Embed each sentence of words as an array (words, size); unknown words are zeros.

        There is one layer: "average", "top" and 0 are all the same; "all" is (1, words, size).
        """
        return list(self.embed_stream(sentences, layers))

    def embed_layers(self, sentences: Sequence[Sentence]) -> list[Vectors]:
        """The same as `embed(sentences, layers="all")`: arrays (1, words, size)."""
        return self.embed(sentences, "all")

    def embed_stream(
        self, sentences: Iterable[Sentence], layers: str | int = "average"
    ) -> Iterator[Vectors]:
        """Embed any number of sentences in constant memory: arrays (words, size), in order."""
        check_layers(layers)
        if isinstance(sentences, str | bytes) or not isinstance(sentences, Iterable):
            check_sentences(sentences)
        for number, sentence in enumerate(sentences):
            vectors = self._embedded(check_sentence(sentence, number))
            yield vectors[None] if layers == "all" else vectors

    def encode(
        self,
        texts: str | Sequence[str],
        layers: str | int = "average",
        pool: Literal["mean", "max"] = "mean",
        normalize: bool = False,
        progress: Progress | None = None,
    ) -> Vectors:
        """Embed raw texts as vectors (texts, size), one text as (size,), as `Embedder.encode` does.

        `pool` is over words with a vector; a text without any is zeros.
        """
        check_layers(layers)
        check_choice("pool", pool, ("mean", "max"))
        if isinstance(texts, str):
            return self.encode([texts], layers, pool, normalize, progress)[0]
        if not isinstance(texts, Iterable):
            raise InputError(f"expected a list of texts, got {short(texts)}")
        split = [self.tokenize(text) for text in texts]
        found = np.zeros((len(split), self.vector_size), np.float32)
        for number, words in enumerate(split):
            vectors = self._embedded(words)
            if vectors.any():
                known = vectors[vectors.any(axis=1)]
                found[number] = known.mean(0) if pool == "mean" else known.max(0)
            if progress is not None:
                progress(number + 1, len(split))
        return unit(found) if normalize else found

    def similarity(self, first: str, second: str) -> float:
        """Cosine of the angle between the vectors of two words."""
        return cosine(self.vector(first), self.vector(second))

    def neighbours(self, word: str, top: int = 10) -> list[WordNeighbour]:
        """The words whose vectors are nearest by cosine, the nearest first."""
        row = self.row_of(word)
        return self.nearest(self.vector(word), top, without=[] if row is None else [row])

    def analogy(
        self, positive: Sequence[str], negative: Sequence[str] = (), top: int = 10
    ) -> list[WordNeighbour]:
        """What king - man + woman is: words nearest to the sum, each vector at length 1.

        The words of the question are excluded, in capitals or not.
        """
        if not positive and not negative:
            raise InputError("give the words of the question: positive=['king', 'woman']")
        signed = [*((word, 1) for word in positive), *((word, -1) for word in negative)]
        total = sum(sign * unit(self.vector(word)) for word, sign in signed)
        asked = {word.upper() for word, _ in signed}
        rows = [row for row, word in enumerate(self.words) if word.upper() in asked]
        return self.nearest(np.asarray(total, np.float32), top, without=rows)

    def nearest(
        self, vector: Vectors, top: int = 10, without: Sequence[int] = ()
    ) -> list[WordNeighbour]:
        """The words nearest to a vector (size,) by cosine, but those of some rows."""
        checked("top", top, Count)
        cosines = np.concatenate([self.rows(block) @ unit(vector) for block in self._blocks()])
        cosines /= self._lengths
        cosines[list(without)] = -np.inf
        count = min(top, len(self) - len(set(without)))
        # Stable: the first of equal ones comes first.
        best = np.argsort(-cosines, kind="stable")[:count]
        return [WordNeighbour(self.words[row], float(cosines[row])) for row in best.tolist()]

    @cached_property
    def _lengths(self) -> Vectors:
        """The length of each vector (words,); 1 where it is zero, so that its cosines are 0."""
        blocks = [np.linalg.norm(self.rows(block), axis=1) for block in self._blocks()]
        lengths = np.concatenate(blocks)
        lengths[lengths == 0] = 1
        return lengths

    def _blocks(self) -> Iterator[slice]:
        """Rows of the table that are brought to single precision together."""
        return (slice(at, at + ROWS_AT_ONCE) for at in range(0, len(self), ROWS_AT_ONCE))

    def _embedded(self, sentence: Sentence) -> Vectors:
        """The vectors (words, size) of a sentence, zeros where a word has none."""
        rows = [self.row_of(word) for word in sentence]
        vectors = self.rows([row or 0 for row in rows])
        for place, row in enumerate(rows):
            if row is None:
                found = self.find(sentence[place])
                vectors[place] = 0 if found is None else found
        return vectors


def forms_of(word: str, lowercase: bool) -> tuple[str, ...]:
    """The forms of a word that may have its vector, the best first.

    >>> forms_of("Bank", lowercase=True)
    ('Bank', 'bank')
    """
    return (word, word.lower()) if lowercase else (word,)


def check_layers(layers: str | int) -> None:
    """Raise for layers other than the only one."""
    if isinstance(layers, bool) or layers not in ("average", "top", "all", 0):
        raise InputError(
            f"layers is {layers!r}; static vectors have one: 'average', 'top', 'all' or 0"
        )
