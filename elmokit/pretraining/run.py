"""Pretraining and fine-tuning runs: text to a trained model folder."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from elmokit.config import (
    CharacterEncoderConfig,
    EncoderConfig,
    LexiconEncoderConfig,
    WordEncoderConfig,
)
from elmokit.errors import ElmoWarning, FormatError, InputError
from elmokit.formats.find import MODEL_OF_RUN
from elmokit.formats.native import SavedModel, is_native, model_card, read_model, write_model
from elmokit.inference.language_model import check_vocabulary
from elmokit.inference.predictions import Perplexity
from elmokit.io.files import disk_errors, remove_folder
from elmokit.io.text_files import find_files
from elmokit.jobs.checkpoints import (
    Checkpoint,
    Checkpoints,
    fingerprint,
    interrupted,
    named,
    newest_of_run,
)
from elmokit.jobs.metrics import METRICS, TENSORBOARD, draw_curves, read_metrics
from elmokit.jobs.progress import Observer
from elmokit.jobs.run_folder import RunFolder, already_holds
from elmokit.model.bilm import BiLM
from elmokit.model.word_encoder import WordEncoder
from elmokit.pretraining.batches import SentenceReader, StreamReader, WordReader
from elmokit.pretraining.config import (
    MAY_CHANGE,
    CorpusConfig,
    PretrainConfig,
    TrainingConfig,
    apply_settings,
)
from elmokit.pretraining.corpus import build_vocabulary, check_falling, prepare_corpus
from elmokit.pretraining.objective import SECOND_WORD
from elmokit.pretraining.prepared import PreparedCorpus
from elmokit.pretraining.trainer import AVERAGE, MODEL, Group, HeldOut, Trainer, join_group
from elmokit.static.files import read_word_vectors
from elmokit.system import counted
from elmokit.text.vocabulary import Vocabulary, read_vocabulary


def training_card(
    saved: SavedModel,
    config: PretrainConfig,
    checkpoint: Checkpoint,
    perplexity: Perplexity | None,
    example: Sequence[str],
) -> str:
    """The model's own card, with a sentence of its text, followed by its history."""
    progress = checkpoint.values["progress"]
    training = config.training
    batch = f"{training.rows} streams of {training.unroll} words"
    if training.mode == "sentence":
        batch = f"{training.rows} sentences"
    loss = "adaptive softmax" if config.model.get("softmax_cutoffs") else "full softmax"
    if training.samples:
        loss = f"sampled softmax, {training.samples:,} candidates"
    rows = {
        "steps": f"{checkpoint.step:,}",
        "words read": f"{progress['words']:,}",
        "hours": f"{progress['seconds'] / 3600:,.2f}",
        "optimiser": f"{training.optimiser}, learning rate {training.learning_rate:g}",
        "batch": batch,
        "loss": loss,
        "dropout": f"{training.dropout:g}",
        "held-out text": "none" if perplexity is None else perplexity.describe(),
    }
    table = "\n".join(f"| {name} | {value} |" for name, value in rows.items())
    return f"{model_card(saved, example)}\n## Training\n\n| | |\n|---|---|\n{table}\n"


def start_from_vectors(bilm: BiLM, vocabulary: Vocabulary, path: str) -> None:
    """Put the vectors of a text file in the place of random ones."""
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


CHECKPOINTS, CURVES = "checkpoints", "curves.png"


class Result(NamedTuple):
    """What a run has come to."""

    model: Path  # a model folder
    steps: int
    words: int
    seconds: float
    perplexity: Perplexity | None  # held out, of the model that was written

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        perplexity = None if self.perplexity is None else self.perplexity.to_dict()
        return {**self._asdict(), "model": str(self.model), "perplexity": perplexity}

    def describe(self) -> str:
        """A line or two."""
        steps = counted(self.steps, "step")
        lines = [
            f"{self.words:,} words in {steps} and {self.seconds / 60:,.1f} minutes",
            f"the model is in {self.model}",
        ]
        if self.perplexity is not None:
            lines.insert(0, f"held out: {self.perplexity.describe()}")
        return "\n".join(lines)


def pretrain(
    config: PretrainConfig,
    *,
    resume: bool = False,
    force: bool = False,
    initial: SavedModel | None = None,
    device: str | torch.device | None = None,
    processes: int | None = None,
    observer: Observer | None = None,
) -> Result | None:
    """Train a bidirectional language model, and write it as a model folder in `config.output`.

    Under `torchrun` all processes take part, each on its own device unless one is given; only the
    leading one gives a result. `initial` is a model to start from, with its vocabulary; without one
    weights are random. `processes` prepare the text, one per CPU if None.
    """
    if config.output is None:
        missing = "the run has no folder; name one: --output, or output in the TOML file"
        text = "" if config.corpus.train else "; and text to train on: --train, or corpus.train"
        raise InputError(missing + text)
    folder = Path(config.output)
    check_folder(folder, resume=resume, force=force)
    with join_group(device) as group, torch.random.fork_rng(devices=[]):
        observer = observer if observer is not None and group.leads else Observer()
        corpus = read_corpus(config.corpus, processes, observer)
        vocabulary = choose_vocabulary(config, corpus, initial)
        bilm = make_model(config, vocabulary, initial).to(group.device)
        check_vocabulary(bilm.config, vocabulary)  # what is trained must be readable afterwards
        trainer = make_trainer(bilm, corpus, vocabulary, config, group, observer)
        with RunFolder(folder).claimed() if group.leads else nullcontext():
            if resume:
                trainer.restore(newest_of_run(trainer.checkpoints, trainer.identity, MAY_CHANGE))
                observer.note(f"resumed at step {trainer.progress.step:,}")
            elif group.leads:
                if force:
                    # Not before everything that may be wrong with the new run has been read.
                    remove_run(folder)
                # A run that was killed before its first checkpoint may have left lines.
                trainer.metrics.resume(0)
            check_agreement(trainer)
            try:
                trainer.train()
                example = corpus.short_sentence()
                return finish(trainer, vocabulary, example) if group.leads else None
            except KeyboardInterrupt:
                raise interrupted(trainer.checkpoints) from None


def make_trainer(
    bilm: BiLM,
    corpus: PreparedCorpus,
    vocabulary: Vocabulary,
    config: PretrainConfig,
    group: Group,
    observer: Observer,
) -> Trainer:
    """The trainer of a model on this process's rows of a text."""
    words = WordReader(corpus, vocabulary, bilm.config.encoder)
    note_cut_words(corpus, bilm.config.encoder, observer)
    held_out = HeldOut.read(config.corpus, vocabulary)
    identity = identity_of(config, corpus, vocabulary, held_out)
    kind = StreamReader if config.training.mode == "stream" else SentenceReader
    reader = kind(words, config, (group.rank, group.size))
    return Trainer(bilm, reader, config, group, held_out, identity, observer)


def check_folder(folder: Path, *, resume: bool, force: bool) -> None:
    """Raise where a new run would be mixed with an old one, or there is none to resume."""
    if resume and force:
        raise InputError("resume continues with a run, and force replaces it; give one of them")
    checkpoints = Checkpoints(folder / CHECKPOINTS)
    saved = bool(checkpoints.steps())
    model = folder / MODEL_OF_RUN
    if resume and not saved:
        raise InputError(f"{folder}: holds no checkpoint to resume from; start without --resume")
    of_a_task = "kind" in checkpoints.settings()  # they have theirs under the same name
    is_other = is_native(folder) or (model.exists() and not is_native(model)) or of_a_task
    if not resume and (is_other or checkpoints.folder.is_file()):
        raise InputError(
            f"{folder}: already holds files that are not of a run; choose another --output"
        )
    if (saved or model.exists()) and not resume and not force:
        raise already_holds(folder)


def remove_run(folder: Path) -> None:
    """Remove what an earlier run wrote, and nothing else; cut short, it can be done again."""
    with disk_errors(folder, "removed"):
        for name in (CHECKPOINTS, MODEL_OF_RUN):
            if (folder / name).exists():
                remove_folder(folder / name)
        for path in (folder / CURVES, *(folder / TENSORBOARD).glob("events.out.tfevents.*")):
            path.unlink(missing_ok=True)


def read_corpus(corpus: CorpusConfig, processes: int | None, observer: Observer) -> PreparedCorpus:
    """Prepare the text to train on, or find it prepared."""
    if not corpus.train:
        raise InputError("there is no text to train on; name some: --train, or corpus.train")
    files = find_files(corpus.train)
    prepared = prepare_corpus(files, corpus.text, processes=processes, observer=observer)
    observer.note(
        f"text: {prepared.words_in_all:,} words, {prepared.types:,} different ones, "
        f"in {counted(prepared.sentences, 'sentence')}"
    )
    return prepared


def check_agreement(trainer: Trainer) -> None:
    """Raise where this process would train another run than the leading one."""
    agreed = fingerprint({**trainer.identity, "step": trainer.progress.step})
    digits = float(int(agreed[:12], 16))  # as many as a float holds
    if trainer.group.any(trainer.group.from_leader(digits) != digits):
        raise InputError(
            "the processes differ in settings, text or checkpoint; give all machines the same "
            "files, and an output folder that all of them see"
        )


def note_cut_words(corpus: PreparedCorpus, encoder: EncoderConfig, observer: Observer) -> None:
    """Tell of words that are longer than the model reads."""
    if not isinstance(encoder, CharacterEncoderConfig):
        return
    most = encoder.max_characters - 2
    if cut := corpus.words_longer_than(most):
        observer.note(
            f"{cut:,} of {corpus.words_in_all:,} words have more than {most} bytes and are cut; "
            "model.encoder.max_characters reads more"
        )


def choose_vocabulary(
    config: PretrainConfig, corpus: PreparedCorpus, initial: SavedModel | None
) -> Vocabulary:
    """The words to predict: a model's own, those of a file, or the text's most frequent ones."""
    if initial is not None:
        return check_vocabulary(initial.config, initial.vocabulary)
    name = config.corpus.vocabulary
    if name is None:
        return build_vocabulary(
            corpus, max_size=config.corpus.vocabulary_size, min_count=config.corpus.min_count
        )
    vocabulary = read_vocabulary(name)
    if config.training.samples or config.model.get("softmax_cutoffs"):
        check_falling(vocabulary, corpus, name)
    return vocabulary


def make_model(config: PretrainConfig, vocabulary: Vocabulary, initial: SavedModel | None) -> BiLM:
    """A model to train: random by the run's seed, or a copy of the initial one."""
    training = config.training
    if initial is not None:
        bilm = copy_of(initial, config)
    else:
        cutoffs = config.model.get("softmax_cutoffs") or (0,)
        if cutoffs[-1] >= len(vocabulary):
            raise InputError(
                f"the text has {counted(len(vocabulary), 'word')} to predict, too few for "
                f"model.softmax_cutoffs {list(cutoffs)}; give more text, or predict them by a full "
                "softmax: --set model.softmax_cutoffs="
            )
        torch.manual_seed(training.seed)
        bilm = BiLM(config.model_config(len(vocabulary)))
        if training.unigram_bias and bilm.softmax is not None:
            bilm.softmax.expect(unigram_probabilities(vocabulary))
        if training.word_vectors is not None:
            start_from_vectors(bilm, vocabulary, training.word_vectors)
    if training.freeze_word_vectors:
        bilm.encoder.requires_grad_(False)
    return bilm


def copy_of(initial: SavedModel, config: PretrainConfig) -> BiLM:
    """The model to start from, in memory of its own."""
    for name in ("unigram_bias", "word_vectors"):
        if getattr(config.training, name):
            raise InputError(f"training.{name} is for a new model, not for one that is trained on")
    weights = {name: value.clone() for name, value in initial.weights.items()}
    return BiLM.from_weights(initial.config, weights).requires_grad_()


def unigram_probabilities(vocabulary: Vocabulary) -> torch.Tensor:
    """How frequent each word is, (words,); what never occurs counts as half an occurrence."""
    if vocabulary.counts is None:
        raise InputError(
            "training.unigram_bias needs counts, and the vocabulary has none; "
            "build one: elmo vocabulary"
        )
    counts = torch.tensor(vocabulary.counts, dtype=torch.float64).clamp_min(0.5)
    return (counts / counts.sum()).float()


def identity_of(
    config: PretrainConfig, corpus: PreparedCorpus, vocabulary: Vocabulary, held_out: HeldOut | None
) -> dict[str, Any]:
    """What a resumed run must have in common with the one that it resumes."""
    settings = config.to_dict()
    # What counts is the text, wherever it lies and however it is written.
    for name in ("train", "valid", "vocabulary", "encoding"):
        settings["corpus"].pop(name)
    settings.pop("output")
    if not config.training.multi_token:
        settings["training"].pop("multi_token")  # checkpoints from before there was one have none
    return {
        "settings": settings,
        "corpus": corpus.key,
        "vocabulary": fingerprint({"words": vocabulary.words}),
        "held_out": fingerprint({"sentences": held_out.sentences if held_out else []}),
    }


def finish(trainer: Trainer, vocabulary: Vocabulary, example: Sequence[str]) -> Result:
    """Write the best model, or else the last, with an `example` sentence on its card."""
    progress, folder, perplexity = trainer.progress, trainer.folder, None
    checkpoint = best_or_newest(trainer.checkpoints)
    weights = named(checkpoint, MODEL if trainer.average is None else AVERAGE)
    weights.pop(SECOND_WORD, None)
    bilm = BiLM.from_weights(trainer.bilm.config, weights).to(trainer.group.device)
    if trainer.held_out is not None:
        # Measured by another process, if this one has resumed the run behind its best step.
        known = trainer.measured.get(checkpoint.step)
        perplexity = known or trainer.held_out.perplexity(bilm, trainer.observer)
    saved = SavedModel(bilm.config, bilm.state_dict(), trainer.config.corpus.tokenizer, vocabulary)
    card = training_card(saved, trainer.config, checkpoint, perplexity, example)
    write_model(folder / MODEL_OF_RUN, saved._replace(card=card), force=True)
    draw(folder, trainer)
    return Result(
        folder / MODEL_OF_RUN, progress.step, progress.words, progress.seconds, perplexity
    )


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
        trainer.observer.note(f"no curves are drawn: {error}")


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
SENTENCES_MEASURED = 10_000  # of the training text, where no held-out text is given
SENTENCES_PER_ROW = 8  # a small text is read in fewer rows: what matters is the number of steps


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
    force: bool = False,
    device: str | torch.device | None = None,
    processes: int | None = None,
    observer: Observer | None = None,
) -> Finetuned | None:
    """Train a model on, and measure what it has gained; the leading process tells.

    `config` is the run that `finetuning_run` makes, `new_words` how many of the text's most
    frequent new words to add to the vocabulary; the rest is as in `pretrain`.
    """
    if isinstance(saved.config.encoder, LexiconEncoderConfig):
        raise InputError("a model of ELMoForManyLangs gives vectors, but cannot be trained on here")
    advice = "use a model folder of elmo pretrain"
    vocabulary = check_vocabulary(saved.config, saved.vocabulary, advice=advice)
    with join_group(device) as group:
        observer = observer if observer is not None and group.leads else Observer()
        corpus = read_corpus(config.corpus, processes, observer)
        if new_words:
            vocabulary = with_new_words(vocabulary, corpus, new_words)
            saved = with_vocabulary(saved, vocabulary)
        config = replace(config, training=fitting_rows(config, corpus, group))
        measured = HeldOut.read(config.corpus, vocabulary, in_training=SENTENCES_MEASURED)
        assert measured is not None  # there is training text
        if group.leads:
            before = perplexity_of(saved, measured, group, observer)
            observer.note(f"before: {before.describe()}")
        settings: dict[str, Any] = {"device": device, "processes": processes, "observer": observer}
        result = pretrain(config, initial=saved, resume=resume, force=force, **settings)
        if result is None:
            return None
        trained = read_model(result.model)
        after = result.perplexity or perplexity_of(trained, measured, group, observer)
        return Finetuned(result, before, after, bool(config.corpus.valid))


def perplexity_of(saved: SavedModel, text: HeldOut, group: Group, observer: Observer) -> Perplexity:
    """What a model makes of a text."""
    bilm = BiLM.from_weights(saved.config, saved.weights)
    return text.perplexity(bilm.to(group.device), observer)


def fitting_rows(config: PretrainConfig, corpus: PreparedCorpus, group: Group) -> TrainingConfig:
    """Fewer rows where the text is too short for as many, in steps that can be shared."""
    training = config.training
    unit = training.accumulate * group.size
    targets = corpus.words_in_all + corpus.sentences
    fitting = min(corpus.sentences // SENTENCES_PER_ROW, targets // (2 * training.unroll))
    rows = max(unit, min(training.rows, fitting) // unit * unit)
    return replace(training, rows=rows)


def with_new_words(vocabulary: Vocabulary, corpus: PreparedCorpus, most: int) -> Vocabulary:
    """A vocabulary, and behind it the most frequent words of a text that it does not have."""
    if vocabulary.unknown_id is None:
        raise InputError("the model's vocabulary has no <UNK>, so it cannot be extended")
    found = build_vocabulary(corpus)
    assert found.counts is not None
    counted = zip(found.words, found.counts, strict=True)
    new = dict(islice((pair for pair in counted if pair[0] not in vocabulary), most))
    counts = None if vocabulary.counts is None else [*vocabulary.counts, *new.values()]
    return Vocabulary([*vocabulary.words, *new], counts)


def with_vocabulary(saved: SavedModel, vocabulary: Vocabulary) -> SavedModel:
    """The same model with more words to predict, those at the end of a vocabulary.

    Each starts as `<UNK>` does, or with an adaptive softmax as an average word of its last cluster.
    """
    weights, encoder = dict(saved.weights), saved.config.encoder
    unknown = vocabulary.unknown_id or 0
    new = len(vocabulary) - (saved.config.softmax_words or 0)
    # The words of an adaptive softmax go to its last cluster, which is of the rarest ones.
    clusters = len(saved.config.softmax_cutoffs)
    name = f"softmax.clusters.{clusters - 1}.softmax" if clusters else "softmax"
    for part in ("weight", "bias"):
        rows = weights[f"{name}.{part}"]
        start = rows.mean(0, keepdim=True) if clusters else rows[unknown, None]
        weights[f"{name}.{part}"] = with_rows(rows, start, new)
    if isinstance(encoder, WordEncoderConfig):
        table = weights["encoder.words.weight"]
        weights["encoder.words.weight"] = with_rows(table, table[unknown + 1, None], new)
        encoder = replace(encoder, words=len(vocabulary))
    config = replace(saved.config, softmax_words=len(vocabulary), encoder=encoder)
    return saved._replace(config=config, weights=weights, vocabulary=vocabulary)


def with_rows(rows: Tensor, row: Tensor, count: int) -> Tensor:
    """A tensor with the same row so many times at its end."""
    return torch.cat([rows, row.expand(count, *row.shape[1:])])
