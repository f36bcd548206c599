from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from runs.task_service import command, walk

TEN_MINUTES = 600


@pytest.mark.slow
def test_the_readme_alone_leads_from_labelled_text_to_a_service(tmp_path: Path, capsys) -> None:
    started = time.monotonic()
    told = json.loads(walk(None, [], tmp_path))
    assert told == {"task": "my-spam", "answers": [{"label": "spam"}]}
    assert time.monotonic() - started < TEN_MINUTES
    shown = capsys.readouterr().out
    assert "\nspam\n" in shown or "no chromium" in shown


@pytest.mark.parametrize("start", ["elmo task train spam", "elmo serve --task my-spam", "curl"])
def test_the_readme_has_the_commands_of_the_walk(start: str) -> None:
    assert "my-spam" in command(start)
