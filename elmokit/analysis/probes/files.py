"""Readers of what probes ask with: BLiMP, SemCor, WordNet, tests of word senses, CoNLL-U."""

from __future__ import annotations

import glob
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from elmokit.errors import ElmoWarning, FormatError, InputError
from elmokit.io.tables import TableRow, table_rows
from elmokit.io.text_files import (
    COMPRESSIONS,
    Line,
    find_files,
    paragraphs,
    read_chunks,
    read_lines,
)
from elmokit.text.conllu import COLUMNS, UNSPECIFIED, PartOfSpeech, column_words, tagged_words
from elmokit.text.tokenizer import TREEBANK_MARKS

SUFFIXES = (".jsonl", *COMPRESSIONS)
SENTENCES = ("sentence_good", "sentence_bad")
PARADIGM = ("UID", "linguistics_term", "field")
COUNTED_AS = {"s-selection": "argument_structure", "syntax/semantics": "syntax_semantics"}
"""What BLiMP's own summary makes of the names in its files."""


class Paradigm(NamedTuple):
    """Pairs of one make."""

    name: str
    phenomenon: str
    field: str


class MinimalPair(NamedTuple):
    """Two sentences, as raw text, of which the first is right and the second is not."""

    good: str
    bad: str


MinimalPairs = dict[Paradigm, list[MinimalPair]]


def read_minimal_pairs(names: Sequence[str | Path]) -> MinimalPairs:
    """The pairs of each paradigm in some files, or in the files of folders.

    A folder may hold other JSON lines, such as a summary of results: they are left out, with a
    warning. A file that is named itself must hold pairs.
    """
    found: MinimalPairs = {}
    for path in find_files(names, SUFFIXES):
        if path not in map(Path, names) and not _holds_pairs(path):
            warnings.warn(f"{path}: holds no minimal pairs; left out", ElmoWarning, stacklevel=2)
            continue
        for row in table_rows(read_lines(path), "jsonl"):
            good, bad, name, *kinds = (_text(row, field) for field in (*SENTENCES, *PARADIGM))
            paradigm = Paradigm(name, *(COUNTED_AS.get(kind, kind) for kind in kinds))
            found.setdefault(paradigm, []).append(MinimalPair(good, bad))
    if not found:
        listed = ", ".join(map(str, names))
        raise InputError(f"{listed}: holds no minimal pair; name BLiMP's files or their folder")
    return found


def _holds_pairs(path: Path) -> bool:
    """Whether the first line of a file has a sentence of a pair."""
    first = next(table_rows(read_lines(path), "jsonl"), None)
    return first is not None and any(field in first.names for field in SENTENCES)


def _text(row: TableRow, field: str) -> str:
    """A field of a line, which must be a text."""
    value = row.value(field) if field in row.names else None
    if not isinstance(value, str) or not value.strip():
        raise FormatError(
            f"{row.place}: has no text in {field!r}; each line of BLiMP has "
            f"{', '.join((*SENTENCES, *PARADIGM))}"
        )
    return value


SENSE_KEY = re.compile(r"(?P<lemma>\S+)%(?P<kind>[1-5]):\d\d:\d\d:[^:\s]*:\d*")
SATELLITE, ADJECTIVE = "5", "3"


class SenseOccurrence(NamedTuple):
    """A word, or several that are one, at a place in a sentence: words[start:end]."""

    start: int
    end: int
    lemma: str  # with its part of speech, as `lemma_of` writes it
    senses: tuple[str, ...]  # sense keys; more than one where the annotators could not decide


class SenseSentence(NamedTuple):
    """Words, and which of them have a sense."""

    words: tuple[str, ...]
    occurrences: tuple[SenseOccurrence, ...]


Unit = tuple[tuple[str, ...], str, tuple[str, ...]]
"""What a text marks as one: its words, and its lemma and senses if it has some."""


def lemma_of(sense: str, place: str) -> str:
    """The lemma and part of speech that a sense key is of; `place` is where it was read.

    >>> lemma_of("bank%1:17:01::", ""), lemma_of("peculiar%5:00:00:specific:00", "")
    ('bank%1', 'peculiar%3')
    """
    found = SENSE_KEY.fullmatch(sense)
    if found is None:
        raise FormatError(
            f"{place}: {sense[:40]!r} is not a sense key; they look like 'bank%1:17:01::'"
        )
    # A satellite is an adjective as well: one whose meaning is near another's.
    return f"{found['lemma']}%{ADJECTIVE if found['kind'] == SATELLITE else found['kind']}"


def words_of(text: str) -> tuple[str, ...]:
    """The words between whitespace, their marks as running text has them.

    >>> words_of("-LRB- belong to")
    ('(', 'belong', 'to')
    """
    return tuple(TREEBANK_MARKS.get(word, word) for word in text.split())


def sentence_of(units: Iterable[Unit]) -> SenseSentence:
    """A sentence out of its units, one after another."""
    words: list[str] = []
    occurrences = []
    for of_unit, lemma, senses in units:
        start = len(words)
        words += of_unit
        if senses and of_unit:
            occurrences.append(SenseOccurrence(start, len(words), lemma, senses))
    return SenseSentence(tuple(words), tuple(occurrences))


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
    values = line.text.split("\t")
    if len(values) != 4 or not all(values):
        raise FormatError(
            f"{line.place}: {line.text[:60]!r} is not 4 values with tabs "
            "between; SemCor has a word, its part of speech, its lemma and its sense keys"
        )
    word, part_of_speech, _, keys = values
    words = words_of(word.replace("_", " ").strip() or word)
    if keys == NO_SENSE:
        return words, "", ()
    senses = tuple(keys.split(";"))
    lemmas = [lemma_of(sense, line.place) for sense in senses]
    # A name has the sense of "person", "group" or "location", but is not that word.
    return (words, "", ()) if part_of_speech == NAME else (words, lemmas[0], senses)


class SenseIndex(NamedTuple):
    """WordNet's senses."""

    numbers: dict[str, int]  # sense key → its number among those of its lemma, from 1
    first: dict[str, str]  # lemma → its sense number 1, the most frequent


def read_sense_index(path: str | Path) -> SenseIndex:
    """Read `index.sense`: on each line a sense key, an offset, the sense's number and a count."""
    numbers: dict[str, int] = {}
    first: dict[str, str] = {}
    for line in read_lines(path):
        values = line.text.split()
        if not values:
            continue
        if len(values) != 4 or not values[2].isdecimal():
            raise FormatError(
                f"{line.place}: {line.text[:60]!r} is not a sense key, an offset, a number and a "
                "count; name WordNet's index.sense"
            )
        lemma, number = lemma_of(values[0], line.place), int(values[2])
        numbers[values[0]] = number
        if number == 1:
            first[lemma] = values[0]
    if not numbers:
        raise InputError(f"{path}: holds no sense; name WordNet's index.sense")
    return SenseIndex(numbers, first)


FIVE = ("senseval2", "senseval3", "semeval2007", "semeval2013", "semeval2015")
ALL = "ALL"
DATA, KEYS = ".data.xml", ".gold.key.txt"
KINDS = {"NOUN": "1", "VERB": "2", "ADJ": "3", "ADV": "4"}  # how sense keys write a part of speech


def find_sense_tests(folder: str | Path) -> dict[str, tuple[Path, Path]]:
    """The two files of each test set in a folder, the usual five first; no `ALL` beside those."""
    inside = glob.escape(str(folder))
    found = {path.name.partition(DATA)[0]: path for path in find_files([f"{inside}/*{DATA}*"])}
    if found.keys() >= {*FIVE}:
        found.pop(ALL, None)
    order = sorted(found, key=lambda name: (FIVE.index(name) if name in FIVE else len(FIVE), name))
    return {name: (found[name], find_files([f"{inside}/{name}{KEYS}*"])[0]) for name in order}


def read_sense_test(data: Path, keys: Path) -> list[SenseSentence]:
    """The sentences of a test set, its words with the senses that are right."""
    answers = _read_keys(keys)
    root = _parse(data)
    asked = {instance.get("id", "") for instance in root.iter("instance")}
    if not asked:
        raise InputError(f"{data}: asks for no sense; name a test set that has <instance>s")
    if asked != answers.keys():
        name = min(asked ^ answers.keys())
        raise FormatError(
            f"{data}: instance {name!r} is not asked, or has no answer in {keys}; take the two "
            "files of one test set"
        )
    return [sentence_of(_units(one, answers, data)) for one in root.iter("sentence")]


def _read_keys(path: Path) -> dict[str, tuple[str, ...]]:
    answers: dict[str, tuple[str, ...]] = {}
    for line in read_lines(path):
        name, *senses = line.text.split() or [""]
        if not name:
            continue
        if not senses:
            raise FormatError(f"{line.place}: {name!r} has no sense key behind it; get it again")
        for sense in senses:
            lemma_of(sense, line.place)
        answers[name] = tuple(senses)
    return answers


def _units(
    sentence: ElementTree.Element, answers: dict[str, tuple[str, ...]], data: Path
) -> Iterator[Unit]:
    for element in sentence:
        words = words_of(element.text or "")
        if element.tag != "instance":
            yield words, "", ()
            continue
        name = element.get("id", "")
        kind = KINDS.get(element.get("pos", ""))
        lemma = "_".join(element.get("lemma", "").lower().split())
        if not words or not lemma or kind is None:
            raise FormatError(
                f"{data}: instance {name!r} needs words, a lemma and a pos of "
                f"{', '.join(KINDS)}; get it again"
            )
        yield words, f"{lemma}%{kind}", answers[name]


def _parse(path: Path) -> ElementTree.Element:
    """The root of an XML file, plain or compressed."""
    try:
        return ElementTree.fromstring(b"".join(chunk.contents for chunk in read_chunks(path)))
    except (ElementTree.ParseError, LookupError) as error:  # the latter for an unknown encoding
        line = error.position[0] if isinstance(error, ElementTree.ParseError) else 1
        why = str(error).partition(":")[0]
        raise FormatError(f"{path}, line {line}: is not XML ({why}); get it again") from None


class TaggedWords(NamedTuple):
    """Words, and a tag for each."""

    words: tuple[str, ...]
    tags: tuple[str, ...]


COLUMN_OF_TAGS = 2


def read_tagged(path: str | Path, tag: PartOfSpeech | int = "upos") -> list[TaggedWords]:
    """The sentences of a file; at least one, and not all of its tags are left open.

    It is CoNLL-U where its name or its first line says so. Else it has CoNLL columns, a word in the
    first one and its tag in the second, or in the one that `tag` is the number of.
    """
    first = next((line.text for line in read_lines(path) if line.text[:1] not in ("", "#")), "")
    if not first or ".conllu" in Path(path).suffixes or first.count("\t") == COLUMNS - 1:
        if isinstance(tag, int):
            raise InputError(f"{path}: is CoNLL-U, whose tags are upos or xpos; give one (--tag)")
        found = [tagged_words(lines, tag) for lines in paragraphs(read_lines(path))]
    else:
        column = tag if isinstance(tag, int) else COLUMN_OF_TAGS
        found = [column_words(lines, column) for lines in paragraphs(read_lines(path))]
    sentences = [
        TaggedWords(tuple(word.form for word in words), tuple(word.tag for word in words))
        for words in found
        if words
    ]
    if not sentences:
        raise InputError(f"{path}: holds no sentence; name a CoNLL-U file that has some")
    if all(one == UNSPECIFIED for sentence in sentences for one in sentence.tags):
        other = "xpos" if tag == "upos" else "upos"
        raise InputError(f"{path}: has no {tag} tags, only {UNSPECIFIED!r}; try --tag {other}")
    return sentences
