"""Static vectors by elmokit beside gensim called directly: similarity sets and analogies.

    python -m runs.static_scores --text ../shared/data/pretrain-en/enwiki.train-035.txt.xz
    python -m runs.static_scores --vectors ../shared/data/glove/glove.6B.50d.top50k.txt.gz

`--text` trains both on the same sentences, for some seeds, and scores each with its own evaluation.
`--vectors` gives the same file to both evaluations. The numbers are Spearman's correlation, and the
share of analogies answered right.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.machine import describe, mean_and_deviation, one_line_errors, table
from elmokit.cli.progress import Display
from elmokit.io.text_files import TextSettings, find_files
from elmokit.static.evaluation import analogy_scores, similarity_score, total
from elmokit.static.files import import_gensim
from elmokit.static.training import TrainingSettings, train_vectors
from elmokit.static.vectors import StaticVectors
from elmokit.text.tokenizer import read_sentences

WORDSIM = Path("../shared/data/wordsim")
ANALOGIES = "questions-words.txt.gz"
ANALOGIES_TITLE = "Google analogies"

Scores = dict[str, float]


def our_scores(vectors: StaticVectors, folder: Path) -> Scores:
    """The scores by elmokit's evaluation."""
    scores: Scores = {}
    for path in sorted(folder.glob("EN-*.txt")):
        score = similarity_score(vectors, path).spearman
        scores[path.stem] = float("nan") if score is None else score
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


def gensim_of(vectors: StaticVectors) -> Any:
    """The same vectors as gensim's KeyedVectors."""
    from gensim.models import KeyedVectors  # type: ignore[import-untyped, unused-ignore]

    with TemporaryDirectory() as folder:
        path = Path(folder) / "vectors.bin"
        vectors.save(path)
        return KeyedVectors.load_word2vec_format(str(path), binary=True)


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


def measure(arguments: argparse.Namespace) -> tuple[list[Scores], list[Scores]]:
    """The scores of elmokit and of gensim, for each seed."""
    if arguments.vectors:
        vectors = StaticVectors.load(arguments.vectors)
        theirs = gensim_scores(gensim_of(vectors), arguments.wordsim)
        return [our_scores(vectors, arguments.wordsim)], [theirs]
    sentences = list(read_sentences(find_files(arguments.text), TextSettings.of_corpus("default")))
    pairs = [
        trained_scores(
            sentences,
            TrainingSettings(
                method=arguments.method,
                seed=seed,
                threads=arguments.threads,
                epochs=arguments.epochs,
            ),
            arguments.wordsim,
        )
        for seed in range(1, arguments.seeds + 1)
    ]
    return [ours for ours, _ in pairs], [theirs for _, theirs in pairs]


@one_line_errors()
def main() -> None:
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
    ours, theirs = measure(parser.parse_args())
    print(table(["set", "elmokit", "gensim", "difference"], rows_of(ours, theirs)))
    print(f"\n{describe()}")


if __name__ == "__main__":
    main()
