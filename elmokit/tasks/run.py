"""A whole run: files of examples to the folder of a trained task."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

import torch

from elmokit.config import check_choice
from elmokit.embedder import Embedder
from elmokit.formats.checkpoints import Checkpoint, Checkpoints, fingerprint
from elmokit.formats.fetch import cache_folder
from elmokit.formats.resuming import interrupted, newest_of_run
from elmokit.tasks.bilm_reference import BilmReference
from elmokit.tasks.checkpoints import CHECKPOINTS, Progress, fingerprint_of
from elmokit.tasks.config import MAY_CHANGE, TaskConfig, TrainingConfig
from elmokit.tasks.evaluation import evaluate
from elmokit.tasks.inputs import build_inputs
from elmokit.tasks.layer_store import (
    LayerStore,
    facts_of_bilm,
    facts_of_layers,
    layer_numbers,
)
from elmokit.tasks.reports import mix_reports
from elmokit.tasks.results import TaskResult, write_results
from elmokit.tasks.run_data import Data, Files, as_list, check_files, read_data, read_static
from elmokit.tasks.run_folder import check_folder, claimed, clear
from elmokit.tasks.saved_task import TrainedTask
from elmokit.tasks.static_vectors import StaticVectors
from elmokit.tasks.task import AnyTask, TaskModel
from elmokit.tasks.trained_bilm import UsedBilm
from elmokit.tasks.training import Trainer
from elmokit.tasks.watcher import Watcher
from elmokit.token_vectors import check_device

Cache = Literal["memory", "disk", "none"]

FACTS = {
    "bilm": "another biLM, or of one in another state or precision",
    "train": "other training data (without --dev a part is held out of them)",
    "dev": "other dev data",
    "static": "other static vectors",
    "trained_words": "another set of words whose static vectors learn, to which those of --test "
    "belong",
}
"""What a resumed run must share with its checkpoint, besides the settings."""


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
    with claimed(folder), torch.random.fork_rng(devices=[]), ExitStack() as stack:
        check_files([*as_list(train), *as_list(dev or []), *as_list(test or [])])
        if config.inputs.static is not None:
            check_files([config.inputs.static])
        used = load_bilm(config, bilm, device, watcher)
        config = with_tokenizer(config, used)
        task, data = read_data(config, train, dev, test, watcher)
        static = read_static(config, data, watcher)
        facts = facts_of(task, data, used, static)
        checkpoint = newest(folder, facts) if resume else None
        over = checkpoint is not None and is_over(checkpoint, config.training)
        # A run that is over is scored once more, and its training data are not read.
        needed = data._replace(train=[]) if over else data
        store = keep_layers(config, used, needed, cache, watcher)
        if store is not None:
            stack.enter_context(store)
        model = make_model(task, used, static, store, device)
        if force:
            clear(folder)  # not before everything that may be wrong with the new run has been read
        trainer = Trainer(task, model, data.train, data.dev, folder, facts, watcher, started)
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


def newest(folder: Path, facts: dict[str, Any]) -> Checkpoint:
    """The newest checkpoint of a folder, if it is of this run."""
    return newest_of_run(Checkpoints(folder / CHECKPOINTS), facts, FACTS, MAY_CHANGE)


def is_over(checkpoint: Checkpoint, training: TrainingConfig) -> bool:
    """Whether nothing is left to train after a checkpoint."""
    return Progress(**checkpoint.values["progress"]).is_over(training)


def go_on(trainer: Trainer, checkpoint: Checkpoint, over: bool) -> None:
    """Restore a checkpoint."""
    trainer.restore(checkpoint)
    epoch = trainer.progress.epoch
    trainer.watcher.note(
        f"already finished, after epoch {epoch}; dev and test are scored again"
        if over
        else f"resumed in epoch {epoch + 1}"
    )


def run(trainer: Trainer) -> None:
    """Train; an interruption says what is saved."""
    try:
        trainer.train()
    except KeyboardInterrupt:
        raise interrupted(trainer.checkpoints) from None


def finish(trainer: Trainer, data: Data, trained: TrainedTask, folder: Path) -> TaskResult:
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
