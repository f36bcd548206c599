"""What a model makes of a few sentences: candidates for a gap, first words, neighbours in context.

    python -m runs.examples --model checkpoints/english-small/model --text HELD-OUT
    python -m runs.examples --korean --model checkpoints/korean-small/model --text HELD-OUT

Prints one Markdown document. Neighbours are found among all occurrences of the word in the raw
text `--text`, by the top layer, as `elmo neighbours` finds them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks.machine import command_line, one_line_errors, table
from elmokit.analysis.neighbours.build import build_index
from elmokit.analysis.neighbours.index import NeighbourIndex
from elmokit.bundled import ENGLISH_SMALL, KOREAN_SMALL
from elmokit.inference.embedder import Embedder
from elmokit.inference.language_model import LanguageModel
from elmokit.io.text_files import TextSettings, find_files
from elmokit.text.tokenizer import read_sentences

MOST_SENTENCES = 2_000
NEAREST = 3
WORDS_AROUND = 8
FIRST_WORDS = 8


class Examples(NamedTuple):
    """What a model of a language is asked."""

    gap: str
    candidates: tuple[str, ...]
    word: str
    marked: tuple[str, ...]  # sentences with stars around the word


ENGLISH = Examples(
    "The cat is looking out of the ___ .",
    ("window", "aquarium", "pool", "cycling"),
    "play",
    (
        "Kieffer was praised for his ability to hit in the clutch and for a spectacular *play* .",
        "She wrote a *play* in three acts for the theatre .",
        "The children *play* in the garden after school .",
    ),
)
KOREAN = Examples(
    "고양이가 ___ 밖을 내다본다.",
    ("창문", "수영장", "냉장고", "자전거"),
    "배",
    (
        "*배*를 타고 섬으로 갔다.",
        "인구가 두 *배*로 늘었다.",
        "*배*가 아파서 병원에 갔다.",
    ),
)


def candidates_part(model: LanguageModel, asked: Examples) -> str:
    """The candidates for the gap, the likeliest first."""
    place = model.find_place(asked.gap)
    ranked = model.rank(place.before, asked.candidates, place.after)
    rows = [
        [
            one.word,
            f"{one.score:.2f}",
            *(f"{part:.2f}" for part in (one.forward, one.backward) if part),
        ]
        if one.known
        else [one.word, "not in the vocabulary", "", ""]
        for one in ranked
    ]
    header = ["candidate", "score", "log p, from the left", "log p, from the right"]
    return f"## Which word fits?\n\n`{asked.gap}`\n\n{table(header, rows)}"


def first_words_part(model: LanguageModel, text: str) -> str:
    """The likeliest first words from zeros, and how well real ones are predicted."""
    settings = TextSettings.of_corpus(tokenizer=model.tokenizer.name)
    sentences = list(islice(read_sentences(find_files([text]), settings), MOST_SENTENCES))
    scores = model.score(sentences)
    nats = -sum(float(score.forward[0]) for score in scores) / len(scores)
    likely = ", ".join(
        f"{one.word} {one.probability:.1%}" for one in model.next_words([], FIRST_WORDS)
    )
    return (
        f"## How does a sentence begin?\n\nFrom zeros: {likely}. The first words of "
        f"{len(scores):,} held-out sentences cost {nats:.2f} nats on average."
    )


def neighbours_part(embedder: Embedder, asked: Examples, text: str) -> str:
    """The occurrences of a word that are nearest to it in each of some sentences."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "index"
        built = build_index(
            embedder, text, path, words=frozenset([asked.word]), split=True, model="this model"
        )
        rows = list(neighbour_rows(NeighbourIndex.open(path, embedder), asked))
    header = ["asked", "nearest occurrences", "cosine"]
    count = f"Among {built.occurrences:,} occurrences in the held-out text, by the top layer."
    return f"## Neighbours of *{asked.word}* in context\n\n{count}\n\n{table(header, rows)}"


def neighbour_rows(index: NeighbourIndex, asked: Examples) -> Iterator[list[str]]:
    """A row for each neighbour; a sentence stands in the first row of its own."""
    for marked in asked.marked:
        for number, one in enumerate(index.query_marked(marked, top=NEAREST, exact=True)):
            start = max(0, one.position - WORDS_AROUND)
            words = list(one.words[start : one.position + WORDS_AROUND + 1])
            words[one.position - start] = f"**{one.word}**"
            shown = " ".join(words).replace("|", "/")
            yield ["" if number else marked.replace("*", "**"), shown, f"{one.cosine:.2f}"]


@one_line_errors()
def main(arguments: Sequence[str] | None = None) -> None:
    """Ask a model and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="a model folder; without it, the bundled model")
    parser.add_argument("--korean", action="store_true", help="ask in Korean")
    parser.add_argument("--text", required=True, metavar="FILE", help="raw held-out text")
    given = parser.parse_args(arguments)
    name = given.model or (KOREAN_SMALL if given.korean else ENGLISH_SMALL)
    asked = KOREAN if given.korean else ENGLISH
    model = LanguageModel.load(name)
    embedder = Embedder(model.bilm, tokenizer=model.tokenizer, vocabulary=model.vocabulary)
    parts = [
        f"# Examples of {name}",
        candidates_part(model, asked),
        first_words_part(model, given.text),
    ]
    print("\n\n".join([*parts, neighbours_part(embedder, asked, given.text)]))
    print("\n" + command_line("runs.examples", arguments))


if __name__ == "__main__":
    main()
