"""The vectors of words that have a sense, one occurrence after another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from elmokit.analysis.probes.files.senses import Occurrence, SenseSentence
from elmokit.analysis.probes.sources import Source
from elmokit.analysis.probes.stages import Progress
from elmokit.embedder import Vectors


def occurrence_vectors(
    source: Source,
    sentences: Sequence[SenseSentence],
    progress: Progress | None = None,
) -> Iterator[tuple[Occurrence, Vectors]]:
    """Each occurrence with its vectors (layers, size), in constant memory.

    A unit of several words has the mean of theirs.
    """
    stream = source.embed_layers_stream(sentence.words for sentence in sentences)
    for done, (sentence, layers) in enumerate(zip(sentences, stream, strict=True), start=1):
        for occurrence in sentence.occurrences:
            yield occurrence, layers[:, occurrence.start : occurrence.end].mean(1)
        if progress is not None:
            progress(done, len(sentences))
