"""SemCor: novels and news of the Brown corpus, most of whose content words have a sense.

A line is a word, its part of speech, its lemma and its sense keys, with tabs between; `;` stands
between several keys, `-` for none; `_` joins the words of a unit such as `took_place`. A blank line
ends a sentence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from elmokit.analysis.probes.files.lines import Line, paragraphs, read_lines
from elmokit.analysis.probes.files.senses import (
    SenseSentence,
    Unit,
    lemma_of,
    sentence_of,
    words_of,
)
from elmokit.errors import FormatError, InputError

VALUES = 4
COMMENT = "# "
NO_SENSE = "-"
NAME = "NNP"


def read_semcor(files: Sequence[Path], most: int | None = None) -> list[SenseSentence]:
    """The sentences of some files, or the first `most` of each; some of their words have senses."""
    sentences = [sentence for path in files for sentence in islice(_sentences(path), most)]
    if not any(sentence.occurrences for sentence in sentences):
        names = ", ".join(map(str, files))
        raise InputError(f"{names}: no word has a sense; name files of SemCor")
    return sentences


def _sentences(path: Path) -> Iterator[SenseSentence]:
    for lines in paragraphs(read_lines(path)):
        sentence = sentence_of(_unit(line) for line in lines if not line.text.startswith(COMMENT))
        if sentence.words:
            yield sentence


def _unit(line: Line) -> Unit:
    """The unit of a line."""
    values = line.text.split("\t")
    if len(values) != VALUES or not all(values):
        raise FormatError(
            f"{line.place}: {line.text[:60]!r} is not {VALUES} values with tabs between; SemCor "
            "has a word, its part of speech, its lemma and its sense keys"
        )
    word, part_of_speech, _, keys = values
    words = words_of(word.replace("_", " ").strip() or word)
    if keys == NO_SENSE:
        return Unit(words, "", ())
    senses = tuple(keys.split(";"))
    lemmas = [lemma_of(sense, line.place) for sense in senses]
    # A name has the sense of "person", "group" or "location", but is not that word.
    return Unit(words, "", ()) if part_of_speech == NAME else Unit(words, lemmas[0], senses)
