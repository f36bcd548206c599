"""`elmo compare`: how far apart two occurrences of a word are, or all words of some sentences."""

from __future__ import annotations

import json
from typing import Any

import click

from elmokit.cli.heat_map import show_heat_map
from elmokit.cli.options import (
    JSON_OPTION,
    STATIC_OPTION,
    ModelCommand,
    computing_options,
    load_embedder,
    load_static,
    model_options,
)


@click.command(cls=ModelCommand)
@click.argument("sentences", nargs=-1, required=True, metavar="[WORD] SENTENCE...")
@STATIC_OPTION
@click.option("--heat-map", is_flag=True, help="Compare all words of the sentences, without WORD.")
@click.option("--picture", metavar="FILE", help="Draw the heat map as a .png or .svg file.")
@model_options
@computing_options
@JSON_OPTION
def compare(
    sentences: tuple[str, ...],
    static: str | None,
    heat_map: bool,
    picture: str | None,
    as_json: bool,
    **flags: Any,
) -> None:
    """Compare WORD in several sentences, layer by layer; without it, all words of the sentences.

    A static vector of word2vec knows the word alone, and so does layer 0, which reads its letters;
    the layers above read the sentence. 1 is the same direction, 0 unrelated. What begins with
    several words is no WORD but a SENTENCE: then a heat map shows the cosine between all words.

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
    vectors = load_static(static)
    comparison = compare_occurrences(load_embedder(**flags), word, others, vectors)
    click.echo(json.dumps(comparison.to_dict(), indent=2) if as_json else comparison.table())


def compare_all(
    sentences: tuple[str, ...], static: str | None, picture: str | None, as_json: bool, **flags: Any
) -> None:
    """Show the heat map of some sentences, or draw it."""
    from elmokit.analysis.heat_map import draw_heat_map, heat_map
    from elmokit.formats.pictures import check_picture_name

    if picture is not None:
        check_picture_name(picture)
    found = heat_map(load_embedder(**flags), sentences, load_static(static))
    if picture is not None:
        draw_heat_map(found, picture)
    if as_json:
        click.echo(json.dumps(found.to_dict(), ensure_ascii=False))
    elif picture is None:
        show_heat_map(found)
    else:
        click.echo(picture)
