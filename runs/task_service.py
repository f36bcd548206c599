"""From labelled text to a running service, by the commands of the README alone.

    python -m runs.task_service messages.csv

Runs what the README says of a task, as it stands there: `elmo task train spam` on the file, `elmo
serve --task`, the README's curl, and, where chromium is installed, the page. Prints what each step
took. Only the port is another, which must be free, and the tasks that are served: the one trained.
Without a file, messages are made up.
"""

from __future__ import annotations

import argparse
import csv
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

README = Path(__file__).resolve().parents[1] / "README.md"
ELMO = [sys.executable, "-m", "elmokit"]
ADDRESS = "http://127.0.0.1:8017"
MADE_UP = {
    "spam": "Free entry! Text WIN to 8{n:04} now to claim your prize",
    "ham": "See you at lunch at {n} I will be a little late",
}


def command(start: str) -> str:
    """The line of the README that begins so, without its comment."""
    lines = README.read_text(encoding="utf-8").splitlines()
    found = next(line for line in lines if line.startswith(start))
    return re.sub(r"\s{2,}#.*", "", found)


def write_messages(path: Path, given: Path | None, rows: int = 200) -> None:
    """The labelled messages: those of a file, or made-up ones."""
    if given is not None:
        shutil.copyfile(given, path)
        return
    with open(path, "w", encoding="utf-8", newline="") as file:
        written = csv.writer(file)
        written.writerow(["label", "text"])
        written.writerows(
            [label, text.format(n=n)] for n in range(rows) for label, text in MADE_UP.items()
        )


@contextmanager
def timed(step: str) -> Iterator[None]:
    """Print how long a step took."""
    started = time.monotonic()
    yield
    print(f"{step}: {time.monotonic() - started:.1f} s", flush=True)


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The service of what was trained; gives its URL."""
    words = shlex.split(command("elmo serve --task my-spam"))[1:4]
    arguments = [*ELMO, *words, "--port", "0", "--quiet"]
    with subprocess.Popen(arguments, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[0].rstrip("/")
        finally:
            process.terminate()


def look_at_page(address: str) -> str | None:
    """What the page says of its example; None without chromium."""
    chromium = shutil.which("chromium")
    if chromium is None:
        return None
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(f"{address}/?lang=en#tasks")
        label = page.locator("section dt").first
        label.wait_for()
        said = label.inner_text()
        browser.close()
    return said


def walk(given: Path | None, more: list[str], folder: Path) -> str:
    """The whole way; gives what curl got."""
    write_messages(folder / "messages.csv", given)
    with timed("train"):
        train = shlex.split(command("elmo task train spam"))[1:]
        subprocess.run([*ELMO, *train, *more, "--quiet"], cwd=folder, check=True)
    with serving(folder) as address:
        with timed("curl"):
            line = command("curl").replace(ADDRESS, address)
            run = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
        print(run.stdout)
        with timed("page"):
            print(look_at_page(address) or "no chromium: the page was not looked at")
    return run.stdout


def main() -> None:
    """Walk, and say how long it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, nargs="?")
    given, more = parser.parse_known_args()
    print(f"{os.cpu_count()} CPUs")
    with TemporaryDirectory() as folder, timed("in all"):
        walk(given.file, more, Path(folder))


if __name__ == "__main__":
    main()
