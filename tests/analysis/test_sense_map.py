from __future__ import annotations

import json
import re
import shutil

import pytest

from elmokit.analysis.senses import (
    COLOURS,
    Occurrence,
    Point,
    Sense,
    Senses,
    colour_of,
    draw_map,
    page_of,
    write_page,
)
from elmokit.errors import InputError

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SENTENCE = ("a", "</script><b>bank</b>", "for", "$5")
FOUND = Senses(
    word="bank",
    layer="2",
    occurrences=7,
    silhouette=0.4,
    layout="pca",
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


def test_the_page_holds_every_point_with_its_marked_sentence():
    stored = re.search(r'<script id="data"[^>]*>(.*?)</script>', page_of(FOUND), re.DOTALL)
    assert stored is not None
    data = json.loads(stored[1])
    assert data["points"][0] == [0.5, 0.25, 1, "a *</script><b>bank</b>* for $5"]
    assert [point[2] for point in data["points"]] == [1, 1, 2]
    assert data["senses"][0] == {"label": "1 (2): money, $5", "colour": COLOURS[0]}


def test_the_page_asks_for_nothing_outside_itself():
    page = page_of(FOUND)
    assert "default-src 'none'" in page
    assert re.findall(r"https?://[^\"' ]+", page) == ["http://www.w3.org/2000/svg"]
    assert not re.search(r"<(link|img|iframe)|\bsrc=|@import|fetch\(|XMLHttpRequest", page)


def test_no_sentence_can_end_the_script_that_holds_it():
    page = page_of(FOUND)
    assert page.count("</script>") == 2
    assert "<b>bank" not in page


def test_the_title_says_how_many_of_the_occurrences_are_shown():
    assert "<title>bank: 7 occurrences (3 shown), layer 2</title>" in page_of(FOUND)


def test_a_page_and_a_picture_are_written(tmp_path):
    pytest.importorskip("matplotlib", reason="the extra plots is not installed")
    write_page(FOUND, tmp_path / "bank.html")
    draw_map(FOUND, tmp_path / "bank.png")
    assert (tmp_path / "bank.html").read_text(encoding="utf-8") == page_of(FOUND)
    assert (tmp_path / "bank.png").read_bytes().startswith(b"\x89PNG")


def test_names_that_say_another_format_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"ends in \.html"):
        write_page(FOUND, tmp_path / "bank.pdf")
    with pytest.raises(InputError, match=r"\.png or \.svg"):
        draw_map(FOUND, tmp_path / "bank.html")


def test_every_sense_has_a_colour():
    assert colour_of(1) != colour_of(2)
    assert colour_of(len(COLOURS) + 1) == colour_of(1)


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")
def test_a_browser_shows_sentences_switches_senses_and_searches(tmp_path):
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    write_page(FOUND, tmp_path / "bank.html")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        events: list[str] = []
        page.on("request", lambda request: events.append(request.url))
        page.on("pageerror", lambda error: events.append(str(error)))
        page.on("console", lambda message: events.append(message.text))
        address = (tmp_path / "bank.html").as_uri()
        page.goto(address)
        page.locator("circle").nth(0).focus()
        shown = page.locator("#sentence").inner_text()
        page.locator("#search").fill("RIVER")
        faint = page.locator("circle.faint").count()
        page.locator("#legend input").nth(0).uncheck()
        off = page.locator("circle.off").count()
        browser.close()
    assert shown == "Sense 1: a *</script><b>bank</b>* for $5"
    assert (faint, off) == (2, 2)
    assert events == [address]
