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
from elmokit.errors import FormatError, InputError
from elmokit.inference.embedder import Embedder
from elmokit.inference.token_vectors import check_device
from elmokit.io.fetch import cache_folder
from elmokit.io.files import disk_errors, read_object, write_atomically, write_object
from elmokit.jobs.checkpoints import (
    LEFTOVERS,
    Checkpoint,
    Checkpoints,
    fingerprint,
    interrupted,
    newest_of_run,
)
from elmokit.jobs.metrics import METRICS, read_metrics
from elmokit.jobs.run_folder import RunFolder
from elmokit.system import counted
from elmokit.tasks.config import MAY_CHANGE, FilesConfig, TaskConfig, TaskTrainingConfig
from elmokit.tasks.examples import AnyExample, fixed_part, hold_out
from elmokit.tasks.inputs import build_inputs
from elmokit.tasks.layer_store import (
    LayerStore,
    identity_of_bilm,
    identity_of_layers,
    layer_numbers,
)
from elmokit.tasks.reports import (
    MixReport,
    draw_confusion,
    draw_curves,
    draw_mix,
    errors_text,
    mix_reports,
)
from elmokit.tasks.static_vectors import StaticLookup
from elmokit.tasks.task import AnyTask, TaskModel
from elmokit.tasks.trained import (
    BILM,
    CONFIG,
    FORMAT,
    KINDS,
    LABELS,
    STATIC,
    WEIGHTS,
    BilmReference,
    TrainedTask,
    UsedBilm,
)
from elmokit.tasks.trainer import (
    CHECKPOINTS,
    Evaluation,
    TaskProgress,
    TaskTrainer,
    evaluate,
    fingerprint_of,
)
from elmokit.tasks.watcher import Watcher
from elmokit.text.tokenizer import load_tokenizer

FEW = 5
"""Examples that are too few to choose an epoch by."""
MANY_LABELS = 5
"""Labels from which on it is odd that they are nearly as many as examples."""
Files = str | Path | Sequence[str | Path]


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


def read_data(
    config: TaskConfig, train: Files, dev: Files | None, test: Files | None, watcher: Watcher
) -> tuple[AnyTask, Data]:
    """Read all files; the labels are those of the training data."""
    kind = KINDS[config.kind]
    tokenizer = load_tokenizer(config.files.tokenizer or "default")
    whole = replace(config.files, phrases=False)

    def read(files: Files, reading: FilesConfig) -> list[AnyExample]:
        return [e for file in as_list(files) for e in kind.read(file, reading, tokenizer)]

    examples = read(train, config.files)
    found = len(examples)
    # Before any are held out: a rare label may be among those alone.
    task = kind(config, kind.labels_of(examples))
    if dev is not None:
        dev_examples = read(dev, whole)
    else:
        check_can_be_held_out(kind, as_list(train), config.files)
        examples, dev_examples = held_out(kind, examples, watcher)
    part = fixed_part(len(examples), config.training.fraction)
    examples = [examples[number] for number in part]
    if len(examples) < found:
        check_left(kind, examples, found, held=dev is None)
    data = Data(
        task.for_training(task.prepare(examples)),
        task.prepare(dev_examples),
        [] if test is None else task.prepare(read(test, whole)),
    )
    if len(task.labels) > max(MANY_LABELS, len(data.train) // 2) and task.kind in ("text", "pair"):
        watcher.note(
            f"there are nearly as many labels, {len(task.labels):,}, as examples: is the column of "
            "the label the right one? --label-column names another"
        )
    labels = f"; {task.labels_said()}" if len(task.labels) else ""
    watcher.note(
        f"{counted(len(data.train), 'example')} to train on, {len(data.dev):,} for dev"
        f"{f', {len(data.test):,} for test' if data.test else ''}{labels}"
    )
    return task, data


def check_left(kind: type[AnyTask], examples: Sequence[AnyExample], found: int, held: bool) -> None:
    """Refuse to train on what is left of the examples if nothing can be learnt from it."""
    try:
        kind.labels_of(examples)
    except InputError as error:
        dev = "a dev file (--dev) so that none are held out, " if held else ""
        raise InputError(
            f"left to train on, of {counted(found, 'example')}: {len(examples):,}, too few; "
            f"give more examples, {dev}or a larger --fraction ({error})"
        ) from error


def check_can_be_held_out(
    kind: type[AnyTask], files: Sequence[str | Path], settings: FilesConfig
) -> None:
    """Refuse to hold out phrases."""
    if any(kind.reads_phrases(file, settings) for file in files):
        raise InputError(
            "phrases of one sentence are too much alike to hold some out; give a dev file (--dev)"
        )


def held_out(
    kind: type[AnyTask], examples: list[AnyExample], watcher: Watcher
) -> tuple[list[AnyExample], list[AnyExample]]:
    """Training data, and a fixed tenth of it to serve as dev."""
    groups = [kind.group_of(each) for each in examples]
    kept, held = hold_out([n if group is None else group for n, group in enumerate(groups)])
    few = "; so few say little: give a dev file (--dev)" if len(held) < FEW else ""
    watcher.note(f"no dev file: held out of the training examples, a tenth: {len(held):,}{few}")
    return [examples[number] for number in kept], [examples[number] for number in held]


def as_list(files: Files) -> list[str | Path]:
    """One file or several as a list."""
    return [files] if isinstance(files, str | Path) else list(files)


def check_files(files: Sequence[str | Path]) -> None:
    """Refuse names of no file, before anything that takes long is begun."""
    for file in files:
        with disk_errors(Path(file), "read"):
            Path(file).stat()


def read_static(config: TaskConfig, data: Data, watcher: Watcher) -> StaticLookup | None:
    """The static vectors of all words that occur."""
    inputs = config.inputs
    if inputs.static is None:
        return None
    words = {word for sentence in data.sentences for word in sentence}
    static = StaticLookup.read(
        inputs.static,
        words,
        lowercase=inputs.lowercase,
        trainable=inputs.static_trainable,
        progress=watcher.fetching,
    )
    known = sum(word in static for word in words)
    watcher.note(f"{inputs.static}: has {known:,} of {len(words):,} different words")
    return static


RESULTS, REPORT = "results.json", "report.txt"
CURVES, MIX, CONFUSION = "curves.png", "mix.png", "confusion.png"


class TaskResult(NamedTuple):
    """What a run has come to."""

    folder: Path
    config: TaskConfig
    dev: Evaluation
    test: Evaluation | None
    mixes: list[MixReport]
    progress: TaskProgress
    examples: dict[str, int]
    seconds_in_all: float  # of all sittings, each from its first file to its last score
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


def write_results(result: TaskResult, watcher: Watcher) -> None:
    """Write the trained task, its scores and, where they can be drawn, its pictures."""
    result.trained.save(result.folder)
    with write_atomically(result.folder / RESULTS) as temporary:
        write_object(result.to_dict(), temporary)
    with write_atomically(result.folder / REPORT) as temporary:
        temporary.write_text(result.report(), encoding="utf-8")
    try:
        draw(result)
    except InputError as error:
        watcher.note(f"no pictures are drawn: {error}")


def draw(result: TaskResult) -> None:
    """Draw the curves, the mixes and the confusions."""
    folder, name = result.folder, result.config.name
    draw_curves(read_metrics(folder / METRICS), folder / CURVES, title=name)
    which, shown = ("dev", result.dev) if result.test is None else ("test", result.test)
    if shown.confusion is not None:
        draw_confusion(shown.confusion, folder / CONFUSION, title=f"{name}, {which}")
    if result.mixes:
        draw_mix(result.mixes, folder / MIX, title=name)


WRITTEN = (CONFIG, LABELS, WEIGHTS, STATIC, RESULTS, REPORT, METRICS, CURVES, MIX, CONFUSION)


def check_folder(folder: Path, resume: bool, force: bool) -> None:
    """Refuse to mix a new run with an old one, and to resume what is not there."""
    if resume and force:
        raise InputError("resume continues with a run, and force replaces it; give one of them")
    if folder.is_file():
        raise InputError(f"{folder}: is a file; give the name of a folder to write into")
    saved = bool(Checkpoints(folder / CHECKPOINTS).steps())
    if resume and not saved:
        raise InputError(f"{folder}: holds no checkpoint to resume from; start without --resume")
    there = (folder / CONFIG).exists()
    if (there and not is_task(folder)) or (saved and not there and not is_unfinished_task(folder)):
        raise InputError(f"{folder}: holds something else, not a task; choose another --output")
    if not saved and not there:
        check_has_nothing_of_others(folder)
    if (saved or there) and not resume and not force:
        raise InputError(
            f"{folder}: already holds a run; continue with --resume, replace it with --force, or "
            "choose another --output"
        )


def check_has_nothing_of_others(folder: Path) -> None:
    """Refuse a folder without a run in which files stand where those of a run would.

    What a run leaves that was killed before its first checkpoint was whole is not in the way.
    """
    names = [name for name in (*WRITTEN, BILM) if name != METRICS and (folder / name).exists()]
    if not are_of_a_task(folder / METRICS):
        names.append(METRICS)
    if not is_cut_short(folder / CHECKPOINTS):
        names.append(CHECKPOINTS)
    if names:
        raise InputError(
            f"{folder}: has {names[0]}, which no task's run wrote, and which would be replaced; "
            "choose another --output"
        )


def are_of_a_task(metrics: Path) -> bool:
    """Whether all lines of a file are a task's metrics; there may be none, or no file."""
    if not metrics.exists():
        return True
    try:
        return all(line.get("kind") in ("train", "dev") for line in read_metrics(metrics))
    except FormatError:
        return False


def is_cut_short(checkpoints: Path) -> bool:
    """Whether a folder has nothing but beginnings of checkpoints; there may be no folder."""
    if not checkpoints.exists():
        return True
    return checkpoints.is_dir() and all(path.match(LEFTOVERS) for path in checkpoints.iterdir())


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
    with RunFolder(folder).claimed(), torch.random.fork_rng(devices=[]), ExitStack() as stack:
        check_files([*as_list(train), *as_list(dev or []), *as_list(test or [])])
        if config.inputs.static is not None:
            check_files([config.inputs.static])
        used = load_bilm(config, bilm, device, watcher)
        config = with_tokenizer(config, used)
        task, data = read_data(config, train, dev, test, watcher)
        static = read_static(config, data, watcher)
        identity = identity_of(task, data, used, static)
        checkpoint = newest(folder, identity) if resume else None
        over = checkpoint is not None and is_over(checkpoint, config.training)
        # A run that is over is scored once more, and its training data are not read.
        needed = data._replace(train=[]) if over else data
        store = keep_layers(config, used, needed, cache, watcher)
        if store is not None:
            stack.enter_context(store)
        model = make_model(task, used, static, store, device)
        if force:
            clear(folder)  # not before everything that may be wrong with the new run has been read
        trainer = TaskTrainer(task, model, data.train, data.dev, folder, identity, watcher, started)
        if checkpoint is not None:
            go_on(trainer, checkpoint, over)
        else:
            # A run that was killed before its first checkpoint may have left lines.
            trainer.metrics.resume(0)
        run(trainer)
        return finish(trainer, data, TrainedTask(task, model, used), folder)


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
        identity = identity_of_layers(used.embedder, numbers)
        folder = cache_folder() / "layers" / f"{fingerprint(identity)[:16]}-{layers}"
        watcher.note(f"layers are kept in {folder}")
    store = LayerStore(used.embedder, layers=layers, folder=folder)
    store.add(data.sentences, watcher.layers)
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
    return {
        "settings": settings,
        "bilm": None if used is None else identity_of_bilm(used.embedder),
        "train": fingerprint_of(data.train),
        "dev": fingerprint_of(data.dev),
        # Those of test words change nothing that is learnt, unless the table itself is.
        "static": None if static is None else static.fingerprint(data.learnt_words),
        "trained_words": (
            static.fingerprint() if static is not None and static.trainable else None
        ),
    }


def newest(folder: Path, identity: dict[str, Any]) -> Checkpoint:
    """The newest checkpoint of a folder, if it is of this run."""
    return newest_of_run(Checkpoints(folder / CHECKPOINTS), identity, MAY_CHANGE)


def is_over(checkpoint: Checkpoint, training: TaskTrainingConfig) -> bool:
    """Whether nothing is left to train after a checkpoint."""
    return TaskProgress(**checkpoint.values["progress"]).is_over(training)


def go_on(trainer: TaskTrainer, checkpoint: Checkpoint, over: bool) -> None:
    """Restore a checkpoint."""
    trainer.restore(checkpoint)
    epoch = trainer.progress.epoch
    trainer.watcher.note(
        f"already finished, after epoch {epoch}; dev and test are scored again"
        if over
        else f"resumed in epoch {epoch + 1}"
    )


def run(trainer: TaskTrainer) -> None:
    """Train; an interruption says what is saved."""
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
    write_results(result, trainer.watcher)
    return result
