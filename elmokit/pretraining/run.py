"""A whole run: text to a trained model folder."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from elmokit.config import CharacterEncoderConfig, EncoderConfig, WordEncoderConfig
from elmokit.errors import ElmoWarning, FormatError, InputError
from elmokit.formats.find import MODEL_OF_RUN
from elmokit.formats.native import SavedModel, is_native, model_card, read_model, write_model
from elmokit.inference.language_model import LanguageModel, check_vocabulary
from elmokit.inference.predictions import Perplexity
from elmokit.inference.token_vectors import check_device
from elmokit.io.text_files import find_files
from elmokit.jobs.checkpoints import (
    Checkpoint,
    Checkpoints,
    fingerprint,
    interrupted,
    newest_of_run,
)
from elmokit.jobs.metrics import METRICS, draw_curves, read_metrics
from elmokit.jobs.run_folder import RunFolder
from elmokit.model.bilm import BiLM
from elmokit.model.word_encoder import WordEncoder
from elmokit.pretraining.batches import BatchReader, SentenceReader, StreamReader, WordReader
from elmokit.pretraining.config import (
    MAY_CHANGE,
    CorpusConfig,
    PretrainConfig,
    TrainingConfig,
    apply_settings,
)
from elmokit.pretraining.corpus import prepare_corpus
from elmokit.pretraining.prepared import PreparedCorpus
from elmokit.pretraining.report import Report
from elmokit.pretraining.trainer import Group, Trainer, final_weights, join_group, will_lead
from elmokit.pretraining.vocabulary import build_vocabulary, check_falling
from elmokit.static.files import read_word_vectors
from elmokit.text.tokenizer import read_sentences
from elmokit.text.vocabulary import Vocabulary, read_vocabulary


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


def start_from_vectors(bilm: BiLM, vocabulary: Vocabulary, path: str) -> int:
    """Put the vectors of a text file in the place of random ones; give how many it had."""
    assert isinstance(bilm.encoder, WordEncoder)  # the config was checked
    found = read_word_vectors(path, wanted=set(vocabulary.words))
    size = bilm.config.token_size
    if not found.words:
        raise InputError(f"{path}: has none of the vocabulary's {len(vocabulary):,} words")
    if found.vectors.shape[1] != size:
        raise InputError(
            f"{path}: its vectors have {found.vectors.shape[1]} numbers and the model's {size}; "
            "set model.token_size to fit"
        )
    # Row 0 of the table is padding.
    rows = torch.tensor([vocabulary.id_of(word) + 1 for word in found.words])
    with torch.no_grad():
        bilm.encoder.words.weight[rows] = torch.from_numpy(found.vectors)
    return len(found.words)


CURVES = "curves.png"


class Result(NamedTuple):
    """What a run has come to."""

    model: Path  # a model folder
    steps: int
    words: int
    seconds: float
    perplexity: Perplexity | None  # held out, of the model that was kept

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        perplexity = None if self.perplexity is None else self.perplexity.to_dict()
        return {**self._asdict(), "model": str(self.model), "perplexity": perplexity}

    def describe(self) -> str:
        """A line or two."""
        lines = [
            f"{self.words:,} words in {self.steps:,} steps and {self.seconds / 60:,.1f} minutes",
            f"the model is in {self.model}",
        ]
        if self.perplexity is not None:
            lines.insert(0, f"held out: {self.perplexity.describe()}")
        return "\n".join(lines)


def pretrain(
    config: PretrainConfig,
    *,
    resume: bool = False,
    initial: SavedModel | None = None,
    device: str | torch.device | None = None,
    processes: int | None = None,
    report: Report | None = None,
) -> Result | None:
    """Train a bidirectional language model, and write it as a model folder.

    Under `torchrun` all processes take part; only the leading one gives a result.

    Args:
        config: The run; `config.output` is its folder.
        resume: Go on from the newest checkpoint there.
        initial: A model to start from, with its vocabulary; None for random weights.
        device: Where to compute; under `torchrun`, each process's own device if None.
        processes: How many prepare the text; None for as many as there are CPUs.
        report: Who is told how far it is.
    """
    if config.output is None:
        raise InputError("the run has no folder; name one: output in the TOML file, or --output")
    folder = Path(config.output)
    check_folder(folder, resume)
    report = report or Report()
    with join_group(device) as group, torch.random.fork_rng(devices=[]):
        corpus = read_corpus(config.corpus.train, config.corpus, processes, group, report)
        vocabulary = choose_vocabulary(config, corpus, initial)
        bilm = make_model(config, vocabulary, initial).to(group.device)
        check_vocabulary(bilm.config, vocabulary)  # what is trained must be readable afterwards
        words = WordReader.of(corpus, vocabulary, bilm.config.encoder)
        if group.leads:
            note_cut_words(corpus, bilm.config.encoder, report)
        held_out = HeldOut.read(config.corpus, vocabulary)
        trainer = Trainer(
            bilm,
            make_reader(words, config, group),
            config,
            folder,
            group,
            held_out.perplexity if held_out else None,
            identity_of(config, corpus, vocabulary, held_out),
            report,
        )
        with RunFolder(folder).claimed() if group.leads else nullcontext():
            if resume:
                resume_from_checkpoint(trainer)
            elif group.leads:
                # A run that was killed before its first checkpoint may have left lines.
                trainer.metrics.resume(0)
            check_agreement(trainer)
            return run(trainer, vocabulary, held_out, folder)


def run(
    trainer: Trainer, vocabulary: Vocabulary, held_out: HeldOut | None, folder: Path
) -> Result | None:
    """Train and write the model; an interruption says what is saved."""
    try:
        trainer.train()
        return finish(trainer, vocabulary, held_out, folder)
    except KeyboardInterrupt:
        raise interrupted(trainer.checkpoints) from None


def check_folder(folder: Path, resume: bool) -> None:
    """Refuse to mix a new run with an old one, and to resume what is not there."""
    there = bool(Checkpoints(folder / "checkpoints").steps())
    if there and not resume:
        raise InputError(
            f"{folder}: already holds a run; continue with --resume, or choose another --output"
        )
    if resume and not there:
        raise InputError(f"{folder}: holds no checkpoint to resume from; start without --resume")
    if not resume and (is_native(folder) or (folder / MODEL_OF_RUN).exists()):
        raise InputError(f"{folder}: already holds a model; choose another --output")


def read_corpus(
    patterns: Sequence[str],
    corpus: CorpusConfig,
    processes: int | None,
    group: Group,
    report: Report,
) -> PreparedCorpus:
    """Prepare text, or find it prepared."""
    if not patterns:
        raise InputError("there is no text to train on; name some: corpus.train, or --train")
    prepared = prepare_corpus(
        find_files(patterns),
        corpus.text,
        processes=processes,
        progress=report.preparing if group.leads else None,
    )
    if group.leads:
        report.note(
            f"text: {prepared.words_in_all:,} words, {prepared.types:,} different ones, "
            f"in {prepared.sentences:,} sentences"
        )
    return prepared


def check_agreement(trainer: Trainer) -> None:
    """Refuse to train another run than the leading process does."""
    agreed = fingerprint({**trainer.identity, "step": trainer.progress.step})
    digits = float(int(agreed[:12], 16))  # as many as a float holds
    if trainer.group.any(trainer.group.from_leader(digits) != digits):
        raise InputError(
            "the processes differ in settings, text or checkpoint; give all machines the same "
            "files, and an output folder that all of them see"
        )


def note_cut_words(corpus: PreparedCorpus, encoder: EncoderConfig, report: Report) -> None:
    """Tell of words that are longer than the model reads."""
    if not isinstance(encoder, CharacterEncoderConfig):
        return
    most = encoder.max_characters - 2
    if cut := corpus.words_longer_than(most):
        report.note(
            f"{cut:,} of {corpus.words_in_all:,} words have more than {most} bytes and are cut; "
            "model.encoder.max_characters reads more"
        )


def choose_vocabulary(
    config: PretrainConfig, corpus: PreparedCorpus, initial: SavedModel | None
) -> Vocabulary:
    """The words to predict: a model's own, those of a file, or the text's most frequent ones."""
    if initial is not None:
        if initial.vocabulary is None:
            raise InputError("the model to start from has no vocabulary, so it cannot be trained")
        return initial.vocabulary
    name = config.corpus.vocabulary
    if name is None:
        return build_vocabulary(
            corpus, max_size=config.corpus.vocabulary_size, min_count=config.corpus.min_count
        )
    vocabulary = read_vocabulary(name)
    if config.needs_sorted_words:
        check_falling(vocabulary, corpus, name)
    return vocabulary


def make_model(config: PretrainConfig, vocabulary: Vocabulary, initial: SavedModel | None) -> BiLM:
    """A model to train: random by the run's seed, or a copy of the initial one."""
    if initial is not None:
        return copy_of(initial, config)
    torch.manual_seed(config.training.seed)
    bilm = BiLM(config.model_config(len(vocabulary)))
    if config.training.unigram_bias and bilm.softmax is not None:
        bilm.softmax.expect(unigram_probabilities(vocabulary))
    if config.training.word_vectors is not None:
        start_from_vectors(bilm, vocabulary, config.training.word_vectors)
    if config.training.freeze_word_vectors:
        bilm.encoder.requires_grad_(False)
    return bilm


def copy_of(initial: SavedModel, config: PretrainConfig) -> BiLM:
    """The model to start from, in memory of its own."""
    for name in ("unigram_bias", "word_vectors"):
        if getattr(config.training, name):
            raise InputError(f"training.{name} is for a new model, not for one that is trained on")
    weights = {name: value.clone() for name, value in initial.weights.items()}
    bilm = BiLM.from_weights(initial.config, weights).requires_grad_()
    if config.training.freeze_word_vectors:
        bilm.encoder.requires_grad_(False)
    return bilm


def unigram_probabilities(vocabulary: Vocabulary) -> torch.Tensor:
    """How frequent each word is, (words,); what never occurs counts as half an occurrence."""
    if vocabulary.counts is None:
        raise InputError(
            "training.unigram_bias needs counts, and the vocabulary has none; "
            "build one: elmo vocabulary"
        )
    counts = torch.tensor(vocabulary.counts, dtype=torch.float64).clamp_min(0.5)
    return (counts / counts.sum()).float()


def make_reader(words: WordReader, config: PretrainConfig, group: Group) -> BatchReader:
    """Batches of this process's rows."""
    kind = StreamReader if config.training.mode == "stream" else SentenceReader
    return kind(words, config, (group.rank, group.size))


class HeldOut(NamedTuple):
    """Text that is not trained on, and how it is read."""

    sentences: list[list[str]]
    vocabulary: Vocabulary
    tokenizer: str

    @classmethod
    def read(
        cls, corpus: CorpusConfig, vocabulary: Vocabulary, most: int | None = None
    ) -> HeldOut | None:
        """Read the held-out files, if any; no more than so many sentences."""
        if not corpus.valid:
            return None
        sentences = list(islice(read_sentences(find_files(corpus.valid), corpus.text), most))
        if not sentences:
            raise InputError(f"{', '.join(corpus.valid)}: the held-out text has no words")
        return cls(sentences, vocabulary, corpus.tokenizer)

    def perplexity(self, bilm: BiLM) -> Perplexity:
        """Full-softmax perplexity of the held-out text, each sentence read from zeros."""
        model = LanguageModel(bilm, self.vocabulary, tokenizer=self.tokenizer)
        return model.perplexity(self.sentences)


def identity_of(
    config: PretrainConfig,
    corpus: PreparedCorpus,
    vocabulary: Vocabulary,
    held_out: HeldOut | None,
) -> dict[str, Any]:
    """What a resumed run must have in common with the one that it resumes."""
    settings = config.to_dict()
    # What counts is the text, wherever it lies and however it is written.
    for name in ("train", "valid", "vocabulary", "encoding"):
        settings["corpus"].pop(name)
    settings.pop("output")
    return {
        "settings": settings,
        "corpus": corpus.key,
        "vocabulary": fingerprint({"words": vocabulary.words}),
        "held_out": fingerprint({"sentences": held_out.sentences if held_out else []}),
    }


def resume_from_checkpoint(trainer: Trainer) -> None:
    """Restore the newest checkpoint, if it is of this run."""
    checkpoint = newest_of_run(trainer.checkpoints, trainer.identity, MAY_CHANGE)
    trainer.restore(checkpoint)
    trainer.note(f"resumed at step {checkpoint.step:,}")


def finish(
    trainer: Trainer, vocabulary: Vocabulary, held_out: HeldOut | None, folder: Path
) -> Result | None:
    """Write the best model, or the last one where there is no held-out text."""
    if not trainer.group.leads:
        return None
    progress = trainer.progress
    result = Result(folder / MODEL_OF_RUN, progress.step, progress.words, progress.seconds, None)
    checkpoint = best_or_newest(trainer.checkpoints)
    weights = final_weights(checkpoint, averaged=trainer.average is not None)
    bilm = BiLM.from_weights(trainer.bilm.config, weights).to(trainer.group.device)
    if held_out is not None:
        # Measured by another process, if this one has resumed the run behind its best step.
        known = trainer.measured.get(checkpoint.step)
        result = result._replace(perplexity=known or held_out.perplexity(bilm))
    saved = SavedModel(bilm.config, bilm.state_dict(), trainer.config.corpus.tokenizer, vocabulary)
    card = training_card(saved, trainer.config, checkpoint, result.perplexity)
    write_model(result.model, saved._replace(card=card), force=True)
    draw(folder, trainer)
    return result


def best_or_newest(checkpoints: Checkpoints) -> Checkpoint:
    """The checkpoint that becomes the model; a damaged best one is no reason to lose the rest."""
    try:
        checkpoint = checkpoints.best()
    except FormatError as error:
        warnings.warn(f"{error}; the newest is used instead", ElmoWarning, stacklevel=2)
        checkpoint = None
    checkpoint = checkpoint or checkpoints.newest()
    assert checkpoint is not None  # training ends with one
    return checkpoint


def draw(folder: Path, trainer: Trainer) -> None:
    """Draw the curves of the run, where the library for it is installed."""
    try:
        draw_curves(read_metrics(folder / METRICS), folder / CURVES, title=folder.name)
    except InputError as error:
        trainer.note(f"no curves are drawn: {error}")


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
