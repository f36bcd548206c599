"""Minimal pairs: how often a language model finds the right one of two sentences likelier."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from elmokit.analysis.probes.files.minimal_pairs import MinimalPair, MinimalPairs, Paradigm
from elmokit.analysis.probes.nearest_sense import evenly
from elmokit.analysis.probes.report import ProbeReport
from elmokit.analysis.probes.stages import SENTENCES_AT_A_TIME, Progress
from elmokit.config import check_size
from elmokit.language_model import LanguageModel
from elmokit.plurals import counted

COLUMNS = ("forward", "backward", "sum")
ALL = "all"
TIE = 1e-4
"""Log probabilities no farther apart than this are equal: they differ by float noise."""

Values = NDArray[np.float64]


def probe_minimal_pairs(
    language_model: LanguageModel,
    pairs: MinimalPairs,
    most: int | None = None,
    progress: Progress | None = None,
) -> ProbeReport:
    """Accuracy by forward, backward and summed log probabilities of whole sentences.

    They are not divided by length; a tie counts one half. Every sentence is split with the model's
    own tokenizer, starts from zeros and is scored once, in however many pairs it stands.

    A phenomenon, a field or all has the mean of its paradigms' accuracies, as published. `most`
    takes so many pairs of each paradigm, from all over it.
    """
    if most is not None:
        check_size("most", most)
        pairs = {paradigm: evenly(of_it, most) for paradigm, of_it in pairs.items()}
    scores = sentence_scores(language_model, pairs.values(), progress)
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
        remarks={
            name: remark(len(group), sum(len(pairs[at]) for at in group))
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


def remark(paradigms: int, pairs: int) -> str:
    """How much a row is the mean of."""
    return f"{counted(paradigms, 'paradigm')}, {counted(pairs, 'pair')}"


def sentence_scores(
    language_model: LanguageModel,
    pairs: Iterable[Sequence[MinimalPair]],
    progress: Progress | None = None,
) -> dict[str, Values]:
    """The log probabilities (forward, backward, sum) of each different sentence."""
    sentences = list(dict.fromkeys(text for of_one in pairs for pair in of_one for text in pair))
    scores: dict[str, Values] = {}
    for start in range(0, len(sentences), SENTENCES_AT_A_TIME):
        part = sentences[start : start + SENTENCES_AT_A_TIME]
        words = [[token.text for token in language_model.tokenizer.words(one)] for one in part]
        for sentence, score in zip(part, language_model.score(words), strict=True):
            scores[sentence] = np.array([score.total_forward, score.total_backward, score.total])
        if progress is not None:
            progress(len(scores), len(sentences))
    return scores


def accuracies(pairs: Sequence[MinimalPair], scores: dict[str, Values]) -> Values:
    """The share (forward, backward, sum) of pairs whose good sentence is the likelier one."""
    good = np.array([scores[pair.good] for pair in pairs])
    bad = np.array([scores[pair.bad] for pair in pairs])
    right = np.where(np.isclose(good, bad, rtol=0, atol=TIE), 0.5, good > bad)
    return right.mean(axis=0)
