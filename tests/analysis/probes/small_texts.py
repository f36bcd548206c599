"""Small annotated texts: CoNLL-U, SemCor, a test set of senses, WordNet's index, BLiMP."""

from __future__ import annotations

import json
from pathlib import Path

from helpers import write

from elmokit.analysis.probes.files import SenseOccurrence, SenseSentence


def no_step() -> None:
    """Nobody counts."""


SEMCOR = """\
# sent_id = a.1
Mary_Ann\tNNP\tperson\tperson%1:03:00::
took_place\tVB\ttake_place\ttake_place%2:30:00::
``\tPUNC\t-\t-
banks\tNN\tbank\tbank%1:17:01::;bank%1:14:00::
''\tPUNC\t-\t-

# sent_id = a.2
#\tSYM\t-\t-
odd\tJJ\todd\todd%5:00:00:strange:00
"""
TEST_DATA = """\
<?xml version="1.0" encoding="UTF-8" ?>
<corpus lang="en"><text id="d"><sentence id="d.s">
<wf lemma="the" pos="DET">The</wf>
<instance id="d.s.0" lemma="Bank" pos="NOUN">banks</instance>
<instance id="d.s.1" lemma="belong_to" pos="VERB">belong to</instance>
<wf lemma="-lrb-" pos=".">-LRB-</wf>
<instance id="d.s.2" lemma="odd" pos="ADJ">odd</instance>
</sentence></text></corpus>
"""
TEST_KEYS = """\
d.s.0 bank%1:14:00::
d.s.1 belong_to%2:42:00:: belong_to%2:42:02::
d.s.2 odd%3:00:00::
"""
INDEX = """\
bank%1:14:00:: 08420278 2 25
bank%1:17:01:: 09213565 1 20
belong_to%2:42:00:: 02756359 1 3
odd%3:00:00:: 01894951 2 0
odd%5:00:00:strange:00 00968010 1 2
"""


def conllu(*sentences: str) -> str:
    """CoNLL-U of sentences such as "The/DET bank/NOUN"."""
    return "\n".join("".join(map(row, enumerate(text.split(), 1))) for text in sentences)


def row(numbered: tuple[int, str]) -> str:
    number, token = numbered
    word, _, tag = token.rpartition("/")
    return "\t".join([str(number), word, "_", tag, f"X{tag}", *"_____"]) + "\n"


def write_senses(folder: Path) -> None:
    """Everything that `elmo probe wsd` reads, with two test sets."""
    write(folder / "semcor.tsv.gz", SEMCOR)
    write(folder / "index.sense.gz", INDEX)
    for name in ("semeval2007", "senseval2"):
        write(folder / "tests" / f"{name}.data.xml.gz", TEST_DATA)
        write(folder / "tests" / f"{name}.gold.key.txt.gz", TEST_KEYS)


def minimal_pair(
    good: str,
    bad: str,
    paradigm: str = "island_1",
    phenomenon: str = "islands",
    field: str = "syntax",
    **more: object,
) -> str:
    """A line of BLiMP."""
    values = {"sentence_good": good, "sentence_bad": bad, "field": field}
    values |= {"linguistics_term": phenomenon, "UID": paradigm}
    return json.dumps(values | more) + "\n"


def sense_sentence(text: str, *senses: str, lemma: str = "x%1") -> SenseSentence:
    """A sentence whose last word has senses."""
    words = tuple(text.split())
    return SenseSentence(words, (SenseOccurrence(len(words) - 1, len(words), lemma, senses),))
