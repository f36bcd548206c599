"""The explorer without a service: a folder of files, for any server of files.

    python -m runs.static_page my-page
    python -m http.server --bind 127.0.0.1 --directory my-page 8018

The page computes in the browser, with the model's ONNX graph and the npm package onnxruntime-web,
which npm fetches as the folder is written; the page itself asks nothing of any other host. It has
the panels Compare and Layers. Needs npm and `pip install "elmokit[onnx,service]"`.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import tempfile
import unicodedata
from pathlib import Path
from typing import Any

from benchmarks.machine import one_line_errors
from elmokit import convert_model
from elmokit.errors import InputError
from elmokit.io.files import read_object, write_folder_atomically, write_object
from elmokit.service.routes import read_page
from elmokit.service.state import load_model
from elmokit.text.tokenizer import STAND_INS, TREEBANK_RULES

OWN = Path(__file__).parent / "data" / "static_page"
"""The files that take the place of the page's own."""
RUNTIME = "onnxruntime-web"
RUNTIME_VERSION = "1.30.0"
RUNTIME_FILES = {"ort.wasm.bundle.min.mjs": "ort.js", "ort-wasm-simd-threaded.wasm": ""}
"""What is copied, and its other name: not every server knows that .mjs is JavaScript."""
UNNEEDED = ("docs.html", "docs.js", "index.html", "corpus.js", "tasks.js", "words.js")
OF_THE_SERVICE = re.compile(r"<!-- service -->.*?<!-- /service -->", re.DOTALL)
POLICY = "default-src 'none'; connect-src 'self'; img-src 'self'; style-src 'self'; "
POLICY += "script-src 'self' 'wasm-unsafe-eval'; base-uri 'none'; form-action 'none'"

OF_WORDS = r"[\p{L}\p{N}_]"
IN_JAVASCRIPT = {
    r"\b": f"(?:(?<={OF_WORDS})(?!{OF_WORDS})|(?<!{OF_WORDS})(?={OF_WORDS}))",
    r"\w": OF_WORDS,
    r"\d": r"\p{Nd}",
    r"\D": r"\P{Nd}",
}
"""What stands for a part of a regular expression of Python."""


def write_page(folder: Path, model: str, *, int8: bool = False, force: bool = False) -> None:
    """Write the page of a model into a folder."""
    served = load_model(model)
    facts = served.facts()
    if facts["tokenizer"] == "kiwi":
        raise InputError(f"{model} needs the tokenizer kiwi, which is not there in a browser")
    page = read_page()
    index = OF_THE_SERVICE.sub("", page["index.html"].decode())
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    with write_folder_atomically(folder, force=force) as temporary:
        convert_model([model], temporary / "model", target="onnx", int8=int8)
        graph = read_object(temporary / "model" / "elmokit.json")
        known = {"model": facts, "max_characters": graph["max_characters"]}
        known |= word_rules(facts["tokenizer"])
        write_object(known, temporary / "model" / "facts.json", indent=None)
        index = index.replace("<title>", f"{policy}\n<title>")
        (temporary / "index.html").write_text(index, encoding="utf-8")
        (temporary / "page").mkdir()
        own = {path.name: path.read_bytes() for path in OWN.iterdir()}
        for name, contents in (page | own).items():
            if name not in UNNEEDED:
                (temporary / "page" / name).write_bytes(contents)
        fetch_runtime(temporary / "onnxruntime")


def word_rules(tokenizer: str) -> dict[str, Any]:
    """The rules of words as JavaScript's regular expressions, and what they see for each mark."""
    if tokenizer == "whitespace":
        return {"rules": None}
    marks = (chr(code) for code in range(0x110000) if unicodedata.category(chr(code))[0] in "PS")
    return {
        "rules": [in_javascript(one.pattern, by) for one, by in TREEBANK_RULES],
        "stand_ins": {mark: STAND_INS[ord(mark)] for mark in marks if STAND_INS[ord(mark)] != mark},
    }


def in_javascript(pattern: str, replacement: str) -> tuple[str, str, str]:
    r"""A regular expression, its flags and what it is replaced by.

    In JavaScript `\w`, `\d` and `\b` know ASCII alone, so they are written out.

    >>> in_javascript(r"(?i) (a*+)\w\D", r"\1 \g<0>")
    (' (a*)[\\p{L}\\p{N}_]\\P{Nd}', 'giu', '$1 $&')
    """
    flags = "giu" if pattern.startswith("(?i)") else "gu"
    source = pattern.removeprefix("(?i)").replace("*+", "*")
    for known, written in IN_JAVASCRIPT.items():
        source = source.replace(known, written)
    return source, flags, re.sub(r"\\(\d)", r"$\1", replacement).replace(r"\g<0>", "$&")


def fetch_runtime(folder: Path) -> None:
    """Fetch ONNX Runtime for browsers by npm."""
    npm = shutil.which("npm")
    if npm is None:
        raise InputError("npm is not installed; it comes with Node.js")
    with tempfile.TemporaryDirectory() as place:
        command = [npm, "install", "--prefix", place, "--ignore-scripts", "--no-audit", "--no-fund"]
        command.append(f"{RUNTIME}@{RUNTIME_VERSION}")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            said = next((line for line in done.stderr.splitlines() if " error" in line), "")
            raise InputError(f"npm could not fetch {RUNTIME} {RUNTIME_VERSION}: {said}")
        folder.mkdir()
        for name, other in RUNTIME_FILES.items():
            shutil.copy(
                Path(place, "node_modules", RUNTIME, "dist", name), folder / (other or name)
            )


@one_line_errors()
def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", default="english-small", help="default: english-small")
    parser.add_argument("--int8", action="store_true", help="weights of 8 bits: smaller, slower")
    parser.add_argument("--force", action="store_true", help="replace the folder")
    given = parser.parse_args()
    write_page(given.folder, given.model, int8=given.int8, force=given.force)
    size = sum(path.stat().st_size for path in given.folder.rglob("*") if path.is_file())
    print(f"{given.folder}: {size / 1e6:.0f} MB; to look at it:")
    print(f"python -m http.server --bind 127.0.0.1 --directory {given.folder} 8018")


if __name__ == "__main__":
    main()
