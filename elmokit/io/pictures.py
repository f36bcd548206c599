"""Figures as PNG or SVG files; what draws them is imported when the first is drawn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from elmokit.errors import InputError
from elmokit.io.files import write_atomically
from elmokit.system import import_extra

if TYPE_CHECKING:
    from matplotlib.figure import Figure


FORMATS = {".png": "png", ".svg": "svg"}
DOTS_PER_INCH = 150


def new_figure(width: float, height: float, extra: str = "plots") -> Figure:
    """An empty figure of so many inches; `extra` is what to install where matplotlib is missing."""
    # Without pyplot, which would choose a window system and keep each figure alive.
    library = import_extra("matplotlib.figure", extra)
    return library.Figure(figsize=(width, height), layout="constrained")


def check_picture_name(path: str | Path) -> None:
    """Raise for a name whose suffix is not of a format that a figure can be written in."""
    if Path(path).suffix.lower() not in FORMATS:
        raise InputError(f"{path}: curves are drawn as .png or .svg; give a name that ends so")


def write_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure; the suffix of `path` decides the format."""
    check_picture_name(path)
    with write_atomically(path) as temporary:
        figure.savefig(temporary, format=FORMATS[Path(path).suffix.lower()], dpi=DOTS_PER_INCH)
