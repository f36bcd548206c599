from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import imported_state
import pytest

Found = dict[str, Any]


@pytest.fixture(scope="module")
def ours() -> Found:
    """What a process has that imported every module of the package."""
    return found()


@pytest.fixture(scope="module")
def plain(ours: Found, tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What a process has that imported the same modules of other packages, and no elmokit."""
    names = tmp_path_factory.mktemp("plain") / "names.json"
    names.write_text(json.dumps(list(ours["modules"])))
    # Keras has to be told; by the adaptor, where that comes first.
    return found(names, KERAS_BACKEND="torch")


def found(*arguments: Path, **variables: str) -> Found:
    environment = {name: value for name, value in os.environ.items() if name != "KERAS_BACKEND"}
    command = [sys.executable, imported_state.__file__, *map(str, arguments)]
    done = subprocess.run(
        command, env=environment | variables, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_importing_every_module_changes_nothing_that_a_process_has_one_of(
    ours: Found, plain: Found
) -> None:
    assert ours["state"] == plain["state"]


def test_importing_every_module_makes_no_code_at_run_time(ours: Found) -> None:
    assert [name for name in ours["mapped"] if name.startswith("elmokit")] == []


@pytest.mark.parametrize("when", ["modules", "modules later"])
def test_modules_of_other_packages_are_those_that_a_plain_import_gives(
    ours: Found, plain: Found, when: str
) -> None:
    assert {"torch", "keras", "sklearn"} <= ours[when].keys()
    assert [name for name, module in ours[when].items() if module["ours"]] == []
    assert {name: plain[when].get(name) for name in ours[when]} == ours[when]


def test_what_is_imported_later_is_complete(ours: Found) -> None:
    complete = {"sentencex", "lancedb", "lance_namespace_urllib3_client.api"}
    assert complete <= ours["modules later"].keys()
