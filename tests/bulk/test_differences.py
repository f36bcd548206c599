from __future__ import annotations

import pytest

from elmokit.bulk.spool import difference


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ("cpu", "cuda", "was cpu, is cuda"),
        (["average", None], ["top", None], "was average, is top"),
        ({"a": 1}, {}, "a was 1, is not there"),
        ({"inputs": [{"bytes": 3}]}, {"inputs": [{"bytes": 4}]}, "inputs.1.bytes was 3, is 4"),
    ],
)
def test_what_differs_is_named_with_both_values(before, now, said):
    assert difference(before, now) == said


def test_long_values_are_told_apart_by_their_ends():
    folder = "folder/" * 30
    said = difference(folder + "a.txt", folder + "b.txt")
    assert "a.txt, is …" in said
    assert said.endswith("b.txt")
    assert len(said) < 150
