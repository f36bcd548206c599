from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from textwrap import dedent
from tokenize import NAME, generate_tokens

import pytest

import elmokit
from runs.tutorials import (
    BLOCK,
    DOCS,
    TUTORIALS,
    TutorialError,
    differences,
    is_current,
    main,
    notebook,
    run,
    shortened,
)

BYTES = 500_000
NEEDED = ("fastapi", "kiwipiepy", "lancedb", "matplotlib", "sklearn", "uvicorn")
OWN_TEXT = "your-own-text"  # each language has a text of its own, and code that finds it
PAGE = """\
    # A page

    ```python
    def twice(text):
        return 2 * text


    twice("ab")
    ```

    ```text
    old
    ```

    ```sh
    printf 'one\\n\\ntwo\\n'
    echo three > file.txt
    ```

    Then a picture:

    ```python
    from matplotlib import pyplot

    lines = pyplot.plot([1, 2])
    pyplot.savefig("other.png")
    ```

    ![A line](pictures/line.png)

    ![The same](pictures/same.png "other.png")

    ```bash
    never run
    ```

    The end.
"""


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def identified(page: Path) -> str:
    return "-".join(page.relative_to(DOCS).with_suffix("").parts)


each_page = pytest.mark.parametrize("page", TUTORIALS, ids=identified)


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ELMOKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MPLBACKEND", "agg")
    path = tmp_path / "page.md"
    path.write_text(dedent(PAGE), encoding="utf-8")
    return path


needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")


@each_page
def test_the_notebook_is_what_its_page_gives(page: Path):
    assert is_current(page), f"run: python -m runs.tutorials {page}"
    assert page.with_suffix(".ipynb").stat().st_size < BYTES


@each_page
def test_the_notebook_is_a_valid_one_with_outputs_and_pictures(page: Path):
    nbformat = pytest.importorskip("nbformat")
    found = nbformat.read(page.with_suffix(".ipynb"), as_version=4)
    nbformat.validate(found)
    outputs = [each for cell in found.cells for each in cell.get("outputs", ())]
    assert len(outputs) > 6
    assert any("image/png" in each.get("data", {}) for each in outputs)


@each_page
def test_a_page_uses_what_is_public_and_says_what_it_takes(page: Path):
    codes = [one["code"] for one in BLOCK.finditer(read(page)) if one["language"] == "python"]
    imported = re.findall(r"^from (elmokit[\w.]*) import (.+)$", "".join(codes), re.MULTILINE)
    assert {module for module, _ in imported} == {"elmokit"}
    assert {name for _, names in imported for name in names.split(", ")} <= set(elmokit.__all__)
    head = read(page).split("\n## ")[0]
    assert re.search(r"minutes? to read|읽는 데 \d+분", head)
    assert f"{page.stem}.ipynb" in head


@each_page
def test_pages_and_pictures_that_a_tutorial_links_to_are_there(page: Path):
    links = re.findall(r"\]\(([^)\s#]+)(?:#[^)\s]*)?(?: \"[^\"]*\")?\)", read(page))
    assert len(links) > 4
    beside = [link for link in links if not link.startswith(("..", "http"))]
    local = [page.parent / link for link in beside]  # the build of the site checks the others
    assert [path for path in local if not path.exists()] == []


def names(page: Path) -> list[list[str]]:
    """The names in the code of each block: all of it but texts and numbers."""
    blocks = [one for one in BLOCK.finditer(read(page)) if one["language"] == "python"]
    return [
        [
            token.string
            for token in generate_tokens(StringIO(one["code"]).readline)
            if token.type == NAME
        ]
        for one in blocks
    ]


@pytest.mark.parametrize("english", TUTORIALS[:4], ids=identified)
def test_both_languages_have_the_same_sections_and_code(english: Path):
    korean = DOCS / "ko" / english.relative_to(DOCS)
    sections = [len(re.findall("^## ", read(one), re.MULTILINE)) for one in (english, korean)]
    assert sections[0] == sections[1] > 4
    codes = [names(one)[english.stem == OWN_TEXT :] for one in (english, korean)]
    assert codes[0] == codes[1]
    assert len(codes[0]) > 2


@needs_bash
def test_running_a_page_writes_what_its_blocks_give(page: Path):
    pytest.importorskip("matplotlib")
    page.write_text(run(page), encoding="utf-8")
    text = read(page)
    assert "twice(\"ab\")\n```\n\n```text\n'abab'\n```\n" in text
    assert "> file.txt\n```\n\n```text\none\n\ntwo\n```\n" in text
    assert text == run(page)
    assert not Path("file.txt").exists()
    for name in ("line", "same"):
        assert (page.parent / "pictures" / f"{name}.png").stat().st_size > 1000

    heading, value, shell, middle, drawn, shown, end = json.loads(notebook(page))["cells"]
    assert value["outputs"][0]["data"] == {"text/plain": ["'abab'"]}
    assert shell["source"] == ["!printf 'one\\n\\ntwo\\n'\n", "!echo three > file.txt"]
    assert shell["outputs"][0]["text"] == ["one\n", "\n", "two\n"]
    assert [list(one["data"]) for one in drawn["outputs"]] == [["image/png"]]
    assert shown["source"][-1] == 'Image("other.png")'
    assert [one["cell_type"] for one in (heading, middle, end)] == ["markdown"] * 3
    assert "never run" in "".join(end["source"])


@needs_bash
def test_numbers_of_a_page_may_differ_and_words_may_not(page: Path):
    page.write_text("```python\nprint('12.5 words')\n```\n\n```text\n 7 words\n```\n")
    assert differences(page) == []
    page.write_text("```python\nprint('12.5 words')\n```\n\n```text\n12.5 cats\n```\n")
    assert [line for line in differences(page) if line[0] in "-+"][2:] == ["- # cats", "+ # words"]
    assert "cats" in read(page)


@needs_bash
def test_after_training_a_page_has_to_print_where_it_shows_an_output(page: Path):
    training = "```sh\nelmo() { :; }\nelmo pretrain recipe\n```\n"
    shown = "\n```python\nprint('{}', end='')\n```\n\n```text\nold\n```\n"
    page.write_text(f"{training}{shown.format('new')}{shown.format('')}")
    assert differences(page) == [f"{page}, line 14: has no output any more"]


@needs_bash
@pytest.mark.parametrize("block", ["python\n1 / 0", "sh\nfalse", "sh\nfalse\ntrue"])
def test_a_block_that_does_not_run_is_named_with_its_line(page: Path, block: str):
    page.write_text(f"# A page\n\n```{block}\n```\n")
    with pytest.raises(TutorialError, match=r"page\.md, line 3: "):
        run(page)


def test_a_process_that_a_page_left_running_is_ended(page: Path):
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    code = f"import subprocess\nprocess = subprocess.Popen({sleep!r})"
    page.write_text(f"```python\n{code}\nprint(process.pid)\n```\n")
    pid = int(re.findall(r"^(\d+)$", run(page), re.MULTILINE)[0])
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_long_output_is_shown_without_its_middle():
    lines = [f"{n}\n" for n in range(100)]
    shown = shortened("".join(lines)).splitlines()
    assert (shown[0], shown[-1]) == ("0", "99")
    assert shown.count("…") == 1
    assert len(shown) < 30
    assert shortened("".join(lines[:20])) == "".join(lines[:20])


def test_a_notebook_that_is_not_of_its_page_is_named(page: Path):
    page.with_suffix(".ipynb").write_text("{}")
    with pytest.raises(SystemExit, match=r"page\.md: run python -m runs\.tutorials"):
        main(["--check", str(page)])


@pytest.mark.slow
@each_page
def test_a_page_gives_what_is_written(page: Path):
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing or shutil.which("curl") is None or shutil.which("bash") is None:
        pytest.skip(f"needs {missing}, bash and curl")
    program = [sys.executable, "-m", "runs.tutorials", "--verify", str(page)]
    ran = subprocess.run(program, cwd=DOCS.parent, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
