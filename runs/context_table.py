r"""The paper's Table 4 remade: neighbours of a word in its sentence, beside static ones.

    python -m runs.context_table checkpoints/words.index > context_table.md

Prints Markdown: for each word its static neighbours, then four sentences, two of each sense, with
the occurrences nearest to it. They are occurrences of the same word, as those that the paper shows;
with `--any-word` of others too, for which the index must have them (`elmo neighbours build`).

An index that is not there is built, of these words alone, from the text of the bundled model: what
is printed may be published, which news and reviews may not. Cut short, the same command continues.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.machine import describe, heading, one_line_errors
from elmokit.analysis.neighbours.build import IndexSettings, build_index
from elmokit.analysis.neighbours.index import Neighbour, NeighbourIndex
from elmokit.analysis.neighbours.store import is_index
from elmokit.bulk.inputs import open_input
from elmokit.bundled import ENGLISH_SMALL
from elmokit.cli.progress import Display
from elmokit.inference.embedder import Embedder
from elmokit.io.text_files import TextSettings
from elmokit.pretraining.config import read_run
from elmokit.static.vectors import StaticVectors

RECIPE = "runs/english-small.toml"
QUESTIONS = {
    "play": (
        "Chico Ruiz made a spectacular *play* on Alusik 's grounder .",
        "The shortstop made the *play* of the game in the ninth inning .",
        "Olivia De Havilland signed to do a Broadway *play* for Garson .",
        "She wrote a *play* about her mother for the local theatre .",
    ),
    "bank": (
        "He sat on the *bank* of the river and watched the boats .",
        "The road follows the left *bank* of the stream to the lake .",
        "She took a loan from a *bank* to buy the house .",
        "The central *bank* raised interest rates on Thursday .",
    ),
    "light": (
        "The *light* of the moon came through the window .",
        "He turned on the *light* and looked around the room .",
        "She carried a *light* jacket for the summer evening .",
        "The frame is made of aluminium , so the bicycle is very *light* .",
    ),
    "match": (
        "The team lost the final *match* of the season by two goals .",
        "He won the tennis *match* in straight sets .",
        "He struck a *match* and lit the candle .",
        "The colours do not *match* the curtains .",
    ),
}
TOP = 3


@one_line_errors()
def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("index")
    parser.add_argument("--model", help="the model that the index is of; the bundled one without")
    parser.add_argument("--layer", help="whose vectors; the last that the index keeps without")
    parser.add_argument("--any-word", action="store_true", help="occurrences of other words, too")
    parser.add_argument("--text", nargs="+", help=f"what to build it of; that of {RECIPE} without")
    arguments = parser.parse_args()
    name = arguments.model or ENGLISH_SMALL
    embedder = Embedder.load(arguments.model, softmax=True)
    if not is_index(Path(arguments.index)):
        build(embedder, arguments.text or read_run(RECIPE).corpus.train, arguments.index, name)
    index = NeighbourIndex.open(arguments.index, embedder, model=name)
    for line in table(index, arguments.layer, same_word=not arguments.any_word):
        print(line)


def build(embedder: Embedder, text: Sequence[str], index: str, name: str) -> None:
    """Build an index of the words that are asked about; only their sentences are embedded."""
    source = open_input(tuple(text), TextSettings(split=True))
    settings = IndexSettings(layers="all", words=frozenset(QUESTIONS))
    with Display() as shown:
        summary = build_index(
            embedder,
            source.split_by(embedder.tokenizer.name),
            index,
            settings,
            model=name,
            resume=True,
            observer=shown,
        )
    print(summary.describe(), file=sys.stderr)


def table(index: NeighbourIndex, layer: str | None, *, same_word: bool) -> Iterator[str]:
    """The lines of the table."""
    found = index.description
    yield describe()
    yield ""
    yield (
        f"{found.occurrences:,} occurrences in {found.sentences:,} sentences, "
        f"layer {found.column(layer)}; {'the same word' if same_word else 'any word'}."
    )
    yield ""
    yield heading("", "nearest", "cosine")
    static = StaticVectors.load()
    for word, sentences in QUESTIONS.items():
        near = ", ".join(one.word for one in static.neighbours(word))
        yield f"| {static.name}: {word} | {near} | |"
        for sentence in sentences:
            rows = index.query_marked(sentence, layer=layer, top=TOP, same_word=same_word)
            yield from rows_of(sentence, rows)


def rows_of(sentence: str, found: list[Neighbour]) -> Iterator[str]:
    """A row for each neighbour; the first has the question beside it."""
    for number, one in enumerate(found):
        question = bold(sentence) if number == 0 else ""
        yield f"| {question} | {bold(str(one))} | {one.cosine:.2f} |"


def bold(sentence: str) -> str:
    r"""A marked sentence as Markdown in a table.

    >>> print(bold("the river *bank* | x"))
    the river **bank** \| x
    """
    return sentence.replace("*", "**").replace("|", "\\|")


if __name__ == "__main__":
    main()
