"""A trained task as a folder: load it, predict, evaluate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from elmokit.embedder import Embedder
from elmokit.errors import InputError
from elmokit.formats.fetch import Progress
from elmokit.formats.files import disk_errors, sha256_of
from elmokit.formats.native import SavedModel, write_model
from elmokit.tasks.batches import size_of
from elmokit.tasks.bilm_reference import BilmReference
from elmokit.tasks.config import FilesConfig, TaskConfig
from elmokit.tasks.evaluation import Evaluation, answers, evaluate
from elmokit.tasks.examples import AnyExample
from elmokit.tasks.inputs import build_inputs
from elmokit.tasks.kinds import KINDS
from elmokit.tasks.labels import Labels
from elmokit.tasks.layer_store import facts_of_bilm
from elmokit.tasks.predictions import Prediction
from elmokit.tasks.task import AnyTask, TaskModel
from elmokit.tasks.task_folder import (
    BILM,
    CONFIG,
    FORMAT,
    LABELS,
    STATIC,
    VERSION,
    WEIGHTS,
    checked_file,
    load_weights,
    read_config,
    read_labels,
    read_static,
    task_config_of,
    task_weights,
    write_json,
    write_weights,
)
from elmokit.tasks.trained_bilm import UsedBilm, load_trained_bilm
from elmokit.text.tokenizer import Tokenizer, load_tokenizer
from elmokit.token_vectors import check_device

ITEMS_AT_ONCE = 1000


class TrainedTask:
    """A task that can be asked.

    Args:
        task: The kind of task, its settings and labels.
        model: Inputs and network, with trained weights.
        bilm: The biLM that the inputs read; None where there is none.
        tokenizer: What splits raw text; None for what the settings name.
    """

    def __init__(
        self,
        task: AnyTask,
        model: TaskModel[Any],
        bilm: UsedBilm | None = None,
        tokenizer: str | Tokenizer | None = None,
    ) -> None:
        self.task = task
        self.model = model.eval()
        self.bilm = bilm
        tokenizer = tokenizer or task.config.files.tokenizer or "default"
        self.tokenizer = load_tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer

    @property
    def config(self) -> TaskConfig:
        """Its settings."""
        return self.task.config

    @property
    def labels(self) -> Labels:
        """Its classes or tags."""
        return self.task.labels

    def __repr__(self) -> str:
        return f"TrainedTask({self.config.name!r}, {len(self.labels)} labels)"

    @classmethod
    def load(
        cls,
        folder: str | Path,
        *,
        bilm: BilmReference | Embedder | None = None,
        tokenizer: str | Tokenizer | None = None,
        device: str | torch.device | None = None,
        progress: Progress | None = None,
    ) -> TrainedTask:
        """Load the folder of a trained task.

        Args:
            folder: What `elmo task train` wrote.
            bilm: The biLM, where it is not any more where it was; it must be the same.
            tokenizer: What splits raw text, if not what split that of the training files.
            device: Where to compute.
            progress: Told how far a download is.
        """
        folder = Path(folder)
        values = read_config(folder)
        config = task_config_of(values, folder)
        used = load_trained_bilm(values.get("bilm"), folder, bilm, device, progress)
        static = read_static(values, folder)
        task = KINDS[config.kind](config, read_labels(values, folder))
        # What was trained with the task is read as any biLM from now on.
        inputs = build_inputs(
            replace(config.inputs, finetune_bilm=False),
            None if used is None else used.embedder,
            static,
        )
        model: TaskModel[Any] = TaskModel(inputs, task.make_network(inputs.sizes))
        load_weights(model, checked_file(values, folder, WEIGHTS))
        return cls(
            task, model if device is None else model.to(check_device(device)), used, tokenizer
        )

    def save(self, folder: str | Path) -> None:
        """Write the folder; config.json comes last, so what is there with it is whole."""
        folder = Path(folder)
        with disk_errors(folder, "written"):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / CONFIG).unlink(missing_ok=True)
        static = self.model.inputs.static
        if static is not None:
            write_json(folder / STATIC, static.description(), indent=None)
        write_json(folder / LABELS, {"labels": list(self.labels.names)})
        write_weights(folder / WEIGHTS, task_weights(self.model))
        written = [LABELS, WEIGHTS, *([] if static is None else [STATIC])]
        contents = {
            "format": FORMAT,
            "version": VERSION,
            "task": self.config.to_dict(),
            "bilm": None if self.bilm is None else self._write_bilm(self.bilm, folder),
            "sha256": {name: sha256_of(folder / name) for name in written},
        }
        write_json(folder / CONFIG, contents)

    def _write_bilm(self, used: UsedBilm, folder: Path) -> dict[str, Any]:
        """Describe the biLM, and write it if it was trained with the task."""
        embedder, reference = used
        if self.config.inputs.finetune_bilm:
            saved = SavedModel(
                embedder.config,
                embedder.bilm.state_dict(),
                embedder.tokenizer.name,
                embedder.vocabulary,
            )
            write_model(folder / BILM, saved, force=True)
            reference = None
        facts = facts_of_bilm(embedder)
        return {
            "sha256": facts["model"],
            "state": facts["state"],
            "precision": facts["precision"],
            "inside": self.config.inputs.finetune_bilm,
            "reference": None if reference is None else reference.absolute().to_dict(),
        }

    def predict(
        self, items: Iterable[Any], *, places: Sequence[str] | None = None
    ) -> list[Prediction]:
        """Say something of each text: its label, or the tags of its words, with probabilities.

        Args:
            items: Texts, or lists of words; of a task on pairs, pairs of those; of a reader, a
                question and a text. A raw text that is tagged may have several sentences.
            places: What errors call the items.
        """
        return list(self.predictions(items, places=places))

    def predictions(
        self,
        items: Iterable[Any],
        *,
        places: Sequence[str] | None = None,
        progress: Progress | None = None,
        looking_up: Progress | None = None,
    ) -> Iterator[Prediction]:
        """What `predict` gives, one after the other, some computed at once.

        All items are looked at before the first is answered, so that a file of static vectors is
        read once.

        Args:
            items: See `predict`.
            places: What errors call the items.
            progress: Told how many words of the items are read.
            looking_up: Told how many bytes of static vectors are read for new words.
        """
        if isinstance(items, str):
            raise InputError(f"expected a list of texts, got one; write [{items[:40]!r}]")
        givens = [
            self.task.given(item, self.tokenizer, places[n] if places else f"item {n + 1}")
            for n, item in enumerate(items)
        ]
        every = [example for given in givens for example in given.examples]
        self.look_up(every, looking_up)
        report = None if progress is None else WordsOfItems(sum(map(size_of, every)), progress)
        for start in range(0, len(givens), ITEMS_AT_ONCE):
            some = givens[start : start + ITEMS_AT_ONCE]
            examples = [example for given in some for example in given.examples]
            if report is not None:
                report.begin(sum(map(size_of, examples)))
            found = iter(self.task.answered(examples, partial(self._answers, progress=report)))
            for given in some:
                yield self.task.joined(given, list(islice(found, len(given.examples))))

    def _answers(
        self, examples: Sequence[AnyExample], progress: Progress | None = None
    ) -> list[Any]:
        return answers(self.model, examples, self.task.predict, progress)

    def evaluate(
        self,
        *files: str | Path,
        reading: FilesConfig | None = None,
        progress: Progress | None = None,
        looking_up: Progress | None = None,
    ) -> Evaluation:
        """Compare what it says of files of labelled examples with their labels.

        Args:
            files: Files of the task's kind.
            reading: How to read them, if not as the training files were.
            progress: Told how many words of the examples are read.
            looking_up: Told how many bytes of static vectors are read for new words.
        """
        reading = replace(reading or self.config.files, phrases=False)
        examples = [
            example
            for file in files
            for example in self.task.read_after_training(file, reading, self.tokenizer)
        ]
        prepared = self.task.prepare(examples)
        self.look_up(prepared, looking_up)
        return evaluate(self.task, self.model, prepared, progress)

    def look_up(self, examples: Sequence[AnyExample], progress: Progress | None = None) -> None:
        """Find the static vectors of words that were not in the training data."""
        static = self.model.inputs.static
        if static is not None:
            words = {w for each in examples for words in each.sentences for w in words}
            static.look_up(words, progress)


class WordsOfItems:
    """Tells of some items at a time how many words of all are read."""

    def __init__(self, total: int, progress: Progress) -> None:
        self.total = total
        self.progress = progress
        self._before = self._now = 0

    def begin(self, words: int) -> None:
        """Of the next items, which have so many."""
        self._before += self._now
        self._now = words

    def __call__(self, done: int, total: int | None) -> None:
        """So many of them are done; those of a text that several ask about may count once."""
        share = done / total if total else 1.0
        self.progress(self._before + round(share * self._now), self.total)
