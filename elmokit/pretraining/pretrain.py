"""A whole run: text to a trained model folder."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch

from elmokit.config import CharacterEncoderConfig, EncoderConfig
from elmokit.errors import ElmoWarning, FormatError, InputError
from elmokit.formats.checkpoints import (
    Checkpoint,
    Checkpoints,
    fingerprint,
)
from elmokit.formats.files import claim
from elmokit.formats.metrics_log import METRICS, read_metrics
from elmokit.formats.models import MODEL_OF_RUN
from elmokit.formats.native import SavedModel, is_native, write_model
from elmokit.formats.resuming import interrupted, newest_of_run
from elmokit.language_model import LanguageModel, check_vocabulary
from elmokit.model.bilm import BiLM
from elmokit.prediction import Perplexity
from elmokit.pretraining.batches import Reader, SentenceReader, StreamReader, Words
from elmokit.pretraining.card import training_card
from elmokit.pretraining.config import MAY_CHANGE, CorpusConfig, PretrainConfig
from elmokit.pretraining.counting import build_vocabulary, check_falling
from elmokit.pretraining.curves import draw_curves
from elmokit.pretraining.distributed import Group, join_group
from elmokit.pretraining.preparation import prepare_corpus
from elmokit.pretraining.prepared import PreparedCorpus
from elmokit.pretraining.report import Report
from elmokit.pretraining.snapshots import final_weights
from elmokit.pretraining.training import Trainer
from elmokit.pretraining.word_vectors import start_from_vectors
from elmokit.text.corpus import CorpusSettings, find_files, read_sentences
from elmokit.text.vocabulary import Vocabulary, read_vocabulary

CURVES = "curves.png"
LOCK = ".lock"
FACTS = {
    "corpus": "another training text",
    "vocabulary": "another vocabulary",
    "held_out": "another held-out text",
}
"""What a resumed run must share with its checkpoint, besides the settings."""


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
        processes: How many prepare the text; None for as many as there are processors.
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
        words = Words.of(corpus, vocabulary, bilm.config.encoder)
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
            facts_of(config, corpus, vocabulary, held_out),
            report,
        )
        with claim(folder / LOCK) if group.leads else nullcontext():
            if resume:
                go_on(trainer)
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
            f"{folder}: already holds a run; go on with --resume, or choose another --output"
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
        tokenizer=corpus.tokenizer,
        one_sentence_per_line=corpus.one_sentence_per_line,
        errors=corpus.errors,
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
    agreed = fingerprint({**trainer.facts, "step": trainer.progress.step})
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


def make_reader(words: Words, config: PretrainConfig, group: Group) -> Reader:
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
        settings = CorpusSettings(corpus.tokenizer, corpus.one_sentence_per_line, corpus.errors)
        sentences = list(islice(read_sentences(find_files(corpus.valid), settings), most))
        if not sentences:
            raise InputError(f"{', '.join(corpus.valid)}: the held-out text has no words")
        return cls(sentences, vocabulary, corpus.tokenizer)

    def perplexity(self, bilm: BiLM) -> Perplexity:
        """Full-softmax perplexity of the held-out text, each sentence read from zeros."""
        model = LanguageModel(bilm, self.vocabulary, tokenizer=self.tokenizer)
        return model.perplexity(self.sentences)


def facts_of(
    config: PretrainConfig,
    corpus: PreparedCorpus,
    vocabulary: Vocabulary,
    held_out: HeldOut | None,
) -> dict[str, Any]:
    """What a resumed run must have in common with the one that it resumes."""
    settings = config.to_dict()
    # What counts is the text, wherever it lies.
    for name in ("train", "valid", "vocabulary"):
        settings["corpus"].pop(name)
    settings.pop("output")
    return {
        "settings": settings,
        "corpus": corpus.key,
        "vocabulary": fingerprint({"words": vocabulary.words}),
        "held_out": fingerprint({"sentences": held_out.sentences if held_out else []}),
    }


def go_on(trainer: Trainer) -> None:
    """Restore the newest checkpoint, if it is of this run."""
    checkpoint = newest_of_run(trainer.checkpoints, trainer.facts, FACTS, MAY_CHANGE)
    trainer.restore(checkpoint)
    trainer.tell(f"resumed at step {checkpoint.step:,}")


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
        trainer.tell(f"no curves are drawn: {error}")
