"""How alike words are by their letters: layer 0 on sets of pairs that people have judged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from elmokit.analysis.comparison import static_row
from elmokit.analysis.probes.report import ProbeReport, Scores
from elmokit.embedder import Embedder
from elmokit.errors import InputError
from elmokit.static.evaluation import WORDS_LOOKED_AT, SimilarityScore, similarity_score
from elmokit.static.questions import read_judgements
from elmokit.static.vectors import StaticVectors

LAYER = "layer 0"


def probe_similarity(
    embedder: Embedder, files: Sequence[str | Path], static: StaticVectors | None = None
) -> ProbeReport:
    """Spearman's correlation of cosines with the judgements in each file.

    Layer 0 reads letters, so it has a vector for every word. Beside `static`, which may not, it is
    measured once more on the pairs whose words both have one: only these two compare.
    """
    if not files:
        raise InputError("give at least one set of pairs: files with two words and a score a line")
    columns: dict[str, list[SimilarityScore]] = {}
    if static is not None:
        columns[static_row(static)] = [similarity_score(static, path) for path in files]
        columns[f"{LAYER}, known pairs"] = [
            similarity_score(token_vectors(embedder, path, static), path) for path in files
        ]
    columns[LAYER] = [similarity_score(token_vectors(embedder, path), path) for path in files]
    sets = columns[LAYER]
    scores: dict[str, Scores] = {
        one.name: tuple(column[row].spearman for column in columns.values())
        for row, one in enumerate(sets)
    }
    return ProbeReport(
        probe="word similarity",
        measure="Spearman's correlation",
        columns=tuple(columns),
        scores=scores,
        remarks={
            one.name: remark(one, None if static is None else columns[static_row(static)][row])
            for row, one in enumerate(sets)
        },
        details={"sets": {name: [one._asdict() for one in all_] for name, all_ in columns.items()}},
    )


def remark(one: SimilarityScore, known: SimilarityScore | None) -> str:
    """How many pairs a set has, and of how many the static vectors know both words."""
    return f"{one.pairs:,} pairs" + ("" if known is None else f", {known.known:,} known")


def token_vectors(
    embedder: Embedder, path: str | Path, known_to: StaticVectors | None = None
) -> StaticVectors:
    """Layer 0 of the words in a set, or of those that some static vectors have too."""
    pairs = read_judgements(path)
    words = list(dict.fromkeys(word for one in pairs for word in (one.first, one.second)))
    if known_to is not None:
        known = {word.upper() for word in known_to.words[:WORDS_LOOKED_AT]}
        words = [word for word in words if word.upper() in known]
    if not words:
        # A table needs a row; no set has an empty word.
        return StaticVectors([""], [[0.0]], name=LAYER)
    vectors = embedder.embed([[word] for word in words], layer=0)
    return StaticVectors(words, [one[0] for one in vectors], name=LAYER)
