"""The `elmo` command in processes of their own, which need not load PyTorch again and again."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Iterable
from multiprocessing.process import BaseProcess

import torch

from elmokit.bulk import pipeline
from elmokit.cli import main

TOKENS_PER_PART = 2500
LOADED = ["elmokit.cli", "elmokit.bulk.pipeline", "pyarrow.parquet"]


def start(*arguments: str) -> BaseProcess:
    """Run a command in a fork of a process that has loaded everything and computed nothing."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LOADED)
    process = context.Process(target=run, args=(arguments,))
    process.start()
    return process


def run(arguments: Iterable[str]) -> None:
    """The command, with parts so small that a few thousand sentences make many."""
    torch.set_num_threads(1)
    pipeline.TOKENS_PER_PART = TOKENS_PER_PART
    sys.argv = ["elmo", *arguments]
    main()
