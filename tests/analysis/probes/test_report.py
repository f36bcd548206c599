from __future__ import annotations

import json

import pytest
from helpers import Heard, error_of

from elmokit.analysis.probes.report import ProbeReport, counted_stage, draw_reports
from elmokit.errors import InputError

REPORT = ProbeReport(
    probe="word sense",
    measure="F1",
    columns=("semeval2007", "ALL"),
    scores={"first sense": (0.552, 0.652), "layer 1": (0.5, None), "layer 2": (0.625, 0.7)},
    layers=("layer 1", "layer 2"),
    counts={"words": (455, 7253)},
    details={"more": 3},
)


def test_the_table_has_a_line_for_each_row_and_the_counts_below():
    header, *lines = REPORT.table().splitlines()
    assert header.split("  ")[0] == "word sense: F1 x 100"
    assert header.split()[-2:] == ["semeval2007", "ALL"]
    assert [line.split()[-2:] for line in lines] == [
        ["55.2", "65.2"],
        ["50.0", "-"],
        ["62.5", "70.0"],
        ["455", "7,253"],
    ]
    assert len({len(line) for line in (header, *lines)}) == 1


def test_notes_stand_behind_their_rows():
    report = ProbeReport("p", "m", ("c",), {"set": (0.5,)}, notes={"set": "30 pairs"})
    assert report.table().splitlines()[1].endswith("50.0   30 pairs")


def test_json_has_shares_by_row_and_column():
    found = json.loads(json.dumps(REPORT.to_dict()))
    assert found["scores"]["layer 1"] == {"semeval2007": 0.5, "ALL": None}
    assert found["counts"]["words"]["ALL"] == 7253
    assert found["more"] == 3


def test_a_picture_has_a_panel_for_each_report(tmp_path):
    pytest.importorskip("matplotlib")
    draw_reports([REPORT, REPORT, REPORT], tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    # The words of an SVG are comments beside their outlines.
    assert text.count("<!-- word sense: F1 x 100 -->") == 3
    assert text.count("<!-- 65.2 -->") == 3
    assert ".png or .svg" in error_of(draw_reports, [REPORT], tmp_path / "a.txt", kind=InputError)


def test_steps_are_told_now_and_then_and_at_the_end():
    told = Heard()
    with counted_stage(told, "reading", "sentence", 10, every=4) as step:
        for _ in range(10):
            step()
    assert told.stages == {"reading": [(done, 10) for done in (0, 4, 8, 10)]}
