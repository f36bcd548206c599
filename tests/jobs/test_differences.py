from __future__ import annotations

from typing import Any

import pytest

from elmokit.jobs.run_folder import difference


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ("cpu", "cuda", "was cpu, is cuda"),
        (["average", None], ["top", None], "was average, is top"),
        ({"a": 1}, {}, "a was 1, is not there"),
        ({"inputs": [{"bytes": 3}]}, {"inputs": [{"bytes": 4}]}, "inputs.1.bytes was 3, is 4"),
    ],
)
def test_what_differs_is_named_with_both_values(before: Any, now: Any, said: str) -> None:
    assert difference(before, now) == said


def test_long_values_are_told_apart_by_their_ends() -> None:
    folder = "folder/" * 30
    said = difference(folder + "a.txt", folder + "b.txt")
    assert "a.txt, is …" in said
    assert said.endswith("b.txt")
    assert len(said) < 150
