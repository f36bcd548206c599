"""A trained model, trained on for a domain: the paper's one epoch on the text of a task."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import Tensor

from elmokit.config import WordEncoderConfig
from elmokit.errors import InputError
from elmokit.formats.native import SavedModel, read_model
from elmokit.model.bilm import BiLM
from elmokit.prediction import Perplexity
from elmokit.pretraining.config import (
    CorpusConfig,
    PretrainConfig,
    TrainingConfig,
    apply_settings,
)
from elmokit.pretraining.counting import build_vocabulary
from elmokit.pretraining.distributed import Group, will_lead
from elmokit.pretraining.prepared import PreparedCorpus
from elmokit.pretraining.pretrain import HeldOut, Result, pretrain, read_corpus
from elmokit.pretraining.report import Report
from elmokit.text.vocabulary import Vocabulary
from elmokit.token_vectors import check_device

RECIPE: dict[str, Any] = {
    "rows": 32,
    "epochs": 1,
    "optimiser": "adamw",
    "learning_rate": 0.0005,
    "schedule": "linear",
    "clip": 1.0,
    "scale_loss_by_unroll": False,
    "dropout": 0.1,
}
SENTENCES_MEASURED = 10_000
"""Of the training text, where no held-out text is given."""
SENTENCES_PER_ROW = 8
"""A small text is read in fewer rows: what matters is the number of steps."""


class Finetuned(NamedTuple):
    """What fine-tuning has come to."""

    result: Result
    before: Perplexity
    after: Perplexity
    held_out: bool  # else both are of the training text itself

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {
            **self.result.to_dict(),
            "before": self.before.to_dict(),
            "after": self.after.to_dict(),
            "held_out": self.held_out,
        }

    def describe(self) -> str:
        """A few lines."""
        text = "held-out text" if self.held_out else "training text itself (its beginning)"
        return (
            f"perplexity of the {text}:\n"
            f"  before  {self.before.describe()}\n"
            f"  after   {self.after.describe()}\n"
            f"the model is in {self.result.model}"
        )


def finetuning_run(
    saved: SavedModel,
    train: tuple[str, ...],
    output: str,
    *,
    valid: tuple[str, ...] = (),
    settings: Mapping[str, Any] | None = None,
) -> PretrainConfig:
    """The run that trains a model on; `settings`, by dotted name, change the recipe."""
    model = saved.config.to_dict()
    model.pop("softmax_words")
    values: dict[str, Any] = {
        "corpus": {"train": train, "valid": valid, "tokenizer": saved.tokenizer},
        "model": model,
        "training": dict(RECIPE),
        "output": output,
    }
    apply_settings(values, settings or {})
    return PretrainConfig.from_dict(values)


def finetune(
    saved: SavedModel,
    config: PretrainConfig,
    *,
    new_words: int = 0,
    resume: bool = False,
    device: str | torch.device | None = None,
    processes: int | None = None,
    report: Report | None = None,
) -> Finetuned | None:
    """Train a model on, and measure what it has gained; the leading process tells.

    Args:
        saved: The model, with its softmax and vocabulary.
        config: The run, see `finetuning_run`.
        new_words: How many words to add to the vocabulary: the text's most frequent new ones.
        resume: Go on from the newest checkpoint of the run.
        device: Where to compute.
        processes: How many prepare the text.
        report: Who is told how far it is.
    """
    if saved.config.softmax_words is None or saved.vocabulary is None:
        raise InputError(
            "this model has no softmax or no vocabulary, so it cannot be trained on; "
            "use a model folder of elmo pretrain"
        )
    report = report if report is not None and will_lead() else Report()
    corpus = read_corpus(config.corpus.train, config.corpus, processes, Group(), report)
    if new_words:
        saved = with_words(saved, unseen_words(corpus, saved.vocabulary, new_words))
    config = replace(config, training=fitting_rows(config, corpus))
    measured = text_to_measure(config.corpus, saved)
    before = perplexity_of(saved, measured, device) if will_lead() else None
    if before is not None:
        report.note(f"before: {before.describe()}")
    result = pretrain(
        config,
        initial=saved,
        resume=resume,
        device=device,
        processes=processes,
        report=report,
    )
    if result is None or before is None:
        return None
    after = result.perplexity or perplexity_of(read_model(result.model), measured, device)
    return Finetuned(result, before, after, bool(config.corpus.valid))


def text_to_measure(corpus: CorpusConfig, saved: SavedModel) -> HeldOut:
    """The held-out text; in its absence, the beginning of the training text."""
    assert saved.vocabulary is not None  # checked before
    files = corpus.valid or corpus.train
    most = None if corpus.valid else SENTENCES_MEASURED
    held_out = HeldOut.read(replace(corpus, valid=files), saved.vocabulary, most)
    assert held_out is not None  # there are files
    return held_out


def perplexity_of(
    saved: SavedModel, text: HeldOut, device: str | torch.device | None
) -> Perplexity:
    """What a model makes of a text."""
    bilm = BiLM.from_weights(saved.config, saved.weights)
    return text.perplexity(bilm.to(check_device(device or "cpu")))


def fitting_rows(config: PretrainConfig, corpus: PreparedCorpus) -> TrainingConfig:
    """Fewer rows where the text is too short for as many, in steps that can be shared."""
    training = config.training
    unit = training.accumulate * int(os.environ.get("WORLD_SIZE", 1))
    targets = corpus.words_in_all + corpus.sentences
    fitting = min(corpus.sentences // SENTENCES_PER_ROW, targets // (2 * training.unroll))
    rows = max(unit, min(training.rows, fitting) // unit * unit)
    return replace(training, rows=rows)


def unseen_words(corpus: PreparedCorpus, vocabulary: Vocabulary, most: int) -> dict[str, int]:
    """The most frequent words of a text that a vocabulary does not have, with their counts."""
    found = build_vocabulary(corpus)
    assert found.counts is not None
    counted = zip(found.words, found.counts, strict=True)
    return dict(islice((pair for pair in counted if pair[0] not in vocabulary), most))


def with_words(saved: SavedModel, words: Mapping[str, int]) -> SavedModel:
    """The same model with more words to predict.

    Each starts as `<UNK>` does, or with an adaptive softmax as an average word of its last cluster.
    """
    assert saved.vocabulary is not None
    counts = saved.vocabulary.counts
    vocabulary = Vocabulary(
        [*saved.vocabulary.words, *words], None if counts is None else [*counts, *words.values()]
    )
    unknown = vocabulary.unknown_id
    if unknown is None:
        raise InputError("the model's vocabulary has no <UNK>, so it cannot be extended")
    weights, encoder = dict(saved.weights), saved.config.encoder
    # The words of an adaptive softmax go to its last cluster, which is of the rarest ones.
    clusters = len(saved.config.softmax_cutoffs)
    name = f"softmax.clusters.{clusters - 1}.softmax" if clusters else "softmax"
    for part in ("weight", "bias"):
        rows = weights[f"{name}.{part}"]
        start = rows.mean(0, keepdim=True) if clusters else rows[unknown, None]
        weights[f"{name}.{part}"] = with_rows(rows, start, len(words))
    if isinstance(encoder, WordEncoderConfig):
        table = weights["encoder.words.weight"]
        weights["encoder.words.weight"] = with_rows(table, table[unknown + 1, None], len(words))
        encoder = replace(encoder, words=len(vocabulary))
    config = replace(saved.config, softmax_words=len(vocabulary), encoder=encoder)
    return saved._replace(config=config, weights=weights, vocabulary=vocabulary)


def with_rows(rows: Tensor, row: Tensor, count: int) -> Tensor:
    """A tensor with the same row so many times at its end."""
    return torch.cat([rows, row.expand(count, *row.shape[1:])])
