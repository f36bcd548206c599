"""Held-out perplexity of an n-gram model of the text and the vocabulary of a pretraining run.

    python -m benchmarks.ngram_baseline --run runs/english-small.toml --orders 3,5

Modified Kneser-Ney (`benchmarks/kneser_ney.py`) in both directions, measured as
`LanguageModel.perplexity` measures a biLM in state zero: of each word and of one marker for each
sentence, from the words of the sentence alone. A word outside the vocabulary is predicted as
`<UNK>`, and read as that too, where a biLM reads its characters. The text is prepared as by
`elmo pretrain`, or found prepared.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Sequence
from dataclasses import astuple
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.kneser_ney import KneserNey, Row
from benchmarks.machine import command_line, heading, one_line_errors
from elmokit.inference.language_model import target_id
from elmokit.inference.predictions import PerplexitySums
from elmokit.io.text_files import find_files
from elmokit.jobs.progress import Observer
from elmokit.pretraining.config import CorpusConfig, PretrainConfig, read_run
from elmokit.pretraining.prepared import BORDER, PreparedCorpus
from elmokit.pretraining.run import choose_vocabulary, read_corpus
from elmokit.system import peak_memory
from elmokit.text.tokenizer import read_sentences
from elmokit.text.vocabulary import BEGIN, END, Vocabulary


class HeldOut(NamedTuple):
    """A text to measure on."""

    name: str
    row: Row  # (tokens,) as in kneser_ney
    unknown: int


@one_line_errors()
def main(arguments: Sequence[str] | None = None) -> None:
    """Train the models and print the table."""
    options = parse(arguments)
    measure(read_run(options.run, settings_of(options)), options.orders)
    print("\n" + command_line("benchmarks.ngram_baseline", arguments))


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", required=True, help="the TOML file of a run")
    parser.add_argument("--train", nargs="+", help="other text to train on than the run's")
    parser.add_argument("--valid", action="append", help="other held-out text; may be repeated")
    parser.add_argument("--vocabulary", help="a file of words, instead of counting the text")
    parser.add_argument("--orders", type=parse_orders, default="5", help="such as 3,5")
    return parser.parse_args(arguments)


def parse_orders(text: str) -> list[int]:
    """Orders of models, separated by commas."""
    return [int(order) for order in text.split(",")]


def settings_of(options: argparse.Namespace) -> dict[str, object]:
    """What takes the place of the run's own settings."""
    given = {
        "corpus.train": options.train,
        "corpus.valid": options.valid,
        "corpus.vocabulary": options.vocabulary,
    }
    return {name: value for name, value in given.items() if value is not None}


def measure(run: PretrainConfig, orders: list[int]) -> None:
    """Read the text, and print what a model of each order makes of it."""
    corpus = read_corpus(run.corpus, None, Observer())
    vocabulary = choose_vocabulary(run, corpus, None)
    texts = list(read_held_out(run.corpus, vocabulary))
    row, outcomes = corpus_row(corpus, vocabulary), int(outcome_ids(vocabulary).max()) + 1
    print(
        f"Text: {corpus.words_in_all:,} words in {corpus.sentences:,} sentences; vocabulary: "
        f"{len(vocabulary):,}; every sentence starts from its border alone (state zero).\n"
    )
    names = ("order", "forward", "backward", "mean", "targets", "unknown")
    print(heading("held-out text", *names))
    started = time.perf_counter()
    for order in orders:
        results = perplexity_sums(row, texts, outcomes, order)
        for text, sums in zip(texts, results, strict=True):
            print_result(text.name, order, sums)
        if len(texts) > 1:
            print_result("all of it", order, together(results))
    seconds = time.perf_counter() - started
    memory = (peak_memory() or 0) / 1e9
    print(f"\n{seconds:,.0f} s for {2 * len(orders)} models, {memory:.1f} GB at most")


def read_held_out(corpus: CorpusConfig, vocabulary: Vocabulary) -> Iterable[HeldOut]:
    """The held-out files of a run, one by one."""
    settings = corpus.text
    for path in find_files(corpus.valid):
        yield held_out(path.name, read_sentences([path], settings), vocabulary)


def held_out(name: str, sentences: Iterable[Sequence[str]], vocabulary: Vocabulary) -> HeldOut:
    """Sentences as a row of ids."""
    ids = ([-1, *(target_id(vocabulary, word) for word in words)] for words in sentences)
    targets = np.fromiter(chain(chain.from_iterable(ids), [-1]), np.int32)
    unknown = 0 if vocabulary.unknown_id is None else int((targets == vocabulary.unknown_id).sum())
    return HeldOut(name, outcome_ids(vocabulary)[targets], unknown)


def corpus_row(corpus: PreparedCorpus, vocabulary: Vocabulary) -> Row:
    """A prepared corpus as a row of ids."""
    return outcome_ids(vocabulary)[corpus.target_ids(vocabulary)][corpus.tokens]


def outcome_ids(vocabulary: Vocabulary) -> NDArray[np.int32]:
    """The n-gram model's ids of a vocabulary's words (words + 1,); the last is the border's.

    Both markers are the border: which of them it is depends on the direction.
    """
    is_word = np.array([word not in (BEGIN, END) for word in vocabulary.words] + [False])
    return np.where(is_word, np.cumsum(is_word), BORDER).astype(np.int32)


def perplexity_sums(
    row: Row, texts: Sequence[HeldOut], outcomes: int, order: int
) -> list[PerplexitySums]:
    """What models of both directions make of each text."""
    forward = log_likelihoods(row, [text.row for text in texts], outcomes, order)
    backward = log_likelihoods(row[::-1], [text.row[::-1] for text in texts], outcomes, order)
    return [
        PerplexitySums(
            forward=ahead,
            backward=back,
            sentences=int((text.row == BORDER).sum()) - 1,
            words=int((text.row != BORDER).sum()),
            unknown=text.unknown,
        )
        for text, ahead, back in zip(texts, forward, backward, strict=True)
    ]


def log_likelihoods(row: Row, texts: Sequence[Row], outcomes: int, order: int) -> list[float]:
    """Natural log probability of each text, of a model that is forgotten afterwards."""
    model = KneserNey.train(row, outcomes, order)
    return [float(model.log_probabilities(text).sum()) for text in texts]


def together(results: Iterable[PerplexitySums]) -> PerplexitySums:
    """Several texts as one."""
    return PerplexitySums(*map(sum, zip(*map(astuple, results), strict=True)))


def print_result(name: str, order: int, sums: PerplexitySums) -> None:
    """One row of the table."""
    result = sums.perplexity("zero")
    print(
        f"| {name} | {order} | {result.forward:.2f} | {result.backward:.2f} | {result.mean:.2f} "
        f"| {result.targets:,} | {result.unknown / result.words:.2%} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
