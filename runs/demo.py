"""The main job on the bundled model, from a text to a file of vectors: `make demo`."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from elmokit.vectors.files import open_vectors

FOLDER = Path("demo")
SAMPLE = """\
They rested on the grassy bank of the river .
The village lies on the east bank of the stream .
She borrowed the money from a bank in the city .
"""
KOREAN = ("배를 타고 섬에 갔다.", "배가 고파서 밥을 먹었다.", "시원한 배를 깎아 먹었다.")
CLOZE = "The cat is looking out of the ___ ."


def run(*arguments: str) -> None:
    """Show a command and run it."""
    print(f"\n$ {shlex.join(['elmo', *arguments])}", flush=True)
    subprocess.run([sys.executable, "-m", "elmokit", *arguments], check=True)


def show(path: str) -> None:
    """Print what a file of vectors holds."""
    print("  line, (layers, words, size), sentence")
    for number, item in enumerate(open_vectors(path)):
        print(f"  {number}  {item.vectors.shape!s:<12} {item.sentence}")


def main() -> None:
    """Embed a sample, compare a word in its sentences, in two languages, and fill a gap."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    text, vectors = str(FOLDER / "sample.txt"), str(FOLDER / "sample.h5")
    Path(text).write_text(SAMPLE, encoding="utf-8")
    run("info")
    run("embed", text, "-o", vectors, "--layers", "all")
    show(vectors)
    run("compare", "bank", *SAMPLE.splitlines())
    run("predict", CLOZE, "--candidates", "window,aquarium,pool,cycling")
    run("compare", "배", *KOREAN, "--model", "korean-small")
    print(f"\nThe text and its vectors are in {FOLDER}/.")


if __name__ == "__main__":
    main()
