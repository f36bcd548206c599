from __future__ import annotations

import pytest

from elmokit.analysis.senses import (
    COLOURS,
    Occurrence,
    Point,
    Sense,
    Senses,
    colour_of,
    draw_map,
    label_of,
    title_of,
)
from elmokit.errors import InputError

SENTENCE = ("a", "bank", "for", "$5")
FOUND = Senses(
    word="bank",
    layer="2",
    occurrences=7,
    silhouette=0.4,
    senses=(
        Sense(1, 2, (Occurrence(SENTENCE, 1),), ("money", "$5")),
        Sense(2, 1, (Occurrence(("river", "bank"), 1),), ()),
    ),
    points=(
        Point(SENTENCE, 1, 1, 0.5, 0.25),
        Point(("the", "bank"), 1, 1, 0.5, -1.0),
        Point(("river", "bank"), 1, 2, -1.0, 0.0),
    ),
)


def test_the_title_says_how_many_of_the_occurrences_are_shown():
    assert title_of(FOUND) == "bank: 7 occurrences (3 shown), layer 2"


def test_a_sense_is_called_by_its_size_and_typical_words():
    assert [label_of(FOUND, number) for number in (1, 2)] == ["1 (2): money, $5", "2 (1)"]


def test_a_map_is_drawn(tmp_path):
    pytest.importorskip("matplotlib", reason="the extra plots is not installed")
    draw_map(FOUND, tmp_path / "bank.png")
    assert (tmp_path / "bank.png").read_bytes().startswith(b"\x89PNG")


def test_a_name_that_says_another_format_is_an_error(tmp_path):
    with pytest.raises(InputError, match=r"\.png or \.svg"):
        draw_map(FOUND, tmp_path / "bank.html")


def test_every_sense_has_a_colour():
    assert colour_of(1) != colour_of(2)
    assert colour_of(len(COLOURS) + 1) == colour_of(1)
