"""Run the tutorials and write what they give: `python -m runs.tutorials [PAGE...]`.

A tutorial is a Markdown page. Its blocks of `python` and of `sh` are run in order, in an empty
folder; a block of `text` after one is its output, and pictures after that are what it drew. The
page gets the output, the folder beside it the pictures, and the same becomes a notebook.

    python -m runs.tutorials                     # run all, write outputs, pictures, notebooks
    python -m runs.tutorials --verify            # run all, write nothing: are the outputs these?
    python -m runs.tutorials --check             # run nothing: is a notebook that of its page?

With `--verify` numbers may differ, which depend on the machine. What follows the first training
has to run, and to print something wherever the page shows an output; it is not compared.
"""

from __future__ import annotations

import argparse
import ast
import base64
import difflib
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

DOCS = Path(__file__).resolve().parents[1] / "docs"
NAMES = ("first-steps", "your-own-text", "a-task-from-data-to-service", "how-elmo-works")
TUTORIALS = tuple(
    folder / "tutorials" / f"{name}.md" for folder in (DOCS, DOCS / "ko") for name in NAMES
)
BLOCK = re.compile(
    r"^```(?P<language>python|sh)\n(?P<code>.*?)^```\n"
    r"(?:\n```text\n(?P<output>.*?)^```\n)?"
    r'(?P<pictures>(?:\n!\[[^\]]*\]\([\w./-]+\.png(?: "[^"]+")?\)\n)*)',
    re.DOTALL | re.MULTILINE,
)
PICTURE = re.compile(r'!\[[^\]]*\]\((?P<path>[\w./-]+\.png)(?: "(?P<source>[^"]+)")?\)')
"""A picture after a block: a file that the block wrote, named as its title, or what pyplot drew."""
SHOWN_PICTURE = re.compile(r"(!\[[^\]]*\]\()([\w./-]+\.(?:png|svg))(\))")
KINDS = {".png": "image/png", ".svg": "image/svg+xml"}
LOADING = "loading the model …\n"  # is said after a second, on some machines
HEAD, TAIL = 14, 8  # lines of an output that are shown
NUMBER = re.compile(r"\s*-?\d[\d,]*(?:\.\d+)?(?:e[+-]\d+)?")
TRAINING = re.compile(r"^elmo (?:pretrain|finetune|task train) ", re.MULTILINE)
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


class TutorialError(Exception):
    """A block of a page does not run."""


def run(page: Path, pictures: Path | None = None) -> str:
    """Run the blocks of a page: its text with their output; pictures go to where they are shown.

    With `pictures`, these go to that folder instead.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    text = page.read_text(encoding="utf-8")

    def rerun(block: re.Match[str]) -> str:
        try:
            output = output_of(block["language"], block["code"], names)
        except Exception as error:
            raise TutorialError(f"{page}, line {line_of(block)}: {error!r}") from error
        for picture in PICTURE.finditer(block["pictures"]):
            save_picture((pictures or page.parent) / picture["path"], picture["source"])
        shown = f"\n```text\n{shortened(output)}```\n" if output else ""
        return f"```{block['language']}\n{block['code']}```\n{shown}{block['pictures']}"

    with TemporaryDirectory() as folder, chdir(folder), patch.dict(os.environ):
        os.environ["ELMOKIT_CACHE"] = str(Path(folder) / ".cache")
        try:
            return BLOCK.sub(rerun, text)
        finally:
            for process in names.values():
                if isinstance(process, subprocess.Popen) and process.poll() is None:
                    process.kill()  # a service that a page did not come to stop
                    process.wait()


def line_of(block: re.Match[str]) -> int:
    """The line of its page on which a block starts."""
    return block.string[: block.start()].count("\n") + 1


def output_of(language: str, code: str, names: dict[str, Any]) -> str:
    """What a block prints, and the value of its last line, as a notebook shows them."""
    if language == "sh":
        return output_of_shell(code)
    tree = ast.parse(code)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    output = io.StringIO()
    with redirect_stdout(output):
        exec(compile(tree, "<tutorial>", "exec"), names)
        if last is not None:
            exec(compile(ast.Interactive([last]), "<tutorial>", "single"), names)
    return output.getvalue()


def output_of_shell(code: str) -> str:
    """What commands print, their messages among it."""
    ran = subprocess.run(
        ["bash", "-e", "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if ran.returncode:
        raise RuntimeError(f"{code} ended with {ran.returncode}: {ran.stdout}")
    return ran.stdout.replace(LOADING, "")


def shortened(output: str) -> str:
    """An output without the middle of a long one."""
    lines = [line.rstrip() for line in output.splitlines()]
    if len(lines) > HEAD + TAIL:
        lines = [*lines[:HEAD], "…", *lines[-TAIL:]]
    return "".join(f"{line}\n" for line in lines)


def save_picture(path: Path, source: str | None) -> None:
    """Write a picture as the page shows it: a file of the run, or what pyplot drew last."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if source is not None:
        shutil.copyfile(source, path)
        return
    from matplotlib import pyplot

    pyplot.savefig(path, dpi=110, metadata={"Software": None})
    pyplot.close()


def notebook(page: Path) -> str:
    """A page as a notebook: its text, and for each block a cell with the output it gave."""
    text, end, numbers = page.read_text(encoding="utf-8"), 0, count(1)
    cells: list[dict[str, Any]] = []
    for block in BLOCK.finditer(text):
        cells += text_cells(text[end : block.start()], page)
        cells += code_cells(block, page, numbers)
        end = block.end()
    cells += text_cells(text[end:], page)
    cells = [{"id": f"cell-{number}"} | one for number, one in enumerate(cells)]
    complete = {"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(complete, ensure_ascii=False, indent=1) + "\n"


def cell(kind: str, source: str, **more: Any) -> dict[str, Any]:
    """A cell of a notebook."""
    return {"cell_type": kind, "metadata": {}, "source": source.splitlines(keepends=True), **more}


def text_cells(text: str, page: Path) -> Iterator[dict[str, Any]]:
    """A cell of text, if there is any; a picture in it is attached to the cell."""
    attached = {
        Path(name).name: {KINDS[Path(name).suffix]: encoded(page.parent / name)}
        for _, name, _ in SHOWN_PICTURE.findall(text)
    }
    text = SHOWN_PICTURE.sub(lambda one: f"{one[1]}attachment:{Path(one[2]).name}{one[3]}", text)
    if text.strip():
        more = {"attachments": attached} if attached else {}
        yield cell("markdown", text.strip(), **more)


def encoded(path: Path) -> str:
    """A file as base64."""
    return base64.b64encode(path.read_bytes()).decode()


def code_cells(
    block: re.Match[str], page: Path, numbers: Iterator[int]
) -> Iterator[dict[str, Any]]:
    """A cell of the code with its output, and one for each file that it drew."""
    code = block["code"].strip()
    source = commands(code) if block["language"] == "sh" else code
    number = next(numbers)
    outputs = [output(block, number)] if block["output"] else []
    for picture in PICTURE.finditer(block["pictures"]):
        shown = {"image/png": encoded(page.parent / picture["path"])}
        if picture["source"] is None:
            outputs.append({"output_type": "display_data", "data": shown, "metadata": {}})
            continue
        yield cell("code", source, execution_count=number, outputs=outputs)
        source = f'from IPython.display import Image\n\nImage("{picture["source"]}")'
        number = next(numbers)
        outputs = [value(shown, number)]
    yield cell("code", source, execution_count=number, outputs=outputs)


def commands(code: str) -> str:
    """Shell commands as a notebook runs them: an exclamation mark before each."""
    starts = [True, *(not line.endswith("\\") for line in code.splitlines())]
    lines = zip(code.splitlines(), starts, strict=False)
    return "\n".join(f"!{line}" if start and line else line for line, start in lines)


def output(block: re.Match[str], number: int) -> dict[str, Any]:
    """The output of a block: what it printed, or its value."""
    lines = block["output"].splitlines(keepends=True)
    if block["language"] == "python" and ends_with_value(block["code"]):
        return value({"text/plain": "".join(lines).rstrip("\n").splitlines(keepends=True)}, number)
    return {"output_type": "stream", "name": "stdout", "text": lines}


def value(data: dict[str, Any], number: int) -> dict[str, Any]:
    """The value of a cell's last line."""
    shown = {"output_type": "execute_result", "execution_count": number}
    return shown | {"data": data, "metadata": {}}


def ends_with_value(code: str) -> bool:
    """Whether a block shows nothing but the value of its last line."""
    return isinstance(ast.parse(code).body[-1], ast.Expr) and "print(" not in code


def differences(page: Path) -> list[str]:
    """Run a page, and compare what it gives with what is written; numbers may differ.

    What comes after something was trained only has to have an output where one is written: on
    another machine it is trained a little differently.
    """
    with TemporaryDirectory() as folder:
        texts = page.read_text(encoding="utf-8"), run(page, pictures=Path(folder))
    heads = [TRAINING.split(text)[0] for text in texts]
    written, given = ([NUMBER.sub(" #", line) for line in head.splitlines()] for head in heads)
    compared = difflib.unified_diff(written, given, str(page), "as run", lineterm="", n=1)
    blocks = zip(*(BLOCK.finditer(text) for text in texts), strict=True)
    silent = [
        f"{page}, line {line_of(before)}: has no output any more"
        for before, now in blocks
        if before.end() > len(heads[0]) and before["output"] and not now["output"]
    ]
    return [*compared, *silent]


def is_current(page: Path) -> bool:
    """Whether the notebook beside a page is that page's."""
    try:
        return page.with_suffix(".ipynb").read_text(encoding="utf-8") == notebook(page)
    except FileNotFoundError:  # it, or a picture
        return False


def main(arguments: list[str] | None = None) -> None:
    """Run the named pages, or all, and write them and their notebooks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="*", type=lambda name: Path(name).resolve())
    parser.add_argument("--check", action="store_true", help="run nothing: compare the notebooks")
    parser.add_argument("--verify", action="store_true", help="run, write nothing: compare outputs")
    chosen = parser.parse_args(arguments)
    os.environ.setdefault("MPLBACKEND", "agg")
    folder = str(Path(sys.executable).parent)  # has the command elmo
    os.environ["PATH"] = os.pathsep.join([folder, os.environ["PATH"]])
    wrong = []
    for page in chosen.pages or TUTORIALS:
        if chosen.check:
            wrong += [] if is_current(page) else [f"{page}: run python -m runs.tutorials {page}"]
        elif chosen.verify:
            wrong += differences(page)
        else:
            page.write_text(run(page), encoding="utf-8")
            page.with_suffix(".ipynb").write_text(notebook(page), encoding="utf-8")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
