"""A training step of the reader's network: `python -m benchmarks.reader [--threads 1]`.

Its first dense layer, W [t; a; t * a; s * a] + b, is computed in four parts, each where vectors are
fewest; beside it the same layer as one product of joined vectors. Both give the same scores.
"""

from __future__ import annotations

import argparse
from functools import partial

import torch
from torch import Tensor

from benchmarks.machine import best_seconds, describe
from elmokit.system import keep_large_blocks
from elmokit.tasks.config import NetworkConfig
from elmokit.tasks.inputs import BatchVectors, Sizes
from elmokit.tasks.networks.texts import attend
from elmokit.tasks.reading.network import ReadingNetwork

WINDOWS, WORDS = 11, 160
QUESTIONS, ASKED_WORDS = 48, 16
SIZES = {"without ELMo": Sizes(100, 0), "ELMo at both places": Sizes(356, 256)}
TURNS = 20


class JoinedReader(ReadingNetwork):
    """The reader with its first dense layer as the equation has it."""

    def attend_to_question(
        self,
        windows: Tensor,
        window_rows: Tensor,
        asked: Tensor,
        mask: Tensor,
        asked_mask: Tensor,
    ) -> Tensor:
        """What each word of a text means to the question: (rows, words, 2 * hidden)."""
        texts = windows.index_select(0, window_rows)
        scores = self.similarity(texts, asked)
        attended = attend(scores, asked, asked_mask.unsqueeze(1))
        nearest = scores.masked_fill(~asked_mask.unsqueeze(1), -torch.inf).amax(-1)
        summary = attend(nearest.unsqueeze(1), texts, mask.unsqueeze(1))
        joined = torch.cat([texts, attended, texts * attended, summary * attended], dim=-1)
        return torch.relu(self.merge(self.dropout(joined)))


def random_words(sentences: int, words: int, sizes: Sizes) -> BatchVectors:
    """Sentences of different lengths, whose vectors want gradients as those of mixes do."""
    lengths = torch.randint(words * 3 // 5, words + 1, (sentences,))
    at_output = torch.randn(sentences, words, sizes.at_output, requires_grad=True)
    return BatchVectors(
        torch.randn(sentences, words, sizes.at_input, requires_grad=True),
        at_output if sizes.at_output else None,
        torch.arange(words) < lengths.unsqueeze(1),
    )


def step(network: ReadingNetwork, texts: BatchVectors, asked: BatchVectors) -> None:
    """Forward and backward."""
    rows = torch.arange(QUESTIONS)
    found = network(texts, asked, rows * WINDOWS // QUESTIONS, rows)
    least = torch.finfo(found.start.dtype).min
    scores = (part.masked_fill(~found.mask, least) for part in (found.start, found.end))
    torch.stack([part.logsumexp(1).mean() for part in scores]).sum().backward()  # type: ignore[no-untyped-call]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    torch.set_num_threads(parser.parse_args().threads)
    keep_large_blocks()  # as training does
    print(f"{describe()}\n\n| | joined | in four parts | times faster |\n|---|---|---|---|")
    for name, sizes in SIZES.items():
        torch.manual_seed(0)
        texts = random_words(WINDOWS, WORDS, sizes)
        asked = random_words(QUESTIONS, ASKED_WORDS, sizes)
        joined, parts = (
            kind(sizes, NetworkConfig(hidden=64, dropout=0.2, answer_lstms=False))
            for kind in (JoinedReader, ReadingNetwork)
        )
        before, after = (
            best_seconds(partial(step, network, texts, asked), TURNS) for network in (joined, parts)
        )
        print(
            f"| {name} | {1e3 * before:.0f} ms | {1e3 * after:.0f} ms | {before / after:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
