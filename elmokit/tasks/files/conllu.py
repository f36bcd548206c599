"""CoNLL-U, the format of Universal Dependencies: sentences with a part of speech for each word."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from elmokit.config import check_choice
from elmokit.errors import FormatError, InputError
from elmokit.tasks.examples import TaggedSentence
from elmokit.tasks.files.lines import ENCODING, Line, paragraphs, read_lines
from elmokit.text.conllu import UNSPECIFIED, TaggedWord, tagged_words
from elmokit.text.conllu import PartOfSpeech as PartOfSpeech


def read_conllu(
    path: str | Path, *, tag: PartOfSpeech = "upos", encoding: str = ENCODING
) -> list[TaggedSentence]:
    """The sentences of a file, in which every word has a tag.

    Args:
        path: The file.
        tag: "upos" for the universal parts of speech, "xpos" for the language's own.
        encoding: How the file writes characters as bytes.
    """
    check_choice("tag", tag, get_args(PartOfSpeech))
    found = (_sentence(lines, tag) for lines in paragraphs(read_lines(path, encoding)))
    sentences = [sentence for sentence in found if sentence.words]
    if not sentences:
        raise InputError(f"{path}: holds no sentence; name a file that has some")
    return sentences


def _sentence(lines: list[Line], tag: PartOfSpeech) -> TaggedSentence:
    """The words of a sentence; none if there are only comments."""
    words = tagged_words(lines, tag)
    for word in words:
        _check_tag(word, tag)
    return TaggedSentence(
        words=tuple(word.form for word in words),
        tags=tuple(word.tag for word in words),
        place=lines[0].place,
    )


def _check_tag(word: TaggedWord, tag: PartOfSpeech) -> None:
    """Refuse a tag that is left open: it would be learnt as a class of its own."""
    if word.tag == UNSPECIFIED:
        other = next(each for each in get_args(PartOfSpeech) if each != tag)
        raise FormatError(
            f"{word.place}: {word.form!r} has no {tag} tag, only {UNSPECIFIED!r}; give it one, or "
            f"take the other column (--label-column {other})"
        )
