"""Probes of parts of speech, word similarity and minimal pairs.

Which part of speech a word is, scikit-learn's logistic regression tells on the vector of each layer
alone.
"""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from elmokit.analysis.comparison import layers_of, static_row
from elmokit.analysis.probes.files import MinimalPair, MinimalPairs, Paradigm, TaggedWords
from elmokit.analysis.probes.report import (
    SENTENCES_AT_A_TIME,
    ProbeReport,
    Scores,
    Source,
    Step,
    counted_stage,
    layer_count,
    layer_names,
)
from elmokit.analysis.senses import evenly
from elmokit.errors import InputError
from elmokit.inference.embedder import Embedder
from elmokit.inference.language_model import LanguageModel
from elmokit.jobs.progress import Observer
from elmokit.static.evaluation import (
    WORDS_LOOKED_AT,
    SimilarityScore,
    read_judgements,
    similarity_score,
)
from elmokit.static.vectors import StaticVectors
from elmokit.system import counted, import_extra

Labels = NDArray[np.int64]
AnyVectors = NDArray[np.floating[Any]]

UNKNOWN = -1  # the number of a label that was not learnt: no answer equals it
PENALTIES = (1e-3, 1e-4, 1e-5)
"""Each is tried, strong ones first: so much times half the squares of the weights, beside the mean
loss. The one that is best on the dev set is taken."""
ITERATIONS = 200  # the most of L-BFGS, for each of them


class ClassifierScores(NamedTuple):
    """Accuracies of a linear classifier, and the penalty it was trained with."""

    penalty: float
    dev: float
    test: float


def train_classifier(
    train: tuple[AnyVectors, Labels],
    dev: tuple[AnyVectors, Labels],
    test: tuple[AnyVectors, Labels],
    step: Step,
) -> ClassifierScores:
    """Train on vectors (words, size), scaled alike, and labels; the best on `dev` is kept."""
    linear_model, preprocessing, exceptions = (
        import_extra(f"sklearn.{name}", "analysis", "scikit-learn")
        for name in ("linear_model", "preprocessing", "exceptions")
    )
    limits = import_extra("threadpoolctl", "analysis").threadpool_limits
    scaler = preprocessing.StandardScaler(copy=False)
    vectors = scaler.fit_transform(train[0].astype(np.float32))
    asked = [(scaler.transform(part.astype(np.float32)), labels) for part, labels in (dev, test)]
    regression = linear_model.LogisticRegression(max_iter=ITERATIONS, warm_start=True)
    tried = []
    for penalty in PENALTIES:
        regression.C = 1 / (penalty * len(vectors))
        with warnings.catch_warnings(), limits(torch.get_num_threads()):
            # Fewer iterations than it would take are a penalty too.
            warnings.simplefilter("ignore", exceptions.ConvergenceWarning)
            regression.fit(vectors, train[1])
        accuracies = (float((regression.predict(part) == labels).mean()) for part, labels in asked)
        tried.append(ClassifierScores(penalty, *accuracies))
        step()
    return max(tried, key=lambda found: found.dev)


BASELINE = "most frequent tag of the word"


class TaggedText(NamedTuple):
    """Sentences to learn from, to choose by, and to be asked about."""

    train: list[TaggedWords]
    dev: list[TaggedWords]
    test: list[TaggedWords]


def embed_words(
    source: Source, sentences: Sequence[TaggedWords], step: Step
) -> NDArray[np.float16]:
    """The vectors (layers, words, size) of sentences; half precision, since all are held."""
    words = sum(len(sentence.words) for sentence in sentences)
    vectors = np.empty((layer_count(source), words, source.vector_size), np.float16)
    start = 0
    for layers in source.embed_stream((sentence.words for sentence in sentences), "all"):
        end = start + layers.shape[1]
        vectors[:, start:end] = layers
        start = end
        step()
    return vectors


def probe_parts_of_speech(
    sources: Sequence[Source], text: TaggedText, observer: Observer | None = None
) -> ProbeReport:
    """Train a classifier on each layer of each source, all in the same way."""
    tags = sorted({*tags_of(text.train)})
    if len(tags) < 2:
        raise InputError("the training set has one tag only; give a file with several")
    numbers = {tag: number for number, tag in enumerate(tags)}
    labels = [np.array([numbers.get(tag, UNKNOWN) for tag in tags_of(part)]) for part in text]
    total = len(sources) * sum(map(len, text))
    with counted_stage(observer, "embedding", "sentence", total, SENTENCES_AT_A_TIME) as step:
        embedded = [[embed_words(source, part, step) for part in text] for source in sources]
    rows = [
        (parts, *row)
        for source, parts in zip(sources, embedded, strict=True)
        for row in layers_of(source)
    ]
    found = {}
    total = len(rows) * len(PENALTIES)
    with counted_stage(observer, "classifiers", "training", total) as step:
        for parts, name, of_layer in rows:
            train, dev, test = zip(map(of_layer, parts), labels, strict=True)
            found[name] = train_classifier(train, dev, test, step)
    return ProbeReport(
        probe="part of speech",
        measure="accuracy",
        columns=("dev", "test"),
        scores={BASELINE: baseline_scores(text)}
        | {name: (one.dev, one.test) for name, one in found.items()},
        layers=layer_names(sources),
        counts={"words": (len(labels[1]), len(labels[2]))},
        details={
            "tags": tags,
            "training words": len(labels[0]),
            "penalties": {name: one.penalty for name, one in found.items()},
        },
    )


def tags_of(sentences: Iterable[TaggedWords]) -> list[str]:
    """The tags of all words, one after another."""
    return [tag for sentence in sentences for tag in sentence.tags]


def baseline_scores(text: TaggedText) -> Scores:
    """How often a word's most frequent tag is right, in `dev` and in `test`."""
    return tuple(
        float(np.mean(np.array(most_frequent_tags(text.train, asked)) == tags_of(asked)))
        for asked in (text.dev, text.test)
    )


def most_frequent_tags(train: Sequence[TaggedWords], asked: Sequence[TaggedWords]) -> list[str]:
    """Each word's most frequent tag in `train`; for a new word that of all words."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for sentence in train:
        for word, tag in zip(sentence.words, sentence.tags, strict=True):
            counts[word][tag] += 1
    usual = {word: count.most_common(1)[0][0] for word, count in counts.items()}
    most_frequent = Counter(tags_of(train)).most_common(1)[0][0]
    return [usual.get(word, most_frequent) for sentence in asked for word in sentence.words]


LAYER = "layer 0"


def probe_similarity(
    embedder: Embedder, files: Sequence[str | Path], static: StaticVectors | None = None
) -> ProbeReport:
    """Spearman's correlation of cosines with the judgements in each file.

    Layer 0 reads letters, so it has a vector for every word. Beside `static`, which may not, it is
    measured once more on the pairs whose words both have one: only these two compare.
    """
    columns: dict[str, list[SimilarityScore]] = {}
    if static is not None:
        columns[static_row(static)] = [similarity_score(static, path) for path in files]
        columns[f"{LAYER}, known pairs"] = [
            similarity_score(token_vectors(embedder, path, static), path) for path in files
        ]
    columns[LAYER] = [similarity_score(token_vectors(embedder, path), path) for path in files]
    scores: dict[str, Scores] = {}
    notes = {}
    for one, *others in zip(columns[LAYER], *columns.values(), strict=True):
        scores[one.name] = tuple(other.spearman for other in others)
        known = "" if static is None else f", {others[0].known:,} known"
        notes[one.name] = f"{one.pairs:,} pairs{known}"
    return ProbeReport(
        probe="word similarity",
        measure="Spearman's correlation",
        columns=tuple(columns),
        scores=scores,
        notes=notes,
        details={"sets": {name: [one._asdict() for one in all_] for name, all_ in columns.items()}},
    )


def token_vectors(
    embedder: Embedder, path: str | Path, known_to: StaticVectors | None = None
) -> StaticVectors:
    """Layer 0 of the words in a set, or of those that some static vectors have too."""
    pairs = read_judgements(path)
    words = list(dict.fromkeys(word for pair in pairs for word in pair[:2]))
    if known_to is not None:
        known = {word.upper() for word in known_to.words[:WORDS_LOOKED_AT]}
        words = [word for word in words if word.upper() in known]
    if not words:
        # A table needs a row; no set has an empty word.
        return StaticVectors([""], [[0.0]], name=LAYER)
    vectors = embedder.embed([[word] for word in words], layers=0)
    return StaticVectors(words, [one[0] for one in vectors], name=LAYER)


COLUMNS = ("forward", "backward", "sum")
ALL = "all"
TIE = 1e-4  # log probabilities no farther apart than this are equal: they differ by float noise

Values = NDArray[np.float64]


def probe_minimal_pairs(
    language_model: LanguageModel,
    pairs: MinimalPairs,
    most: int | None = None,
    observer: Observer | None = None,
) -> ProbeReport:
    """Accuracy by forward, backward and summed log probabilities of whole sentences.

    They are not divided by length; a tie counts one half. Every sentence is split with the model's
    own tokenizer, starts from zeros and is scored once, in however many pairs it stands.

    A phenomenon, a field or all has the mean of its paradigms' accuracies, as published. `most`
    takes so many pairs of each paradigm, from all over it.
    """
    if most is not None:
        pairs = {paradigm: evenly(of_it, most) for paradigm, of_it in pairs.items()}
    scores = sentence_scores(language_model, pairs.values(), observer or Observer())
    right = {paradigm: accuracies(of_it, scores) for paradigm, of_it in pairs.items()}
    groups = groups_of(right)
    return ProbeReport(
        probe="minimal pairs",
        measure="accuracy",
        columns=COLUMNS,
        scores={
            name: tuple(np.mean([right[at] for at in group], axis=0).tolist())
            for name, group in groups.items()
        },
        notes={
            name: f"{counted(len(group), 'paradigm')}, "
            + counted(sum(len(pairs[at]) for at in group), "pair")
            for name, group in groups.items()
        },
        details={
            "paradigms": [
                paradigm._asdict()
                | {"pairs": len(pairs[paradigm])}
                | dict(zip(COLUMNS, accuracy.tolist(), strict=True))
                for paradigm, accuracy in right.items()
            ]
        },
    )


def groups_of(paradigms: Iterable[Paradigm]) -> dict[str, list[Paradigm]]:
    """The paradigms of each phenomenon, of each field, and all."""
    groups: dict[str, list[Paradigm]] = {}
    for paradigm in sorted(paradigms, key=lambda one: one.phenomenon):
        groups.setdefault(paradigm.phenomenon, []).append(paradigm)
    for paradigm in sorted(paradigms, key=lambda one: one.field):
        groups.setdefault(f"{paradigm.field} (field)", []).append(paradigm)
    return groups | {ALL: list(paradigms)}


def sentence_scores(
    language_model: LanguageModel, pairs: Iterable[Sequence[MinimalPair]], observer: Observer
) -> dict[str, Values]:
    """The log probabilities (forward, backward, sum) of each different sentence."""
    sentences = list(dict.fromkeys(text for of_one in pairs for pair in of_one for text in pair))
    scores: dict[str, Values] = {}
    with observer.stage("scoring", "sentence", len(sentences)) as advance:
        for start in range(0, len(sentences), SENTENCES_AT_A_TIME):
            part = sentences[start : start + SENTENCES_AT_A_TIME]
            words = [[token.text for token in language_model.tokenizer.words(one)] for one in part]
            for sentence, one in zip(part, language_model.score(words), strict=True):
                scores[sentence] = np.array([one.total_forward, one.total_backward, one.total])
            advance(len(scores), len(sentences))
    return scores


def accuracies(pairs: Sequence[MinimalPair], scores: dict[str, Values]) -> Values:
    """The share (forward, backward, sum) of pairs whose good sentence is the likelier one."""
    good = np.array([scores[pair.good] for pair in pairs])
    bad = np.array([scores[pair.bad] for pair in pairs])
    right = np.where(np.isclose(good, bad, rtol=0, atol=TIE), 0.5, good > bad)
    return right.mean(axis=0)
