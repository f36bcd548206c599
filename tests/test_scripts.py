"""Scripts that nothing else imports: whether what they import from this repository is there."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest
from helpers import ROOT

import elmokit

FOLDERS = ("runs", "benchmarks")
OWN = ("elmokit", *FOLDERS)
SCRIPTS = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def file_of(module: str) -> Path | None:
    place = ROOT.joinpath(*module.split("."))
    files = place.with_suffix(".py"), place / "__init__.py"
    return next((file for file in files if file.is_file()), None)


@cache
def names_of(path: Path) -> set[str]:
    """What a module defines or imports, outside of its functions and classes."""
    found: set[str] = set(elmokit.__all__) if path == file_of("elmokit") else set()
    waiting = list(parsed(path).body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        else:
            waiting += ast.iter_child_nodes(node)
    return found


def missing_imports(script: ast.Module) -> list[str]:
    missing = []
    for node in ast.walk(script):
        if isinstance(node, ast.Import):
            own = [alias.name for alias in node.names if alias.name.split(".")[0] in OWN]
            missing += [name for name in own if file_of(name) is None]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in OWN:
            file = file_of(str(node.module))
            names = names_of(file) if file else set()
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                if alias.name not in names and file_of(full) is None:
                    missing.append(full)
    return missing


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_all_that_a_script_imports_from_the_repository_is_there(script: Path) -> None:
    assert missing_imports(parsed(script)) == []


def test_an_import_of_nothing_is_found() -> None:
    wrong = "from elmokit import Embedder, Nobody\nimport runs.nowhere\nfrom elmokit.gone import x"
    wrong += "\ndef later():\n    from benchmarks.machine import table, chair"
    expected = ["elmokit.Nobody", "runs.nowhere", "elmokit.gone.x", "benchmarks.machine.chair"]
    assert missing_imports(ast.parse(wrong)) == expected
