from __future__ import annotations

import inspect
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

import elmokit
from elmokit.cli import COMMANDS, elmo
from elmokit.config import ModelConfig, tables_of
from elmokit.pretraining.config import PretrainConfig
from elmokit.tasks.config import FILES, TaskConfig
from runs import site_hooks
from runs.reference import FOLDER, PAGES, commands

REPOSITORY = Path(__file__).resolve().parents[1]
READMES = ("README.md", "README.ko.md")
HOW_TO = [page for page in (REPOSITORY / "docs").glob("**/how-to/*.md") if page.name != "index.md"]
LINKING = [
    *REPOSITORY.glob("*.md"),
    *(REPOSITORY / "docs").rglob("*.md"),
    *(REPOSITORY / name for name in site_hooks.OUTSIDE if "/" in name),
]
LINK = re.compile(r"\]\((?!\w+:)([^)\s#]*)(?:#([^)\s]*))?\)")


@pytest.mark.parametrize("page", PAGES)
def test_the_generated_reference_is_what_the_code_says(page):
    written = (FOLDER / page).read_text(encoding="utf-8")
    assert written == PAGES[page](), "run: python -m runs.reference"


def test_every_setting_has_a_description():
    page = (FOLDER / "settings.md").read_text(encoding="utf-8")
    described = set(re.findall(r"^\| `([\w.]+)` \| .+ \| .+ \| .+ \|$", page, re.M))
    of_tasks = {name: kind for name, kind in tables_of(TaskConfig).items() if name != "files"}
    for tables in ({**tables_of(PretrainConfig), "model": ModelConfig}, of_tasks):
        for name, kind in tables.items():
            assert {f"{name}.{field.name}" for field in fields(kind)} <= described
    assert {"output", *(f"files.{name}" for name in FILES)} <= described


def test_every_command_has_a_place_in_a_how_to():
    text = "\n".join(page.read_text(encoding="utf-8") for page in HOW_TO)
    for name, command in commands("elmo", elmo):
        assert isinstance(command, click.Group) or re.search(rf"\b{name}\b", text), name


def test_every_command_in_a_document_takes_the_flags_it_is_given():
    known = {name: flags_of(command) for name, command in commands("elmo", elmo)}
    found = [(page, *line) for page in LINKING for line in command_lines(page, known)]
    assert len(found) > 200
    wrong = [(page.name, name, flag) for page, name, flag in found if flag not in known[name]]
    assert not wrong


def flags_of(command: click.Command) -> set[str]:
    context = click.Context(command, help_option_names=["-h", "--help"])
    options = command.get_params(context)
    return {flag for option in options for flag in [*option.opts, *option.secondary_opts]}


def command_lines(page: Path, known: Mapping[str, set[str]]) -> Iterator[tuple[str, str]]:
    """Each flag of the commands in a page's blocks, with the full name of the command."""
    blocks = re.findall(r"^```(?:sh|text)?\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    plain = [re.sub(r"\"[^\"]*\"|(?:^| )#.*", "", line) for line in lines]
    for part in (part for line in plain for part in re.split(r" [|>&]+ ", line)):
        if words := re.match(r"\s*(?:\$ )?(?:\w+=\S* )*(elmo(?: [a-z-]+){0,2})", part):
            names = words[1].split()
            name = next(one for end in (3, 2, 1) if (one := " ".join(names[:end])) in known)
            for flag in re.findall(r"(?<=\s)--?[a-z][a-z0-9-]*", part):
                yield name, flag


def test_every_public_name_is_in_the_reference_and_says_what_it_does():
    listed = re.findall(r"^::: elmokit\.(\w+)$", (FOLDER / "python.md").read_text("utf-8"), re.M)
    assert sorted(listed) == elmokit.__all__
    for name in listed:
        thing = getattr(elmokit, name)
        own = vars(thing).items() if inspect.isclass(thing) else ()
        parts = [value for key, value in own if not key.startswith("_") and callable(value)]
        assert all(inspect.getdoc(one) for one in [thing, *parts]), name


def test_every_adaptor_is_in_the_reference():
    page = (FOLDER / "adaptors.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^::: elmokit\.adaptors\.(\w+)\.\w+$", page, re.M))
    inner = {"allennlp_bilm", "allennlp_embedder", "text_reader"}  # parts of the others
    adaptors = {path.stem for path in (REPOSITORY / "elmokit" / "adaptors").glob("[a-z]*.py")}
    assert listed == adaptors - inner


def test_every_variable_of_the_environment_is_in_the_reference():
    code = "".join(path.read_text("utf-8") for path in (REPOSITORY / "elmokit").rglob("*.py"))
    page = (FOLDER / "environment.md").read_text(encoding="utf-8")
    assert set(re.findall(r'"(ELMO[A-Z_]+)"', code)) == set(re.findall(r"`(ELMO[A-Z_]+)`", page))


def test_the_page_on_installing_names_every_extra():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = (REPOSITORY / "docs" / "how-to" / "install.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[^|]+`) \|", page, re.M)
    assert {name for row in rows for name in re.findall(r"[\w-]+", row)} == {
        *project["optional-dependencies"]
    }


def test_no_how_to_is_longer_than_a_screen():
    assert len(HOW_TO) > 60
    pages = [*HOW_TO, REPOSITORY / "docs" / "how-to" / "index.md"]
    lengths = {page: len(page.read_text(encoding="utf-8").splitlines()) for page in pages}
    assert not [page for page, length in lengths.items() if length > 60]


def test_every_page_is_in_the_index_of_its_section():
    docs = REPOSITORY / "docs"
    found = {"index.md"}
    for name in site_hooks.SECTIONS:
        found |= pages_of(site_hooks.section(docs, f"{name}/index.md"))
    outside = set(site_hooks.OUTSIDE.values())
    there = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")}
    assert found == there | outside


def pages_of(entry: object) -> set[str]:
    if isinstance(entry, str):
        return {entry}
    inside = entry.values() if isinstance(entry, dict) else entry
    return {page for one in inside for page in pages_of(one)}


def test_no_link_of_a_document_is_broken():
    documents = {page: page.read_text(encoding="utf-8") for page in LINKING}
    broken = []
    for page, text in documents.items():
        for target, anchor in LINK.findall(without_code(text)):
            file = (page.parent / target).resolve() if target else page
            if not file.exists():
                broken.append((page.name, target))
            elif anchor and file in documents and anchor not in anchors_of(documents[file]):
                broken.append((page.name, target, anchor))
    assert len(documents) > 80
    assert not broken


def without_code(text: str) -> str:
    return re.sub(r"^ *```.*?^ *```$|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors_of(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them, and of public names."""
    fenceless = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", fenceless, re.MULTILINE)
    titles = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings]
    names = re.findall(r"^::: ([\w.]+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title).replace(" ", "-") for title in titles} | set(names)


def test_links_of_the_repository_become_links_of_the_site():
    page = SimpleNamespace(file=SimpleNamespace(src_uri="how-to/index.md"))
    text = (
        "[a](install.md#extras) [b](../../benchmarks/README.md) [c](../../LICENSE) [d](https://e.f)"
    )
    fences = ["```", text, "```", "- a step:", "", "  ```sh", f"  {text}", "  ```"]
    turned = site_hooks.on_page_markdown("\n".join([text, *fences]), page)
    assert turned.splitlines() == [
        "[a](install.md#extras) [b](../background/benchmarks.md) c [d](https://e.f)",
        *fences,
    ]
    card = SimpleNamespace(file=SimpleNamespace(src_uri="background/benchmarks.md"))
    assert site_hooks.on_page_markdown("[x](../docs/log.md)", card) == "[x](../log.md)"


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
        assert project["optional-dependencies"].keys() - named == {"dev", "docs"}
        assert "\npip install torch --index-url https://download.pytorch.org/whl/cpu\n" in text


INSTALLS = re.compile(r"pip install\s+([^`#\n]*)")
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
