"""AllenNLP 0.9.0's own tests of ELMo, from its source package, which is never stored here."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from helpers import ROOT

SHA256 = "f70a2d83146630bcc213ed64ff868e3fed8519480fb495dee14a8a5b19c2ff90"
FILES = [
    "commands/elmo_test.py",
    "data/token_indexers/elmo_indexer_test.py",
    "modules/elmo_test.py",
    "modules/scalar_mix_test.py",
    "modules/stacked_elmo_lstm_test.py",
    "modules/token_embedders/elmo_token_embedder_multilang_test.py",
    "modules/token_embedders/elmo_token_embedder_test.py",
]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The folder of the source package's tests, and nothing else of it that could be imported."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", ":all:"]
    subprocess.run([*command, "allennlp==0.9.0", "-d", tmp_path], capture_output=True, timeout=300)
    archive = tmp_path / "allennlp-0.9.0.tar.gz"
    if not archive.exists():
        pytest.skip("the source package of AllenNLP 0.9.0 cannot be fetched")
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == SHA256
    with tarfile.open(archive) as tar:
        tests = [one for one in tar.getmembers() if "/allennlp/tests/" in one.name]
        tar.extractall(tmp_path / "package", tests, filter="data")
    return tmp_path / "package" / "allennlp-0.9.0" / "allennlp" / "tests"


@pytest.mark.slow
def test_all_that_are_about_vectors_pass(package: Path) -> None:
    environment = {
        **os.environ,
        "ALLENNLP_TESTS": str(package),
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]),
    }
    command = [sys.executable, "-m", "pytest", "-p", "adaptors.allennlp_surroundings"]
    options = ["-q", "-rf", "-p", "no:cacheprovider", "-c", os.devnull, "--import-mode=importlib"]
    done = subprocess.run(
        [*command, *options, *FILES], cwd=package, env=environment, capture_output=True, text=True
    )

    failed = {line.split("::", 1)[1].split(" ")[0] for line in re.findall("FAILED .*", done.stdout)}
    page = (ROOT / "docs" / "background" / "old-programs.md").read_text(encoding="utf-8")
    assert "33 passed" in done.stdout, done.stdout
    assert {name.rpartition("::")[2] for name in failed} <= set(re.findall(r"`(test_\w+)`", page))
