"""Words per second of ONNX Runtime beside torch, and what 8 bits change.

    python -m benchmarks.onnx                 both sizes, some minutes
    python -m benchmarks.onnx small --threads 1

Needs `pip install "elmokit[onnx]"`. `small` is the bundled English model, `original` a model of the
paper's size with random weights. All cases of a size are timed in turn, in one run, with as many
threads, and the best of several turns counts. Every call gets sentences of words, one or 32, and
gives all layers; torch is timed with the words known to its cache, as of a text long read, and with
none. The cosines are of all words and layers, against float32.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch

from benchmarks.embedding import SIZES, in_batches, one_at_a_time
from benchmarks.machine import best_seconds, command_line, one_line_errors, table
from benchmarks.text import real_sentences
from elmokit import BiLM, Embedder, convert_model
from elmokit.adaptors.onnx import OnnxEmbedder
from elmokit.formats.native import SavedModel, write_model

Sentences = list[list[str]]

SENTENCES = {"small": (20, 192), "original": (4, 64)}
"""How many are timed: one at a time, in batches of 32."""
TURNS = 3


def embedders(size: str, folder: Path) -> dict[str, Embedder | OnnxEmbedder]:
    """Each way to compute, all of one model."""
    source = "english-small"
    if size == "original":
        torch.manual_seed(0)
        bilm = BiLM(SIZES[size])
        source = str(folder / "model")
        write_model(source, SavedModel(bilm.config, bilm.state_dict(), "default"))
    for name in ("float32", "int8"):
        convert_model([source], folder / name, target="onnx", int8=name == "int8")
    threads = torch.get_num_threads()
    return {
        "torch, words known": Embedder.load(source),
        "torch, words new": Embedder.load(source, cache_words=1),
        "torch, fast, words new": Embedder.load(source, cache_words=1, precision="fast"),
        "ONNX Runtime": OnnxEmbedder(folder / "float32", threads=threads),
        "ONNX Runtime, 8 bits": OnnxEmbedder(folder / "int8", threads=threads),
    }


def speeds(size: str, text: Sentences, ways: dict[str, Embedder | OnnxEmbedder]) -> list[list[str]]:
    """A row for each way: words per second, one sentence at a time and in batches of 32."""
    one, many = SENTENCES[size]
    cases: list[tuple[Callable[..., None], Sentences]] = [
        (one_at_a_time, text[:one]),
        (in_batches, text[:many]),
    ]
    best = {(name, n): float("inf") for name in ways for n in range(len(cases))}
    for _ in range(TURNS):
        for name, n in best:
            run, sentences = cases[n]
            call = partial(run, partial(ways[name].embed, layers="all"), sentences)
            best[name, n] = min(best[name, n], best_seconds(call, 1))
    counts = [sum(map(len, sentences)) for _, sentences in cases]
    rows = []
    for name in ways:
        found = [count / best[name, n] for n, count in enumerate(counts)]
        rows.append([size, name, *(f"{words:,.0f}" for words in found)])
    return rows


def agreement(
    size: str, text: Sentences, ways: dict[str, Embedder | OnnxEmbedder]
) -> list[list[str]]:
    """A row for each graph: its largest difference from torch, and its cosines."""
    sentences = text[: SENTENCES[size][1]]
    exact = ways["torch, words known"].embed(sentences, "all")
    largest = np.max([np.abs(one).max((1, 2)) for one in exact], axis=0)
    rows = []
    for name in ("ONNX Runtime", "ONNX Runtime, 8 bits"):
        found = ways[name].embed(sentences, "all")
        off = [np.abs(a - b).max((1, 2)) for a, b in zip(found, exact, strict=True)]
        cosines = np.concatenate([cosine(a, b) for a, b in zip(found, exact, strict=True)])
        share = (np.max(off, axis=0) / largest).max()
        rows.append([size, name, f"{share:.1e}", f"{cosines.mean():.5f}", f"{cosines.min():.5f}"])
    return rows


def cosine(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Of each vector with its like, in one row."""
    lengths = np.linalg.norm(one, axis=-1) * np.linalg.norm(other, axis=-1)
    return ((one * other).sum(-1) / lengths).ravel()


@one_line_errors()
def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("size", nargs="?", choices=[*SENTENCES], help="one alone")
    parser.add_argument("--threads", type=int, help="of both; without it torch's choice")
    given = parser.parse_args()
    if given.threads is not None:
        torch.set_num_threads(given.threads)
    sizes = [given.size] if given.size else [*SENTENCES]
    name, text = real_sentences(max(many for _, many in SENTENCES.values()))
    print(f"{command_line('benchmarks.onnx')}; text: {name}\n")
    timed, compared = [], []
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            ways = embedders(size, Path(folder))
            timed += speeds(size, text, ways)
            compared += agreement(size, text, ways)
    print(table(["size", "words per second", "one sentence", "batches of 32"], timed))
    print()
    names = ["size", "graph", "largest difference, of the layer's largest value"]
    print(table([*names, "mean cosine", "least cosine"], compared))


if __name__ == "__main__":
    main()
