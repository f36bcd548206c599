"""Workflows, issue forms, pre-commit and the citation: what they name is there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from helpers import ROOT

yaml = pytest.importorskip("yaml")

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def commands(workflow: Path) -> list[str]:
    """The lines that a workflow runs."""
    jobs = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"].values()
    return [step["run"] for job in jobs for step in job["steps"] if "run" in step]


def test_workflows_run_make_targets_that_there_are():
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    named = {
        target
        for workflow in WORKFLOWS
        for line in commands(workflow)
        for target in re.findall(r"\bmake ([a-z-]+)", line)
    }
    assert {"test", "dist"} <= named <= {*targets}


def test_workflows_run_on_every_python_that_is_claimed_and_say_that_they_have_not_run():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    claimed = [one.rpartition(" ")[2] for one in project["classifiers"] if ":: 3." in one]
    test = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8"))
    assert test["jobs"]["test"]["strategy"]["matrix"]["python"] == claimed
    for workflow in WORKFLOWS:
        assert workflow.read_text(encoding="utf-8").startswith("# Not yet run"), workflow.name


@pytest.mark.parametrize("form", [form.name for form in FORMS if form.stem != "config"])
def test_an_issue_form_has_what_github_asks_for(form):
    found = yaml.safe_load((ROOT / ".github/ISSUE_TEMPLATE" / form).read_text(encoding="utf-8"))
    assert found["name"]
    assert found["description"]
    fields = [field for field in found["body"] if field["type"] != "markdown"]
    assert all(field["attributes"]["label"] for field in fields)
    assert len({field["id"] for field in fields}) == len(fields) > 1
    assert any(field.get("validations", {}).get("required") for field in fields)


def test_pre_commit_fetches_nothing_and_the_citation_names_the_paper():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    for repo in hooks["repos"]:
        assert repo["repo"] == "local"
        for hook in repo["hooks"]:
            assert hook["language"] == "system"
            assert hook["entry"].startswith(".venv/bin/ruff ")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["cff-version"] == "1.2.0"
    assert [paper["doi"] for paper in citation["references"]] == ["10.18653/v1/N18-1202"]
