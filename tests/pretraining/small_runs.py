"""Small pretraining runs: text, settings, and processes of their own that may be killed."""

from __future__ import annotations

import multiprocessing
import os
import random
import socket
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
from closeness import assert_close
from helpers import SLOWLY, assert_same_bits, set_flags, write, write_sentences

from elmokit.io.text_files import TextSettings
from elmokit.jobs.checkpoints import Checkpoint, Checkpoints
from elmokit.jobs.metrics import METRICS, read_metrics
from elmokit.pretraining import run as run_module
from elmokit.pretraining.config import PretrainConfig, read_run
from elmokit.pretraining.corpus import prepare_corpus
from elmokit.pretraining.prepared import PreparedCorpus
from elmokit.pretraining.run import Result, pretrain

Settings = Mapping[str, Any]

WHO = (
    "the old cat", "a brown dog", "my little sister", "the tall farmer",
    "our new teacher", "one black horse", "the king 's son", "every good singer",
)  # fmt: skip
DID = (
    "sat down slowly on", "ran as fast as wind over", "looked for a key under",
    "never came back from", "sang all night long about", "wrote two long letters to",
    "fell asleep again beside", "built a small house near",
)  # fmt: skip
WHERE = (
    "the wide river .", "an empty garden !", "that high mountain .", "his father 's grave .",
    "the cold north sea ?", "some far away island .", "her own kitchen table .", "a burning tree !",
)  # fmt: skip

RUN = """
[corpus]
tokenizer = "whitespace"

[model]
token_size = 8
cell_size = 12
lstm_layers = 2
cell_clip = 3.0
projection_clip = 3.0

[model.encoder]
filters = [[1, 4], [2, 6], [3, 8]]
character_size = 4
max_characters = 12
highways = 1

[training]
rows = 8
unroll = 6
steps = 12
dropout = 0.0

[logging]
every = 2
validate_every = 6
"""


def sentences(count: int, seed: int = 1) -> list[list[str]]:
    """Different sentences: a choice of eight three times, and the rest follows from it."""
    every = [f"{who} {did} {where}".split() for who in WHO for did in DID for where in WHERE]
    return random.Random(seed).sample(every, count)


def prepared(folder: Path, *texts: str) -> PreparedCorpus:
    """Texts of sentences, a file each, prepared."""
    files = [write(folder / f"{number}.txt", text) for number, text in enumerate(texts)]
    return prepare_corpus(files, TextSettings(), cache=folder / "cache", processes=1)


def write_run(folder: Path, settings: Settings | None = None) -> list[str]:
    """Write text and settings of a run; give what follows `elmo` on the command line."""
    folder.mkdir(parents=True, exist_ok=True)
    text, run = folder / "text.txt", folder / "run.toml"
    if not text.exists():
        write_sentences(text, sentences(60))
    run.write_text(RUN, encoding="utf-8")
    files = {"corpus.train": [str(text)], "output": str(folder / "run")}
    given = files | dict(settings or {})
    return ["pretrain", str(run), "--processes=1", *set_flags(given)]


def small_run(folder: Path, settings: Settings | None = None) -> PretrainConfig:
    """The same run for a call; settings go by their dotted names, None taking one away."""
    write_run(folder)
    files = {"corpus.train": [str(folder / "text.txt")], "output": str(folder / "run")}
    return read_run(folder / "run.toml", files | dict(settings or {}))


def train(config: PretrainConfig, **arguments: Any) -> Result:
    """Train in this process alone."""
    result = pretrain(config, processes=1, **arguments)
    assert result is not None
    return result


# What a run leaves


def newest(run: Path) -> Checkpoint:
    """The last checkpoint of a run."""
    checkpoint = Checkpoints(run / "checkpoints").newest()
    assert checkpoint is not None
    return checkpoint


def weights(run: Path) -> dict[str, torch.Tensor]:
    """The weights in the last checkpoint of a run, by their names there."""
    tensors = newest(run).tensors
    return {name: value for name, value in tensors.items() if name.startswith("model.")}


def measured(run: Path, kind: str | None = None) -> list[dict[str, Any]]:
    """The metrics of a run, without those that a clock has measured."""
    clock = ("seconds", "words_per_second")
    return [
        {name: value for name, value in line.items() if name not in clock}
        for line in read_metrics(run / METRICS)
        if kind in (None, line["kind"])
    ]


def assert_same_run(one: Path, other: Path) -> None:
    """Nothing tells two runs apart but the time they took."""
    first, second = newest(one), newest(other)
    assert first.step == second.step
    assert_same_bits(first.tensors, second.tensors)
    for values in (first.values, second.values):
        for name in ("seconds", "seconds_validating"):
            values["progress"].pop(name)
    assert first.values == second.values
    assert measured(one) == measured(other)
    models = [(run / "model" / "model.safetensors").read_bytes() for run in (one, other)]
    assert models[0] == models[1]


def assert_near(one: Path, other: Path) -> None:
    """The last weights of two runs differ by float noise at most."""
    first, second = weights(one), weights(other)
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert_close(second[name], value)


# Processes of their own


PROCESSES = multiprocessing.get_context("forkserver")  # what takes long is imported once for all
PROCESSES.set_forkserver_preload(
    ["pytest", "torch._dynamo", "elmokit.cli", "elmokit.pretraining.run"]
)


def start(arguments: Sequence[str], log: Path, **environment: str) -> BaseProcess:
    """Run `elmo` in another process, which may be killed; what it prints goes to `log`."""
    environment.setdefault("ELMOKIT_CACHE", os.environ["ELMOKIT_CACHE"])
    # A daemon, so that none is left behind where a test has failed.
    process = PROCESSES.Process(target=_run, args=(list(arguments), log, environment), daemon=True)
    process.start()
    return process


def start_group(arguments: Sequence[str], log: Path, size: int = 2) -> list[BaseProcess]:
    """Run `elmo` in processes that train together, as `torchrun` starts them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(size)}
    return [
        start(
            arguments, log.with_suffix(f".{rank}"), RANK=str(rank), LOCAL_RANK=str(rank), **shared
        )
        for rank in range(size)
    ]


def send(process: BaseProcess, number: int) -> None:
    """Send a signal to a process."""
    assert process.pid is not None
    os.kill(process.pid, number)


def end(process: BaseProcess) -> int | None:
    """Wait for a process; give its exit code."""
    process.join(SLOWLY)
    return process.exitcode


def _run(arguments: list[str], log: Path, environment: dict[str, str]) -> None:
    from elmokit.cli import main

    os.environ.update(environment)
    torch.set_num_threads(1)
    run_module.draw = lambda folder, trainer: None  # it takes longer than a small run
    with open(log, "ab") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    sys.argv = ["elmo", *arguments]
    main()
