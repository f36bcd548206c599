"""Test sets of word senses as Raganato and others unified them: `.data.xml` and `.gold.key.txt`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from elmokit.analysis.probes.files.lines import read_lines
from elmokit.analysis.probes.files.senses import (
    SenseSentence,
    Unit,
    lemma_of,
    sentence_of,
    words_of,
)
from elmokit.errors import FormatError, InputError
from elmokit.text.corpus import read_chunks

FIVE = ("senseval2", "senseval3", "semeval2007", "semeval2013", "semeval2015")
ALL = "ALL"
DATA_NAME = re.compile(r"(?P<name>.+)\.data\.xml(\.(gz|xz|zst))?")
COMPRESSIONS = ("", ".gz", ".xz", ".zst")
KINDS = {"NOUN": "1", "VERB": "2", "ADJ": "3", "ADV": "4"}
"""How sense keys write a part of speech."""


class SenseTestFiles(NamedTuple):
    """The two files of a test set."""

    data: Path
    keys: Path


def find_sense_tests(folder: str | Path) -> dict[str, SenseTestFiles]:
    """The test sets in a folder: the usual five first, in their order.

    `ALL` is passed over where the five that it is made of are there.
    """
    found = {}
    for data in sorted(_files_in(Path(folder))):
        if match := DATA_NAME.fullmatch(data.name):
            found[match["name"]] = SenseTestFiles(data, _keys_beside(data, match["name"]))
    if not found:
        raise InputError(
            f"{folder}: holds no test set; name a folder with files such as semeval2007.data.xml "
            "and semeval2007.gold.key.txt"
        )
    if found.keys() >= {*FIVE}:
        found.pop(ALL, None)
    order = [*(name for name in FIVE if name in found), *(one for one in found if one not in FIVE)]
    return {name: found[name] for name in order}


def _files_in(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError as error:
        raise InputError(
            f"{folder}: is no folder that can be read ({error.strerror or error}); name the one "
            "of the test sets"
        ) from error


def _keys_beside(data: Path, name: str) -> Path:
    """The answers to a test set, compressed or not."""
    candidates = [data.with_name(f"{name}.gold.key.txt{ending}") for ending in COMPRESSIONS]
    found = next((path for path in candidates if path.is_file()), None)
    if found is None:
        raise InputError(f"{data}: has no {name}.gold.key.txt beside it; put the answers there")
    return found


def read_sense_test(files: SenseTestFiles) -> list[SenseSentence]:
    """The sentences of a test set, its words with the senses that are right."""
    answers = _read_keys(files.keys)
    root = _parse(files.data)
    asked = {instance.get("id", "") for instance in root.iter("instance")}
    if not asked:
        raise InputError(f"{files.data}: asks for no sense; name a test set that has <instance>s")
    if stray := next((name for name in answers if name not in asked), None):
        raise FormatError(
            f"{files.keys}: answers {stray!r}, which {files.data} does not ask; take the two files "
            "of one test set"
        )
    return [sentence_of(_units(one, answers, files)) for one in root.iter("sentence")]


def _read_keys(path: Path) -> dict[str, tuple[str, ...]]:
    """The sense keys of each instance."""
    answers: dict[str, tuple[str, ...]] = {}
    for line in read_lines(path):
        name, *senses = line.text.split() or [""]
        if not name:
            continue
        if not senses:
            raise FormatError(f"{line.place}: {name!r} has no sense key behind it; get it anew")
        for sense in senses:
            lemma_of(sense, line.place)
        answers[name] = tuple(senses)
    return answers


def _units(
    sentence: ElementTree.Element, answers: dict[str, tuple[str, ...]], files: SenseTestFiles
) -> Iterator[Unit]:
    """The units of a sentence."""
    for element in sentence:
        words = words_of(element.text or "")
        if element.tag != "instance":
            yield Unit(words, "", ())
            continue
        name = element.get("id", "")
        kind = KINDS.get(element.get("pos", ""))
        lemma = "_".join(element.get("lemma", "").lower().split())
        if not words or not lemma or kind is None:
            raise FormatError(
                f"{files.data}: instance {name!r} needs words, a lemma and a pos of "
                f"{', '.join(KINDS)}; get it anew"
            )
        if name not in answers:
            raise FormatError(
                f"{files.data}: instance {name!r} has no answer in {files.keys}; take the two "
                "files of one test set"
            )
        yield Unit(words, f"{lemma}%{kind}", answers[name])


def _parse(path: Path) -> ElementTree.Element:
    """The root of an XML file, plain or compressed."""
    try:
        return ElementTree.fromstring(b"".join(chunk.contents for chunk in read_chunks(path)))
    except ElementTree.ParseError as error:
        line, _ = error.position
        raise FormatError(
            f"{path}, line {line}: is not well-formed XML ({str(error).partition(':')[0]}); "
            "get it anew"
        ) from None
    except LookupError as error:
        raise FormatError(f"{path}, line 1: is XML in an {error}; save it as UTF-8") from None
