"""Pictures of the explorer page with the bundled model, for docs/how-to/explore-in-the-browser.md.

    python -m runs.page_pictures docs

Needs Debian's chromium (`make browser`) and `pip install "elmokit[dev]"`.
"""

from __future__ import annotations

import argparse
import shutil
import threading
from pathlib import Path

from elmokit.service.server import ModelServer
from elmokit.service.state import load_model

PICTURES = {
    "explorer-compare": ("/?lang=en#compare", 1200, 900, "light", ".map"),
    "explorer-layers": ("/?lang=en#layers", 1200, 900, "light", ".bars"),
    "explorer-words": ("/?lang=en#words", 1200, 900, "dark", ".surprise"),
    "explorer-phone": ("/?lang=ko#compare", 360, 740, "light", ".map"),
}
"""Where, how wide and high, in which scheme, and what must be there."""


def take(address: str, folder: Path) -> None:
    """Take each picture from the page at an address."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for name, (path, width, height, scheme, wanted) in PICTURES.items():
            page = browser.new_page(
                viewport={"width": width, "height": height},
                color_scheme=scheme,  # type: ignore[arg-type]
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
    folder = parser.parse_args().folder
    ready = threading.Event()
    server = ModelServer(load_model, port=0, on_ready=lambda server: ready.set())
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        ready.wait()
        take(server.url, folder)
    finally:
        server.should_exit = True
        thread.join()


if __name__ == "__main__":
    main()
