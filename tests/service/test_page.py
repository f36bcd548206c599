from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode, urlsplit

import numpy as np
import pytest
from closeness import assert_close
from service.small_services import SmallIndex, running, small_korean_model
from small_models import ENCODER, small_saved_model

from elmokit import Embedder, LanguageModel
from elmokit.analysis.comparison import cosine
from elmokit.analysis.neighbours.index import Neighbour
from elmokit.errors import InputError
from elmokit.model.scalar_mix import DirectionalMix, ScalarMix
from elmokit.service.errors import STATUS_OF
from elmokit.service.middleware import Keys, Limits
from elmokit.service.state import ServedModel
from elmokit.static.vectors import StaticVectors

playwright = pytest.importorskip("playwright.sync_api")
axe = pytest.importorskip("axe_playwright_python.sync_playwright")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="there is no chromium; `make browser` installs Debian's"
)
DESKTOP, PHONE = 1200, 360
LOOKS = [("en", DESKTOP), ("ko", PHONE)]
PANELS = ("compare", "layers", "words", "neighbours", "senses", "tasks")
KEY = "correct-horse-battery"
MINUS = "\N{MINUS SIGN}"
STATES = (
    *("compare", "layers", "layers?mix=apart", "words", "words?text=___+sat", "words?text=the"),
    *("neighbours?same=1", "senses", "tasks", "tasks?task=squad"),
)
Visit = Callable[..., Any]


@pytest.fixture(scope="module")
def site(answering) -> Iterator[str]:
    static = StaticVectors(["bank"], [[1.0, 0.0]], name="word2vec")
    with running(lambda: replace(answering, index=SmallIndex(), static=static)) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(browser, site) -> Iterator[Visit]:
    """Open the page; when the test ends, nothing may have gone wrong or gone elsewhere."""
    contexts, problems, hosts = [], [], set()

    def note(line: Any) -> None:
        # The browser's own line, which no page can stop
        refused = re.search(r"status of 4(00|01|04|13)|INTERNET_DISCONNECTED", line.text)
        missing = "status of 404" in line.text and "/page/" in line.location["url"]
        if line.type == "error" and (missing or not refused):
            problems.append(line.text)

    def open_page(path: str = "/", width: int = DESKTOP, at: str = site, **settings: Any) -> Any:
        context = browser.new_context(viewport={"width": width, "height": 800}, **settings)
        contexts.append(context)
        context.grant_permissions(["clipboard-read", "clipboard-write"], origin=at)
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", note)
        page.on("request", lambda request: hosts.add(urlsplit(request.url).hostname))
        page.goto(at + path)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert problems == []
    assert hosts <= {"127.0.0.1"}


def serious(page: Any) -> list[str]:
    """What axe finds wrong enough to keep somebody out."""
    found = axe.Axe().run(page).response["violations"]
    return [
        f"{problem['id']}: {node['html'][:120]}"
        for problem in found
        if problem["impact"] in ("serious", "critical")
        for node in problem["nodes"]
    ]


def choose(page: Any, sentence: int, word: str) -> None:
    """Choose a word of a sentence."""
    page.locator(".chips").nth(sentence).get_by_role("radio", name=word, exact=True).check()


def wait_for_text(locator: Any, expected: str) -> None:
    playwright.expect(locator).to_have_text(expected, timeout=15_000)


@pytest.mark.parametrize(("language", "width"), LOOKS)
def test_a_word_is_compared_in_sentences(visit, language, width):
    page = visit(f"/?lang={language}#compare", width)
    bars = page.locator(".pair").first.locator(".number")
    wait_for_text(bars.first, "1.00")
    assert page.locator(".pair").count() == 3
    assert page.locator(".pair dt").first.inner_text().startswith("word2vec")
    wait_for_text(bars.nth(1), "1.00")
    choose(page, 0, "river")
    playwright.expect(bars.first).to_have_text("-")  # a word that word2vec does not know
    playwright.expect(bars.nth(1)).not_to_have_text("1.00")
    page.locator("#sentence-0").fill("a cat sat")
    playwright.expect(page.locator(".chips").first.locator("label")).to_have_count(3)
    page.locator(".sentence button").first.click()
    playwright.expect(page.locator(".pair")).to_have_count(1)
    page.locator(".actions button").click()
    page.locator("#sentence-2").fill("the bank")
    playwright.expect(page.locator(".chips").nth(2).locator("label")).to_have_count(2)
    playwright.expect(page.locator(".pair")).to_have_count(3)
    chosen = page.locator(".chips").nth(2).locator("input:checked")
    assert chosen.get_attribute("value") == "1"
    page.locator(".segments").first.locator("label").first.click()
    rows = page.locator(".map tbody tr")
    assert rows.count() == page.locator(".chips").first.locator("label").count()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_mix_is_moved(visit):
    page = visit("/?lang=ko#layers", PHONE)
    numbers = page.locator(".mixing > div").nth(1).locator(".bars").first.locator(".number")
    before = numbers.first.inner_text()
    slider = page.get_by_role("slider").first
    slider.focus()
    slider.press("End")
    share = page.locator(".slider output").first
    assert float(share.inner_text().split("=")[1].strip(" %")) > 90
    playwright.expect(numbers.first).not_to_have_text(before)
    page.locator(".actions button").nth(1).click()
    wait_for_text(numbers.first, "1.00")
    page.locator(".segments label").nth(1).click()
    assert page.get_by_role("slider").count() == 6
    drawing = page.locator("svg.drawing")
    assert "10" in drawing.text_content()
    assert drawing.locator(".weight").count() == 3
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE


@pytest.mark.parametrize(
    ("form", "letter", "kind", "weights"),
    [
        ("shared", "w", ScalarMix, [0.5, -1.0, 2.0]),
        ("apart", "d", DirectionalMix, [0.2, 0.9, -0.4, 0.1, 0.6]),
    ],
)
def test_a_mix_on_the_page_is_the_librarys(visit, model, form, letter, kind, weights):
    sentences = [["the", "river", "bank"], ["a", "bank", "sat"]]
    values = [("sentence", " ".join(words)) for words in sentences]
    values += [("at", "2"), ("at", "1"), ("mix", form), ("gamma", "2")]
    values += [(letter, str(weight)) for weight in weights]
    page = visit(f"/#layers?{urlencode(values)}")
    mix = kind(3, weights=weights, trainable=False)
    mix.gamma.fill_(2)
    first, second = model.embedder.embed(sentences, mix)
    numbers = page.locator(".mixing > div").nth(1).locator(".bars").first.locator(".number")
    wait_for_text(numbers.first, shown(cosine(first[2], second[1]), 2))
    first_even, second_even = model.embedder.embed(sentences)
    wait_for_text(numbers.nth(1), shown(cosine(first_even[2], second_even[1]), 2))
    length = shown(float(np.linalg.norm(first[2])), 2)
    playwright.expect(page.locator(".mixing")).to_contain_text(f"first vector: {length}")


def shown(number: float, digits: int) -> str:
    """A number as the page writes it."""
    return f"{number:.{digits}f}".replace("-", MINUS)


class ThreeSentences(SmallIndex):
    """Finds these, whatever is asked."""

    found = ((["the", "bank"], 1), (["a", "cat", "sat"], 1), (["river", "bank", "bank"], 2))

    def query(self, words, position, *, top, same_word):
        return [Neighbour(tuple(words), at, cosine=0.5, sentence=0) for words, at in self.found]


def test_a_mix_moves_the_neighbours_that_an_index_finds(visit, model):
    index = ThreeSentences()
    words = ["the", "river", "bank"]
    with running(lambda: replace(model, index=index)) as address:
        page = visit("/#layers?sentence=the+river+bank&sentence=a+bank&at=2&at=1", at=address)
        numbers = page.locator(".found .number")
        for button, layer in ((1, 0), (3, 2)):
            page.locator(".actions button").nth(button).click()
            target = model.embedder.embed([words], layer)[0][2]
            near = [model.embedder.embed([one], layer)[0][at] for one, at in index.found]
            expected = sorted((cosine(target, one) for one in near), reverse=True)
            playwright.expect(numbers.first).to_have_text(shown(expected[0], 3))
            found = [float(text.replace(MINUS, "-")) for text in numbers.all_inner_texts()]
            assert_close(found, expected, 2e-3)  # other layers count e^-10


def test_what_was_edited_is_kept_when_its_panel_is_left_at_once(visit):
    page = visit("/#compare")
    page.locator(".map").wait_for()
    page.locator("#sentence-0").fill("one two three")
    page.locator("#tab-words").click()
    page.locator(".surprise").wait_for()
    page.wait_for_timeout(500)  # longer than a panel waits for more to be typed
    assert "#words" in page.url
    page.locator("#tab-layers").click()
    wait_for_text(page.locator(".chips").first.locator("label").first, "one")
    page.locator(".bars").first.wait_for()
    assert "#layers?sentence=one" in page.url


def test_an_address_that_names_nothing_shows_the_first_panel(visit):
    page = visit("/?lang=constructor#toString")
    page.locator(".map").wait_for()
    assert page.locator("html").get_attribute("lang") == "en"


def test_words_are_predicted_and_scored(visit, model):
    page = visit("/?lang=ko#words", PHONE)
    playwright.expect(page.locator(".odds tbody tr")).to_have_count(4)  # it opens with candidates
    inputs = page.locator("textarea")
    inputs.nth(1).fill("")
    playwright.expect(page.locator(".odds tbody tr")).to_have_count(9)
    inputs.nth(0).fill("the cat")
    playwright.expect(page.locator(".bars dt")).to_have_count(10)
    inputs.nth(1).fill("dog, aardvark, dog")
    playwright.expect(page.locator(".odds tbody tr")).to_have_count(2)
    assert page.locator(".odds tbody tr").nth(1).locator("td").first.inner_text() == "aardvark"
    inputs.nth(2).fill("the cat sat")
    playwright.expect(page.locator(".surprise li")).to_have_count(3)
    both = page.locator(".surprise small").first.inner_text()
    page.locator(".segments label").nth(1).click()
    playwright.expect(page.locator(".surprise small").first).not_to_have_text(both)
    (scored,) = model.language_model.score([["the", "cat", "sat"]])
    bits = shown(-scored.total_forward / np.log(2), 1)
    playwright.expect(page.locator(".surprise ~ .soft")).to_contain_text(bits)
    table = page.locator(".odds")
    assert table.evaluate("node => node.parentNode.scrollWidth <= node.parentNode.clientWidth")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE


def test_an_index_shows_neighbours_and_senses(visit):
    page = visit("/?lang=ko#neighbours", PHONE)
    playwright.expect(page.locator(".found li")).to_have_count(20)
    page.locator(".chips label").first.click()
    wait_for_text(page.locator(".found mark").first, "She")
    with page.expect_request("**/neighbours") as asked:
        page.locator(".segments label").nth(1).click()
    assert asked.value.post_data_json["same_word"] is True
    page.locator("#tab-senses").click()
    playwright.expect(page.locator("svg.drawing path")).to_have_count(12)
    assert page.locator(".found").count() == 2
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE


@pytest.mark.parametrize(
    ("language", "width", "scheme"), [("en", DESKTOP, "light"), ("ko", PHONE, "dark")]
)
def test_nothing_keeps_anybody_out(visit, language, width, scheme):
    page = visit(f"/?lang={language}", width, color_scheme=scheme)
    ready = {"compare": ".map", "layers": ".bars", "words": ".surprise", "neighbours": ".found"}
    ready["tasks"] = ".bars"
    for panel in PANELS:
        page.locator(f"#tab-{panel}").click()
        page.locator(ready.get(panel, "svg.drawing")).first.wait_for()
        assert serious(page) == [], panel
    for task in ("ner", "pos", "srl", "coref", "squad"):
        page.locator(".segments").get_by_role("radio", name=task, exact=True).check()
        page.locator("section .marked, section .surprise").first.wait_for()
        assert serious(page) == [], task
    page.goto(page.url.split("?")[0] + "docs")
    page.locator("summary").first.click()
    assert serious(page) == []


def test_without_an_index_it_says_how_to_make_one(visit, model):
    with running(lambda: model) as address:
        page = visit("/#neighbours", at=address)
        command = "elmo serve --model small --index"
        assert command in page.locator("pre").inner_text()
        page.locator("#tab-senses").click()
        assert command in page.locator("pre").inner_text()


def test_panels_are_reached_by_keyboard(visit):
    page = visit("/")
    page.locator(".map").wait_for()
    page.locator("#tab-compare").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(":focus").get_attribute("id") == "tab-layers"
    page.keyboard.press("End")
    assert page.locator("[aria-selected=true]").get_attribute("id") == "tab-tasks"
    page.keyboard.press("ArrowRight")
    page.locator(".chips input:checked").first.focus()
    page.keyboard.press("ArrowLeft")
    wait_for_text(page.locator(".pair mark").first, "the")


def test_a_link_brings_back_what_was_seen(visit):
    page = visit("/?lang=ko#compare")
    page.locator("#sentence-0").fill("one two three")
    choose(page, 0, "two")
    wait_for_text(page.locator(".pair mark").first, "two")
    page.locator(".share button").first.click()
    wait_for_text(page.locator("#notice"), "복사했습니다")
    link = page.evaluate("navigator.clipboard.readText()")
    again = visit("/" + link.split("/", 3)[3])
    wait_for_text(again.locator(".pair mark").first, "two")
    assert again.locator("#sentence-0").input_value() == "one two three"
    assert again.locator("html").get_attribute("lang") == "ko"


def test_the_language_is_remembered(visit):
    page = visit("/?lang=ko")
    page.goto(page.url.split("?")[0])
    wait_for_text(page.locator("#tab-compare"), "비교")
    page.get_by_role("button", name="English").click()
    wait_for_text(page.locator("#tab-compare"), "Compare")
    assert "lang=en" in page.url


@pytest.mark.parametrize(("language", "says"), [("en", "a CNN, a highway"), ("ko", "하이웨이")])
def test_the_architecture_is_drawn_when_it_is_asked_for(visit, language, says):
    page = visit(f"/?lang={language}", color_scheme="dark")
    drawing = page.locator("#architecture")
    wait_for_text(
        page.locator(".how summary"),
        {"en": "How ELMo makes a vector", "ko": "ELMo가 벡터를 만드는 과정"}[language],
    )
    assert not drawing.evaluate("image => image.complete && image.naturalWidth")
    page.locator(".how summary").click()
    playwright.expect(drawing).to_have_js_property("naturalWidth", 780, timeout=15_000)
    assert says in drawing.get_attribute("alt")
    assert serious(page) == []


@pytest.mark.parametrize(
    ("shape", "shown"),
    [({}, True), ({"lstm_layers": 1}, False), ({"encoder": replace(ENCODER, highways=0)}, False)],
    ids=["two layers", "one layer", "no highway"],
)
def test_the_architecture_is_shown_of_models_that_have_it(visit, shape, shown):
    model = ServedModel.of(small_saved_model(**shape), "small")
    with running(lambda: model) as address:
        page = visit("/", at=address)
        playwright.expect(page.locator("#model")).to_contain_text("small")
        assert page.locator(".how").is_visible() is shown
        page.close()  # before the service is


def test_both_languages_have_every_text(visit):
    page = visit("/")
    texts = page.evaluate("import('/page/texts.js').then(module => module.TEXTS)")
    assert list(texts["en"]) == list(texts["ko"])
    for key, text in texts["en"].items():
        places = {part.split("}")[0] for part in text.split("{")[1:]}
        assert places == {part.split("}")[0] for part in texts["ko"][key].split("{")[1:]}, key


@pytest.mark.parametrize("panel", STATES)
def test_copied_python_runs(visit, model, panel, monkeypatch):
    page = visit(f"/#{panel}")
    page.locator("ul.surprise, .bars, .marked, .found").first.wait_for()
    page.locator(".share button").nth(1).click()
    playwright.expect(page.locator("#notice")).not_to_be_empty()
    program = page.evaluate("navigator.clipboard.readText()")
    monkeypatch.setattr(Embedder, "load", lambda name: model.embedder)
    monkeypatch.setattr(LanguageModel, "load", lambda name: model.language_model)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(program, panel, "exec"), {})
    assert panel.startswith("layers") or printed.getvalue()


def test_copied_curl_is_a_request_of_its_own(visit):
    page = visit("/#words")
    page.locator(".surprise").wait_for()
    page.locator("textarea").first.fill("it's the ___ .")
    page.locator(".odds").wait_for()
    page.locator(".share button").nth(2).click()
    playwright.expect(page.locator("#notice")).not_to_be_empty()
    command = page.evaluate("navigator.clipboard.readText()")
    response = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert json.loads(response.stdout)["after"] == ["."]


TASK_TEXT = "we see \N{GRINNING FACE} Jim Lee at Oslo. Ann 777 MOTHER <b>"
TASK_TEXTS = {
    "ner": (
        TASK_TEXT,
        lambda found: [(each.start, each.end, each.type) for each in found.entities],
    ),
    "srl": (
        "We 777 MOTHER",
        lambda found: [
            (*span, role)
            for one in found.predicates
            for role, *span in [
                ("V", one.start, one.end),
                *((a.role, a.start, a.end) for a in one.arguments),
            ]
        ],
    ),
    "coref": (
        "Zo\xeb Ek sees it. And she sees. Bo 77. $$. Zo\xeb Ek. she",
        lambda found: [
            (each.start, each.end, str(n))
            for n, cluster in enumerate(found.clusters, start=1)
            for each in cluster
        ],
    ),
}


WITHOUT_LABELS = """nodes => nodes.map(node => {
  const mark = node.cloneNode(true);
  mark.querySelectorAll("small").forEach(label => label.remove());
  return mark.textContent;
})"""


@pytest.mark.parametrize(("language", "width"), LOOKS)
def test_a_task_marks_what_the_library_finds(visit, answering, language, width):
    page = visit(f"/?lang={language}#tasks", width)
    page.locator(".bars dt").first.wait_for()
    answer = {"en": "answer", "ko": "답"}[language]
    for name, (text, places) in TASK_TEXTS.items():
        page.locator(".segments").get_by_role("radio", name=name, exact=True).check()
        page.locator("textarea").first.fill(text)
        [found] = answering.tasks[name].trained.predict([text])
        marks = sorted(places(found), key=lambda place: (place[0], -place[1]))
        assert marks
        shown = page.locator("section mark")
        playwright.expect(shown.locator("small")).to_have_text([label for *_, label in marks])
        expected = [text[start:end] for start, end, _ in marks]
        playwright.expect(shown.first).to_contain_text(expected[0])
        assert shown.evaluate_all(WITHOUT_LABELS) == expected
    page.locator(".segments").get_by_role("radio", name="squad", exact=True).check()
    question, context = page.locator("textarea").all()
    question.fill("who")
    context.fill("the 1000 go MOTHER")
    [found] = answering.tasks["squad"].trained.predict([("who", "the 1000 go MOTHER")])
    wait_for_text(page.locator("section mark"), f"{found.answer}{answer}")
    page.locator(".segments").get_by_role("radio", name="pos", exact=True).check()
    page.locator("textarea").first.fill("the dog runs")
    playwright.expect(page.locator("section li")).to_have_text(["theDET", "dogNOUN", "runsVERB"])
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_classes_are_bars_and_a_link_brings_the_text_back(visit, answering):
    page = visit("/?lang=ko#tasks?task=spam&text=we+$$$+1000", PHONE)
    [found] = answering.tasks["spam"].trained.predict(["we $$$ 1000"])
    name, percentage = page.locator("section dt"), page.locator("section .number")
    wait_for_text(name.first, found.label)
    playwright.expect(percentage.first).to_have_text(f"{found.probabilities[found.label]:.2%}")
    playwright.expect(page.locator(".about")).to_contain_text("정확도")
    name.first.evaluate("node => { node.textContent = 'a-long-name-'.repeat(9); }")
    assert page.locator("section .track").first.bounding_box()["width"] > 40
    page.locator("textarea").fill(" ")
    playwright.expect(page.locator("main .quiet")).to_contain_text("단어가 없는 텍스트")
    assert page.locator("section dt").count() == 0


def test_without_a_task_it_says_how_to_train_one(visit, model):
    with running(lambda: model) as address:
        page = visit("/#tasks", at=address)
        playwright.expect(page.locator("main pre")).to_contain_text("elmo serve --task my-spam")
        assert serious(page) == []


def test_what_is_wrong_is_said_in_place_of_the_results(visit):
    page = visit("/#words?text=two+___+of+___")
    page.locator("ul.surprise").wait_for()
    error = page.locator("main .error").first
    playwright.expect(error).to_contain_text("has 2 gaps")
    assert error.get_attribute("role") == "alert"
    page.locator("textarea").first.fill("one ___ .")
    page.locator(".odds").wait_for()
    playwright.expect(error).to_be_empty()
    page.locator("textarea").first.fill("two ___ of ___")
    playwright.expect(error).to_contain_text("has 2 gaps")
    assert page.locator(".odds").count() == 0
    assert page.locator("ul.surprise").count() == 1


def test_what_is_wrong_is_said_in_the_language_of_the_page(visit, model):
    wrong = "#words?text=two+___+of+___&sentence=" + "+word" * 13
    with running(lambda: model, limits=Limits(words_per_sentence=12)) as address:
        for language, gaps, most in (("en", "2 gaps", "may have 12"), ("ko", "빈칸이 2개", "12개")):
            page = visit(f"/?lang={language}{wrong}", at=address)
            errors = page.locator("main .error")
            playwright.expect(errors.nth(0)).to_contain_text(gaps)
            playwright.expect(errors.nth(1)).to_contain_text(most)


def test_the_page_has_words_for_errors_that_there_are(visit):
    texts = visit("/").evaluate("import('/page/texts.js').then(module => module.TEXTS.en)")
    worded = {name.removeprefix("error_") for name in texts if name.startswith("error_")}
    assert worded - {"unreachable"} <= STATUS_OF.keys()
    page = visit("/#words")
    page.locator(".surprise").wait_for()
    page.context.set_offline(True)
    page.locator("textarea").first.fill("the cat")
    playwright.expect(page.locator("main .error").first).to_contain_text("Check that it is running")


def test_a_korean_model_is_shown_with_korean_examples(visit):
    pytest.importorskip("kiwipiepy")
    model = replace(small_korean_model(), index=SmallIndex())
    with running(lambda: model) as address:
        page = visit("/?lang=ko", PHONE, at=address)
        page.locator(".map").wait_for()
        assert page.locator(".pair mark").all_inner_texts() == ["배"] * 6
        assert page.locator("#sentence-2").input_value().endswith("배가 고프다.")
        assert page.locator(".chips").nth(2).locator("label").all_inner_texts()[-3:-1] == [
            "고프",
            "다",
        ]
        page.locator("#tab-layers").click()
        playwright.expect(page.locator(".mixing .bars").first.locator(".number")).to_have_count(6)
        assert page.locator("svg.drawing .letter").all_text_contents() == ["EB", "B0", "B0"]
        page.locator("#tab-words").click()
        page.locator(".odds").wait_for()
        playwright.expect(page.locator(".surprise li").first).to_contain_text("이")
        assert serious(page) == []
        page.locator("#tab-neighbours").click()
        wait_for_text(page.locator(".found mark").first, "배")
        page.locator("#tab-senses").click()
        wait_for_text(page.locator(".found mark").first, "배")
        assert said(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE


def said(page: Any) -> list[str]:
    """What is shown as an error."""
    page.wait_for_load_state("networkidle")
    return page.locator("main .error:not(.quiet):not(:empty)").all_inner_texts()


class EmptyIndex(SmallIndex):
    """Has no word."""

    path = "index"

    def senses(self, word, *, senses):
        problem = f"index: {word!r} does not occur in it; try another word"
        raise InputError(problem, "word_not_in_index", word=word, near="")


def test_a_model_of_vectors_alone_is_opened_without_an_error(visit):
    bare = replace(ServedModel.of(small_saved_model(), "bare"), index=EmptyIndex())
    with running(lambda: bare) as address:
        page = visit("/?lang=ko#words", at=address)
        playwright.expect(page.locator("main > .soft")).to_contain_text("--vocabulary")
        page.locator("#tab-senses").click()
        playwright.expect(page.locator(".quiet")).to_contain_text("“bank”")
        assert said(page) == []
        assert serious(page) == []


def test_without_its_tokenizer_a_model_is_opened_without_an_error(visit, without_kiwi):
    with running(lambda: without_kiwi) as address:
        page = visit("/", at=address)
        for panel in PANELS[:3]:
            page.locator(f"#tab-{panel}").click()
            advice = page.locator("main .quiet").first
            playwright.expect(advice).to_contain_text('pip install "elmokit[korean]"')
            assert said(page) == []
        assert page.locator("textarea").first.input_value().startswith("이 영화는")


def test_a_sentence_without_words_is_left_out_of_the_comparison(visit):
    page = visit("/#compare")
    page.locator(".map").wait_for()
    page.locator("#sentence-1").fill("")
    playwright.expect(page.locator(".pair")).to_have_count(1)
    assert page.locator("main .error").inner_text() == ""
    assert "sentence 3" in page.locator(".map caption").text_content()
    page.locator("#sentence-0").fill("")
    playwright.expect(page.locator("main .error")).to_have_text("Write at least two sentences.")
    assert page.locator(".pair, .map").count() == 0
    page.locator("#sentence-0").fill("the bank")
    playwright.expect(page.locator(".pair")).to_have_count(1)
    page.locator("#tab-layers").click()
    page.locator(".mixing .bars").first.wait_for()
    assert page.locator(".chips").count() == 2


def test_a_key_is_asked_for_once(visit, model):
    with running(lambda: model, keys=Keys([KEY])) as address:
        page = visit("/", at=address)
        refused = page.locator("#key-refused")
        page.locator("#key-value").fill("not-the-key")
        assert not refused.is_visible()
        page.locator("#key button").click()
        refused.wait_for()
        assert page.locator("#model").inner_text() == ""
        page.locator("#key-value").fill(KEY)
        page.locator("#key button").click()
        page.locator(".map").wait_for()
        page.reload()
        page.locator(".map").wait_for()
        page.locator(".share button").nth(2).click()
        playwright.expect(page.locator("#notice")).not_to_be_empty()
        command = page.evaluate("navigator.clipboard.readText()")
        assert KEY not in command
        response = subprocess.run(
            ["bash", "-c", command],
            env=os.environ | {"ELMO_API_KEY": KEY},
            capture_output=True,
            check=True,
        )
        assert "cosines" in json.loads(response.stdout)


def test_the_page_works_under_the_prefix_of_a_proxy(visit, model):
    asked = "performance.getEntriesByType('resource').map(one => new URL(one.name).pathname)"
    with running(lambda: model, root_path="/elmo") as address:
        page = visit("/elmo", at=address)
        page.locator(".map").wait_for()
        paths = set(page.evaluate(asked))
        page.get_by_role("link", name="API").click()
        page.locator("summary").first.click()
        assert f"curl {address}/elmo/v1/" in page.locator("pre").first.inner_text()
        assert f"curl {address}/elmo/tasks/{{name}} " in page.locator("#routes").text_content()
        paths |= set(page.evaluate(asked))
    assert {"/elmo/compare", "/elmo/page/style.css", "/elmo/openapi.json"} <= paths
    assert all(path.startswith("/elmo/") for path in paths)
