"""What the paper's training would cost today: `python -m runs.cost_of_the_paper` prints a table.

Computed from shapes and data sheets, not measured. A step of training takes as long as

    its matrix products    at an assumed share of the device's peak
    its weights            as often as clipping and Adagrad read and write them, at full bandwidth
    its gradients          averaged over the devices, at an assumed speed of their connection

with nothing overlapping. The gradient of the sampled softmax has a row for every word of the
vocabulary, drawn or not.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch

from benchmarks.pretraining_flops import StepFlops, pretraining_flops, sampled_softmax
from elmokit.config import CharacterEncoderConfig, ModelConfig
from elmokit.model.bilm import BiLM

WORDS = 768_648_884
"""Of the 1 Billion Word Benchmark's training part, as the original program counts them."""
EPOCHS = 10
VOCABULARY = 793_471
SAMPLES = 8192
ROWS, UNROLL = 384, 20
PAPER = ModelConfig(
    CharacterEncoderConfig(
        ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024)), highways=2
    ),
    token_size=512,
    cell_size=4096,
    softmax_words=VOCABULARY,
)
POSITIONS = 16
"""Characters of a word that are convolved, on average: 9 of its own and 7 of padding."""
SOFTMAX_WEIGHTS = VOCABULARY * (PAPER.token_size + 1)
PASSES_OF_OPTIMISER = 14
"""Reads and writes of numbers as large as all weights: 3 of clipping, 11 of Adagrad."""
PASSES_OF_SOFTMAX = 13
"""Likewise of the softmax alone: targets and samples of two directions, written and added up."""
FLOAT = 4  # bytes

TWO_WEEKS = 14 * 86_400
"""What the original took on three GTX 1080: github.com/allenai/bilm-tf, issues 47 and 55."""
GTX_1080 = 8.9e12
"""The most float32 operations a second of one of them."""

A100_FLOAT32 = 0.5 * 19.5e12
"""What is assumed to be reached: a share, and the peak that the data sheet gives."""
A100_BFLOAT16 = 0.2 * 312e12
"""Likewise; steps are short there, and each waits for the one before."""
A100_MEMORY = 1.5e12  # bytes a second
A100_CONNECTION = 200e9  # a third of what the data sheet adds up in both directions
TWO_CORES = 0.5 * 305e9
"""Likewise; the peak is that of large products in benchmarks/README.md."""
TWO_CORES_MEMORY = 20e9
"""Measured between 17 and 30 GB/s: docs/log.md."""


class Machine(NamedTuple):
    """Some devices of one kind, and how fast each is assumed to be."""

    name: str
    devices: int
    products: float  # operations a second, in the precision of the run
    memory: float  # bytes a second
    connection: float = 1.0  # bytes a second

    def step_seconds(self, rows: int) -> float:
        """How long a step on so many rows takes, those of all devices together."""
        flops = step_flops(rows // self.devices)
        seconds = flops.total / self.products
        seconds += FLOAT * moved_weights() / self.memory
        # Each device sends and gets all but its own part of the sums, and then of the means.
        others = (self.devices - 1) / self.devices
        return seconds + 2 * others * FLOAT * all_weights() / self.connection


EIGHT = Machine("8 A100, bfloat16", 8, A100_BFLOAT16, A100_MEMORY, A100_CONNECTION)
MACHINES = (
    (Machine("2 cores at 2.8 GHz, float32", 1, TWO_CORES, TWO_CORES_MEMORY), ROWS),
    (Machine("1 A100, float32", 1, A100_FLOAT32, A100_MEMORY), ROWS),
    (Machine("1 A100, bfloat16", 1, A100_BFLOAT16, A100_MEMORY), ROWS),
    (EIGHT, ROWS),
    (EIGHT, 8 * ROWS),
)


def step_flops(rows: int) -> StepFlops:
    """Operations of a step of this package: each different word is encoded once."""
    return pretraining_flops(
        PAPER,
        rows,
        UNROLL,
        distinct_words=distinct_words(2 * rows * UNROLL),
        positions_per_word=POSITIONS,
        softmax=sampled_softmax(PAPER, rows, UNROLL, SAMPLES),
    )


def original_step_flops() -> StepFlops:
    """Operations of a step of the original program: it encodes every word at all positions."""
    return pretraining_flops(
        PAPER,
        ROWS,
        UNROLL,
        distinct_words=2 * ROWS * UNROLL,
        positions_per_word=50,
        softmax=sampled_softmax(PAPER, ROWS, UNROLL, SAMPLES),
    )


def distinct_words(tokens: int) -> float:
    """How many different words so many tokens have, in runs of 20 from all over Wikipedia.

    Fitted to 5,000 of 15,360 and 955 of 1,920.

    >>> round(distinct_words(15_360)), round(distinct_words(1_920))
    (5139, 974)
    """
    return 2.3 * tokens**0.8


@cache
def all_weights() -> int:
    """Numbers that are trained, counted without making them.

    >>> all_weights()
    500651487
    """
    with torch.device("meta"):
        return sum(weight.numel() for weight in BiLM(PAPER).parameters())


def moved_weights() -> int:
    """Numbers that are read and written in a step, besides those of the products."""
    return PASSES_OF_OPTIMISER * all_weights() + PASSES_OF_SOFTMAX * SOFTMAX_WEIGHTS


def row(machine: Machine, rows: int) -> str:
    """One line of the table."""
    seconds = machine.step_seconds(rows)
    words_per_second = rows * UNROLL / seconds
    total = duration(EPOCHS * WORDS / words_per_second)
    return f"| {machine.name} | {rows:,} | {seconds:.2f} | {words_per_second:,.0f} | {total} |"


def duration(seconds: float) -> str:
    """A length of time for people.

    >>> duration(5 * 3600), duration(5 * 86_400)
    ('5 hours', '5 days')
    """
    days = seconds / 86_400
    return f"{days:,.0f} days" if days >= 3 else f"{24 * days:,.0f} hours"


def main() -> None:
    """Print operations per word, the table, and how well the original used its devices."""
    words = ROWS * UNROLL
    original, ours = original_step_flops(), step_flops(ROWS)
    for name, flops in (("the original", original), ("this package", ours)):
        parts = ", ".join(
            f"{part} {getattr(flops, part) / words / 1e9:.2f}"
            for part in ("encoder", "lstm", "softmax")
        )
        in_all = flops.total / words * EPOCHS * WORDS
        print(
            f"{name}: {flops.total / words / 1e9:.2f} GFLOP per word ({parts}), {in_all:.1e} in all"
        )
    reached = original.total / words * EPOCHS * WORDS / TWO_WEEKS
    print(
        f"three GTX 1080 in two weeks: {EPOCHS * WORDS / TWO_WEEKS:,.0f} words/s, "
        f"{reached / (3 * GTX_1080):.0%} of their peak\n"
    )
    print("| devices, precision | rows | s per step | words/s | 10 epochs |")
    print("|---|---|---|---|---|")
    for machine, rows in MACHINES:
        print(row(machine, rows))


if __name__ == "__main__":
    main()
