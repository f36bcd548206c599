"""A heat map on the terminal: cosines in hundredths, coloured where there are colours."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from elmokit.analysis.heat_map import HeatMap

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
