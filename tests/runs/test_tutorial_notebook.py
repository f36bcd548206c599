from __future__ import annotations

import json
import re
from io import StringIO
from pathlib import Path
from textwrap import dedent
from tokenize import NAME, generate_tokens

import pytest

from runs.tutorial_notebook import BLOCK, TUTORIALS, examples_of, notebook, run

BYTES = 500_000
PAGE = """\
    # A page

    ```python
    >>> def twice(text):
    ...     return 2 * text
    >>> twice("ab")
    old
    >>> for line in ["a", "", "b"]:
    ...     print(line)

    ```

    Then a picture:

    ```python
    >>> from matplotlib import pyplot
    >>> lines = pyplot.plot([1, 2])

    ```

    ![A line](line.png)

    The end.
"""


def names(page: Path) -> list[list[str]]:
    """The names in the code of each block: all of it but texts and numbers."""
    blocks = [block[1] for block in BLOCK.finditer(page.read_text(encoding="utf-8"))]
    codes = ["".join(example.source for example in examples_of(block)) for block in blocks]
    return [
        [token.string for token in generate_tokens(StringIO(code).readline) if token.type == NAME]
        for code in codes
    ]


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.parent.name)
def test_the_notebook_is_what_its_page_gives(page: Path):
    path = page.with_suffix(".ipynb")
    assert path.read_text(encoding="utf-8") == notebook(page), (
        "run: python -m runs.tutorial_notebook"
    )
    assert path.stat().st_size < BYTES


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.parent.name)
def test_the_notebook_is_a_valid_one_with_outputs_and_a_picture(page: Path):
    nbformat = pytest.importorskip("nbformat")
    found = nbformat.read(page.with_suffix(".ipynb"), as_version=4)
    nbformat.validate(found)
    outputs = [each for cell in found.cells for each in cell.get("outputs", ())]
    kinds = [output["output_type"] for output in outputs]
    assert kinds.count("execute_result") > 20
    assert kinds.count("display_data") == 1
    assert not any(
        line.startswith(">>>") for cell in found.cells for line in cell.source.splitlines()
    )


def test_both_tutorials_have_the_same_sections_and_code():
    english, korean = (page.read_text(encoding="utf-8") for page in TUTORIALS)
    assert len(re.findall("^## ", english, re.MULTILINE)) == 10
    assert len(re.findall("^## ", korean, re.MULTILINE)) == 10
    blocks = names(TUTORIALS[0])
    assert len(blocks) > 15
    assert blocks == names(TUTORIALS[1])


def test_running_a_page_writes_what_its_examples_give(tmp_path: Path):
    pytest.importorskip("matplotlib")
    page = tmp_path / "page.md"
    page.write_text(dedent(PAGE), encoding="utf-8")
    page.write_text(run(page), encoding="utf-8")
    text = page.read_text(encoding="utf-8")

    assert ">>> twice(\"ab\")\n'abab'\n" in text
    assert "a\n<BLANKLINE>\nb\n" in text
    assert text == run(page)
    assert (tmp_path / "line.png").stat().st_size > 1000

    heading, value, printed, middle, picture, end = json.loads(notebook(page))["cells"]
    assert "".join(value["source"]).endswith('    return 2 * text\ntwice("ab")')
    assert value["outputs"][0]["data"] == {"text/plain": ["'abab'"]}
    assert printed["outputs"][0]["text"] == ["a\n", "\n", "b\n"]
    assert [list(one["data"]) for one in picture["outputs"]] == [["image/png"]]
    assert ["".join(one["source"]) for one in (heading, middle, end)] == [
        *("# A page", "Then a picture:", "The end."),
    ]
