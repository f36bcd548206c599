"""Sentences with a part of speech for each word, out of CoNLL-U."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from elmokit.analysis.probes.files.lines import paragraphs, read_lines
from elmokit.errors import InputError
from elmokit.text.conllu import UNSPECIFIED, PartOfSpeech, tagged_words


class TaggedSentence(NamedTuple):
    """Words, and a tag for each."""

    words: tuple[str, ...]
    tags: tuple[str, ...]


def read_tagged(path: str | Path, tag: PartOfSpeech = "upos") -> list[TaggedSentence]:
    """The sentences of a CoNLL-U file; at least one, and not all of its tags are left open."""
    found = (tagged_words(lines, tag) for lines in paragraphs(read_lines(path)))
    sentences = [
        TaggedSentence(tuple(word.form for word in words), tuple(word.tag for word in words))
        for words in found
        if words
    ]
    if not sentences:
        raise InputError(f"{path}: holds no sentence; name a CoNLL-U file that has some")
    if all(one == UNSPECIFIED for sentence in sentences for one in sentence.tags):
        other = "xpos" if tag == "upos" else "upos"
        raise InputError(f"{path}: has no {tag} tags, only {UNSPECIFIED!r}; try --tag {other}")
    return sentences
