"""Figures as PNG or SVG files; what draws them is imported when the first is drawn."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmokit.errors import ElmoWarning, InputError
from elmokit.io.files import write_atomically
from elmokit.system import import_extra

if TYPE_CHECKING:
    from matplotlib.figure import Figure


FORMATS = {".png": "png", ".svg": "svg"}
DOTS_PER_INCH = 150
HANGUL = re.compile("[\u1100-\u11ff\u3131-\u318e가-힣]")
KOREAN_FONTS = (
    "NanumGothic",
    "Noto Sans CJK KR",
    "Noto Sans KR",
    "Apple SD Gothic Neo",
    "Malgun Gothic",
    "Noto Sans CJK JP",  # how matplotlib knows the file of all CJK
)
KOREAN_FILES = ("nanumgothic", "notosanscjk", "notosanskr", "applesdgothicneo", "malgun")


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
    with write_atomically(path) as temporary, warnings.catch_warnings():
        if not use_korean_font(figure):
            warnings.filterwarnings("ignore", "Glyph .* missing")  # which is said once already
        figure.savefig(temporary, format=FORMATS[Path(path).suffix.lower()], dpi=DOTS_PER_INCH)


def use_korean_font(figure: Figure) -> bool:
    """Show the Hangul of a figure in a font that has it; False, and a warning, if there is none."""
    text = import_extra("matplotlib.text", "plots").Text
    with_hangul = [one for one in figure.findobj(text) if HANGUL.search(one.get_text())]
    if not with_hangul:
        return True
    font = korean_font()
    if font is None:
        warnings.warn(
            "the picture has Hangul, and no font for it is installed: it shows boxes; install "
            f"one of {', '.join(KOREAN_FONTS)}",
            ElmoWarning,
            stacklevel=3,
        )
        return False
    for one in with_hangul:
        one.set_fontfamily([*one.get_fontfamily(), font])
    return True


def korean_font() -> str | None:
    """The name of an installed font that has Hangul."""
    fonts = import_extra("matplotlib.font_manager", "plots")
    if found := _korean_among(fonts):
        return found
    # One that was installed after matplotlib made its list.
    for path in fonts.findSystemFonts():
        if re.sub(r"[\W_]", "", Path(path).name).lower().startswith(KOREAN_FILES):
            fonts.fontManager.addfont(path)
    return _korean_among(fonts)


def _korean_among(fonts: Any) -> str | None:
    known = {font.name for font in fonts.fontManager.ttflist}
    return next((name for name in KOREAN_FONTS if name in known), None)
