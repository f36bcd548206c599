"""How good sentence vectors are, without training: layers and poolings, beside word2vec and BM25.

    python -m runs.sentence_vectors english
    python -m runs.sentence_vectors korean
    python -m runs.sentence_vectors korean --most 1000
    python -m runs.sentence_vectors korean --model checkpoints/my/model --sets STS --pools mean

Similarity sets: Spearman's correlation, times 100, of cosines with what people say. Questions: the
mean of 1 / rank (MRR), times 100, of the paragraph with the answer among all paragraphs of the set,
by cosine, and the percentage of questions that have it among the first ten. `mean` and `max` are
over the words of a text. SIF weights a word of frequency p (by the model's vocabulary) a / (a + p),
a = 0.001 (Arora et al. 2017). "- common" takes the first singular vector of the texts of a set
(the second sentences, or the paragraphs) out of all. Sets with a star are those that the default
of `Embedder.encode` was chosen by, and their mean is the last column.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import NamedTuple

import numpy as np

from benchmarks.machine import command_line, one_line_errors, table
from elmokit.analysis.comparison import layers_of
from elmokit.bundled import (
    ENGLISH_SMALL,
    ENGLISH_SMALL_WORD2VEC,
    KOREAN_SMALL,
    KOREAN_SMALL_WORD2VEC,
)
from elmokit.inference.embedder import Embedder, Vectors
from elmokit.io.tables import table_rows
from elmokit.io.text_files import read_lines, read_text
from elmokit.static.vectors import StaticVectors, unit
from elmokit.system import import_extra
from elmokit.text.vocabulary import Vocabulary
from runs.task_rows import DATA

Split = Sequence[Sequence[str]]
"""A text: sentences of words."""

SIF_CONSTANT = 1e-3
BM25_SATURATION, BM25_LENGTH = 1.2, 0.75
FIRST = 10
COMMON = " - common"
POOLS = ("mean", "max", "SIF", "mean" + COMMON, "SIF" + COMMON)


class Pairs(NamedTuple):
    """Pairs of sentences, and how alike people find them."""

    left: list[str]
    right: list[str]
    judged: list[float]

    def thinned(self, step: int) -> Pairs:
        """Every `step`-th pair."""
        return Pairs(self.left[::step], self.right[::step], self.judged[::step])

    def score(self, left: Vectors, right: Vectors) -> list[float]:
        """Spearman's correlation of cosines with the judgements, times 100."""
        stats = import_extra("scipy.stats", "static")
        cosines = (unit(left) * unit(right)).sum(-1)
        return [100 * float(stats.spearmanr(cosines, self.judged).statistic)]


class Questions(NamedTuple):
    """Questions, paragraphs, and the number of each question's paragraph."""

    left: list[str]
    right: list[str]
    answers: list[int]

    def thinned(self, step: int) -> Questions:
        """Every `step`-th paragraph, and its questions."""
        asked = zip(self.left, self.answers, strict=True)
        kept = [(question, answer // step) for question, answer in asked if answer % step == 0]
        return Questions([one for one, _ in kept], self.right[::step], [one for _, one in kept])

    def score(self, left: Vectors, right: Vectors) -> list[float]:
        """The mean of 1 / rank by cosine, and how many are among the first ten, times 100."""
        return self.rank_scores(unit(left) @ unit(right).T)

    def rank_scores(self, likeness: Vectors) -> list[float]:
        """The same of any likeness (questions, paragraphs); equals rank behind each other."""
        wanted = likeness[np.arange(len(self.answers)), self.answers]
        ranks = (likeness >= wanted[:, None]).sum(1)
        return [100 * float((1 / ranks).mean()), 100 * float((ranks <= FIRST).mean())]


Set = Pairs | Questions


def read_table(files: Sequence[str], names: Sequence[str]) -> Pairs:
    """Pairs from columns of tables: two sentences and a score."""
    lines = (line for file in files for line in table_rows(read_lines(DATA / file), "tsv"))
    left, right, judged = zip(*([row.value(name) for name in names] for row in lines), strict=True)
    return Pairs(list(left), list(right), [float(score) for score in judged])


def read_klue() -> Pairs:
    """The dev part of KLUE-STS."""
    rows = json.loads(read_text(DATA / "ko-klue/klue-sts-v1.1_dev.json.gz"))
    scores = [row["labels"]["real-label"] for row in rows]
    return Pairs([row["sentence1"] for row in rows], [row["sentence2"] for row in rows], scores)


def read_questions(file: str, articles: slice = slice(None)) -> Questions:
    """Questions of SQuAD's format, of some articles."""
    paragraphs: dict[str, int] = {}
    asked: list[tuple[str, int]] = []
    for article in json.loads(read_text(DATA / file))["data"][articles]:
        for paragraph in article["paragraphs"]:
            number = paragraphs.setdefault(paragraph["context"], len(paragraphs))
            asked += [(question["question"], number) for question in paragraph["qas"]]
    return Questions([one for one, _ in asked], list(paragraphs), [one for _, one in asked])


SICK = ("sentence_A", "sentence_B", "relatedness_score")
KORSTS = ("sentence1", "sentence2", "score")
KORQUAD = "ko-korquad/KorQuAD_v1.0_dev.json.gz"
SETS: dict[str, dict[str, Callable[[], Set]]] = {
    "english": {
        "SICK train*": partial(read_table, ["nli/sick.train.tsv.gz"], SICK),
        "SICK test": partial(read_table, ["nli/sick.test.tsv.gz"], SICK),
        "SQuADShifts wiki*": partial(read_questions, "qa/squadshifts.new_wiki.json.gz"),
        "SQuAD dev": partial(read_questions, "qa/squad-v1.1.dev.json.gz"),
    },
    "korean": {
        "KorSTS dev*": partial(read_table, ["ko-kornlu/sts-dev.tsv.gz"], KORSTS),
        "KorSTS test": partial(read_table, ["ko-kornlu/sts-test.tsv.gz"], KORSTS),
        "KLUE-STS dev": read_klue,
        "KorQuAD, even articles*": partial(read_questions, KORQUAD, slice(0, None, 2)),
        "KorQuAD, odd articles": partial(read_questions, KORQUAD, slice(1, None, 2)),
    },
}
MODELS = {"english": ENGLISH_SMALL, "korean": KOREAN_SMALL}
STATIC = {"english": ENGLISH_SMALL_WORD2VEC, "korean": KOREAN_SMALL_WORD2VEC}


def read_sets(language: str, part: str = "", most: int | None = None) -> dict[str, Set]:
    """The sets of a language with `part` in their names, thinned to about `most` on the left."""
    sets = {name: read() for name, read in SETS[language].items() if part in name}
    if most is None:
        return sets
    return {name: one.thinned(-(-len(one.left) // most)) for name, one in sets.items()}


class Frequencies:
    """How large a part of the text of a vocabulary each word is."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        counts = vocabulary.counts or range(len(vocabulary), 0, -1)
        self._counts = dict(zip(vocabulary.words, counts, strict=True))
        self._total, self._rarest = sum(self._counts.values()), min(self._counts.values())

    def weight(self, word: str) -> float:
        """What SIF multiplies a word's vector by; words that are not there are the rarest."""
        count = self._counts.get(word) or self._counts.get(word.lower()) or self._rarest
        return SIF_CONSTANT / (SIF_CONSTANT + count / self._total)


def pooled(layers: Vectors, words: Sequence[str], frequencies: Frequencies) -> Vectors:
    """The mean, the maximum and SIF's mean of a text (layers, words, size): (3, layers, size).

    Words whose vectors are zeros, which static vectors have of unknown words, do not count.
    """
    known = layers.any(axis=(0, 2))
    if not known.any():
        return np.zeros((3, len(layers), layers.shape[-1]), np.float32)
    layers = layers[:, known]
    weights = np.array([frequencies.weight(word) for word in words], np.float32)[known]
    sif = np.einsum("lws,w->ls", layers, weights / weights.sum())
    return np.stack([layers.mean(1), layers.max(1), sif])


def vectors_of(
    embedder: Embedder | StaticVectors, split: Sequence[Split], frequencies: Frequencies
) -> Vectors:
    """Vectors of texts, (3, rows of `layers_of`, texts, size)."""
    stream = embedder.embed_stream((words for text in split for words in text), "all")
    ways = [of for _, of in layers_of(embedder)]
    found = []
    for text in split:
        layers = np.concatenate([next(stream) for _ in text or [[]]], axis=1)
        rows = np.stack([of(layers) for of in ways])
        found.append(pooled(rows, [word for words in text for word in words], frequencies))
    return np.stack(found, axis=2)


def without_common(vectors: Vectors, texts: Vectors) -> Vectors:
    """Vectors (…, size) without their part in the first singular direction of some."""
    direction = np.linalg.svd(texts, full_matrices=False)[2][0]
    return vectors - (vectors @ direction)[..., None] * direction


def scores_of(
    one: Set, embedder: Embedder | StaticVectors, frequencies: Frequencies
) -> Iterator[tuple[tuple[str, str], list[float]]]:
    """The scores of each row of the table: its layer and pooling, and the numbers."""
    sides = (one.left, one.right)
    split = [[embedder.split(text) or [[]] for text in texts] for texts in sides]
    found = [vectors_of(embedder, texts, frequencies) for texts in split]
    for row, (layer, _) in enumerate(layers_of(embedder)):
        for pool in POOLS:
            number = POOLS.index(pool.removesuffix(COMMON))
            left, right = (vectors[number, row] for vectors in found)
            if pool.endswith(COMMON):
                left, right = without_common(left, right), without_common(right, right)
            yield (layer, pool), one.score(left, right)


def bm25(one: Questions, embedder: Embedder) -> list[float]:
    """The scores of BM25 on the model's words in lower case."""
    counting = import_extra("sklearn.feature_extraction.text", "sklearn").CountVectorizer
    counter = counting(analyzer=lambda text: embedder.tokenize(text.lower()))
    counts = counter.fit_transform(one.right).tocoo()
    lengths = np.bincount(counts.row, counts.data, len(one.right))
    held = np.bincount(counts.col, minlength=counts.shape[1])  # paragraphs that have a word
    rarity = np.log1p((len(one.right) - held + 0.5) / (held + 0.5))
    relative = 1 - BM25_LENGTH + BM25_LENGTH * lengths / lengths.mean()
    saturated = counts.data / (counts.data + BM25_SATURATION * relative[counts.row])
    counts.data = saturated * (BM25_SATURATION + 1) * rarity[counts.col]
    return one.rank_scores((counter.transform(one.left) @ counts.tocsr().T).toarray())


Rows = dict[tuple[str, str], list[list[float]]]
"""The numbers of each cell, by layer and pooling."""


def measure(sets: Mapping[str, Set], embedder: Embedder, static: StaticVectors) -> Rows:
    """All rows of the table, those of BM25 first."""
    assert embedder.vocabulary is not None  # the softmax was asked for
    frequencies = Frequencies(embedder.vocabulary)
    rows: Rows = {("BM25", ""): []}
    for one in sets.values():
        found = bm25(one, embedder) if isinstance(one, Questions) else []
        rows["BM25", ""].append(found)
        for model in (static, embedder):
            for name, numbers in scores_of(one, model, frequencies):
                rows.setdefault(name, []).append(numbers)
    return rows


def shown(rows: Rows, names: Sequence[str], pools: Sequence[str]) -> Iterator[list[str]]:
    """The rows as a table has them; the last cell is the mean of the sets with a star."""
    for (layer, pool), cells in rows.items():
        if (pool and pool not in pools) or not any(cells):
            continue
        chosen = [cell for name, cell in zip(names, cells, strict=True) if name.endswith("*")]
        mean = [f"{fmean(cell[0] for cell in chosen):.1f}"] if all(chosen) and chosen else ["-"]
        numbers = [" / ".join(f"{number:.1f}" for number in cell) or "-" for cell in cells]
        yield [layer, pool, *numbers, *mean]


def size_of(one: Set) -> str:
    """How many pairs, or questions and paragraphs, a set has."""
    counts = (one.left,) if isinstance(one, Pairs) else (one.left, one.right)
    return " of ".join(f"{len(texts):,}" for texts in counts)


@one_line_errors()
def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("language", choices=MODELS)
    parser.add_argument("--model", help="another than the bundled one")
    parser.add_argument("--static", help="a file of other static vectors")
    parser.add_argument("--sets", default="", help="only those with this in their names")
    parser.add_argument("--most", type=int, help="about so many pairs or questions of each set")
    parser.add_argument("--pools", nargs="+", choices=POOLS, default=POOLS)
    given = parser.parse_args(arguments)
    sets = read_sets(given.language, given.sets, given.most)
    embedder = Embedder.load(given.model or MODELS[given.language], softmax=True)
    rows = measure(sets, embedder, StaticVectors.load(given.static or STATIC[given.language]))
    sizes = [f"{name} ({size_of(one)})" for name, one in sets.items()]
    print(table(["layer", "pooling", *sizes, "mean of *"], shown(rows, list(sets), given.pools)))
    print("\n" + command_line("runs.sentence_vectors", arguments))


if __name__ == "__main__":
    main()
