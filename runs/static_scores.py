"""Static vectors by elmokit beside gensim's, and a model's beside word2vec: similarity sets.

    python -m runs.static_scores --text ../shared/data/pretrain-en/enwiki.train-035.txt.xz
    python -m runs.static_scores --vectors ../shared/data/glove/glove.6B.50d.top50k.txt.gz
    python -m runs.static_scores --model english-small --text TEXT

`--text` trains both on the same sentences, for some seeds, and scores each with its own evaluation.
`--vectors` gives the same file to both evaluations. The numbers are Spearman's correlation, and the
share of analogies answered right. `--model` scores the means of a model's vectors over a text, for
each layer, beside word2vec of the same text and the bundled one, of the words that all have;
"- common" is without their first singular direction.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.machine import command_line, mean_and_deviation, one_line_errors, table
from elmokit.analysis.comparison import layers_of
from elmokit.cli.progress import Display
from elmokit.inference.embedder import Embedder, Vectors
from elmokit.io.text_files import TextSettings, find_files
from elmokit.static.evaluation import analogy_scores, similarity_score, total
from elmokit.static.files import import_gensim
from elmokit.static.training import TrainingSettings, train_vectors
from elmokit.static.vectors import StaticVectors
from elmokit.text.characters import Sentence
from elmokit.text.tokenizer import read_sentences
from runs.sentence_vectors import COMMON, without_common

WORDSIM = Path("../shared/data/wordsim")
ANALOGIES = "questions-words.txt.gz"
ANALOGIES_TITLE = "Google analogies"

Scores = dict[str, float]


def similarity_scores(vectors: StaticVectors, folder: Path) -> Scores:
    """Spearman's correlation on each set."""
    found = {path.stem: similarity_score(vectors, path) for path in sorted(folder.glob("EN-*.txt"))}
    return {
        name: float("nan") if one.spearman is None else one.spearman for name, one in found.items()
    }


def our_scores(vectors: StaticVectors, folder: Path) -> Scores:
    """The scores by elmokit's evaluation."""
    scores = similarity_scores(vectors, folder)
    accuracy = total(analogy_scores(vectors, folder / ANALOGIES)).accuracy
    scores[ANALOGIES_TITLE] = float("nan") if accuracy is None else accuracy
    return scores


def gensim_scores(keyed: Any, folder: Path) -> Scores:
    """The scores by gensim's evaluation of its KeyedVectors."""
    scores: Scores = {}
    for path in sorted(folder.glob("EN-*.txt")):
        try:
            scores[path.stem] = float(keyed.evaluate_word_pairs(str(path))[1][0])
        except ValueError:  # no word of the set is known
            scores[path.stem] = float("nan")
    scores[ANALOGIES_TITLE] = float(keyed.evaluate_word_analogies(str(folder / ANALOGIES))[0])
    return scores


class SideBySide:
    """An embedder whose vectors are those of all layers and their average, one behind the other."""

    def __init__(self, embedder: Embedder) -> None:
        self.tokenizer = embedder.tokenizer
        self.layers = dict(layers_of(embedder))
        self._embedder = embedder

    def embed_stream(self, sentences: Iterable[Sentence], layers: Any) -> Iterator[Vectors]:
        """The face of an `Embedder`; `layers` are all."""
        for array in self._embedder.embed_stream(sentences, "all"):
            yield np.concatenate([of(array) for of in self.layers.values()], axis=-1)


def model_scores(
    model: str, sentences: Sequence[list[str]], settings: TrainingSettings, folder: Path
) -> dict[str, Scores]:
    """The scores of each layer's means, and of word2vec, on the words that all have."""
    embedder = SideBySide(Embedder.load(model))
    with Display() as shown:
        trained = train_vectors(sentences, settings, observer=shown).vectors
        means = StaticVectors.from_model(
            embedder, sentences, min_count=settings.min_count, observer=shown
        )
    bundled = StaticVectors.load()
    words = [word for word in means.words if word in bundled]
    found = {"word2vec, this text": trained, "word2vec, bundled": bundled, "all": means}
    tables = {name: np.stack([one.vector(word) for word in words]) for name, one in found.items()}
    parts = np.split(tables.pop("all"), len(embedder.layers), axis=1)
    tables |= dict(zip(embedder.layers, parts, strict=True))
    tables |= {name + COMMON: without_common(one, one) for name, one in tables.items()}
    return {
        name: similarity_scores(StaticVectors(words, one), folder) for name, one in tables.items()
    }


def trained_scores(
    sentences: list[list[str]], settings: TrainingSettings, folder: Path
) -> tuple[Scores, Scores]:
    """Train both on the same sentences; the scores of each by its own evaluation."""
    with Display() as shown:
        ours = train_vectors(sentences, settings, observer=shown).vectors
    direct = import_gensim().Word2Vec(
        sentences,
        vector_size=settings.size,
        window=settings.window,
        min_count=settings.min_count,
        sg=int(settings.method == "skip-gram"),
        negative=settings.negative,
        epochs=settings.epochs,
        workers=settings.threads,
        seed=settings.seed,
    )
    return our_scores(ours, folder), gensim_scores(direct.wv, folder)


def rows_of(ours: Sequence[Scores], theirs: Sequence[Scores]) -> Iterator[list[str]]:
    """A row for each set: the mean over seeds, and how far these lie apart."""
    for name in ours[0]:
        one, other = ([scores[name] for scores in side] for side in (ours, theirs))
        cells = [mean_and_deviation(values, 4) for values in (one, other)]
        yield [name, *cells, f"{fmean(one) - fmean(other):+.4f}"]


def measure(
    arguments: argparse.Namespace, sentences: list[list[str]]
) -> tuple[list[Scores], list[Scores]]:
    """The scores of elmokit and of gensim, for each seed."""
    if arguments.vectors:
        vectors = StaticVectors.load(arguments.vectors)
        theirs = gensim_scores(vectors.to_gensim(), arguments.wordsim)
        return [our_scores(vectors, arguments.wordsim)], [theirs]
    pairs = [
        trained_scores(sentences, settings_of(arguments, seed), arguments.wordsim)
        for seed in range(1, arguments.seeds + 1)
    ]
    return [ours for ours, _ in pairs], [theirs for _, theirs in pairs]


def settings_of(arguments: argparse.Namespace, seed: int = 1) -> TrainingSettings:
    """How word2vec is trained."""
    return TrainingSettings(
        method=arguments.method, seed=seed, threads=arguments.threads, epochs=arguments.epochs
    )


@one_line_errors()
def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line; say what went wrong in one line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--text", nargs="+", help="files to train on")
    source.add_argument("--vectors", help="a file of vectors, trained before")
    parser.add_argument("--wordsim", type=Path, default=WORDSIM, help="the folder of the sets")
    parser.add_argument("--method", choices=["skip-gram", "cbow"], default="skip-gram")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--model", help="a model whose layers are to be scored on --text")
    given = parser.parse_args(arguments)
    files = find_files(given.text) if given.text else []
    sentences = list(read_sentences(files, TextSettings.of_corpus("default")))
    if given.model:
        found = model_scores(given.model, sentences, settings_of(given), given.wordsim)
        sets = next(iter(found.values()))
        rows = [[one, *(f"{scores[one]:.3f}" for scores in found.values())] for one in sets]
        means = (np.nanmean([*scores.values()]) for scores in found.values())
        rows.append(["mean", *(f"{mean:.3f}" for mean in means)])
        print(table(["set", *found], rows))
    else:
        ours, theirs = measure(given, sentences)
        print(table(["set", "elmokit", "gensim", "difference"], rows_of(ours, theirs)))
    print("\n" + command_line("runs.static_scores", arguments))


if __name__ == "__main__":
    main()
