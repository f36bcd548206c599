"""Vocabulary of a softmax: the words of a corpus, counted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np

from elmokit.config import Count, Within, checked
from elmokit.errors import InputError
from elmokit.io.files import check_new_file, disk_errors
from elmokit.io.text_files import TextSettings, find_files
from elmokit.jobs.progress import Observer
from elmokit.pretraining.corpus import prepare_corpus
from elmokit.pretraining.prepared import PreparedCorpus
from elmokit.text.vocabulary import BEGIN, END, NOT_A_WORD, UNKNOWN, Vocabulary, write_vocabulary

SPECIAL = (BEGIN, END, UNKNOWN)


def build_vocabulary(
    corpus: PreparedCorpus, *, max_size: int | None = None, min_count: int = 1
) -> Vocabulary:
    """The words of a corpus by falling count, after `<S>`, `</S>` and `<UNK>`, with their counts.

    Words of the same count are in the order of their bytes. `<UNK>` counts every word left out,
    and with them special words that stand literally in the text. With `max_size` the vocabulary is
    of the most frequent words, and has that size at most, special words counted.
    """
    checked("min_count", min_count, Count)
    if max_size is not None:
        checked("max_size", max_size, Annotated[int, Within(least=len(SPECIAL) + 1)])
    # The last is not a word to whoever reads the file: it would shift the ids of all after it.
    reserved = [corpus.id_of(word) or 0 for word in (*SPECIAL, NOT_A_WORD)]
    ids = np.argsort(-corpus.counts, kind="stable")  # those of the same count by rising id
    ids = ids[(corpus.counts[ids] >= min_count) & ~np.isin(ids, [0, *reserved])]
    ids = ids[: None if max_size is None else max_size - len(SPECIAL)]
    if not len(ids):
        raise InputError(f"no word comes {min_count} times in the text; lower min_count")
    counts = corpus.counts[ids].tolist()
    left_out = corpus.words_in_all - sum(counts)
    return Vocabulary(
        (*SPECIAL, *map(corpus.word, ids.tolist())),
        (corpus.sentences, corpus.sentences, left_out, *counts),
    )


def check_falling(vocabulary: Vocabulary, corpus: PreparedCorpus, name: str) -> None:
    """Raise for a vocabulary that a sampled or adaptive softmax cannot be trained with.

    Such a softmax takes a word's id for its rank: `<S>`, `</S>` and `<UNK>` must come first, and
    the words after them by falling count. Counts that the vocabulary does not have are taken from
    the corpus. `name` is what an error calls the vocabulary.
    """
    if vocabulary.words[: len(SPECIAL)] != SPECIAL:
        found = " ".join(vocabulary.words[: len(SPECIAL)])
        raise InputError(
            f"{name}: begins with {found}, not with {' '.join(SPECIAL)}, as a sampled or adaptive "
            "softmax needs it; build one: elmo vocabulary"
        )
    counts = np.array(vocabulary.counts or np.zeros(len(vocabulary)), np.int64)
    if vocabulary.counts is None:
        np.add.at(counts, corpus.target_ids(vocabulary)[1:], corpus.counts[1:])
    counts = counts[len(SPECIAL) :]
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


class VocabularySummary(NamedTuple):
    """What was counted, and what is in the vocabulary."""

    output: str
    sentences: int
    words: int
    types: int
    kept: int
    coverage: float

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return self._asdict()

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
    observer: Observer | None = None,
) -> VocabularySummary:
    """Count the words of text files, and write the vocabulary of a softmax.

    `patterns` are as in `find_files`, and `text` says how they are read: None for raw text.
    `max_size` and `min_count` are as in `build_vocabulary`, the rest as in `prepare_corpus`. An
    `output` that is there is replaced only by `force`.
    """
    files = find_files(patterns)
    check_new_file(output, force, files)
    with disk_errors(Path(output).parent, "made"):
        Path(output).parent.mkdir(parents=True, exist_ok=True)
    corpus = prepare_corpus(
        files, text or TextSettings(split=True), cache=cache, processes=processes, observer=observer
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
