"""Which part of speech a word is, by a linear classifier on the vector of each layer alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmokit.analysis.comparison import layers_of
from elmokit.analysis.probes.classifier import (
    UNKNOWN,
    ClassifierSettings,
    Labels,
    train_classifier,
)
from elmokit.analysis.probes.files.tagged import TaggedSentence, read_tagged
from elmokit.analysis.probes.report import ProbeReport, Scores, joined
from elmokit.analysis.probes.sources import Source, layer_count, layer_names
from elmokit.analysis.probes.stages import SENTENCES_AT_A_TIME, Progress, Stages
from elmokit.text.conllu import PartOfSpeech

PARTS = ("train", "dev", "test")
BASELINE = "most frequent tag of the word"


@dataclass(frozen=True)
class TaggedText:
    """Sentences to learn from, to stop by, and to be asked about."""

    train: list[TaggedSentence]
    dev: list[TaggedSentence]
    test: list[TaggedSentence]

    @property
    def sentences(self) -> list[TaggedSentence]:
        """All of them."""
        return [*self.train, *self.dev, *self.test]

    @property
    def tags(self) -> list[str]:
        """The different tags to learn, sorted."""
        return sorted({*tags_of(self.train)})


@dataclass(frozen=True)
class EmbeddedText:
    """The vectors (layers, words, size) of a text's parts, and what its rows are called."""

    source: Source
    parts: dict[str, NDArray[np.float16]]


def read_tagged_text(
    train: str | Path,
    dev: str | Path,
    test: str | Path,
    tag: PartOfSpeech = "upos",
    sentences: int | None = None,
) -> TaggedText:
    """Read three CoNLL-U files; of the first no more than so many sentences are kept."""
    learnt, stopped_by, asked = (read_tagged(path, tag) for path in (train, dev, test))
    return TaggedText(learnt[:sentences], stopped_by, asked)


def embed_text(
    sources: Sequence[Source], text: TaggedText, progress: Progress | None = None
) -> list[EmbeddedText]:
    """Embed all words once, by each source; in half precision, since all are held at a time."""
    stages = Stages(progress, len(sources) * len(text.sentences), SENTENCES_AT_A_TIME)
    return [
        EmbeddedText(
            source, {part: _embedded_part(source, getattr(text, part), stages) for part in PARTS}
        )
        for source in sources
    ]


def _embedded_part(
    source: Source, sentences: Sequence[TaggedSentence], stages: Stages
) -> NDArray[np.float16]:
    vectors = embed_words(source, sentences, stages)
    stages.next(len(sentences))
    return vectors


def embed_words(
    source: Source, sentences: Sequence[TaggedSentence], progress: Progress | None = None
) -> NDArray[np.float16]:
    """The vectors (layers, words, size) of some sentences, one after another; half precision."""
    words = sum(len(sentence.words) for sentence in sentences)
    vectors = np.empty((layer_count(source), words, source.vector_size), np.float16)
    start = 0
    stream = source.embed_layers_stream(sentence.words for sentence in sentences)
    for done, layers in enumerate(stream, start=1):
        end = start + layers.shape[1]
        vectors[:, start:end] = layers
        start = end
        if progress is not None:
            progress(done, len(sentences))
    return vectors


def probe_parts_of_speech(
    text: TaggedText,
    embedded: Sequence[EmbeddedText],
    settings: ClassifierSettings | None = None,
    progress: Progress | None = None,
) -> ProbeReport:
    """Train a classifier on each layer of each embedded text, all in the same way."""
    settings = settings or ClassifierSettings()
    trainings = [(one, row) for one in embedded for row in layers_of(one.source)]
    labels = labels_of(text)
    classes = len(text.tags)
    scores: dict[str, Scores] = {BASELINE: baseline_scores(text)}
    epochs: dict[str, int] = {}
    stages = Stages(progress, len(trainings) * settings.epochs)
    for one, (name, of_layer) in trainings:
        train, dev, test = ((of_layer(one.parts[part]), labels[part]) for part in PARTS)
        classifier = train_classifier(train, dev, classes, settings, stages)
        stages.next(settings.epochs)
        scores = joined(scores, {name: (classifier.accuracy(*dev), classifier.accuracy(*test))})
        epochs[list(scores)[-1]] = classifier.epochs
    return ProbeReport(
        probe="part of speech",
        measure="accuracy",
        columns=("dev", "test"),
        scores=scores,
        layers=layer_names(*(one.source for one in embedded)),
        counts={"words": (len(labels["dev"]), len(labels["test"]))},
        details={"tags": text.tags, "training words": len(labels["train"]), "epochs": epochs},
    )


def labels_of(text: TaggedText) -> dict[str, Labels]:
    """The number of each word's tag among those to learn, in each part."""
    numbers = {tag: number for number, tag in enumerate(text.tags)}
    return {
        part: np.array(
            [numbers.get(tag, UNKNOWN) for tag in tags_of(getattr(text, part))], np.int64
        )
        for part in PARTS
    }


def tags_of(sentences: Iterable[TaggedSentence]) -> list[str]:
    """The tags of all words, one after another."""
    return [tag for sentence in sentences for tag in sentence.tags]


def baseline_scores(text: TaggedText) -> Scores:
    """How often a word's most frequent tag is right, in `dev` and in `test`."""
    return tuple(
        float(np.mean(np.array(most_frequent_tags(text.train, asked)) == tags_of(asked)))
        for asked in (text.dev, text.test)
    )


def most_frequent_tags(
    train: Sequence[TaggedSentence], asked: Sequence[TaggedSentence]
) -> list[str]:
    """Each word's most frequent tag in `train`; for a new word that of all words."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for sentence in train:
        for word, tag in zip(sentence.words, sentence.tags, strict=True):
            counts[word][tag] += 1
    usual = {word: count.most_common(1)[0][0] for word, count in counts.items()}
    most_frequent = Counter(tags_of(train)).most_common(1)[0][0]
    return [usual.get(word, most_frequent) for sentence in asked for word in sentence.words]
