"""Words per second of pretraining, beside torch's own modules and beside the machine's limit.

    python -m benchmarks.pretraining             about 6 minutes on 2 cores

The small published shape (1,024 cells, vectors of 128, 30,000 words), 128 rows of 20 words in each
direction, on real text. The plain implementation (`benchmarks/plain_pretraining.py`) runs the
encoder on every word, `nn.LSTM(proj_size)` and the full softmax, all in float32. All cases are
timed in turn, in one run, step by step; the best step counts. A word is a target of the forward
direction. The share is that of the best large product of the same precision in the same run.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.machine import describe, float32_peak
from benchmarks.plain_pretraining import PlainBiLM
from benchmarks.pretraining_flops import (
    Product,
    StepFlops,
    full_softmax,
    plain_flops,
    pretraining_flops,
    sampled_softmax,
)
from benchmarks.text import REPOSITORY, real_sentences
from elmokit.config import CharacterEncoderConfig, ModelConfig
from elmokit.io.text_files import TextSettings
from elmokit.jobs.progress import Observer
from elmokit.model.character_encoder import WORDS_PER_GROUP, character_lengths
from elmokit.model.products import has_bfloat16
from elmokit.model.softmax import AdaptiveSoftmax
from elmokit.pretraining.batches import Batch, Side, StreamReader, WordReader
from elmokit.pretraining.config import PretrainConfig
from elmokit.pretraining.corpus import build_vocabulary, prepare_corpus
from elmokit.pretraining.prepared import PreparedCorpus
from elmokit.pretraining.run import make_model
from elmokit.pretraining.trainer import Group, Trainer
from elmokit.text.vocabulary import Vocabulary

FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
WORDS = 30_000
WIKIPEDIA = REPOSITORY.parent / "shared/data/pretrain-en"
SENTENCES = 60_000
"""How many are read where there is no Wikipedia."""
STEPS = 4
"""Different batches that every case is timed on."""
TURNS = 2
MODEL: dict[str, Any] = {
    "encoder": {"filters": FILTERS, "highways": 1},
    "token_size": 128,
    "cell_size": 1024,
    "cell_clip": 3.0,
    "projection_clip": 3.0,
}
PAPER: dict[str, Any] = {"rows": 128, "unroll": 20, "steps": 1}
MODERN = PAPER | {"optimiser": "adamw", "learning_rate": 0.002, "scale_loss_by_unroll": False}
ADAPTIVE = {"softmax_cutoffs": [2000, 10000], "softmax_division": 2}
RECIPES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "full softmax": (PAPER, {}),
    "sampled softmax": (PAPER | {"samples": 8192}, {}),
    "adaptive softmax": (MODERN, ADAPTIVE),
}


class Case(NamedTuple):
    """One row of the table."""

    name: str
    step: Callable[[int], object]  # trains on batch number n
    flops: StepFlops  # of an average step


def main() -> None:
    """Time all cases and print the table."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        corpus, vocabulary = real_text(Path(folder))
        cases = [plain_case(corpus, vocabulary)]
        for name, (training, model) in RECIPES.items():
            config = run_config(training, model)
            cases.append(our_case(f"elmokit, {name}", config, corpus, vocabulary, Path(folder)))
        print_table(cases, *measure(cases))
    print(f"\n`python -m benchmarks.pretraining`: {describe()}")


def real_text(folder: Path) -> tuple[PreparedCorpus, Vocabulary]:
    """Text people wrote, prepared, and its most frequent words."""
    files, tokenizer = sorted(WIKIPEDIA.glob("enwiki.train-03[5-7].txt.xz")), "default"
    if not files:
        _, sentences = real_sentences(SENTENCES)
        files, tokenizer = [folder / "text.txt"], "whitespace"
        text = "".join(" ".join(sentence) + "\n" for sentence in sentences)
        files[0].write_text(text, encoding="utf-8")
    corpus = prepare_corpus(files, TextSettings.of_corpus(tokenizer), cache=folder / "corpora")
    return corpus, padded(build_vocabulary(corpus, max_size=WORDS))


def padded(vocabulary: Vocabulary) -> Vocabulary:
    """A vocabulary of the full size; a short text's is filled up with words that never come."""
    missing = WORDS - len(vocabulary)
    counts = vocabulary.counts or ()
    return Vocabulary(
        [*vocabulary.words, *(f"<{number}>" for number in range(missing))],
        [*counts, *[0] * missing],
    )


def run_config(training: dict[str, Any], model: dict[str, Any]) -> PretrainConfig:
    """The run of one case."""
    return PretrainConfig.from_dict({"training": training, "model": MODEL | model})


def our_case(
    name: str, config: PretrainConfig, corpus: PreparedCorpus, vocabulary: Vocabulary, folder: Path
) -> Case:
    """This package, as `elmo pretrain` runs it; batches are made beforehand, as its thread does."""
    torch.manual_seed(1)
    bilm = make_model(config, vocabulary, None)
    reader = StreamReader(WordReader(corpus, vocabulary, bilm.config.encoder), config)
    config = replace(config, output=str(folder))
    trainer = Trainer(bilm, reader, config, Group(), None, {}, Observer())
    batches = first_batches(reader)
    flops = [our_flops(bilm.config, config, part[0], bilm.softmax) for part in batches]
    return Case(name, lambda number: trainer.step(batches[number]), average(flops))


def plain_case(corpus: PreparedCorpus, vocabulary: Vocabulary) -> Case:
    """The same batches for torch's own modules."""
    config = run_config(PAPER, {})
    model_config = config.model_config(WORDS)
    torch.manual_seed(1)
    plain = PlainBiLM(model_config)
    reader = StreamReader(WordReader(corpus, vocabulary, model_config.encoder), config)
    batches = [
        (*unpacked(part[0], part[0].forward), *unpacked(part[0], part[0].backward))
        for part in first_batches(reader)
    ]
    rows, unroll = config.training.rows, config.training.unroll
    return Case(
        "plain torch, full softmax",
        lambda number: plain.train_step(*batches[number]),
        plain_flops(model_config, rows, unroll),
    )


def first_batches(reader: StreamReader) -> list[list[Batch]]:
    """What all cases train on."""
    batches = reader.batches(0)
    return [next(batches) for _ in range(STEPS)]


def unpacked(batch: Batch, side: Side) -> tuple[torch.Tensor, torch.Tensor]:
    """Characters (rows, unroll, 50) and targets (rows, unroll) of one direction."""
    rows = batch.step_sizes[0]
    characters = batch.words[side.inputs].long()
    return (
        characters.view(-1, rows, characters.shape[1]).transpose(0, 1).contiguous(),
        side.targets.view(-1, rows).t().contiguous(),
    )


def our_flops(
    model: ModelConfig, config: PretrainConfig, batch: Batch, softmax: object
) -> StepFlops:
    """Operations of one batch: distinct words, trimmed, and the products of its softmax."""
    rows, unroll = config.training.rows, config.training.unroll
    if config.training.samples:
        products = sampled_softmax(model, rows, unroll, config.training.samples)
    elif isinstance(softmax, AdaptiveSoftmax):
        products = adaptive_softmax(model, softmax, batch)
    else:
        products = full_softmax(model, rows, unroll)
    return pretraining_flops(
        model,
        rows,
        unroll,
        distinct_words=len(batch.words),
        positions_per_word=positions_per_word(model, batch.words),
        softmax=products,
    )


def adaptive_softmax(model: ModelConfig, softmax: AdaptiveSoftmax, batch: Batch) -> list[Product]:
    """The head on all targets, each cluster on its own."""
    targets = torch.cat([batch.forward.targets, batch.backward.targets])
    depths = torch.bucketize(targets, torch.tensor(softmax.bounds[1:-1]), right=True)
    products = [Product(len(targets), model.token_size, len(softmax.head.bias))]
    for depth, cluster in enumerate(softmax.clusters, start=1):
        count = int((depths == depth).sum())
        words, size = cluster.softmax.weight.shape
        products += [Product(count, model.token_size, size), Product(count, size, words)]
    return products


def positions_per_word(model: ModelConfig, words: torch.Tensor) -> float:
    """Characters convolved of an average word, in the encoder's groups of like length."""
    assert isinstance(model.encoder, CharacterEncoderConfig)
    lengths = character_lengths(words).sort().values
    longest = model.encoder.max_characters
    positions = [
        len(group) * min(longest, int(group.max()) + model.encoder.max_width)
        for group in torch.split(lengths, WORDS_PER_GROUP)
    ]
    return sum(positions) / len(words)


def average(flops: list[StepFlops]) -> StepFlops:
    """The operations of an average step."""
    parts = zip(*((step.encoder, step.lstm, step.softmax) for step in flops), strict=True)
    return StepFlops(*(round(sum(part) / len(flops)) for part in parts))


def measure(cases: list[Case]) -> tuple[dict[str, float], float]:
    """The best seconds of a step of each case, taken in turn, and the peak beside them."""
    seconds: dict[str, float] = {}
    peak = 0.0
    for turn in range(TURNS + 1):
        for case in cases:
            for number in range(STEPS if case is not cases[0] or turn else 1):
                started = time.perf_counter()
                case.step(number)
                taken = time.perf_counter() - started
                if turn:  # the first turn warms up
                    seconds[case.name] = min(taken, seconds.get(case.name, taken))
        peak = max(peak, float32_peak())
    return seconds, peak


def print_table(cases: list[Case], seconds: dict[str, float], peak: float) -> None:
    """A row for each case."""
    words = PAPER["rows"] * PAPER["unroll"]
    plain = seconds[cases[0].name]
    print("| | words/s | times plain | GFLOP a step (encoder + LSTM + softmax) | share of peak |")
    print("|---|---|---|---|---|")
    for case in cases:
        taken, flops = seconds[case.name], case.flops
        parts = " + ".join(
            f"{part / 1e9:.0f}" for part in (flops.encoder, flops.lstm, flops.softmax)
        )
        print(
            f"| {case.name} | {words / taken:,.0f} | {plain / taken:.1f} | {parts} "
            f"| {flops.total / taken / peak:.0%} |"
        )
    note = "has" if has_bfloat16(torch.device("cpu")) else "has no"
    print(f"\nfloat32 throughout: peak {peak / 1e9:.0f} GFLOP/s; this CPU {note} bfloat16.")


if __name__ == "__main__":
    main()
