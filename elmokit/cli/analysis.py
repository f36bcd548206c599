"""`elmo compare`: how far apart two occurrences of a word are, or all words of some sentences."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from elmokit.cli import options

if TYPE_CHECKING:
    from elmokit.analysis.comparison import HeatMap
    from elmokit.analysis.senses import Senses


CELL = 5
LONGEST_LABEL = 14
WHITE, RED, BLUE = (255, 255, 255), (214, 80, 60), (70, 120, 190)


def show_heat_map(found: HeatMap) -> None:
    """Print a table for each layer; one too wide for the terminal is cut into parts."""
    labels = [f"{number:>3} {word[:LONGEST_LABEL]}" for number, word in enumerate(found.words, 1)]
    width = max(map(len, labels)) + 1
    columns = max((shutil.get_terminal_size().columns - width) // CELL, 1)
    for layer, matrix in found.cosines.items():
        click.secho(f"\n{layer}, cosine x 100", bold=True)
        for first in range(0, len(labels), columns):
            numbers = range(first, min(first + columns, len(labels)))
            click.echo(" " * width + "".join(f"{number + 1:>{CELL}}" for number in numbers))
            for row, label in enumerate(labels):
                if row in found.borders:
                    click.echo("")
                cells = "".join(cells_of([float(matrix[row, column]) for column in numbers]))
                click.echo(f"{label:<{width}}{cells}")


def cells_of(cosines: list[float]) -> Iterator[str]:
    """Each cosine in hundredths, on its colour; a dash where there is none."""
    for cosine in cosines:
        if cosine != cosine:
            yield f"{'-':>{CELL}}"
        else:
            number = f"{round(100 * cosine):>{CELL}}"
            yield click.style(number, fg="black", bg=colour_of(cosine))


def colour_of(cosine: float) -> tuple[int, int, int]:
    """White at 0, red towards 1, blue towards -1.

    >>> colour_of(0.0), colour_of(1.0)
    ((255, 255, 255), (214, 80, 60))
    """
    share = min(abs(cosine), 1.0)
    end = RED if cosine > 0 else BLUE
    red, green, blue = (
        round(start + share * (stop - start)) for start, stop in zip(WHITE, end, strict=True)
    )
    return red, green, blue


@click.command(cls=options.ModelCommand)
@click.argument("sentences", nargs=-1, required=True, metavar="[WORD] SENTENCE...")
@options.static
@options.flag("--heat-map", "Compare all words of the sentences, without WORD.")
@options.picture("Draw the heat map as a .png or .svg file.")
@options.model
@options.computing
@options.as_json
def compare(
    sentences: tuple[str, ...],
    static: str | None,
    heat_map: bool,
    picture: str | None,
    as_json: bool,
    **flags: Any,
) -> None:
    """Compare a word in several sentences, or all words of some.

    WORD is compared layer by layer. A static vector of word2vec knows the word alone, and so does
    layer 0, which reads its letters; the layers above read the sentence. 1 is the same direction, 0
    unrelated. What begins with several words is not a WORD but a SENTENCE: then a heat map shows
    the cosine between all words.

    \b
    Examples:
      elmo compare bank "He sat on the river bank ." "She opened a bank account ."
      elmo compare "He sat on the river bank ." "She opened a bank account ."
      elmo compare "He sat on the river bank ." "She opened a bank account ." --picture bank.png
    """
    if heat_map or picture is not None or len(sentences[0].split()) > 1:
        compare_all(sentences, static, picture, as_json, **flags)
        return
    from elmokit.analysis.comparison import compare_occurrences

    word, *others = sentences
    embedder = options.load_embedder(**flags)
    vectors = options.load_static(static, embedder)
    comparison = compare_occurrences(embedder, word, others, vectors)
    click.echo(json.dumps(comparison.to_dict(), indent=2) if as_json else comparison.table())


def compare_all(
    sentences: tuple[str, ...], static: str | None, picture: str | None, as_json: bool, **flags: Any
) -> None:
    """Show the heat map of some sentences, or draw it."""
    from elmokit.analysis.comparison import draw_heat_map, heat_map

    embedder = options.load_embedder(**flags)
    found = heat_map(embedder, sentences, options.load_static(static, embedder))
    if picture is not None:
        draw_heat_map(found, picture)
    if as_json:
        click.echo(json.dumps(found.to_dict(), ensure_ascii=False))
    elif picture is None:
        show_heat_map(found)
    else:
        click.echo(picture)


@click.command()
@click.argument("index")
@click.argument("word")
@options.number(
    "--senses", "How many. Without it: as many as lie apart most clearly.", called="number"
)
@options.value("--layer", "LAYER", "Whose vectors. Without it: INDEX's last layer.")
@options.number("--examples", "How many sentences to show of each.", default=3)
@options.picture("Draw the map as a .png or .svg file.")
@options.threads
@options.as_json
def senses(
    index: str,
    word: str,
    number: int | None,
    layer: str | None,
    examples: int,
    picture: str | None,
    as_json: bool,
) -> None:
    """Part the occurrences of WORD in INDEX: one cluster a sense.

    Shows how many there are, words that are typical of their sentences, and the sentences nearest
    to the middle of each. `elmo neighbours build` makes INDEX: a folder, or where it was copied to,
    such as s3://bucket/news.index.

    \b
    Examples:
      elmo senses news.index bank
      elmo senses news.index bank --senses 2 --picture bank.png
    """
    from elmokit.analysis.neighbours.store import read_description

    read_description(index)
    from elmokit.analysis.neighbours.index import NeighbourIndex
    from elmokit.analysis.senses import draw_map

    found = NeighbourIndex.open(index).senses(word, layer=layer, senses=number, examples=examples)
    if picture is not None:
        draw_map(found, picture, Path(index).name)
    click.echo(json.dumps(found.to_dict(), ensure_ascii=False) if as_json else described(found))
    if picture is not None and not as_json:
        click.echo(f"the map is in {picture}", err=True)


def described(found: Senses) -> str:
    """The senses as text."""
    from elmokit.analysis.senses import title_of

    clear = "" if found.silhouette is None else f", silhouette {found.silhouette:.2f}"
    lines = [f"{title_of(found)}{clear}"]
    for sense in found.senses:
        share = sense.occurrences / len(found.points)
        lines.append(f"\nsense {sense.number}: {share:.0%}")
        if sense.typical:
            lines.append(f"  typical: {', '.join(sense.typical)}")
        lines += [f"  {one}" for one in sense.examples]
    return "\n".join(lines)
