"""The README of a trained model: what it is, what it read, how it was trained."""

from __future__ import annotations

from elmokit.formats.checkpoints import Checkpoint
from elmokit.formats.native import SavedModel, model_card
from elmokit.prediction import Perplexity
from elmokit.pretraining.config import PretrainConfig, TrainingConfig


def training_card(
    saved: SavedModel,
    config: PretrainConfig,
    checkpoint: Checkpoint,
    perplexity: Perplexity | None,
) -> str:
    """The model's own card, followed by its history."""
    progress = checkpoint.values["progress"]
    training = config.training
    rows = {
        "steps": f"{checkpoint.step:,}",
        "words read": f"{progress['words']:,}",
        "hours": f"{progress['seconds'] / 3600:,.2f}",
        "optimiser": f"{training.optimiser}, learning rate {training.learning_rate:g}",
        "batch": _batch(training),
        "loss": _loss(config),
        "dropout": f"{training.dropout:g}",
        "held-out text": "none" if perplexity is None else perplexity.describe(),
    }
    table = "\n".join(f"| {name} | {value} |" for name, value in rows.items())
    return f"{model_card(saved)}\n## Training\n\n| | |\n|---|---|\n{table}\n"


def _batch(training: TrainingConfig) -> str:
    if training.mode == "sentence":
        return f"{training.rows} sentences"
    return f"{training.rows} streams of {training.unroll} words"


def _loss(config: PretrainConfig) -> str:
    if config.training.samples:
        return f"sampled softmax, {config.training.samples:,} candidates"
    return "adaptive softmax" if config.model.get("softmax_cutoffs") else "full softmax"
