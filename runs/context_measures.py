"""What runs/context_check.py measures: senses by context, spellings by characters, states.

Models are asked here, tables are made there.
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import sqrt
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from elmokit.analysis.comparison import cosine, layers_of
from elmokit.cli.progress import Display
from elmokit.config import State
from elmokit.errors import InputError
from elmokit.inference.embedder import Embedder, Vectors
from elmokit.inference.language_model import LanguageModel, StartState
from elmokit.inference.predictions import Perplexity
from elmokit.inference.token_vectors import encode_words
from elmokit.io.text_files import TextSettings, find_files
from elmokit.text.tokenizer import read_sentences
from elmokit.text.vocabulary import Vocabulary

Likeness = NDArray[np.float64]
"""How like the anchor the same sense and the other sense are: (items, 2)."""

QUESTIONS = Path(__file__).parent / "data" / "context_pairs.toml"
KOREAN_QUESTIONS = QUESTIONS.with_name("korean_context_pairs.toml")
TIE = 1e-6
"""Cosines no farther apart than this are equal: a static vector differs by float noise."""
Z_95 = 1.96
FREQUENT_WORDS = 10_000
RANDOM_WORDS = 1_000
WORDS_AT_ONCE = 1_024
SEED = 0
MOST_SENTENCES = 2_000


@dataclass(frozen=True)
class Item:
    """A word in three sentences: twice in one sense, then in another."""

    word: str
    kind: str
    sentences: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]

    @property
    def lost(self) -> bool:
        """Whether the word is not in each sentence, as these were split; then it is not solved."""
        return not all(self.word in words for words in self.sentences)


class Pair(NamedTuple):
    """A word, and what was typed for it or made from it."""

    word: str
    written: str


class Questions(NamedTuple):
    """All that a model is asked."""

    items: dict[str, tuple[Item, ...]]  # by set
    typos: dict[str, list[Pair]]
    relatives: dict[str, list[Pair]]


def read_questions(
    path: Path = QUESTIONS, split: Callable[[str], Sequence[str]] = str.split
) -> Questions:
    """Read a file of questions; `split` gives the words of its sentences."""
    contents = tomllib.loads(path.read_text(encoding="utf-8"))
    typos, relatives = (pairs_of(contents.pop(name, {})) for name in ("typos", "relatives"))
    sets = {
        name: tuple(item_of(values, split) for values in items) for name, items in contents.items()
    }
    return Questions(sets, typos, relatives)


def item_of(values: Mapping[str, str], split: Callable[[str], Sequence[str]]) -> Item:
    """One item, its sentences split."""
    anchor, same, other = (tuple(split(values[name])) for name in ("anchor", "same", "other"))
    return Item(values["word"], values["kind"], (anchor, same, other))


def pairs_of(kinds: Mapping[str, Iterable[Sequence[str]]]) -> dict[str, list[Pair]]:
    """The pairs of each kind."""
    return {kind: [Pair(*pair) for pair in pairs] for kind, pairs in kinds.items()}


class Score(NamedTuple):
    """The points of some items, at most one each."""

    points: float
    items: int

    @property
    def share(self) -> float:
        """Points per item."""
        return self.points / self.items

    @property
    def interval(self) -> tuple[float, float]:
        """Where the true share may lie."""
        return wilson_interval(self.points, self.items)

    def cells(self) -> str:
        """Two cells of a table."""
        low, high = self.interval
        return f"{self.share:.1%} | {low:.1%} to {high:.1%}"


def wilson_interval(points: float, items: int, z: float = Z_95) -> tuple[float, float]:
    """Wilson's interval for a share: within 0 and 1, and sound for few items."""
    share = points / items
    centre = share + z * z / (2 * items)
    spread = z * sqrt(share * (1 - share) / items + z * z / (4 * items * items))
    scale = 1 + z * z / items
    return max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)


def points_of(likeness: Likeness) -> NDArray[np.float64]:
    """A point (items,) where the first is the more alike, none where the second is, ½ for a tie."""
    lead = likeness[:, 0] - likeness[:, 1]
    return np.where(np.abs(lead) <= TIE, 0.5, (lead > 0).astype(np.float64))


def score(points: Iterable[float]) -> Score:
    """Add points up."""
    values = list(points)
    return Score(float(sum(values)), len(values))


@dataclass(frozen=True)
class Senses:
    """How like each other a word's vectors are in each layer, item by item."""

    items: tuple[Item, ...]
    likeness: dict[str, Likeness]

    def points(self, layer: str) -> NDArray[np.float64]:
        """The points (items,) of a layer; a lost item has none."""
        return np.where([item.lost for item in self.items], 0, points_of(self.likeness[layer]))

    def score(self, layer: str, kind: str | None = None) -> Score:
        """The score of a layer, for the items of one kind or for all."""
        points = zip(self.items, self.points(layer), strict=True)
        return score(value for item, value in points if kind in (None, item.kind))

    @property
    def best(self) -> str:
        """The layer with the highest score; of equals the lowest layer."""
        return max(self.likeness, key=lambda layer: self.score(layer).points)


def check_senses(embedder: Embedder, items: Sequence[Item]) -> Senses:
    """Compare each item's word in its three sentences, layer by layer."""
    vectors = embed_items(embedder, items)
    likeness = {
        layer: likeness_of([[of_layer(one) for one in three] for three in vectors])
        for layer, of_layer in layers_of(embedder)
    }
    return Senses(tuple(items), likeness)


def embed_items(embedder: Embedder, items: Sequence[Item]) -> list[list[Vectors]]:
    """The word's vectors (layers, size) in the three sentences of each item."""
    sentences = [(item.word, words) for item in items for words in item.sentences]
    embedded = embed_shuffled(embedder, [words for _, words in sentences])
    vectors = [
        layers[:, position_of(word, words)]
        for (word, words), layers in zip(sentences, embedded, strict=True)
    ]
    return [vectors[start : start + 3] for start in range(0, len(vectors), 3)]


def position_of(word: str, words: Sequence[str]) -> int:
    """The first place of a word; 0 where it is not, and its item is lost."""
    return words.index(word) if word in words else 0


def embed_shuffled(embedder: Embedder, sentences: Sequence[Sequence[str]]) -> list[Vectors]:
    """Embed sentences (layers, words, size) one after another, in an order all models share.

    In state `carry` each so starts with what is left of unrelated ones. In other states the order
    does not matter.
    """
    order = list(range(len(sentences)))
    random.Random(SEED).shuffle(order)
    embedder.reset_state()
    embedded = {number: embedder.embed_layers([sentences[number]])[0] for number in order}
    return [embedded[number] for number in range(len(sentences))]


def likeness_of(items: Iterable[Sequence[Vectors]]) -> Likeness:
    """Cosines of each item's first vector with its second and its third."""
    return np.array(
        [[cosine(anchor, same), cosine(anchor, other)] for anchor, same, other in items]
    )


def surface_controls(items: Sequence[Item]) -> Senses:
    """What the surface of the sentences would say, without any model."""

    def of_each(describe: Callable[[str, Sequence[str]], Any]) -> list[list[Any]]:
        return [[describe(item.word, words) for words in item.sentences] for item in items]

    likeness = {
        "the words beside it": shared(of_each(neighbours)),
        "the words of the sentence": shared(of_each(others)),
        "the place in the sentence": -distances(of_each(place)),
    }
    return Senses(tuple(items), likeness)


def neighbours(word: str, words: Sequence[str]) -> set[tuple[str, str]]:
    """The words on both sides of one, and on which side they are."""
    folded = ["", *(other.casefold() for other in words), ""]
    position = position_of(word, folded)
    return {("before", folded[position - 1]), ("after", folded[position + 1])}


def others(word: str, words: Sequence[str]) -> set[str]:
    """The other words of a sentence."""
    return {other.casefold() for other in words} - {word}


def place(word: str, words: Sequence[str]) -> tuple[int, int]:
    """How many words stand before one, and how many after it."""
    before = position_of(word, words)
    return before, len(words) - before - 1


def shared(items: Iterable[Sequence[set[Any]]]) -> Likeness:
    """How many elements each item's first set shares with its second and its third."""
    counts = [[len(anchor & same), len(anchor & other)] for anchor, same, other in items]
    return np.array(counts, dtype=np.float64)


def distances(items: Iterable[Sequence[tuple[int, int]]]) -> Likeness:
    """How far each item's first place is from its second and its third."""
    places = np.array(list(items), dtype=np.float64)
    return np.abs(places[:, 1:] - places[:, :1]).sum(-1)


class Nearness(NamedTuple):
    """How near a spelling is to its word, among random ones."""

    pair: Pair
    farther: float  # share of the random words that are farther from the spelling than its word


def check_spellings(
    embedder: Embedder, kinds: Mapping[str, Sequence[Pair]]
) -> dict[str, list[Nearness]]:
    """Compare each spelling with its word and with random ones, by the token layer alone."""
    frequent = frequent_words(embedder.vocabulary)
    draws = {pair: draw_words(frequent, pair) for pairs in kinds.values() for pair in pairs}
    words = {word for pair, drawn in draws.items() for word in (*pair, *drawn)}
    vectors = token_vectors(embedder, sorted(words))

    def nearness(pair: Pair) -> Nearness:
        drawn = np.stack([vectors[word] for word in draws[pair]])
        return Nearness(pair, share_farther(vectors[pair.written], vectors[pair.word], drawn))

    return {kind: [nearness(pair) for pair in pairs] for kind, pairs in kinds.items()}


def frequent_words(vocabulary: Vocabulary | None) -> list[str]:
    """The most frequent words of lower-case letters; a vocabulary is sorted by frequency."""
    if vocabulary is None:
        raise InputError(
            "this model has no vocabulary to draw random words from; "
            "use a model folder that elmo pretrain has made"
        )
    plain = [word for word in vocabulary.words if word.isascii() and word.isalpha()]
    return [word for word in plain if word.islower()][:FREQUENT_WORDS]


def draw_words(frequent: Sequence[str], pair: Pair) -> list[str]:
    """Random words about as long as the pair's word, so that length is no clue."""
    length = len(pair.word)
    alike = [word for word in frequent if abs(len(word) - length) <= 1 and word not in pair]
    if not alike:
        raise InputError(
            f"the vocabulary has no frequent word of about {length} letters to compare "
            f"{pair.word!r} with; use a model of more words"
        )
    return random.Random(SEED).sample(alike, min(RANDOM_WORDS, len(alike)))


@torch.inference_mode()
def token_vectors(embedder: Embedder, words: Sequence[str]) -> dict[str, Vectors]:
    """The token vector (size,) of each of some different words."""
    vectors: dict[str, Vectors] = {}
    for start in range(0, len(words), WORDS_AT_ONCE):
        chunk = words[start : start + WORDS_AT_ONCE]
        encoded = encode_words(embedder.bilm, embedder.vocabulary, chunk).float().cpu().numpy()
        vectors.update(zip(chunk, encoded, strict=True))
    return vectors


def share_farther(written: Vectors, word: Vectors, drawn: Vectors) -> float:
    """Share of drawn vectors (words, size) that are farther from `written` than `word` is."""
    near = cosine(written, word)
    return float(points_of(np.array([[near, cosine(written, one)] for one in drawn])).mean())


class Spellings(NamedTuple):
    """How near some spellings are to their words, among random ones."""

    farther: float  # mean share of the random words
    nearer_than_median: Score
    nearer_than_all: Score


def summary(results: Sequence[Nearness]) -> Spellings:
    """Put the nearness of some pairs together."""
    farther = [one.farther for one in results]
    return Spellings(
        float(np.mean(farther)),
        score(float(share > 0.5) for share in farther),
        score(float(share == 1) for share in farther),
    )


def check_states(embedder: Embedder, items: Sequence[Item]) -> dict[str, Senses]:
    """The senses in each state that a sentence can start from."""
    return {state: check_senses(in_state(embedder, state), items) for state in get_args(State)}


def in_state(embedder: Embedder, state: State) -> Embedder:
    """The same model, started otherwise."""
    return Embedder(
        embedder.bilm, tokenizer=embedder.tokenizer, vocabulary=embedder.vocabulary, state=state
    )


def check_perplexities(embedder: Embedder, text: str) -> dict[str, Perplexity]:
    """Perplexity of the beginning of a raw text in each state that a language model can score in.

    In state carry it reads one sentence after the other, which takes its time.
    """
    language_model = LanguageModel(embedder.bilm, embedder.vocabulary, tokenizer=embedder.tokenizer)
    settings = TextSettings.of_corpus(tokenizer=embedder.tokenizer.name)
    sentences = list(islice(read_sentences(find_files([text]), settings), MOST_SENTENCES))
    perplexities = {}
    for state in get_args(StartState):
        with Display().stage(f"perplexity, state {state}", "sentence") as progress:
            perplexities[state] = language_model.perplexity(sentences, state, progress)
    return perplexities
