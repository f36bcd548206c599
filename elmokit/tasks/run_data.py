"""The data of a run: files of examples, prepared, and the static vectors of their words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from elmokit.errors import InputError
from elmokit.formats.files import disk_errors
from elmokit.plurals import counted
from elmokit.tasks.batches import fixed_part, hold_out
from elmokit.tasks.config import FilesConfig, TaskConfig
from elmokit.tasks.examples import AnyExample
from elmokit.tasks.kinds import KINDS
from elmokit.tasks.static_vectors import StaticVectors
from elmokit.tasks.task import AnyTask
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
