"""The pictures of the READMEs are what the commands print."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pytest
from helpers import ROOT

from runs import readme_pictures

README = {"terminal.svg": "README.md", "terminal.ko.svg": "README.ko.md"}
NUMBER = re.compile(r"-?\d+\.\d+")


def words_of(svg: str) -> str:
    """What a picture says, a space between its pieces."""
    return " ".join(str(element.text) for element in ElementTree.fromstring(svg) if element.text)


@pytest.mark.parametrize("name", readme_pictures.PICTURES)
def test_a_readme_shows_its_picture_of_these_commands(name):
    svg = (readme_pictures.DOCS / name).read_text(encoding="utf-8")
    shown = words_of(svg).replace(" ", "")
    for command in readme_pictures.PICTURES[name].split("\nelmo"):
        assert re.sub(r"\s", "", command) in shown
    assert f"(docs/{name})" in (ROOT / README[name]).read_text(encoding="utf-8")
    assert len(svg) < 20_000


def test_wide_letters_take_two_columns_each():
    assert list(readme_pictures.pieces("a  배 bc")) == [(0, 1, "a"), (3, 2, "배"), (6, 2, "bc")]
    svg = readme_pictures.drawn([("command", "$ a < 배"), ("", "b")])
    assert [element.text for element in ElementTree.fromstring(svg)[2:]] == [
        "$",
        "a",
        "<",
        "배",
        "b",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", readme_pictures.PICTURES)
def test_the_picture_is_what_the_commands_print_today(name):
    found = words_of((readme_pictures.DOCS / name).read_text(encoding="utf-8"))
    made = words_of(readme_pictures.drawn(readme_pictures.screen(readme_pictures.PICTURES[name])))
    said = "run: python -m runs.readme_pictures"
    assert NUMBER.sub("0", found) == NUMBER.sub("0", made), said
    near = pytest.approx([float(number) for number in NUMBER.findall(made)], abs=0.011)
    assert [float(number) for number in NUMBER.findall(found)] == near, said
