from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

import elmokit
from elmokit.cli import COMMANDS
from runs.command_line_reference import reference

REPOSITORY = Path(__file__).resolve().parents[1]
READMES = ("README.md", "README.ko.md")


def test_the_command_line_reference_is_what_help_says():
    page = (REPOSITORY / "docs" / "command-line.md").read_text(encoding="utf-8")
    assert page == reference(), "run: python -m runs.command_line_reference"


def test_every_command_is_in_the_readme():
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    for name in COMMANDS:
        assert f"elmo {name}" in readme


def test_every_folder_of_the_package_is_in_architecture():
    folders = {path.name for path in (REPOSITORY / "elmokit").iterdir() if path.is_dir()}
    page = (REPOSITORY / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert not [name for name in folders - {"__pycache__"} if f" {name}/ " not in page]


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


def test_the_readmes_are_short():
    for name in READMES:
        assert len((REPOSITORY / name).read_text(encoding="utf-8").splitlines()) <= 150, name


def test_every_line_for_another_tool_is_in_the_page_that_runs_it_with_an_extra_that_there_is():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    pages = [(REPOSITORY / name).read_text(encoding="utf-8") for name in READMES]
    row = re.compile(
        r"^\| [^|]+ \| `([\w-]+)` \| `([^`]+)` \(\[\w+\]\((docs/[\w/-]+\.md)\)\) \| (.*) \|$", re.M
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
        assert project["optional-dependencies"].keys() - named <= {"dev", "docs"}
        assert "\npip install torch --index-url https://download.pytorch.org/whl/cpu\n" in text


INSTALLS = re.compile(r"pip install\s+([^`\n]*)")
NAMED = re.compile(r"""(?<![\w/-])(?:elmokit|\.)(?:\[[^]]*\]|-[\d.]+-py3\S*|(?=[\s"']|$))""")


def installs() -> list[tuple[str, str, str]]:
    """Every `pip install` of elmokit that is printed: where, the command, what it installs."""
    folders = ("elmokit", "docs", "runs", "benchmarks", ".github")
    files = [*REPOSITORY.glob("*.md"), REPOSITORY / "Dockerfile"]
    files += [file for folder in folders for file in (REPOSITORY / folder).rglob("*.*")]
    suffixes = (".md", ".py", ".js", ".yml", "")
    texts = ((file, file.read_text(encoding="utf-8")) for file in files if file.suffix in suffixes)
    return [
        (str(file.relative_to(REPOSITORY)), line, named)
        for file, text in texts
        for line in INSTALLS.findall(text)
        for named in NAMED.findall(line)
    ]


def test_every_pip_install_works_as_it_is_printed():
    """elmokit is on no index: it comes from its folder or its wheel, and then takes extras."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].keys() | {"{extra}", "$EXTRAS"}
    found = installs()
    assert len(found) > 25
    for where, line, named in found:
        name, _, listed = named.rstrip("]").partition("[")
        assert {*listed.split(",")} - {""} <= extras, (where, line)
        if name == "elmokit":  # only where it is installed, or from a folder of wheels
            assert listed or "--find-links" in line, (where, line)
            assert "--upgrade" not in line, (where, line)
        elif name != ".":
            assert name == f"elmokit-{elmokit.__version__}-py3-none-any.whl", (where, line)
    messages = {named for where, _, named in found if where.endswith((".py", ".js"))}
    assert {"elmokit[{extra}]"} < messages


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
