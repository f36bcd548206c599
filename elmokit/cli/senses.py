"""`elmo senses`: what a word means in a corpus, by its vectors in context."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from elmokit.cli.options import JSON_OPTION, check_place, threads_option

if TYPE_CHECKING:
    from elmokit.analysis.senses import Senses


@click.command()
@click.argument("index")
@click.argument("word")
@click.option(
    "--senses",
    "number",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many. Without it: as many as lie apart most clearly.",
)
@click.option("--layer", metavar="LAYER", help="Whose vectors. Without it: INDEX's last layer.")
@click.option(
    "--examples",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    metavar="N",
    help="How many sentences to show of each.",
)
@click.option("--picture", metavar="FILE", help="Draw the map as a .png or .svg file.")
@click.option("--page", metavar="FILE", help="Write the map as an .html file to look around in.")
@click.option(
    "--layout",
    type=click.Choice(["pca", "umap"]),
    default="pca",
    show_default=True,
    help="What makes the map.",
)
@threads_option
@JSON_OPTION
def senses(
    index: str,
    word: str,
    number: int | None,
    layer: str | None,
    examples: int,
    picture: str | None,
    page: str | None,
    layout: Any,
    as_json: bool,
) -> None:
    """Part the occurrences of WORD in INDEX by their vectors: one cluster for each sense.

    Shows how many there are, words that are typical of their sentences, and the sentences nearest
    to the middle of each. `elmo neighbours build` makes INDEX: a folder, or where it was copied to,
    such as s3://bucket/news.index.

    \b
    Examples:
      elmo senses news.index bank
      elmo senses news.index bank --senses 2 --picture bank.png --page bank.html
    """
    from elmokit.analysis.neighbours.description import read_description

    read_description(index)
    check_files(picture, page)
    from elmokit.analysis.neighbours.index import NeighbourIndex
    from elmokit.analysis.sense_map import draw_map, write_page

    opened = NeighbourIndex.open(index)
    found = opened.senses(word, layer=layer, senses=number, examples=examples, layout=layout)
    if picture is not None:
        draw_map(found, picture)
    if page is not None:
        write_page(found, page)
    if as_json:
        click.echo(json.dumps(found.to_dict(), ensure_ascii=False))
        return
    click.echo(described(found))
    for path in filter(None, (picture, page)):
        click.echo(f"the map is in {path}", err=True)


def check_files(picture: str | None, page: str | None) -> None:
    """Refuse names that no map can be written to, before anything is computed."""
    from elmokit.analysis.sense_map import check_page_name
    from elmokit.formats.pictures import check_picture_name

    if picture is not None:
        check_picture_name(picture)
        check_place(picture)
    if page is not None:
        check_page_name(page)
        check_place(page)


def described(found: Senses) -> str:
    """The senses as text."""
    from elmokit.analysis.sense_map import title_of

    clear = "" if found.silhouette is None else f", silhouette {found.silhouette:.2f}"
    lines = [f"{title_of(found)}{clear}"]
    for sense in found.senses:
        share = sense.occurrences / len(found.points)
        lines.append(f"\nsense {sense.number}: {share:.0%}")
        if sense.typical:
            lines.append(f"  typical: {', '.join(sense.typical)}")
        lines += [f"  {one}" for one in sense.examples]
    return "\n".join(lines)
