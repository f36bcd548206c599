from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from elmokit.cli import COMMANDS
from runs.command_line_reference import reference

REPOSITORY = Path(__file__).resolve().parents[1]
READMES = ("README.md", "README.ko.md")


def test_the_command_line_reference_is_what_help_says():
    page = (REPOSITORY / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    assert page == reference(), "run: python -m runs.command_line_reference"


def test_every_command_is_in_the_readme():
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    for name in COMMANDS:
        assert f"elmo {name}" in readme


def test_every_folder_of_the_package_is_in_architecture_and_readme():
    folders = [path.name for path in (REPOSITORY / "elmokit").iterdir() if path.is_dir()]
    for document in ("ARCHITECTURE.md", "README.md"):
        text = (REPOSITORY / document).read_text(encoding="utf-8")
        assert not [name for name in folders if name not in text and name != "__pycache__"]


def test_every_module_that_architecture_names_is_there():
    page = (REPOSITORY / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:[a-z_]+/)+[a-z_]+)(?:\.py)?[`.]", page))
    assert len(named) > 30
    places = [(REPOSITORY / "elmokit" / name, REPOSITORY / name) for name in sorted(named)]
    there = [any(one.exists() or one.with_suffix(".py").exists() for one in two) for two in places]
    assert all(there), [two[0] for two, found in zip(places, there, strict=True) if not found]


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


def test_every_line_for_another_tool_is_in_the_page_that_runs_it_with_an_extra_that_there_is():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    pages = [(REPOSITORY / name).read_text(encoding="utf-8") for name in READMES]
    row = re.compile(
        r"^\| [^|]+ \| `([\w-]+)` \| `([^`]+)` \(\[\w+\]\((docs/[\w-]+\.md)\)\) \| (.*) \|$", re.M
    )
    tables = [row.findall(page) for page in pages]
    assert tables[0] == tables[1]
    assert len(tables[0]) > 5
    pinned = (REPOSITORY / "constraints.txt").read_text(encoding="utf-8")
    for extra, line, page, version in tables[0]:
        assert extra in project["project"]["optional-dependencies"]
        assert line in (REPOSITORY / page).read_text(encoding="utf-8")
        assert f"=={version.split()[-1]}\n" in pinned, (extra, version)


def test_the_readmes_name_each_extra_and_the_line_for_torch_on_a_cpu():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for page in READMES:
        text = (REPOSITORY / page).read_text(encoding="utf-8")
        named = set(re.findall(r"[\[`,]([\w-]+)(?=[\]`,])", text))
        assert project["optional-dependencies"].keys() - named == {"dev", "docs"}
        assert "\npip install torch --index-url https://download.pytorch.org/whl/cpu\n" in text


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_the_demo_installs_what_it_shows_and_the_tests_everything():
    lines = {
        target: subprocess.run(
            ["make", "--dry-run", "--always-make", target],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
        ).stdout
        for target in ("demo", "test")
    }
    assert '".[korean]"' in lines["demo"]
    assert ".[dev]" not in lines["demo"]
    assert '".[dev]"' in lines["test"]
