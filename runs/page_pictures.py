"""Pictures of the explorer page with a bundled model, for its how-to and the tutorials.

    python -m runs.page_pictures docs
    python -m runs.page_pictures docs/tutorials/pictures --task my-spam
    python -m runs.page_pictures docs/ko/tutorials/pictures --model korean-small --task my-spam

`my-spam` is what the tutorial on a task trains. Needs Debian's chromium (`make browser`) and
`pip install "elmokit[dev]"`.
"""

from __future__ import annotations

import argparse
import shutil
import threading
from functools import partial
from pathlib import Path
from typing import Any

from elmokit.service.server import ModelServer
from elmokit.service.state import load_model

PICTURES = {
    "explorer-compare": ("/?lang=en#compare", 1200, 900, "light", ".map"),
    "explorer-layers": ("/?lang=en#layers", 1200, 900, "light", ".bars"),
    "explorer-words": ("/?lang=en#words", 1200, 900, "dark", ".surprise"),
    "explorer-phone": ("/?lang=ko#compare", 360, 740, "light", ".map"),
}
"""Where, how wide and high, in which scheme, and what must be there."""
LANGUAGES = {"english-small": "en", "korean-small": "ko"}
TEXTS = {"en": "Free entry! Text WIN to 80086 now.", "ko": "무료 쿠폰에 당첨되셨습니다!"}


def take(
    address: str, folder: Path, pictures: dict[str, Any] = PICTURES, language: str = "en"
) -> None:
    """Take each picture from the page at an address, in a browser of that language."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for name, (path, width, height, scheme, wanted) in pictures.items():
            page = browser.new_page(
                viewport={"width": width, "height": height},
                color_scheme=scheme,
                locale=language,
            )
            page.goto(address.rstrip("/") + path)
            page.locator(wanted).first.wait_for()
            page.wait_for_timeout(600)
            page.screenshot(path=folder / f"{name}.png", full_page=width > height)
            page.close()
            print(folder / f"{name}.png")
        browser.close()


def main() -> None:
    """Serve the bundled model for as long as the pictures take."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", choices=LANGUAGES, default="english-small")
    parser.add_argument("--task", type=Path, help="a trained task, to be the only picture")
    chosen = parser.parse_args()
    ready = threading.Event()
    tasks = [chosen.task] if chosen.task else []
    load = partial(load_model, chosen.model, tasks=tasks)
    server = ModelServer(load, port=0, on_ready=lambda server: ready.set())
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        ready.wait()
        language = LANGUAGES[chosen.model]
        task = {"page-task": (f"/#tasks?text={TEXTS[language]}", 900, 600, "light", ".bars")}
        take(server.url, chosen.folder, task if chosen.task else PICTURES, language)
    finally:
        server.should_exit = True
        thread.join()


if __name__ == "__main__":
    main()
