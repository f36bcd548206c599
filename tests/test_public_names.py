from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers import ROOT, loaded_by

import elmokit

DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "runs").glob("*.md")]
MODULES = list((ROOT / "elmokit").rglob("*.py"))
IMPORT = re.compile(r"(?:from|import) elmokit(?:\.([a-z_.]+))?(?: import (.*))?")


def test_the_public_names_are_sorted_and_can_all_be_imported():
    assert elmokit.__all__ == sorted(elmokit.__all__)
    assert 20 <= len(elmokit.__all__) <= 27
    assert elmokit._HOMES.keys() == {*elmokit.__all__}
    for name in elmokit.__all__:
        assert getattr(elmokit, name).__name__ == name
        assert name in dir(elmokit)


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Ernie'"):
        elmokit.Ernie  # noqa: B018


@pytest.mark.parametrize("module", ["", ".cli", ".text.tokenizer", ".text.vocabulary"])
def test_importing_is_cheap(module):
    assert loaded_by(f"import elmokit{module}", ["torch", "nltk", "h5py"]) == set()


def imports() -> Iterator[tuple[str, str, str]]:
    """What documents and examples in docstrings import: where, from which module, which names."""
    for path in [*DOCUMENTS, *MODULES]:
        for line in path.read_text(encoding="utf-8").splitlines():
            shown = line.strip().startswith((">>> ", "... ")) or path.suffix == ".md"
            if shown and (found := IMPORT.search(line)):
                yield path.name, found[1] or "", (found[2] or "").split("#")[0]


def test_documents_import_public_names_alone():
    found = list(imports())
    assert len(found) > 30
    deep = [one for one in found if one[1] and not f"{one[1]}.".startswith("adaptors.")]
    assert not deep
    names = {name for _, module, names in found if not module for name in re.findall(r"\w+", names)}
    assert names <= {*elmokit.__all__}
    assert len(names) > 15


def test_documents_name_no_other_module():
    text = "\n".join(path.read_text(encoding="utf-8") for path in DOCUMENTS if path.stem != "log")
    deep = re.findall(r"`elmokit\.(?!adaptors\b)[a-z_]+\.[\w.]*`", text)
    assert not deep
    assert "`elmokit." in text


def test_a_public_class_name_has_one_meaning():
    homes = defaultdict(set)
    for path in MODULES:
        if "adaptors" not in path.parts:
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    homes[node.name].add(path.relative_to(ROOT))
    assert len(homes) > 100
    assert not {name: paths for name, paths in homes.items() if len(paths) > 1}


def test_the_layers_of_architecture_are_those_that_imports_are_checked_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    [contract] = project["tool"]["importlinter"]["contracts"]
    layers = [set(re.findall(r"\w+", layer)) for layer in contract["layers"]]
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    drawn = [set()]
    for line in page.split("```")[1].strip().splitlines():
        names = re.findall(r"\w+", line[:40])
        drawn[-1].update(names)
        if not line[:40].rstrip().endswith("|"):
            drawn.append(set())
    assert drawn[:-1] == layers
    assert len(layers) > 8
    folders = {path.name for path in Path(elmokit.__path__[0]).iterdir() if path.is_dir()}
    assert folders - {"__pycache__"} <= set().union(*layers)
