"""Run the tutorials and write what they give: `python -m runs.tutorial_notebook [PAGE...]`.

A tutorial is a Markdown page with examples. This runs them, writes their output into the page, and
draws the pictures that it shows; the same becomes a notebook beside it.
"""

from __future__ import annotations

import base64
import io
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from doctest import DocTestParser, Example
from itertools import count
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1] / "docs"
TUTORIALS = (DOCS / "tutorial.md", DOCS / "ko" / "tutorial.md")
BLOCK = re.compile(r"```python\n(>>> .*?)\n```(?:\n\n!\[[^\]]*\]\(([\w.-]+\.png)\))?", re.DOTALL)
"""A block of examples, and the picture that it draws, if one is shown after it."""
NO_LINE = "<BLANKLINE>"
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def run(page: Path) -> str:
    """Run the examples of a page in order: its text with their output; pictures are written."""
    names: dict[str, Any] = {"__name__": "__main__"}

    def rerun(block: re.Match[str]) -> str:
        examples = [shown(example, output_of(example, names)) for example in examples_of(block[1])]
        if block[2]:
            save_picture(page.with_name(block[2]))
        return block[0].replace(block[1], "".join(examples))

    return BLOCK.sub(rerun, page.read_text(encoding="utf-8"))


def examples_of(block: str) -> list[Example]:
    """The examples of a block: their code, and their output as the page has it."""
    return DocTestParser().get_examples(block)


def output_of(example: Example, names: dict[str, Any]) -> str:
    """What an example prints, or its value."""
    output = io.StringIO()
    with redirect_stdout(output):
        exec(compile(example.source, "<tutorial>", "single"), names)
    return output.getvalue()


def shown(example: Example, output: str) -> str:
    """An example and its output as a page shows them."""
    first, *others = example.source.splitlines()
    code = [f">>> {first}", *(f"... {line}".rstrip() for line in others)]
    return "\n".join([*code, *(line or NO_LINE for line in output.splitlines()), ""])


def save_picture(path: Path) -> None:
    """Write the picture that was drawn last."""
    from matplotlib import pyplot

    pyplot.savefig(path, dpi=80, metadata={"Software": None})
    pyplot.close()


def notebook(page: Path) -> str:
    """A page as a notebook: its text, and for each output a cell of the code that gave it."""
    text, end, numbers = page.read_text(encoding="utf-8"), 0, count(1)
    cells = []
    for block in BLOCK.finditer(text):
        cells += [cell("markdown", text[end : block.start()].strip())]
        cells += code_cells(block[1], numbers)
        if block[2]:
            cells[-1]["outputs"].append(picture(page.with_name(block[2])))
        end = block.end()
    cells.append(cell("markdown", text[end:].strip()))
    cells = [{"id": f"cell-{number}"} | one for number, one in enumerate(cells)]
    whole = {"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"


def cell(kind: str, source: str, **more: Any) -> dict[str, Any]:
    """A cell of a notebook."""
    return {"cell_type": kind, "metadata": {}, "source": source.splitlines(keepends=True), **more}


def code_cells(block: str, numbers: Iterator[int]) -> Iterator[dict[str, Any]]:
    """Cells that end after an example with output: a notebook shows the value of the last one."""
    code = ""
    examples = examples_of(block)
    for example in examples:
        code += example.source
        if example.want or example is examples[-1]:
            number = next(numbers)
            outputs = [output(example, number)] if example.want else []
            yield cell("code", code.rstrip(), execution_count=number, outputs=outputs)
            code = ""


def output(example: Example, number: int) -> dict[str, Any]:
    """The output of an example: what it printed, or its value."""
    text = example.want.replace(NO_LINE, "")
    if example.source.startswith(("print(", "for ")):
        lines = text.splitlines(keepends=True)
        return {"output_type": "stream", "name": "stdout", "text": lines}
    shown: dict[str, Any] = {"output_type": "execute_result", "execution_count": number}
    data = {"text/plain": text.rstrip("\n").splitlines(keepends=True)}
    return shown | {"data": data, "metadata": {}}


def picture(path: Path) -> dict[str, Any]:
    """A picture that a cell draws."""
    data = {"image/png": base64.b64encode(path.read_bytes()).decode()}
    return {"output_type": "display_data", "data": data, "metadata": {}}


def main(pages: list[str]) -> None:
    """Run the named pages, or all, and write them and their notebooks."""
    os.environ.setdefault("MPLBACKEND", "agg")
    for page in [Path(name).resolve() for name in pages] or TUTORIALS:
        page.write_text(run(page), encoding="utf-8")
        page.with_suffix(".ipynb").write_text(notebook(page), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
