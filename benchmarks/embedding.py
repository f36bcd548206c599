"""Words per second of embedding, beside a plain loop and beside the machine's own limit.

    python -m benchmarks.embedding            everything, about 10 minutes on 2 cores
    python -m benchmarks.embedding small      one part: original, small, one, cosines

The models have random weights: speed does not depend on them. Every case starts with an empty word
cache. The plain loop (`benchmarks/plain.py`) takes batches of 32 in file order, or one sentence at
a time; all cases of a size are timed in turn, in one run, and the best of several turns counts.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch

from benchmarks.machine import best_seconds, describe, float32_peak
from benchmarks.plain import PlainElmo
from benchmarks.text import REPOSITORY, real_sentences
from elmokit import BiLM, Embedder, ModelConfig
from elmokit.config import CharacterEncoderConfig, Precision
from elmokit.inference.embedder import Vectors
from elmokit.model import one_sentence, products
from elmokit.model.products import leave_out_undescribed_tiles

Sentences = list[list[str]]

FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
SIZES = {
    "original": ModelConfig(
        CharacterEncoderConfig(FILTERS, highways=2), 512, 4096, cell_clip=3.0, projection_clip=3.0
    ),
    "small": ModelConfig(
        CharacterEncoderConfig(FILTERS, highways=1), 128, 1024, cell_clip=3.0, projection_clip=3.0
    ),
}
SENTENCES = {"original": (8, 64, 1024), "small": (100, 320, 4096)}
"""How many sentences are timed: one at a time, in batches of 32, in bulk."""
TURNS = 3
ONE_SENTENCES, ONE_SENTENCE_TURNS = 20, 15
GOLDEN = REPOSITORY.parent / "shared/data"


def lstm_operations(config: ModelConfig) -> int:
    """Floating-point operations of the LSTM products for one token, both directions."""
    gates = 2 * config.token_size * 4 * config.cell_size
    projection = config.cell_size * config.token_size
    return 2 * 2 * config.lstm_layers * (gates + projection)


def one_at_a_time(embed: Callable[[Sentences], object], sentences: Sentences) -> None:
    """Embed sentence after sentence."""
    for sentence in sentences:
        embed([sentence])


def in_batches(embed: Callable[[Sentences], object], sentences: Sentences) -> None:
    """Embed 32 sentences a call, in file order."""
    for start in range(0, len(sentences), 32):
        embed(sentences[start : start + 32])


def in_bulk(embed: Callable[[Sentences], object], sentences: Sentences) -> None:
    """Embed everything in one call."""
    embed(sentences)


class Case:
    """One row of the table: what is timed, on what text, against which row of the plain loop."""

    def __init__(
        self,
        label: str,
        sentences: Sentences,
        run: Callable[[Callable[[Sentences], object], Sentences], None],
        make: Callable[[], Callable[[Sentences], object]],
        against: str,
    ) -> None:
        self.label = label
        self.sentences = sentences
        self.run = run
        self.make = make
        self.against = against
        self.seconds = float("inf")

    def turn(self) -> None:
        """Time it once, from an empty cache, and keep the best."""
        embed = self.make()
        started = time.perf_counter()
        self.run(embed, self.sentences)
        self.seconds = min(self.seconds, time.perf_counter() - started)

    @property
    def words_per_second(self) -> float:
        """Words alone: the markers around each sentence are work, but not result."""
        return sum(map(len, self.sentences)) / self.seconds

    @property
    def tokens_per_second(self) -> float:
        """Words and markers."""
        return sum(len(sentence) + 2 for sentence in self.sentences) / self.seconds


def cases(size: str, sentences: Sentences) -> list[Case]:
    """The rows of one size."""
    torch.manual_seed(0)
    config = SIZES[size]
    bilm = BiLM(config)
    plain = PlainElmo(config, bilm.state_dict())
    single, batched, bulk = (sentences[:count] for count in SENTENCES[size])

    def embedder(precision: Precision) -> Callable[[], Callable[[Sentences], object]]:
        return lambda: Embedder(bilm, tokenizer="whitespace", precision=precision).embed

    rows = [
        Case("plain loop, 1", single, one_at_a_time, lambda: plain.embed, "plain loop, 1"),
        Case("plain loop, 32", batched, in_batches, lambda: plain.embed, "plain loop, 32"),
    ]
    for precision in ("exact", "fast"):
        make = embedder(precision)
        rows += [
            Case(f"{precision}, 1", single, one_at_a_time, make, "plain loop, 1"),
            Case(f"{precision}, 32", batched, in_batches, make, "plain loop, 32"),
            Case(f"{precision}, bulk", bulk, in_bulk, make, "plain loop, 32"),
        ]
    return rows


def measure(size: str, sentences: Sentences) -> None:
    """Time every case of a size in turns, and print its part of the table."""
    rows = cases(size, sentences)
    for row in rows:
        row.run(row.make(), row.sentences[:32])  # packs weights and warms threads
    peak = 0.0
    for _ in range(TURNS):
        peak = max(peak, float32_peak())
        for row in rows:
            row.turn()
    speeds = {row.label: row.words_per_second for row in rows}
    for row in rows:
        ratio = row.words_per_second / speeds[row.against]
        share = row.tokens_per_second * lstm_operations(SIZES[size]) / peak
        print(
            f"| {size} | {row.label} | {row.words_per_second:,.0f} | {ratio:.1f} x | {share:.0%} |"
        )
    print(f"| {size} | large float32 products | | | {peak / 1e9:.0f} GFLOP/s |", flush=True)


def measure_one_sentence(sentences: Sentences) -> None:
    """Print how fast the bundled model reads a sentence: each direction apart, and in lock step.

    Both ways take each sentence in turn. Of each sentence the best turn counts.
    """
    embed = Embedder.load().embed
    words = sum(map(len, sentences))
    before = torch.get_num_threads()
    for threads in sorted({1, before}):
        torch.set_num_threads(threads)
        apart, together = np.sum([best_of_both(embed, [each]) for each in sentences], axis=0)
        print(f"| {threads} | directions apart | {words / apart:,.0f} | |")
        print(f"| {threads} | lock step | {words / together:,.0f} | {apart / together:.2f} x |")
    torch.set_num_threads(before)


def best_of_both(embed: Callable[[Sentences], object], sentence: Sentences) -> tuple[float, float]:
    """Seconds of the best turn, with each direction apart and in lock step."""
    largest = one_sentence.LARGEST_WEIGHT
    apart, together = [], []
    for _ in range(ONE_SENTENCE_TURNS):
        one_sentence.LARGEST_WEIGHT = 0
        apart.append(best_seconds(lambda: embed(sentence), 1))
        one_sentence.LARGEST_WEIGHT = largest
        together.append(best_seconds(lambda: embed(sentence), 1))
    return min(apart), min(together)


def cosines(first: Sequence[Vectors], second: Sequence[Vectors]) -> str:
    """How near the vectors of two lists of sentences are in the LSTM layers."""
    near = []
    for one, other in zip(first, second, strict=True):
        one, other = one[1:], other[1:]
        lengths = np.linalg.norm(one, axis=-1) * np.linalg.norm(other, axis=-1)
        near.append(((one * other).sum(-1) / lengths).ravel())
    every = np.concatenate(near)
    return f"mean {every.mean():.5f}, minimum {every.min():.5f}"


FAST_WAYS: dict[str, tuple[type[products.Product], int | None]] = {
    "bfloat16 (CUDA)": (products.BFloat16Product, None),
    "8-bit (VNNI)": (products.FBGEMMProduct, 127),
    "8-bit, weights 7-bit": (products.FBGEMMProduct, 64),
}
"""What `fast` can mean: a way to multiply, and the levels of a weight."""


@contextmanager
def fast_is(way: type[products.Product], levels: int | None) -> Iterator[None]:
    """Let `fast` multiply in one way, whatever the size of the weight."""
    exact = products.best_way
    choices = {
        "best_way": lambda weight, precision: (
            way if precision == "fast" else exact(weight, precision)
        ),
        "weight_levels": lambda way: levels,
    }
    before = {name: getattr(products, name) for name in choices}
    try:
        for name, choice in choices.items():
            setattr(products, name, choice)
        yield
    finally:
        for name, choice in before.items():
            setattr(products, name, choice)


def models() -> Iterator[tuple[str, BiLM]]:
    """The reference models where they are at hand, the bundled one, and random ones."""
    for name in ("golden-allennlp", "golden-bilm-tf"):
        folder = GOLDEN / name
        if folder.exists():
            yield name, Embedder.load(folder / "options.json", folder / "lm_weights.hdf5").bilm
    yield "bundled", Embedder.load().bilm
    for size, config in SIZES.items():
        torch.manual_seed(0)
        yield f"{size}, random", BiLM(config)


def compare_precisions(sentences: Sentences) -> None:
    """Print the cosine of fast to exact vectors, for each way to be fast."""
    for name, bilm in models():
        expected = Embedder(bilm, tokenizer="whitespace").embed_layers(sentences)
        for label, (way, levels) in FAST_WAYS.items():
            if levels and (not products.works(way) or levels > products.weight_levels(way)):
                print(f"| {name} | {label} | not on this CPU |")
                continue
            with fast_is(way, levels):
                fast = Embedder(copy.deepcopy(bilm), tokenizer="whitespace", precision="fast")
                near = cosines(expected, fast.embed_layers(sentences))
                print(f"| {name} | {label} | {near} |", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=[*SIZES, "one", "cosines"])
    parts = parser.parse_args().parts
    leave_out_undescribed_tiles()  # before the first product
    name, sentences = real_sentences(max(map(max, SENTENCES.values())))
    print(f"{describe()}; text: {name}\n")
    print("| size | case, sentences | words/s | plain loop | LSTM products, of float32 peak |")
    print("|---|---|---|---|---|")
    for size in SIZES:
        if size in parts:
            measure(size, sentences)
    if "one" in parts:
        print("\n| threads | one sentence, bundled model | words/s | |\n|---|---|---|---|")
        measure_one_sentence(sentences[:ONE_SENTENCES])
    if "cosines" not in parts:
        return
    print("\n| cosine of fast to exact | fast is | |\n|---|---|---|")
    compare_precisions(sentences[:200])


if __name__ == "__main__":
    main()
