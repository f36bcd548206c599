from __future__ import annotations

import re
from pathlib import Path

import pytest

from elmokit.cli import elmo
from elmokit.tasks.catalogue import CATALOGUE
from elmokit.tasks.config import Preset
from runs.command_line_reference import reference

REPOSITORY = Path(__file__).resolve().parents[1]
READMES = ("README.md", "README.ko.md")


def test_the_command_line_reference_is_what_help_says():
    page = (REPOSITORY / "docs" / "command-line.md").read_text(encoding="utf-8")
    assert page == reference(), "run: python -m runs.command_line_reference"


def test_every_command_is_in_the_readme():
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    for name in elmo.commands:
        assert f"elmo {name}" in readme


def test_every_folder_of_the_package_is_in_architecture_and_readme():
    folders = [path.name for path in (REPOSITORY / "elmokit").iterdir() if path.is_dir()]
    for document in ("ARCHITECTURE.md", "README.md"):
        text = (REPOSITORY / document).read_text(encoding="utf-8")
        assert not [name for name in folders if name not in text and name != "__pycache__"]


def test_documents_and_docstrings_name_no_module_but_the_public_ones():
    pages = [*REPOSITORY.glob("README*.md"), *(REPOSITORY / "docs").glob("*.md")]
    lines = [(page.name, line) for page in pages for line in page.read_text("utf-8").splitlines()]
    for module in (REPOSITORY / "elmokit").rglob("*.py"):
        text = module.read_text(encoding="utf-8")
        lines += [(module.name, line) for line in text.splitlines() if line.strip()[:3] == ">>>"]
    deep = re.compile(r"(from|import|`)\s*elmokit\.(?!adaptors\b)[a-z_]+\.?[a-z_]*( import|\.)")
    assert not [place for place in lines if deep.search(place[1])]


def test_both_readmes_have_the_same_sections_and_code():
    pages = [(REPOSITORY / name).read_text(encoding="utf-8") for name in READMES]
    headings, examples = (
        [[line for line in page.splitlines() if line.startswith(start)] for page in pages]
        for start in ("## ", ">>> ")
    )
    assert len(headings[0]) == len(headings[1])
    english, korean = ([line.split("#")[0].strip() for line in lines] for lines in examples)
    assert english == korean


def test_no_number_is_missing_in_the_readmes():
    for name in READMES:
        assert "@@" not in (REPOSITORY / name).read_text(encoding="utf-8"), name


def shown(value: object) -> str:
    """A setting's value as a table of docs/tasks.md has it."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:,}" if isinstance(value, int) else str(value)


@pytest.mark.parametrize("preset", ["small", "paper"])
def test_the_presets_of_tasks_are_what_the_guide_says(preset: Preset):
    lines = (REPOSITORY / "docs" / "tasks.md").read_text(encoding="utf-8").splitlines()
    first = next(number for number, line in enumerate(lines) if f"`{preset}` sets" in line)
    rows = lines[first : lines.index("", first)]
    names, _, *settings = [[cell.strip(" `") for cell in row.split("|")[1:-1]] for row in rows]
    said = {
        (task, name): cell
        for name, *cells in settings
        for task, cell in zip(names[1:], cells, strict=True)
        if cell
    }
    assert said == {
        (task, f"{table}.{name}"): shown(value)
        for task, named in CATALOGUE.items()
        for table, values in named.presets[preset].items()
        for name, value in values.items()
    }
