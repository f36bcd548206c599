"""The explorer without a service, in Chromium: no other host, and once loaded no network."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from closeness import TOLERANCE, assert_agree, assert_close
from helpers import error_of
from small_models import write_small_model

from benchmarks.browser import LAYERS, RAW_TEXT, WORDS, browsing, opened, serving, texts_split_alike
from elmokit import Embedder
from elmokit.analysis.comparison import compare_occurrences
from elmokit.errors import InputError
from elmokit.text.tokenizer import spaced_treebank
from runs.static_page import fetch_runtime, word_rules, write_page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
TEXTS = [
    "They sat on the river bank.",
    "The bank can't lend him the money.",
    "은행 bank 🦜 (naïve) !",
]
UNLIKE_ASCII = [
    "१,००० and ３:００ , ten:١٠",  # noqa: RUF001
    "cannoté écannot cannot d'yeé",
    "naïve 'tisé 'tis 'reé 're",
]
"""Words whose letters and digits ASCII does not have."""
COMPARE = """async body => (await import("/page/api.js")).ask("/compare", body)"""
WITHIN = {"float32": TOLERANCE, "8 bits": 0.05}
LONG = ("The bank of the river was steep , and nobody came . " * 20).split()[:200]


def check_what_a_page_needs() -> None:
    pytest.importorskip("playwright", reason="playwright is not installed")
    pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    if CHROMIUM is None:
        pytest.skip("there is no chromium; `make browser` installs Debian's")
    if shutil.which("npm") is None:
        pytest.skip("there is no npm, which fetches ONNX Runtime for browsers")


def write_or_skip(folder: Path, model: str, *, int8: bool = False) -> None:
    try:
        write_page(folder, model, int8=int8)
    except InputError as error:
        if "could not fetch" not in str(error):
            raise
        pytest.skip(str(error))


FLOAT32 = pytest.mark.parametrize("site", ["float32"], indirect=True)


@pytest.fixture(scope="module", params=["float32", "8 bits"])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    check_what_a_page_needs()
    folder = tmp_path_factory.mktemp("pages") / request.param
    write_or_skip(folder, "english-small", int8=request.param == "8 bits")
    return folder


@pytest.fixture
def page(site: Path) -> Iterator[Any]:
    """The page of a plain server of files, loaded; then there is no network any more."""
    problems: list[str] = []

    def note(line: Any) -> None:
        if not line.location["url"].endswith("icon.svg"):  # asked for at each change of the address
            problems.append(line.text)

    with browsing() as browser, serving(site) as address:
        page, _ = opened(browser, address)
        page.on("console", note)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.context.set_offline(True)
        yield page
    assert problems == []


@pytest.mark.slow
def test_vectors_in_the_browser_are_the_librarys(site: Path, page: Any) -> None:
    sentences = [LONG, ["Money"], ["<S>", "", "은행", "x" * 99, "🦜", "</S>", "constructor"]]
    with pytest.warns(UserWarning, match="unusual word"):
        expected = Embedder.load().embed(sentences, "all")
    found = [
        np.reshape(one, like.shape)
        for one, like in zip(page.evaluate(LAYERS, sentences)[0], expected, strict=True)
    ]
    assert_agree(found, expected, WITHIN[site.name])


@FLOAT32
@pytest.mark.slow
def test_words_are_compared_as_by_the_library(page: Any) -> None:
    expected = compare_occurrences(Embedder.load(), "bank", TEXTS).to_dict()

    body = {"sentences": TEXTS, "positions": expected["positions"], "maps": True}
    found = page.evaluate(COMPARE, body)

    maps = found.pop("maps")
    cosines = expected.pop("cosines")
    assert list(found["cosines"]) == list(cosines)
    for layer, of_pairs in cosines.items():
        assert_close(found["cosines"][layer], of_pairs)
        for (a, b), cells, cosine in zip(expected["pairs"], maps, of_pairs, strict=True):
            assert np.shape(cells[layer]) == tuple(len(expected["sentences"][n]) for n in (a, b))
            at = tuple(expected["positions"][n] for n in (a, b))
            assert_close(np.array(cells[layer])[at], cosine)
    assert {name: found[name] for name in ("sentences", "positions", "pairs")} == {
        name: expected[name] for name in ("sentences", "positions", "pairs")
    }


@FLOAT32
@pytest.mark.slow
def test_the_panels_show_what_the_library_says(page: Any) -> None:
    expect = importlib.import_module("playwright.sync_api").expect
    page.locator("#sentence-0").fill(TEXTS[0])
    page.locator(".chips").first.get_by_role("radio", name="bank").check()
    texts = [page.locator(f"#sentence-{n}").input_value() for n in range(3)]
    compared = compare_occurrences(Embedder.load(), "bank", texts).cosines.values()
    rows = [row for pair in zip(*compared, strict=True) for row in pair]
    expect(page.locator(".pair .number")).to_have_text([f"{cosine:.2f}" for cosine in rows])
    assert page.locator(".share button").count() == 2  # there is no service to call with curl
    page.locator("#tab-layers").click()
    page.locator(".mixing .bars").first.wait_for()
    page.get_by_role("button", name="한국어").click()
    page.locator(".mixing .bars").first.wait_for()
    expect(page.locator("footer")).to_contain_text("이 브라우저")


@FLOAT32
@pytest.mark.slow
def test_nearly_all_texts_have_the_words_of_the_library(page: Any) -> None:
    elmo = Embedder.load()
    texts = [*TEXTS, *UNLIKE_ASCII]
    assert page.evaluate(WORDS, texts) == [elmo.tokenize(text) for text in texts]
    if not RAW_TEXT.exists():
        pytest.skip("UD English EWT is in ../shared/data, which is not here")
    same = texts_split_alike(page, elmo)
    assert float(same.rpartition("(")[2].rstrip("%)")) >= 99, same


@FLOAT32
@pytest.mark.slow
def test_a_graph_that_does_not_come_is_said_on_the_page(site: Path) -> None:
    with browsing() as browser, serving(site) as address:
        page = browser.new_page()
        page.route("**/model.onnx", lambda route: route.abort())
        page.goto(address)
        expect = importlib.import_module("playwright.sync_api").expect
        said = page.locator("#model")
        expect(said).to_contain_text("The model cannot be used in this browser")
        page.get_by_role("button", name="한국어").click()
        expect(said).to_contain_text("이 브라우저에서는 모델을 쓸 수 없습니다")
        page.get_by_role("button", name="English").click()
        expect(said).to_contain_text("The model cannot be used in this browser")


@pytest.mark.slow
def test_a_model_of_words_between_spaces_is_compared(tmp_path: Path) -> None:
    check_what_a_page_needs()
    model = write_small_model(tmp_path / "model", "whitespace")
    write_or_skip(tmp_path / "page", str(model))
    texts = ["The bank, 's .\n\nA  bank.", "bank"]
    elmo = Embedder.load(model)
    words = [elmo.tokenize(text) for text in texts]
    with browsing() as browser, serving(tmp_path / "page") as address:
        page, _ = opened(browser, address)
        assert page.evaluate(WORDS, texts) == words
        found = page.evaluate(LAYERS, words)[0]
    expected = elmo.embed(words, "all")
    assert_agree(
        [np.reshape(one, like.shape) for one, like in zip(found, expected, strict=True)], expected
    )


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")
def test_rules_find_the_same_words_in_javascript() -> None:
    program = """
        const [rules, texts] = JSON.parse(require("fs").readFileSync(0));
        const all = rules.map(([source, flags, by]) => [new RegExp(source, flags), by]);
        const spaced = (text) => all.reduce((line, [one, by]) => line.replace(one, by), text);
        console.log(JSON.stringify(texts.map(spaced)));
    """
    texts = [*TEXTS, *UNLIKE_ASCII]
    given = json.dumps([word_rules("default")["rules"], texts])
    command = ["node", "-e", program]
    ran = subprocess.run(command, input=given, capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout) == [spaced_treebank(text) for text in texts]


@pytest.mark.slow
def test_a_tokenizer_that_is_not_there_in_a_browser_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("kiwipiepy", reason="the extra [korean] is not installed")
    message = error_of(write_page, tmp_path / "page", "korean-small", kind=InputError)
    assert message.startswith("korean-small needs the tokenizer kiwi")
    assert not (tmp_path / "page").exists()


def test_a_page_without_npm_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    message = error_of(fetch_runtime, tmp_path / "runtime", kind=InputError)
    assert message == "npm is not installed; it comes with Node.js"
