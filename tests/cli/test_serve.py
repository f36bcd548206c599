from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import httpx
import pytest
from small_models import write_language_model

from elmokit.cli.serve import announce
from elmokit.service.middleware import Limits
from elmokit.service.server import listen, url_of

KEY = "correct-horse-battery"
WORD = "xylophone-of-mine"


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
    assert process.stderr is not None
    early = process.stderr.readline()  # before the model is there
    address = process.stdout.readline().split()[0]
    assert early == f"elmo: {address} listens; the model is being loaded\n"
    yield process, address.rstrip("/")
    process.kill()
    process.communicate()


def test_a_signal_ends_it_after_what_is_being_answered(served):
    process, address = served
    headers = {"authorization": f"Bearer {KEY}"}
    assert httpx.post(f"{address}/embed", json={"texts": ["a"]}).status_code == 401
    body = {"sentences": [[WORD, "cat"] * 300] * 40, "pool": "mean"}
    answers = []
    asking = threading.Thread(
        target=lambda: answers.append(
            httpx.post(f"{address}/embed", json=body, headers=headers, timeout=60)
        )
    )
    asking.start()
    end = time.monotonic() + 30
    while "elmo_waiting_requests 1" not in httpx.get(f"{address}/metrics", headers=headers).text:
        assert time.monotonic() < end
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    asking.join()
    assert answers[0].status_code == 200
    assert len(answers[0].json()["sentences"]) == 40
    assert process.returncode == 0
    lines = err.splitlines()
    lines.remove("elmo: waiting for 1 request; Ctrl-C again leaves at once")
    events = [json.loads(line) for line in lines]
    assert events[-1]["event"] == "stopped"
    assert KEY not in err + out
    assert WORD not in err + out


def test_its_help_tells_the_limits_that_hold(elmo):
    _, out, _ = elmo("serve", "--help")
    told = re.findall(r"(--max-\w+|--timeout).*?\[default: (\d+)\]", out, re.DOTALL)
    limits = Limits()
    assert {option: int(number) for option, number in told} == {
        "--max-body": limits.body_bytes,
        "--max-sentences": limits.sentences,
        "--max-words": limits.words_per_sentence,
        "--timeout": limits.request_seconds,
    }


def test_where_anyone_could_ask_it_warns(elmo, tmp_path):
    nowhere = ("serve", "--model", str(tmp_path / "none"), "--port", "0", "--host", "0.0.0.0")
    assert "elmo: warning: anyone who reaches this machine" in elmo(*nowhere)[2]
    (tmp_path / "keys.txt").write_text(f"{KEY}\n")
    assert "warning" not in elmo(*nowhere, "--api-key", str(tmp_path / "keys.txt"))[2]


def test_on_all_addresses_it_names_one_to_open(capsys):
    listener = listen("0.0.0.0", 0)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    assert url_of(listener, "0.0.0.0") == url
    service = SimpleNamespace(model=SimpleNamespace(name="small"))
    announce(SimpleNamespace(url=url, listener=listener, service=service))
    listener.close()
    out = capsys.readouterr().out
    assert out == f"{url}  (small, on all addresses of this machine; Ctrl-C ends it)\n"


def test_a_port_that_is_taken_is_one_line_and_no_model_is_looked_for(elmo, tmp_path):
    taken = listen("127.0.0.1", 0)
    port = str(taken.getsockname()[1])
    code, _, err = elmo("serve", "--model", str(tmp_path / "none"), "--port", port)
    taken.close()
    assert code == 1
    assert f"port {port}: cannot be listened on" in err
    assert err.count("\n") == 1


def test_an_interrupt_before_it_serves_is_no_error(elmo, monkeypatch):
    def interrupted(host, port):
        raise KeyboardInterrupt

    monkeypatch.setattr("elmokit.service.server.listen", interrupted)
    assert elmo("serve") == (0, "", "elmo: stopped before it was ready\n")


def test_without_its_packages_it_names_the_extra(fails, monkeypatch):
    monkeypatch.setitem(sys.modules, "fastapi", None)
    assert 'pip install "elmokit[service]"' in fails("serve")


@pytest.mark.parametrize("flag", ["--model", "--api-key", "--index", "--static"])
def test_what_is_not_there_is_one_line(elmo, tmp_path, flag):
    code, out, err = elmo("serve", flag, str(tmp_path / "none"), "--port", "0")
    lines = [line for line in err.splitlines() if "listens; the model is being" not in line]
    assert (code, out, len(lines)) == (1, "", 1)
    assert str(tmp_path / "none") in lines[0]


def test_workers_are_processes_of_their_own(elmo):
    code, _, err = elmo("serve", "--workers", "2")
    assert code == 2
    assert "run elmo serve once for each" in " ".join(err.split())
