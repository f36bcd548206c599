from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading

import httpx
import pytest
from small_language_models import write_language_model

KEY = "correct-horse-battery"


@pytest.fixture
def served(tmp_path):
    """`elmo serve` in a process of its own, with a key; gives it and its address."""
    model = write_language_model(tmp_path / "model")
    (tmp_path / "keys.txt").write_text(f"{KEY}\n")
    command = [sys.executable, "-m", "elmokit", "serve", "--model", model, "--port", "0"]
    command += ["--api-key", str(tmp_path / "keys.txt"), "--threads", "1"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    )
    assert process.stdout is not None
    address = process.stdout.readline().split()[0]
    yield process, address.rstrip("/")
    process.kill()
    process.communicate()


def test_a_signal_ends_it_after_what_is_being_answered(served):
    process, address = served
    headers = {"authorization": f"Bearer {KEY}"}
    assert httpx.post(f"{address}/embed", json={"texts": ["a"]}).status_code == 401
    body = {"sentences": [["the", "cat"] * 300] * 40, "pool": "mean"}
    answers = []
    asking = threading.Thread(
        target=lambda: answers.append(
            httpx.post(f"{address}/embed", json=body, headers=headers, timeout=60)
        )
    )
    asking.start()
    while "elmo_waiting_requests 1" not in httpx.get(f"{address}/metrics", headers=headers).text:
        pass
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    asking.join()
    assert answers[0].status_code == 200
    assert len(answers[0].json()["sentences"]) == 40
    assert process.returncode == 0
    events = [json.loads(line) for line in err.splitlines()]
    assert events[-1]["event"] == "stopped"
    assert KEY not in err + out
    assert "the" not in {word for event in events for word in event.values() if word == "the"}


def test_a_model_that_is_not_there_is_one_line(elmo, tmp_path):
    code, out, err = elmo("serve", "--model", str(tmp_path / "none"), "--port", "0", "--quiet")
    assert (code, out) == (1, "")
    assert err.splitlines()[-1].startswith("elmo: ")
    assert "there is no such file or folder" in err


def test_a_key_file_that_is_not_there_is_one_line(elmo, tmp_path):
    code, _, err = elmo("serve", "--api-key", str(tmp_path / "none"))
    assert code == 1
    assert err.count("\n") == 1


def test_without_its_packages_it_names_the_extra(elmo, monkeypatch):
    monkeypatch.setitem(sys.modules, "fastapi", None)
    code, _, err = elmo("serve")
    assert code == 1
    assert 'pip install "elmokit[service]"' in err


def test_an_index_that_is_not_there_is_one_line(elmo, tmp_path):
    code, _, err = elmo("serve", "--index", str(tmp_path / "none"))
    assert code == 1
    assert err.startswith(f"elmo: {tmp_path / 'none'}")
    assert err.count("\n") == 1
