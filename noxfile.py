"""Tests on every Python that the package claims, and with the lowest and the newest torch.

`nox` alone runs everything; `nox -s "tests-3.13"` or `nox -s "numbers-3.11(torch='lowest')"` one
session. Each makes an environment of its own, with torch's ordinary build: several gigabytes.
"""

from __future__ import annotations

from pathlib import Path

import nox
from packaging.requirements import Requirement
from packaging.version import Version

PROJECT = nox.project.load_toml("pyproject.toml")
PYTHONS = nox.project.python_versions(PROJECT)
DEPENDENCIES = [Requirement(text) for text in PROJECT["project"]["dependencies"]]
NUMBERS = (
    "tests/test_golden.py",
    "tests/test_oracle.py",
    "tests/test_properties.py",
    "tests/model",
)

nox.options.default_venv_backend = "venv"
nox.options.reuse_existing_virtualenvs = True


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Everything, with the versions in constraints.txt."""
    session.install("--constraint", "constraints.txt", "--editable", ".[dev]")
    if session.posargs:
        session.run("pytest", "-n", "2", "--dist", "loadfile", *session.posargs)
        return
    report = Path(session.create_tmp(), "coverage.json")  # of all tests
    report.unlink(missing_ok=True)
    cover = ("python", "-m", "slipcover", "--out", str(report))
    session.run(*cover, "--json", "-m", "pytest", "-n", "2", "--dist", "loadfile")
    session.run(*cover, "--merge", str(report), "--skip-covered", "--fail-under", "98")


@nox.session(python=PYTHONS)
@nox.parametrize("torch", ["lowest", "newest"])
def numbers(session: nox.Session, torch: str) -> None:
    """The tests of the vectors and of all that computes them, with another torch."""
    version = f"=={lowest_torch(str(session.python))}" if torch == "lowest" else ""
    session.install("--upgrade", f"torch{version}", "hypothesis", "pytest", "--editable", ".")
    session.run("pytest", *(session.posargs or NUMBERS))


def lowest_torch(python: str) -> Version:
    """The lowest torch that pyproject.toml allows on this Python."""
    return max(
        Version(bound.version)
        for needed in DEPENDENCIES
        if needed.name == "torch"
        and (needed.marker is None or needed.marker.evaluate({"python_version": python}))
        for bound in needed.specifier
    )
