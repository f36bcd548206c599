"""The page that needs no service (`runs.static_page`) in Chromium: how soon, how fast, how exact.

    python -m benchmarks.browser

Needs chromium (`make browser`), npm and `pip install "elmokit[dev]"`. The page comes from a plain
server of files on this machine; the browser is a new one each time, with nothing remembered, and
can reach no other host. Sentences are of one thread and one call each, as the page computes them,
with no sentence twice.
"""

from __future__ import annotations

import gzip
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.machine import command_line, one_line_errors, table
from benchmarks.onnx import cosine
from benchmarks.text import REPOSITORY, real_sentences
from elmokit import Embedder
from elmokit.errors import InputError
from runs.static_page import write_page

SENTENCES, LOADS = 50, 3
RAW_TEXT = REPOSITORY.parent / "shared/data/ud-ewt/en_ewt-ud-dev.conllu.gz"
LAYERS = """async sentences => {
  const { layersOf } = await import("/page/service.js");
  const found = [], milliseconds = [];
  for (const words of sentences) {
    const started = performance.now();
    found.push(Array.from((await layersOf(words)).data));
    milliseconds.push(performance.now() - started);
  }
  return [found, milliseconds];
}"""
WORDS = """async texts => {
  const { ask } = await import("/page/api.js");
  return (await ask("/split", { texts })).texts.map(sentences => sentences.flat());
}"""


class Quiet(SimpleHTTPRequestHandler):
    """Files of a folder, and no line for each."""

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve a folder as any server of files would; gives its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def browsing() -> Iterator[Any]:
    """A browser of its own that finds no host but this machine."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise InputError("there is no chromium; `make browser` installs Debian's")
    alone = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    with sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=chromium,
            args=["--no-sandbox", "--disable-background-networking", alone],
        )
        yield browser
        browser.close()


def opened(browser: Any, address: str) -> tuple[Any, float]:
    """The page in a window that remembers nothing, and the seconds until it compares words."""
    page = browser.new_context().new_page()
    started = perf_counter()
    page.goto(address)
    page.locator(".map").wait_for()
    return page, perf_counter() - started


def measured(folder: Path, sentences: list[list[str]], expected: list[np.ndarray]) -> list[str]:
    """Of a page: its size, seconds to load, milliseconds a sentence, words a second, cosines."""
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    with browsing() as browser, serving(folder) as address:
        loads = []
        for _ in range(LOADS):
            page, seconds = opened(browser, address)
            loads.append(seconds)
        found, milliseconds = page.evaluate(LAYERS, sentences)
    arrays = [np.reshape(one, like.shape) for one, like in zip(found, expected, strict=True)]
    off = [np.abs(a - b).max((1, 2)) for a, b in zip(arrays, expected, strict=True)]
    share = (np.max(off, 0) / np.max([np.abs(one).max((1, 2)) for one in expected], 0)).max()
    cosines = np.concatenate([cosine(a, b) for a, b in zip(arrays, expected, strict=True)])
    speed = 1000 * sum(map(len, sentences)) / sum(milliseconds)
    numbers = f"{size / 1e6:.0f} MB", f"{median(loads):.1f} s", f"{median(milliseconds):.0f} ms"
    return [*numbers, f"{speed:,.0f}", f"{share:.1e}", f"{cosines.min():.5f}"]


def texts_split_alike(page: Any, elmo: Embedder) -> str:
    """In how many raw texts the page finds the words that the library finds."""
    if not RAW_TEXT.exists():
        return "not compared: UD English EWT is in ../shared/data, which is not here"
    with gzip.open(RAW_TEXT, "rt", encoding="utf-8") as lines:
        texts = [line[9:-1] for line in lines if line.startswith("# text = ")]
    found = page.evaluate(WORDS, texts)
    same = sum(one == elmo.tokenize(text) for one, text in zip(found, texts, strict=True))
    return f"{same:,} of {len(texts):,} raw texts of UD English EWT ({same / len(texts):.1%})"


@one_line_errors()
def main() -> None:
    """Print the table."""
    name, sentences = real_sentences(SENTENCES)
    elmo = Embedder.load()
    expected = [np.asarray(one) for one in elmo.embed(sentences, "all")]
    rows = []
    with tempfile.TemporaryDirectory() as place:
        for graph in ("float32", "8 bits"):
            write_page(Path(place, graph), "english-small", int8=graph != "float32")
            rows.append([graph, *measured(Path(place, graph), sentences, expected)])
        with browsing() as browser, serving(Path(place, "float32")) as address:
            alike = texts_split_alike(opened(browser, address)[0], elmo)
    words = median(map(len, sentences))
    print(f"{command_line('benchmarks.browser')}; text: {name}, {words:.0f} words a sentence\n")
    names = ["graph", "folder", "until it compares", "a sentence", "words per second"]
    print(table([*names, "largest difference", "least cosine"], rows))
    print(f"\nThe same words: {alike}")


if __name__ == "__main__":
    main()
