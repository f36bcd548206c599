from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest

from runs.architecture_picture import PICTURES, TEXTS, picture

BYTES = 20_000
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("language", TEXTS)
def test_every_copy_of_the_drawing_is_what_the_script_draws(language: str):
    for path in PICTURES[language]:
        drawn = path.read_text(encoding="utf-8")
        assert drawn == picture(language), "run: python -m runs.architecture_picture"
        assert len(drawn.encode()) < BYTES


@pytest.mark.parametrize("language", TEXTS)
def test_the_drawing_says_what_it_shows_and_fetches_nothing(language: str):
    root = ElementTree.fromstring(picture(language))
    assert root.findtext(f"{SVG}title") == TEXTS[language]["title"]
    assert root.findtext(f"{SVG}desc") == TEXTS[language]["description"]
    shown = [each.text for each in root.iter(f"{SVG}text")]
    assert {TEXTS[language][name] for name in ("mix", "highway", "projection")} <= set(shown)
    attributes = [name for each in root.iter() for name in each.attrib]
    assert not [name for name in attributes if "href" in name]
    assert "url(" not in picture(language)


def test_the_page_says_what_the_drawing_shows():
    texts = (PICTURES["en"][-1].parent / "texts.js").read_text(encoding="utf-8")
    said = [json.loads(text) for text in re.findall(r'^    architecture: (".*"),$', texts, re.M)]
    assert said == [TEXTS[language]["description"] for language in ("en", "ko")]


def test_both_drawings_have_the_same_parts():
    parts = [
        [each.tag for each in ElementTree.fromstring(picture(language)).iter(f"{SVG}path")]
        for language in TEXTS
    ]
    assert parts[0] == parts[1]
    assert len(parts[0]) > 20
