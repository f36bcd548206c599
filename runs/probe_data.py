"""Annotated English texts that `runs.layer_probes` reads: tagged words, and words with senses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from elmokit.errors import FormatError
from elmokit.text.corpus import read_chunks, text_of

POS_DIGITS = {"NOUN": "1", "VERB": "2", "ADJ": "3", "ADV": "4"}
"""How sense keys write a part of speech."""
STRAIGHT_QUOTES = {"``": '"', "''": '"'}
"""The quotes of the Penn Treebank, as running text has them."""


class TaggedSentence(NamedTuple):
    """Words, and a tag for each."""

    words: list[str]
    tags: list[str]


class Occurrence(NamedTuple):
    """A word, or several that are one, at a place in a sentence: words[start:end]."""

    start: int
    end: int
    lemma: str  # as `lemma_of` writes it
    senses: list[str]  # sense keys; more than one where the annotators could not decide


class SenseSentence(NamedTuple):
    """Words, and which of them have a sense."""

    words: list[str]
    occurrences: list[Occurrence]


class SenseIndex(NamedTuple):
    """WordNet's senses, the most frequent of a lemma first."""

    numbers: dict[str, int]  # sense key → its number among those of its lemma, from 1
    first: dict[str, str]  # lemma → its sense number 1


def read_universal_tags(path: Path) -> Iterator[TaggedSentence]:
    """Words and universal part-of-speech tags of a CoNLL-U file."""
    for lines in read_blocks(path, "\t"):
        # Comments, ranges such as 1-2 and empty nodes such as 8.1 are no words.
        rows = [fields for fields in lines if fields[0].isdecimal()]
        if rows:
            yield TaggedSentence([fields[1] for fields in rows], [fields[3] for fields in rows])


def read_entity_types(path: Path) -> Iterator[TaggedSentence]:
    """Words and entity types (PER, LOC, ORG, MISC or O) of a CoNLL-2003 file."""
    for rows in read_blocks(path, " "):
        if rows[0][0] != "-DOCSTART-":
            types = [fields[-1].rpartition("-")[2] for fields in rows]
            yield TaggedSentence([fields[0] for fields in rows], types)


def read_semcor(path: Path) -> Iterator[SenseSentence]:
    """Words and senses of SemCor; units such as `took_place` are words of one occurrence."""
    for lines in read_blocks(path, "\t"):
        sentence = SenseSentence([], [])
        for word, part_of_speech, _, keys in (fields for fields in lines if len(fields) == 4):
            # A name has the sense of "person", "group" or "location", but is not that word.
            senses = [] if keys == "-" or part_of_speech == "NNP" else keys.split(";")
            add_unit(
                sentence, word.replace("_", " "), lemma_of(senses[0]) if senses else "", senses
            )
        if sentence.words:
            yield sentence


def read_sense_test(data: Path, gold: Path) -> Iterator[SenseSentence]:
    """Words and senses of a test set: its `.data.xml` and its `.gold.key.txt`."""
    keys = map(str.split, filter(None, read_lines(gold)))
    answers = {name: senses for name, *senses in keys}
    for element in parse_xml(data).iter("sentence"):
        sentence = SenseSentence([], [])
        for unit in element:
            lemma = f"{unit.get('lemma', '').lower()}%{POS_DIGITS.get(unit.get('pos', ''), '')}"
            add_unit(sentence, unit.text or "", lemma, answers.get(unit.get("id", ""), []))
        yield sentence


def add_unit(sentence: SenseSentence, unit: str, lemma: str, senses: list[str]) -> None:
    """Add the words of a unit to a sentence, and where they are if they have a sense."""
    words = [STRAIGHT_QUOTES.get(word, word) for word in unit.split()]
    start = len(sentence.words)
    sentence.words.extend(words)
    if senses and words:
        sentence.occurrences.append(Occurrence(start, start + len(words), lemma, senses))


def read_sense_index(path: Path) -> SenseIndex:
    """The senses of WordNet's `index.sense`."""
    numbers: dict[str, int] = {}
    for line in filter(None, read_lines(path)):
        sense, _, number, _ = line.split()
        numbers[sense] = int(number)
    return SenseIndex(numbers, {lemma_of(key): key for key, n in numbers.items() if n == 1})


def lemma_of(sense: str) -> str:
    """The lemma and part of speech that a sense key is of.

    >>> lemma_of("bank%1:17:01::"), lemma_of("peculiar%5:00:00:specific:00")
    ('bank%1', 'peculiar%3')
    """
    lemma, _, rest = sense.rpartition("%")
    # 5 is an adjective as well: one whose meaning is near another's.
    return f"{lemma}%{'3' if rest[0] == '5' else rest[0]}"


def read_blocks(path: Path, separator: str) -> Iterator[list[list[str]]]:
    """The lines of each sentence, cut into fields; blank lines stand between sentences."""
    lines: list[list[str]] = []
    for line in read_lines(path):
        if line:
            lines.append(line.split(separator))
        elif lines:
            yield lines
            lines = []
    if lines:
        yield lines


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a file, compressed or not."""
    for chunk in read_chunks(path):
        yield from text_of(chunk).removesuffix("\n").split("\n")


def parse_xml(path: Path) -> ElementTree.Element:
    """The root of an XML file, compressed or not."""
    try:
        return ElementTree.fromstring(b"".join(chunk.contents for chunk in read_chunks(path)))
    except ElementTree.ParseError as error:
        raise FormatError(f"{path}: is not well-formed XML ({error}); get it anew") from None
