from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from elmokit.errors import ElmoWarning
from elmokit.io import pictures
from elmokit.io.pictures import korean_font, new_figure, write_figure

FONT = pytest.mark.skipif(korean_font() is None, reason="no Korean font is installed")


def draw(path: Path, *labels: str) -> bytes:
    """A picture with labels at its axis, and the first as its title."""
    figure = new_figure(2, 2)
    axes = figure.subplots()
    axes.set_xticks(range(len(labels)), labels)
    axes.set_title(labels[0])
    write_figure(figure, path)
    return path.read_bytes()


@FONT
@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_hangul_in_a_picture_has_its_glyphs(tmp_path, suffix):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = draw(tmp_path / f"picture{suffix}", "한국어 river", "ᆫ다", "ㅋㅋ", "bank")
    assert drawn != draw(tmp_path / f"other{suffix}", "영국어 river", "ᆫ다", "ㅋㅋ", "bank")


def test_a_picture_without_hangul_looks_for_no_font(tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "korean_font", None)
    draw(tmp_path / "picture.png", "river", "bank")


def test_without_a_font_one_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "korean_font", lambda: None)
    with pytest.warns(ElmoWarning, match="install one of NanumGothic") as caught:
        draw(tmp_path / "picture.png", "한국어", "배")
    assert len(caught) == 1


@FONT
def test_a_font_that_matplotlib_has_not_listed_is_found(monkeypatch):
    from matplotlib import font_manager

    listed = [
        one for one in font_manager.fontManager.ttflist if one.name not in pictures.KOREAN_FONTS
    ]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", listed)
    assert korean_font() in pictures.KOREAN_FONTS
