"""Run of a task: files of examples to the folder of a trained task."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch

from elmokit.config import checked
from elmokit.errors import FormatError, InputError
from elmokit.formats.mixes import write_mix
from elmokit.inference.embedder import Embedder
from elmokit.inference.token_vectors import check_device
from elmokit.io.fetch import cache_folder
from elmokit.io.files import disk_errors, read_object, write_atomically, write_json
from elmokit.jobs.checkpoints import LEFTOVERS, Checkpoint, Checkpoints, interrupted, newest_of_run
from elmokit.jobs.metrics import METRICS, read_metrics
from elmokit.jobs.progress import Observer
from elmokit.jobs.run_folder import RunFolder, already_holds, check_outside
from elmokit.system import counted
from elmokit.tasks.config import MAY_CHANGE, TaskConfig
from elmokit.tasks.examples import AnyExample, fixed_part, hold_out
from elmokit.tasks.files.examples import format_of, read_examples
from elmokit.tasks.folder import (
    BILM,
    CHECKPOINTS,
    CONFIG,
    FORMAT,
    LABELS,
    RESULTS,
    STATIC,
    WEIGHTS,
)
from elmokit.tasks.inputs import StaticLookup, build_inputs
from elmokit.tasks.layer_store import LayerStore, folder_name, identity_of_bilm
from elmokit.tasks.reports import (
    MixReport,
    draw_confusion,
    draw_curves,
    draw_mix,
    errors_text,
    mix_reports,
)
from elmokit.tasks.task import AnyTask, TaskModel
from elmokit.tasks.trained import KINDS, BilmReference, TrainedTask, UsedBilm
from elmokit.tasks.trainer import (
    Evaluation,
    TaskProgress,
    TaskTrainer,
    evaluate,
    fingerprint_of,
)
from elmokit.text.tokenizer import load_tokenizer

FEW = 5  # examples that are too few to choose an epoch by
MANY_LABELS = 5  # labels from which on it is odd that they are nearly as many as examples
Files = Sequence[str | Path]


class Data(NamedTuple):
    """Prepared examples."""

    train: list[AnyExample]
    dev: list[AnyExample]
    test: list[AnyExample]

    @property
    def sentences(self) -> list[tuple[str, ...]]:
        """Every sentence of all examples."""
        return [words for part in self for example in part for words in example.sentences]


def read_data(
    config: TaskConfig, train: Files, dev: Files, test: Files, observer: Observer
) -> tuple[AnyTask, Data]:
    """Read all files; the labels are those of the training data."""
    kind = KINDS[config.kind]
    tokenizer = load_tokenizer(config.files.tokenizer or "default")

    def read(files: Files, phrases: bool = False) -> list[AnyExample]:
        settings = replace(config.files, phrases=phrases)
        each = (read_examples(config.kind, file, settings, tokenizer) for file in files)
        return list(chain.from_iterable(each))

    examples = read(train, config.files.phrases)
    found = len(examples)
    # Before any are held out: a rare label may be among those alone.
    task = kind(config, kind.labels_of(examples))
    if dev:
        dev_examples = read(dev)
    else:
        check_no_phrases(config, train)
        examples, dev_examples = held_out(kind, examples, observer)
    examples = [examples[n] for n in fixed_part(len(examples), config.training.fraction)]
    if len(examples) < found:
        check_left(kind, examples, found, held=not dev)
    data = Data(
        task.for_training(task.prepare(examples)),
        task.prepare(dev_examples),
        task.prepare(read(test)) if test else [],
    )
    tell_of(task, data, observer)
    return task, data


def tell_of(task: AnyTask, data: Data, observer: Observer) -> None:
    """Say how many examples and labels there are."""
    if len(task.labels) > max(MANY_LABELS, len(data.train) // 2) and task.kind in ("text", "pair"):
        observer.note(
            f"there are nearly as many labels, {len(task.labels):,}, as examples: is the column of "
            "the label the right one? --label-column names another"
        )
    labels = f"; {task.describe_labels()}" if len(task.labels) else ""
    observer.note(
        f"{counted(len(data.train), 'example')} to train on, {len(data.dev):,} for dev"
        f"{f', {len(data.test):,} for test' if data.test else ''}{labels}"
    )


def check_no_phrases(config: TaskConfig, train: Files) -> None:
    """Raise where phrases of trees would be held out of the training data."""
    formats = {format_of(config.kind, file, config.files.format) for file in train}
    if config.files.phrases and "trees" in formats:
        raise InputError(
            "phrases of one sentence are too much alike to hold some out; give a dev file (--dev)"
        )


def check_left(kind: type[AnyTask], examples: Sequence[AnyExample], found: int, held: bool) -> None:
    """Raise where nothing can be learnt from what is left of the examples."""
    try:
        kind.labels_of(examples)
    except InputError as error:
        dev = "a dev file (--dev) so that none are held out, " if held else ""
        raise InputError(
            f"left to train on, of {counted(found, 'example')}: {len(examples):,}, too few; "
            f"give more examples, {dev}or a larger --fraction ({error})"
        ) from error


def held_out(
    kind: type[AnyTask], examples: list[AnyExample], observer: Observer
) -> tuple[list[AnyExample], list[AnyExample]]:
    """Training data, and a fixed tenth of it to serve as dev."""
    groups = [kind.group_of(each) for each in examples]
    left, held = hold_out([n if group is None else group for n, group in enumerate(groups)])
    few = "; so few say little: give a dev file (--dev)" if len(held) < FEW else ""
    observer.note(f"no dev file: held out of the training examples, a tenth: {len(held):,}{few}")
    return [examples[number] for number in left], [examples[number] for number in held]


def checked_files(files: str | Path | Files | None) -> Files:
    """One file or several as a list; one that is not there is an error before all that is long."""
    found = [files] if isinstance(files, str | Path) else list(files or ())
    for file in found:
        with disk_errors(Path(file), "read"):
            Path(file).stat()
    return found


def read_static(config: TaskConfig, data: Data, observer: Observer) -> StaticLookup | None:
    """The static vectors of all words that occur."""
    inputs = config.inputs
    if inputs.static is None:
        return None
    words = {word for sentence in data.sentences for word in sentence}
    with observer.stage("reading static vectors", "byte") as progress:
        static = StaticLookup.read(
            inputs.static,
            words,
            lowercase=inputs.lowercase,
            trainable=inputs.static_trainable,
            progress=progress,
        )
    known = sum(word in static for word in words)
    observer.note(f"{inputs.static}: has {known:,} of {len(words):,} different words")
    return static


REPORT = "report.txt"
CURVES, MIX, CONFUSION = "curves.png", "mix.png", "confusion.png"
MIX_FILES = {"input": "mix.json", "output": "mix-output.json"}
"""What `elmo embed --layers mix FILE` reads, by the place of the mix."""


class TaskResult(NamedTuple):
    """What a run has come to."""

    folder: Path
    config: TaskConfig
    dev: Evaluation
    test: Evaluation | None
    mixes: list[MixReport]
    progress: TaskProgress
    examples: dict[str, int]
    seconds_in_all: float  # of all sessions, each from its first file to its last score
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
            f"best of {counted(self.progress.epoch, 'epoch')}: {self.progress.best_epoch}; "
            f"{self.progress.seconds:,.1f} seconds of training, {self.seconds_in_all:,.1f} in all"
        )
        lines.append(f"the trained task is in {self.folder}")
        return "\n".join(lines)

    def report(self) -> str:
        """All there is to say, for a file."""
        parts = [self.describe(), f"dev, in detail:\n\n{errors_text(self.dev)}"]
        if self.test is not None:
            parts.append(f"test, in detail:\n\n{errors_text(self.test)}")
        return "\n\n".join(parts) + "\n"


def write_results(result: TaskResult, observer: Observer) -> None:
    """Write the trained task, its scores and, where they can be drawn, its pictures."""
    result.trained.save(result.folder)
    if result.config.inputs.layers == "mix":  # those of all layers, for others to embed with
        for report, mix in zip(result.mixes, result.trained.model.inputs.mixes, strict=True):
            write_mix(mix, result.folder / MIX_FILES[report.place])
    write_json(result.folder / RESULTS, result.to_dict())
    with write_atomically(result.folder / REPORT) as temporary:
        temporary.write_text(result.report(), encoding="utf-8")
    try:
        draw(result)
    except InputError as error:
        observer.note(f"no pictures are drawn: {error}")


def draw(result: TaskResult) -> None:
    """Draw the curves, the mixes and the confusions."""
    folder = result.folder
    name = f"{folder.resolve().name} ({result.config.name})"
    draw_curves(read_metrics(folder / METRICS), folder / CURVES, title=name)
    which, shown = ("dev", result.dev) if result.test is None else ("test", result.test)
    if shown.confusion is not None:
        draw_confusion(shown.confusion, folder / CONFUSION, title=f"{name}, {which}")
    if result.mixes:
        draw_mix(result.mixes, folder / MIX, title=name)


WRITTEN = (
    *(CONFIG, LABELS, WEIGHTS, STATIC, *MIX_FILES.values()),
    *(RESULTS, REPORT, METRICS, CURVES, MIX, CONFUSION),
)


def check_folder(folder: Path, resume: bool, force: bool) -> None:
    """Raise where a new run would be mixed with an old one, or there is none to resume."""
    if resume and force:
        raise InputError("resume continues with a run, and force replaces it; give one of them")
    if folder.is_file():
        raise InputError(f"{folder}: is a file; give the name of a folder to write into")
    saved = bool(Checkpoints(folder / CHECKPOINTS).steps())
    if resume and not saved:
        raise InputError(f"{folder}: holds no checkpoint to resume from; start without --resume")
    if names := in_the_way(folder):
        raise InputError(
            f"{folder}: has {names[0]}, which no task's run wrote, and which would be replaced; "
            "choose another --output"
        )
    if (saved or (folder / CONFIG).exists()) and not resume and not force:
        raise already_holds(folder)


def in_the_way(folder: Path) -> list[str]:
    """What has a name that a run would write under, and is not of a task's run."""
    if (folder / CONFIG).exists():
        return [] if read_object(folder / CONFIG).get("format") == FORMAT else [CONFIG]
    checkpoints = folder / CHECKPOINTS
    checkpoint = Checkpoints(checkpoints).newest()
    if checkpoint is not None:  # other runs have theirs under the same name
        return [] if "kind" in checkpoint.values.get("settings", {}) else [CHECKPOINTS]
    names = [name for name in (*WRITTEN, BILM) if name != METRICS and (folder / name).exists()]
    # What a run leaves that was killed before its first checkpoint was complete is not in the way.
    if not are_of_a_task(folder / METRICS):
        names.append(METRICS)
    others = any(not each.match(LEFTOVERS) for each in checkpoints.glob("*"))
    if others or (checkpoints.exists() and not checkpoints.is_dir()):
        names.append(CHECKPOINTS)
    return names


def are_of_a_task(metrics: Path) -> bool:
    """Whether all lines of a file are a task's metrics; there may be none, or no file."""
    if not metrics.exists():
        return True
    try:
        return all(line.get("kind") in ("train", "dev") for line in read_metrics(metrics))
    except FormatError:
        return False


def clear(folder: Path) -> None:
    """Remove what an earlier run wrote, and nothing else."""
    with disk_errors(folder, "removed"):
        for name in WRITTEN:
            if name != CONFIG:
                (folder / name).unlink(missing_ok=True)
        for name in (BILM, CHECKPOINTS):
            if (folder / name).exists():
                shutil.rmtree(folder / name)
        # Last: cut short before, this is a run yet, and can be removed once more.
        (folder / CONFIG).unlink(missing_ok=True)


Cache = Literal["memory", "disk", "none"]


def train_task(
    config: TaskConfig,
    folder: str | Path,
    *,
    train: str | Path | Files,
    dev: str | Path | Files | None = None,
    test: str | Path | Files | None = None,
    bilm: BilmReference | Embedder | None = None,
    cache: Cache = "memory",
    keep_model: bool = False,
    resume: bool = False,
    force: bool = False,
    device: str | torch.device | None = None,
    observer: Observer | None = None,
) -> TaskResult:
    """Train a task on files of examples, and write it as a folder.

    Args:
        config: Its settings, see `task_config`.
        folder: Where it goes.
        train: One file or several.
        dev: To choose the best epoch by; without it a fixed tenth of the training data is held out.
        test: To score the result on.
        bilm: Where the biLM is, or one that is loaded; None for the bundled one.
        cache: Where the layers of a frozen biLM are stored: in memory (and a temporary file, if
            there are many), on disk for other runs too, or nowhere.
        keep_model: Store the biLM in the folder too, so that the task needs no other; a run that is
            resumed does as it did before.
        resume: Resume from the newest checkpoint in the folder.
        force: Replace a run that the folder holds.
        device: Where to compute.
        observer: Told how far it is.
    """
    started = time.monotonic()
    checked("cache", cache, Cache)
    folder, observer = Path(folder), observer or Observer()
    check_folder(folder, resume, force)
    if force and isinstance(bilm, BilmReference):
        check_outside(folder, bilm.model, bilm.weights, bilm.vocabulary)
    train, dev, test, _ = map(checked_files, (train, dev, test, config.inputs.static))
    with RunFolder(folder).claimed(), torch.random.fork_rng(devices=[]):
        checkpoints = Checkpoints(folder / CHECKPOINTS)
        keep_model = keep_model or (resume and keeps_model(folder, checkpoints))
        used = load_bilm(config, bilm, keep_model, device, observer)
        config = with_tokenizer(config, used)
        task, data = read_data(config, train, dev, test, observer)
        static = read_static(config, data, observer)
        identity = identity_of(task, data, used, static)
        checkpoint = newest_of_run(checkpoints, identity, MAY_CHANGE) if resume else None
        progress = TaskProgress(**checkpoint.values["progress"]) if checkpoint else TaskProgress()
        over = progress.is_over(config.training)
        # A run that is over is scored once more, and its training data are not read.
        needed = data._replace(train=[]) if over else data
        with store_layers(config, used, needed, cache, observer) as store:
            model = make_model(task, used, static, store, device)
            if force:
                clear(folder)  # only after everything that may be wrong with the new run
            trainer = TaskTrainer(
                task, model, data.train, data.dev, folder, identity, observer, started
            )
            run(trainer, checkpoint, over, keep_model)
            return finish(trainer, data, TrainedTask(task, model, used), folder)


def keeps_model(folder: Path, checkpoints: Checkpoints) -> bool:
    """Whether a run that is resumed was to store its biLM."""
    found = checkpoints.newest()
    progress = {} if found is None else found.values.get("progress", {})
    return progress.get("keep_model", False) or (folder / BILM).exists()


def load_bilm(
    config: TaskConfig,
    bilm: BilmReference | Embedder | None,
    keep: bool,
    device: str | torch.device | None,
    observer: Observer,
) -> UsedBilm | None:
    """The biLM, where the task uses one; one that is kept has its softmax."""
    if not config.inputs.uses_elmo:
        if keep:
            raise InputError("the task reads no biLM (elmo is 'none'); there is no model to keep")
        return None
    keep = keep or config.inputs.finetune_bilm
    if isinstance(bilm, Embedder):
        if keep and bilm.bilm.softmax is None and bilm.config.softmax_words is not None:
            raise InputError(
                "this Embedder has no softmax, which is stored with the model; "
                "load it by Embedder.load(…, softmax=True)"
            )
        return UsedBilm(bilm, None, keep)
    reference = bilm or BilmReference()
    return UsedBilm(reference.load(device, observer.fetching, softmax=keep), reference, keep)


def with_tokenizer(config: TaskConfig, used: UsedBilm | None) -> TaskConfig:
    """The same settings, naming what splits raw text: a trained task must split it likewise."""
    if config.files.tokenizer is not None:
        return config
    name = "default" if used is None else used.embedder.tokenizer.name
    return replace(config, files=replace(config.files, tokenizer=name))


def store_layers(
    config: TaskConfig, used: UsedBilm | None, data: Data, cache: Cache, observer: Observer
) -> AbstractContextManager[LayerStore | None]:
    """The layers of all sentences, computed once; None where they are not stored."""
    if used is None or config.inputs.finetune_bilm or cache == "none":
        return nullcontext()
    layers = config.inputs.layers
    folder = None
    if cache == "disk":
        folder = cache_folder() / "layers" / folder_name(used.embedder, layers)
        observer.note(f"layers are stored in {folder}")
    store = LayerStore(used.embedder, layers=layers, folder=folder)
    with observer.stage("computing ELMo's layers, once", "word") as progress:
        store.add(data.sentences, progress)
    return store


def make_model(
    task: AnyTask,
    used: UsedBilm | None,
    static: StaticLookup | None,
    store: LayerStore | None,
    device: str | torch.device | None,
) -> TaskModel[Any]:
    """Inputs and network, random by the run's seed."""
    torch.manual_seed(task.config.training.seed)
    embedder = None if used is None else used.embedder
    inputs = build_inputs(task.config.inputs, embedder, static, store=store)
    model: TaskModel[Any] = TaskModel(inputs, task.make_network(inputs.sizes))
    return model if device is None else model.to(check_device(device))


def identity_of(
    task: AnyTask, data: Data, used: UsedBilm | None, static: StaticLookup | None
) -> dict[str, Any]:
    """What a resumed run must have in common with the one that it resumes."""
    settings = task.config.to_dict()
    # What counts is what was read, wherever it lies.
    settings.pop("files")
    settings["inputs"].pop("static")
    learnt_words = {word for words in data._replace(test=[]).sentences for word in words}
    return {
        "settings": settings,
        "bilm": None if used is None else identity_of_bilm(used.embedder),
        "train": fingerprint_of(data.train),
        "dev": fingerprint_of(data.dev),
        # Those of test words change nothing that is learnt, unless the table itself is.
        "static": None if static is None else static.fingerprint(learnt_words),
        "trained_words": (
            static.fingerprint() if static is not None and static.trainable else None
        ),
    }


def run(trainer: TaskTrainer, checkpoint: Checkpoint | None, over: bool, keep: bool) -> None:
    """Train from a checkpoint, or from the beginning; an interruption says what is saved."""
    if checkpoint is None:
        # A run that was killed before its first checkpoint may have left lines.
        trainer.metrics.resume(0)
    else:
        trainer.restore(checkpoint)
        epoch = trainer.progress.epoch
        finished = f"already finished, after epoch {epoch}; dev and test are scored again"
        trainer.observer.note(finished if over else f"resumed in epoch {epoch + 1}")
    trainer.progress = trainer.progress._replace(keep_model=keep)
    try:
        trainer.train()
    except KeyboardInterrupt:
        raise interrupted(trainer.checkpoints) from None


def finish(trainer: TaskTrainer, data: Data, trained: TrainedTask, folder: Path) -> TaskResult:
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
        seconds_in_all=trainer.seconds_in_all(),
        trained=trained,
    )
    write_results(result, trainer.observer)
    return result
