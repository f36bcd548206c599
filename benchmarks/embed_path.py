"""The path of `elmo embed FILE -o OUT.h5` through the package: which files and functions it passes.

    python -m benchmarks.embed_path [--repository FOLDER] [--list]

Counted is every `def` of the package that is called, in any thread, once; but not what a module
calls while it is imported. FOLDER is another checkout to compare with, say of an earlier commit.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

TEXT = "The cat sat on the mat .\nShe plays the piano .\n"
TRACE = """
import inspect, sys, threading

called = set()

def note(frame, event, argument):
    code = frame.f_code
    if event != "call" or "/elmokit/" not in code.co_filename or code.co_name.startswith("<"):
        return
    if not code.co_flags & inspect.CO_OPTIMIZED:  # the body of a class
        return
    caller = frame.f_back
    while caller is not None:
        if caller.f_code.co_name == "<module>" and "/elmokit/" in caller.f_code.co_filename:
            return
        caller = caller.f_back
    called.add((code.co_filename.rpartition("/elmokit/")[2], code.co_qualname))

from elmokit.cli import main

sys.argv = ["elmo", "embed", "text.txt", "-o", "out.h5"]
threading.setprofile(note)
sys.setprofile(note)
try:
    main()
finally:
    sys.setprofile(None)
    print("\\n".join("\\t".join(each) for each in sorted(called)))
"""


def trace(repository: Path) -> list[tuple[str, str]]:
    """The file and name of every function that is called."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "text.txt").write_text(TEXT)
        done = subprocess.run(
            [sys.executable, "-c", TRACE],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(repository.resolve())},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    lines = [line.partition("\t") for line in done.stdout.splitlines() if "\t" in line]
    return [(file, name) for file, _, name in lines]


def main() -> None:
    """Print how many there are, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repository", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--list", action="store_true", help="print every function, too")
    arguments = parser.parse_args()
    called = trace(arguments.repository)
    if arguments.list:
        print("\n".join(f"{file}: {name}" for file, name in called))
    print(f"{len({file for file, _ in called})} files, {len(called)} functions")


if __name__ == "__main__":
    main()
