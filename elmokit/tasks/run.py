"""A whole run: files of examples to the folder of a trained task."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import torch

from elmokit.config import check_choice
from elmokit.embedder import Embedder
from elmokit.errors import InputError
from elmokit.formats.checkpoints import Checkpoints, fingerprint
from elmokit.formats.fetch import cache_folder
from elmokit.formats.files import claim, disk_errors, write_atomically
from elmokit.formats.json_files import read_object, write_object
from elmokit.formats.metrics_log import METRICS, read_metrics
from elmokit.formats.resuming import interrupted, newest_of_run
from elmokit.tasks.batches import fixed_part, hold_out
from elmokit.tasks.bilm_reference import BilmReference
from elmokit.tasks.checkpoints import CHECKPOINTS, Progress, fingerprint_of
from elmokit.tasks.config import MAY_CHANGE, FilesConfig, TaskConfig
from elmokit.tasks.evaluation import Evaluation, evaluate
from elmokit.tasks.examples import AnyExample, PairExample
from elmokit.tasks.inputs import build_inputs
from elmokit.tasks.kinds import KINDS
from elmokit.tasks.layer_store import (
    LayerStore,
    facts_of_bilm,
    facts_of_layers,
    layer_numbers,
)
from elmokit.tasks.plots import draw_confusion, draw_curves, draw_mix
from elmokit.tasks.reports import MixReport, errors_text, mix_reports
from elmokit.tasks.saved_task import (
    BILM,
    CONFIG,
    FORMAT,
    LABELS,
    STATIC,
    WEIGHTS,
    TrainedTask,
    UsedBilm,
)
from elmokit.tasks.static_vectors import StaticVectors
from elmokit.tasks.task import AnyTask, TaskModel
from elmokit.tasks.training import Trainer
from elmokit.tasks.watcher import Watcher
from elmokit.text.tokenizer import load_tokenizer
from elmokit.token_vectors import check_device

Cache = Literal["memory", "disk", "none"]
Files = str | Path | Sequence[str | Path]

RESULTS, REPORT = "results.json", "report.txt"
CURVES, MIX, CONFUSION = "curves.png", "mix.png", "confusion.png"
LOCK = ".lock"
WRITTEN = (CONFIG, LABELS, WEIGHTS, STATIC, RESULTS, REPORT, METRICS, CURVES, MIX, CONFUSION)
FACTS = {
    "bilm": "biLM, or of one in another state or precision",
    "train": "training data",
    "dev": "dev data",
    "static": "static vectors",
    "trained_words": "set of words whose static vectors learn, to which those of --test belong",
}
"""What a resumed run must share with its checkpoint, besides the settings."""


class Data(NamedTuple):
    """Prepared examples."""

    train: list[AnyExample]
    dev: list[AnyExample]
    test: list[AnyExample]

    @property
    def sentences(self) -> list[tuple[str, ...]]:
        """Every sentence of all examples."""
        return [words for part in self for example in part for words in example.sentences]

    @property
    def learnt_words(self) -> set[str]:
        """Every word of what a model is trained on and chosen by."""
        return {
            word
            for part in (self.train, self.dev)
            for example in part
            for words in example.sentences
            for word in words
        }


class TaskResult(NamedTuple):
    """What a run has come to."""

    folder: Path
    config: TaskConfig
    dev: Evaluation
    test: Evaluation | None
    mixes: list[MixReport]
    progress: Progress
    examples: dict[str, int]
    seconds_in_all: float  # of this sitting, from the first file to the last score
    trained: TrainedTask

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {
            "task": self.config.name,
            "dev": self.dev.score.to_dict(),
            "test": None if self.test is None else self.test.score.to_dict(),
            "mixes": [mix.to_dict() for mix in self.mixes],
            "examples": self.examples,
            "epochs": self.progress.epoch,
            "best_epoch": self.progress.best_epoch,
            "words": self.progress.words,
            "seconds": self.progress.seconds,
            "seconds_in_all": self.seconds_in_all,
            "config": self.config.to_dict(),
        }

    def describe(self) -> str:
        """A few lines: scores, mixes, where it is."""
        lines = [f"dev: {self.dev.score.describe()}"]
        if self.test is not None:
            lines.append(f"test: {self.test.score.describe()}")
        lines += [mix.table() for mix in self.mixes]
        lines.append(
            f"best of {self.progress.epoch} epochs: {self.progress.best_epoch}; "
            f"{self.progress.seconds:,.1f} seconds of training, {self.seconds_in_all:,.1f} in all"
        )
        lines.append(f"the trained task is in {self.folder}")
        return "\n".join(lines)

    def report(self) -> str:
        """All there is to say, for a file."""
        parts = [self.describe(), f"dev, by class:\n\n{errors_text(self.dev)}"]
        if self.test is not None:
            parts.append(f"test, by class:\n\n{errors_text(self.test)}")
        return "\n\n".join(parts) + "\n"


def train_task(
    config: TaskConfig,
    folder: str | Path,
    *,
    train: Files,
    dev: Files | None = None,
    test: Files | None = None,
    bilm: BilmReference | Embedder | None = None,
    cache: Cache = "memory",
    resume: bool = False,
    force: bool = False,
    device: str | torch.device | None = None,
    watcher: Watcher | None = None,
) -> TaskResult:
    """Train a task on files of examples, and write it as a folder.

    Args:
        config: Its settings, see `task_config`.
        folder: Where it goes.
        train: One file or several.
        dev: To choose the best epoch by; without it a fixed tenth of the training data is held out.
        test: To score the result on.
        bilm: Where the biLM is, or one that is loaded; None for the bundled one.
        cache: Where the layers of a frozen biLM are kept: in memory (and a temporary file, if
            there are many), on disk for other runs too, or nowhere.
        resume: Go on from the newest checkpoint in the folder.
        force: Replace a run that the folder holds.
        device: Where to compute.
        watcher: Who is told how far it is.
    """
    started = time.monotonic()
    check_choice("cache", cache, get_args(Cache))
    folder, watcher = Path(folder), watcher or Watcher()
    check_folder(folder, resume, force)
    with claim(folder / LOCK), torch.random.fork_rng(devices=[]), ExitStack() as stack:
        used = load_bilm(config, bilm, device, watcher)
        config = with_tokenizer(config, used)
        task, data = read_data(config, train, dev, test, watcher)
        static = read_static(config, data, watcher)
        store = keep_layers(config, used, data, cache, watcher)
        if store is not None:
            stack.enter_context(store)
        model = make_model(task, used, static, store, device)
        if force:
            clear(folder)  # not before everything that may be wrong with the new run has been read
        facts = facts_of(task, data, used, static)
        trainer = Trainer(task, model, data.train, data.dev, folder, facts, watcher)
        if resume:
            go_on(trainer)
        else:
            # A run that was killed before its first checkpoint may have left lines.
            trainer.metrics.resume(0)
        run(trainer)
        return finish(trainer, data, TrainedTask(task, model, used), folder, started)


def check_folder(folder: Path, resume: bool, force: bool) -> None:
    """Refuse to mix a new run with an old one, and to resume what is not there."""
    if resume and force:
        raise InputError("resume goes on with a run, and force replaces it; give one of them")
    saved = bool(Checkpoints(folder / CHECKPOINTS).steps())
    if resume and not saved:
        raise InputError(f"{folder}: holds no checkpoint to resume from; start without --resume")
    there = (folder / CONFIG).exists()
    if (there and not is_task(folder)) or (saved and not there and not is_unfinished_task(folder)):
        raise InputError(f"{folder}: holds something else, not a task; choose another --output")
    if (saved or there) and not resume and not force:
        raise InputError(
            f"{folder}: already holds a run; go on with --resume, replace it with --force, or "
            "choose another --output"
        )


def is_task(folder: Path) -> bool:
    """Whether config.json is that of a trained task."""
    return read_object(folder / CONFIG).get("format") == FORMAT


def is_unfinished_task(folder: Path) -> bool:
    """Whether the newest checkpoint is a task's: other runs keep theirs under the same name."""
    checkpoint = Checkpoints(folder / CHECKPOINTS).newest()
    return checkpoint is not None and "kind" in checkpoint.values.get("settings", {})


def clear(folder: Path) -> None:
    """Remove what an earlier run wrote, and nothing else."""
    if not (folder / CONFIG).exists() and not Checkpoints(folder / CHECKPOINTS).steps():
        return  # files of the same names are somebody else's
    with disk_errors(folder, "removed"):
        for name in WRITTEN:
            (folder / name).unlink(missing_ok=True)
        for name in (CHECKPOINTS, BILM):
            if (folder / name).exists():
                shutil.rmtree(folder / name)


def load_bilm(
    config: TaskConfig,
    bilm: BilmReference | Embedder | None,
    device: str | torch.device | None,
    watcher: Watcher,
) -> UsedBilm | None:
    """The biLM, where the task uses one."""
    if not config.inputs.uses_elmo:
        return None
    if isinstance(bilm, Embedder):
        return UsedBilm(bilm, None)
    reference = bilm or BilmReference()
    return UsedBilm(reference.load(device, watcher.fetching), reference)


def with_tokenizer(config: TaskConfig, used: UsedBilm | None) -> TaskConfig:
    """The same settings, naming what splits raw text: a trained task must split it likewise."""
    if config.files.tokenizer is not None:
        return config
    name = "default" if used is None else used.embedder.tokenizer.name
    return replace(config, files=replace(config.files, tokenizer=name))


def read_data(
    config: TaskConfig, train: Files, dev: Files | None, test: Files | None, watcher: Watcher
) -> tuple[AnyTask, Data]:
    """Read all files; the labels are those of the training data."""
    kind = KINDS[config.kind]
    tokenizer = load_tokenizer(config.files.tokenizer or "default")
    whole = replace(config.files, phrases=False)

    def read(files: Files, reading: FilesConfig) -> list[AnyExample]:
        return [e for file in as_list(files) for e in kind.read(file, reading, tokenizer)]

    train_examples = read(train, config.files)
    # Before any are held out: a rare label may be among those alone.
    task = kind(config, kind.labels_of(train_examples))
    if dev is not None:
        dev_examples = read(dev, whole)
    else:
        if any(kind.reads_phrases(file, config.files) for file in as_list(train)):
            raise InputError(
                "phrases of one sentence are too much alike to hold some out; give a dev file "
                "(--dev)"
            )
        train_examples, dev_examples = held_out(train_examples, watcher)
    part = fixed_part(len(train_examples), config.training.fraction)
    data = Data(
        task.prepare([train_examples[number] for number in part]),
        task.prepare(dev_examples),
        [] if test is None else task.prepare(read(test, whole)),
    )
    watcher.note(
        f"{len(data.train):,} examples to train on, {len(data.dev):,} for dev, "
        f"{len(data.test):,} for test; {len(task.labels)} labels"
    )
    return task, data


def held_out(
    examples: list[AnyExample], watcher: Watcher
) -> tuple[list[AnyExample], list[AnyExample]]:
    """Training data, and a fixed tenth of it to serve as dev."""
    # Pairs of one first sentence are seldom of one label: seen in training, it gives a label away.
    kept, held = hold_out(
        [each.first if isinstance(each, PairExample) else n for n, each in enumerate(examples)]
    )
    watcher.note(f"no dev file: {len(held):,} of the training examples, a tenth, are held out")
    return [examples[number] for number in kept], [examples[number] for number in held]


def as_list(files: Files) -> list[str | Path]:
    """One file or several as a list."""
    return [files] if isinstance(files, str | Path) else list(files)


def read_static(config: TaskConfig, data: Data, watcher: Watcher) -> StaticVectors | None:
    """The static vectors of all words that occur."""
    inputs = config.inputs
    if inputs.static is None:
        return None
    words = {word for sentence in data.sentences for word in sentence}
    static = StaticVectors.read(
        inputs.static,
        words,
        lowercase=inputs.lowercase,
        trainable=inputs.static_trainable,
        progress=watcher.fetching,
    )
    known = sum(word in static for word in words)
    watcher.note(f"{inputs.static}: has {known:,} of {len(words):,} different words")
    return static


def keep_layers(
    config: TaskConfig, used: UsedBilm | None, data: Data, cache: Cache, watcher: Watcher
) -> LayerStore | None:
    """The layers of all sentences, computed once; None where they are not kept."""
    if used is None or config.inputs.finetune_bilm or cache == "none":
        return None
    layers = config.inputs.layers
    folder = None
    if cache == "disk":
        numbers = layer_numbers(layers, used.embedder.config.layer_count)
        facts = facts_of_layers(used.embedder, numbers)
        folder = cache_folder() / "layers" / f"{fingerprint(facts)[:16]}-{layers}"
        watcher.note(f"layers are kept in {folder}")
    store = LayerStore(used.embedder, layers=layers, folder=folder)
    store.add(data.sentences, watcher.layers)
    return store


def make_model(
    task: AnyTask,
    used: UsedBilm | None,
    static: StaticVectors | None,
    store: LayerStore | None,
    device: str | torch.device | None,
) -> TaskModel[Any]:
    """Inputs and network, random by the run's seed."""
    torch.manual_seed(task.config.training.seed)
    embedder = None if used is None else used.embedder
    inputs = build_inputs(task.config.inputs, embedder, static, store=store)
    model: TaskModel[Any] = TaskModel(inputs, task.make_network(inputs.sizes))
    return model if device is None else model.to(check_device(device))


def facts_of(
    task: AnyTask, data: Data, used: UsedBilm | None, static: StaticVectors | None
) -> dict[str, Any]:
    """What a resumed run must have in common with the one that it resumes."""
    settings = task.config.to_dict()
    # What counts is what was read, wherever it lies.
    settings.pop("files")
    settings["inputs"].pop("static")
    return {
        "settings": settings,
        "bilm": None if used is None else facts_of_bilm(used.embedder),
        "train": fingerprint_of(data.train),
        "dev": fingerprint_of(data.dev),
        # Those of test words change nothing that is learnt, unless the table itself is.
        "static": None if static is None else static.fingerprint(data.learnt_words),
        "trained_words": (
            static.fingerprint() if static is not None and static.trainable else None
        ),
    }


def go_on(trainer: Trainer) -> None:
    """Restore the newest checkpoint, if it is of this run."""
    checkpoint = newest_of_run(trainer.checkpoints, trainer.facts, FACTS, MAY_CHANGE)
    trainer.restore(checkpoint)
    trainer.watcher.note(f"resumed in epoch {trainer.progress.epoch + 1}")


def run(trainer: Trainer) -> None:
    """Train; an interruption says what is saved."""
    try:
        trainer.train()
    except KeyboardInterrupt:
        raise interrupted(trainer.checkpoints) from None


def finish(
    trainer: Trainer, data: Data, trained: TrainedTask, folder: Path, started: float
) -> TaskResult:
    """Score the best model and write everything."""
    trainer.restore_best()
    task, model = trained.task, trained.model
    dev = evaluate(task, model, data.dev)
    test = evaluate(task, model, data.test) if data.test else None
    result = TaskResult(
        folder=folder,
        config=task.config,
        dev=dev,
        test=test,
        mixes=mix_reports(model.inputs),
        progress=trainer.progress,
        examples={"train": len(data.train), "dev": len(data.dev), "test": len(data.test)},
        seconds_in_all=time.monotonic() - started,
        trained=trained,
    )
    trained.save(folder)
    with write_atomically(folder / RESULTS) as temporary:
        write_object(result.to_dict(), temporary)
    with write_atomically(folder / REPORT) as temporary:
        temporary.write_text(result.report(), encoding="utf-8")
    try:
        draw(result)
    except InputError as error:
        trainer.watcher.note(f"no pictures are drawn: {error}")
    return result


def draw(result: TaskResult) -> None:
    """Draw the curves, the mixes and the confusions."""
    folder, name = result.folder, result.config.name
    draw_curves(read_metrics(folder / METRICS), folder / CURVES, title=name)
    which, shown = ("dev", result.dev) if result.test is None else ("test", result.test)
    draw_confusion(shown.confusion, folder / CONFUSION, title=f"{name}, {which}")
    if result.mixes:
        draw_mix(result.mixes, folder / MIX, title=name)
