"""The words of a corpus, counted: the vocabulary of its softmax."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmokit.config import check_size
from elmokit.errors import InputError
from elmokit.io.fetch import Progress
from elmokit.io.files import disk_errors, is_any_of
from elmokit.io.text_files import TextSettings, find_files
from elmokit.pretraining.corpus import prepare_corpus
from elmokit.pretraining.prepared import PreparedCorpus
from elmokit.text.vocabulary import (
    BEGIN,
    END,
    NOT_A_WORD,
    UNKNOWN,
    Vocabulary,
    write_vocabulary,
)

SPECIAL = (BEGIN, END, UNKNOWN)
TYPES_AT_ONCE = 1 << 20


def build_vocabulary(
    corpus: PreparedCorpus, *, max_size: int | None = None, min_count: int = 1
) -> Vocabulary:
    """The words of a corpus by falling count, after `<S>`, `</S>` and `<UNK>`, with their counts.

    Words of the same count are in the order of their bytes. `<UNK>` counts every word left out,
    and with them special words that stand literally in the text.

    Args:
        corpus: The text.
        max_size: The most frequent words, so that the vocabulary has this size at most, special
            words counted.
        min_count: Words that come less often are left out.
    """
    _check_limits(max_size, min_count)
    ids = _most_frequent(corpus, None if max_size is None else max_size - len(SPECIAL), min_count)
    if not len(ids):
        raise InputError(f"no word comes {min_count} times in the text; lower min_count")
    counts = corpus.counts[ids].tolist()
    left_out = corpus.words_in_all - sum(counts)
    return Vocabulary(
        (*SPECIAL, *map(corpus.word, ids.tolist())),
        (corpus.sentences, corpus.sentences, left_out, *counts),
    )


def _check_limits(max_size: int | None, min_count: int) -> None:
    check_size("min_count", min_count)
    if max_size is not None:
        check_size("max_size", max_size, least=len(SPECIAL) + 1)


def _most_frequent(corpus: PreparedCorpus, most: int | None, min_count: int) -> NDArray[np.int64]:
    """The ids (at most `most`) of words by falling count; those of the same count by rising id."""
    # The last is no word to whoever reads the file: it would shift the ids of all after it.
    reserved = [corpus.id_of(word) or 0 for word in (*SPECIAL, NOT_A_WORD)]
    kept = np.empty(0, np.int64)
    for first in range(1, corpus.types + 1, TYPES_AT_ONCE):
        frequent = first + np.flatnonzero(corpus.counts[first : first + TYPES_AT_ONCE] >= min_count)
        candidates = np.concatenate([kept, frequent[~np.isin(frequent, reserved)]])
        order = np.argsort(-corpus.counts[candidates], kind="stable")
        kept = candidates[order[:most]]
    return kept


def check_falling(vocabulary: Vocabulary, corpus: PreparedCorpus, name: str) -> None:
    """Refuse a vocabulary that a sampled or adaptive softmax cannot be trained with.

    Such a softmax takes a word's id for its rank: `<S>`, `</S>` and `<UNK>` must come first, and
    the words after them by falling count. Counts that the vocabulary does not have are taken from
    the corpus.

    Args:
        vocabulary: The words.
        corpus: The text.
        name: What to call the vocabulary in an error, its file as a rule.
    """
    if vocabulary.words[: len(SPECIAL)] != SPECIAL:
        found = " ".join(vocabulary.words[: len(SPECIAL)])
        raise InputError(
            f"{name}: begins with {found}, not with {' '.join(SPECIAL)}, as a sampled or adaptive "
            "softmax needs it; build one: elmo vocabulary"
        )
    counts = np.array(vocabulary.counts or _counts_in(corpus, vocabulary), np.int64)[len(SPECIAL) :]
    rising = np.flatnonzero(counts[1:] > counts[:-1])
    if len(rising):
        number = int(rising[0]) + 1
        word = vocabulary.word_of(number + len(SPECIAL))
        raise InputError(
            f"{name}, line {number + len(SPECIAL) + 1}: {word!r} comes {counts[number]:,} times, "
            f"the word before it {counts[number - 1]:,} times; a sampled or adaptive softmax takes "
            "the id for the rank, and words out of order give a tiny training and a huge test "
            "perplexity; build one: elmo vocabulary"
        )


def _counts_in(corpus: PreparedCorpus, vocabulary: Vocabulary) -> list[int]:
    """How often each word of a vocabulary comes in a corpus."""
    counts = np.zeros(len(vocabulary), np.int64)
    np.add.at(counts, corpus.target_ids(vocabulary)[1:], corpus.counts[1:])
    return counts.tolist()


@dataclass(frozen=True)
class VocabularySummary:
    """What was counted and kept."""

    output: str
    sentences: int
    words: int
    types: int
    kept: int
    coverage: float

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return asdict(self)

    def describe(self) -> str:
        """A few lines."""
        return (
            f"{self.output}: {self.kept:,} words, {', '.join(SPECIAL)} among them\n"
            f"The text has {self.words:,} words in {self.sentences:,} sentences, "
            f"{self.types:,} of them different.\n"
            f"The vocabulary covers {100 * self.coverage:.2f} % of them."
        )


def write_corpus_vocabulary(
    patterns: Sequence[str | Path],
    output: str | Path,
    text: TextSettings | None = None,
    *,
    max_size: int | None = None,
    min_count: int = 1,
    cache: Path | None = None,
    processes: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> VocabularySummary:
    """Count the words of text files, and write the vocabulary of a softmax.

    `patterns` are as in `find_files`, and `text` says how they are read: None for raw text.
    `max_size` and `min_count` are as in `build_vocabulary`, the rest as in `prepare_corpus`. An
    `output` that is there is replaced only by `force`.
    """
    _check_limits(max_size, min_count)
    files = find_files(patterns)
    _check_output(Path(output), files, force)
    corpus = prepare_corpus(
        files,
        text or TextSettings(split=True),
        cache=cache,
        processes=processes,
        progress=progress,
    )
    vocabulary = build_vocabulary(corpus, max_size=max_size, min_count=min_count)
    write_vocabulary(vocabulary, output)
    counts = vocabulary.counts or ()
    return VocabularySummary(
        output=str(output),
        sentences=corpus.sentences,
        words=corpus.words_in_all,
        types=corpus.types,
        kept=len(vocabulary),
        coverage=sum(counts[len(SPECIAL) :]) / corpus.words_in_all,
    )


def _check_output(output: Path, files: list[Path], force: bool) -> None:
    """Refuse an output before anything is counted for it."""
    if is_any_of(output, files):
        raise InputError(f"{output}: is part of the text too; choose another name for the output")
    if output.is_dir():
        raise InputError(f"{output}: is a folder; give the name of a file")
    if output.exists() and not force:
        raise InputError(f"{output}: is there already; choose another name, or force it (--force)")
    with disk_errors(output.parent, "made"):
        output.parent.mkdir(parents=True, exist_ok=True)
