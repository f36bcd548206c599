"""A trained task as a folder: load it, predict, evaluate."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from elmokit.config import Precision, State, make
from elmokit.errors import ConfigError, FormatError, InputError
from elmokit.formats.native import SavedModel, write_model
from elmokit.inference.embedder import Embedder
from elmokit.inference.token_vectors import check_device
from elmokit.io.fetch import Progress
from elmokit.io.files import disk_errors, read_object, sha256_of, write_atomically, write_object
from elmokit.tasks.config import FilesConfig, Kind, TaskConfig
from elmokit.tasks.coref.task import CorefTask
from elmokit.tasks.examples import AnyExample, Labels, size_of
from elmokit.tasks.inputs import build_inputs
from elmokit.tasks.labelling import PairTask, TextTask
from elmokit.tasks.layer_store import identity_of_bilm
from elmokit.tasks.predictions import Prediction
from elmokit.tasks.reading.task import ReadingTask
from elmokit.tasks.srl.task import SrlTask
from elmokit.tasks.static_vectors import StaticLookup
from elmokit.tasks.tagging import TagTask
from elmokit.tasks.task import AnyTask, Given, TaskModel
from elmokit.tasks.trainer import CHECKPOINTS, Evaluation, answers, evaluate
from elmokit.text.tokenizer import Tokenizer, load_tokenizer

FORMAT = "elmokit-task"
VERSION = 1
CONFIG = "config.json"
LABELS = "labels.json"
WEIGHTS = "weights.safetensors"
STATIC = "static.json"
BILM = "bilm"
"""The folder of a biLM that was trained with the task."""
OF_BILM = "inputs.elmo.bilm."
"""What the names of its weights begin with, which are not among the task's."""


def read_config(folder: Path) -> dict[str, Any]:
    """Read config.json, refusing folders of other things in one line."""
    path = folder / CONFIG
    if not path.exists():
        if (folder / CHECKPOINTS).is_dir():
            raise InputError(f"{folder}: its training is not finished; continue with --resume")
        raise InputError(f"{folder}: holds no trained task; train one: elmo task train")
    values = read_object(path)
    if values.get("format") != FORMAT:
        raise FormatError(
            f"{path}: format is {values.get('format')!r}, not {FORMAT!r}; "
            "name a folder that elmo task train wrote"
        )
    version = values.get("version")
    if version != VERSION or isinstance(version, bool):
        raise FormatError(f"{path}: version is {version!r}; this elmokit reads version {VERSION}")
    for name in ("sha256", "bilm"):
        check_object(values, name, path)
    check_object(values.get("bilm") or {}, "reference", path)
    return values


def check_object(values: Mapping[str, Any], name: str, path: Path) -> None:
    """Refuse what is there and is no JSON object."""
    if not isinstance(values.get(name), dict | None):
        raise FormatError(f"{path}: {name} is {values[name]!r}; it must be an object: train again")


def config_of(folder: str | Path) -> TaskConfig:
    """The settings of a trained task, without what it has learnt."""
    folder = Path(folder)
    return task_config_of(read_config(folder), folder)


def task_weights(model: TaskModel[Any]) -> dict[str, Tensor]:
    """Everything but the biLM."""
    return {
        name: value for name, value in model.state_dict().items() if not name.startswith(OF_BILM)
    }


def write_json(path: Path, values: Mapping[str, Any], indent: int | None = 2) -> None:
    """Write a file of JSON, whole or not at all."""
    with write_atomically(path) as temporary:
        write_object(values, temporary, indent=indent)


def write_weights(path: Path, weights: Mapping[str, Tensor]) -> None:
    """Write tensors by name, whole or not at all."""
    # safetensors wants each tensor in memory of its own, and lets only the owner read its file.
    own = {name: value.detach().cpu().clone().contiguous() for name, value in weights.items()}
    with write_atomically(path) as temporary:
        temporary.touch()
        mode = temporary.stat().st_mode
        save_file(own, temporary, metadata={"format": "pt"})
        temporary.chmod(mode)


def task_config_of(values: Mapping[str, Any], folder: Path) -> TaskConfig:
    """The settings that config.json holds."""
    settings = values.get("task")
    if not isinstance(settings, dict):
        raise FormatError(f"{folder / CONFIG}: task is {settings!r}; it must be an object")
    try:
        return TaskConfig.from_dict(settings)
    except ConfigError as error:
        raise FormatError(f"{folder / CONFIG}: {error}") from error


def checked_file(values: Mapping[str, Any], folder: Path, name: str) -> Path:
    """The path of a file, which must be the one that was written with config.json."""
    path = folder / name
    if not path.is_file():
        raise FormatError(f"{path}: is missing; copy the folder again, or train again")
    if sha256_of(path) != (values.get("sha256") or {}).get(name):
        raise FormatError(
            f"{path}: is damaged, or of another task: its SHA-256 is not the one in {CONFIG}; "
            "copy the folder again, or train again"
        )
    return path


def read_labels(values: Mapping[str, Any], folder: Path) -> Labels:
    """The labels that the task knows."""
    path = checked_file(values, folder, LABELS)
    names = read_object(path).get("labels")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise FormatError(f"{path}: labels is {names!r}; it must be a list of names")
    return Labels(tuple(names))


def read_static(values: Mapping[str, Any], folder: Path) -> StaticLookup | None:
    """The table of static vectors, all zeros; None where there is none."""
    if STATIC not in (values.get("sha256") or {}):
        return None
    return StaticLookup.from_description(read_object(checked_file(values, folder, STATIC)))


def load_weights(model: TaskModel[Any], path: Path) -> None:
    """Give a model the weights of a file."""
    try:
        with safe_open(path, framework="pt") as file:
            weights = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
        model.load_state_dict(weights)
    except (SafetensorError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:120]
        raise FormatError(f"{path}: does not fit {CONFIG} ({reason}); train again") from error


@dataclass(frozen=True)
class BilmReference:
    """What `Embedder.load` takes."""

    model: str | None = None
    """A model folder, the name of one, or options; None for the bundled model."""
    weights: str | None = None
    vocabulary: str | None = None

    def load(
        self,
        device: str | torch.device | None = None,
        progress: Progress | None = None,
        *,
        state: State = "zero",
        warm_runs: int = 1,
        precision: Precision = "exact",
    ) -> Embedder:
        """Load the model."""
        return Embedder.load(
            self.model,
            self.weights,
            vocabulary=self.vocabulary,
            device=device,
            progress=progress,
            state=state,
            warm_runs=warm_runs,
            precision=precision,
        )

    def is_gone(self) -> bool:
        """Whether it names a place in which nothing is any more."""
        place = self.model or ""
        return os.path.isabs(place) and not Path(place).exists()

    def absolute(self) -> BilmReference:
        """The same, found from any folder; names and addresses stay as they are."""
        return BilmReference(*map(_absolute, (self.model, self.weights, self.vocabulary)))

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON; `from_dict` is its inverse."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> BilmReference:
        """From plain values."""
        return make(cls, values)


def _absolute(location: str | None) -> str | None:
    if location is None or not Path(location).exists():
        return location
    return os.path.abspath(location)


class UsedBilm(NamedTuple):
    """The biLM of a task."""

    embedder: Embedder
    reference: BilmReference | None  # where it is; None where it was made in memory


def load_trained_bilm(
    stored: object,
    folder: Path,
    given: BilmReference | Embedder | None,
    device: str | torch.device | None,
    progress: Progress | None,
) -> UsedBilm | None:
    """The biLM that the task was trained with, checked to be the same."""
    if stored is None:
        if given is not None:
            raise InputError(f"{folder}: was trained without ELMo; give no model")
        return None
    about = cast(dict[str, Any], stored)
    if isinstance(given, Embedder):
        used = UsedBilm(given, None)
    elif given is not None:
        used = UsedBilm(given.load(device, progress, **_manner(about, folder)), given)
    else:
        used = _load_stored(about, folder, device, progress)
    found = identity_of_bilm(used.embedder)
    if found["model"] != about.get("sha256"):
        raise InputError(
            f"{folder}: was trained with another biLM than {_described(used.reference)}; "
            "name its own (--model)"
        )
    for name in ("state", "precision"):
        if found[name] != about.get(name):
            raise InputError(
                f"{folder}: was trained with a biLM whose {name} was {about.get(name)}, and "
                f"{_described(used.reference)} has {found[name]}; load it likewise"
            )
    return used


def _load_stored(
    about: Mapping[str, Any],
    folder: Path,
    device: str | torch.device | None,
    progress: Progress | None,
) -> UsedBilm:
    """The biLM from where it was in training."""
    reference = _stored_reference(about, folder)
    if reference.is_gone():
        raise InputError(
            f"{folder}: the biLM that it was trained with is no longer in {reference.model}; say "
            "where it is now (--model)"
        )
    return UsedBilm(reference.load(device, progress, **_manner(about, folder)), reference)


def _manner(about: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """How a biLM must read, beside what it is, for the same layers."""
    try:
        state, warm_runs = about["state"]
        return {"state": state, "warm_runs": warm_runs, "precision": about["precision"]}
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(
            f"{folder / CONFIG}: does not say in which state and precision the biLM was read; "
            "train again"
        ) from error


def _stored_reference(about: Mapping[str, Any], folder: Path) -> BilmReference:
    if about.get("inside"):
        return BilmReference(str(folder / BILM))
    if about.get("reference") is None:
        raise InputError(
            f"{folder}: its biLM was made in memory and not saved; "
            "give it again: TrainedTask.load(folder, bilm=embedder)"
        )
    try:
        return BilmReference.from_dict(about["reference"])
    except ConfigError as error:
        raise FormatError(f"{folder / CONFIG}: reference: {error}") from error


def _described(reference: BilmReference | None) -> str:
    if reference is None:
        return "the one given"
    return "the bundled one" if reference.model is None else reference.model


KINDS: dict[Kind, type[AnyTask]] = {
    "text": TextTask,
    "tags": TagTask,
    "pair": PairTask,
    "reading": ReadingTask,
    "coref": CorefTask,
    "srl": SrlTask,
}


FIRST_ITEMS = 16
ITEMS_AT_ONCE = 1000
"""How many items are read before the first answer, and then for each answer after it."""
ITEMS_PER_LOOK_UP = 20_000
"""The same where their words are looked up in a file of static vectors, which is read each time."""


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
        identity = identity_of_bilm(embedder)
        return {
            "sha256": identity["model"],
            "state": identity["state"],
            "precision": identity["precision"],
            "inside": self.config.inputs.finetune_bilm,
            "reference": None if reference is None else reference.absolute().to_dict(),
        }

    def predict(
        self, items: Iterable[Any], *, places: Iterable[str] | None = None
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
        places: Iterable[str] | None = None,
        progress: Progress | None = None,
        looking_up: Progress | None = None,
    ) -> Iterator[Prediction]:
        """What `predict` gives of any number of items, in constant memory.

        Some items are read and answered at once: few at first, then more. With a file of static
        vectors they are many, since it is read for each new word among them.

        Args:
            items: See `predict`.
            places: What errors call the items.
            progress: Told how many words of the items are read so far.
            looking_up: Told how many bytes of static vectors are read for new words.
        """
        if isinstance(items, str):
            raise InputError(f"expected a list of texts, got one; write [{items[:40]!r}]")
        if places is None:
            places = (f"item {number}" for number in count(1))
        named = zip(items, places, strict=False)
        givens = (self.task.given(item, self.tokenizer, place) for item, place in named)
        size = most = ITEMS_PER_LOOK_UP
        if self.model.inputs.static is None:
            size, most = min(FIRST_ITEMS, ITEMS_AT_ONCE), ITEMS_AT_ONCE
        report = None if progress is None else WordsOfItems(progress)
        while read := list(islice(givens, size)):
            self.look_up([example for given in read for example in given.examples], looking_up)
            for start in range(0, len(read), ITEMS_AT_ONCE):
                yield from self._predictions_of(read[start : start + ITEMS_AT_ONCE], report)
            size = min(2 * size, most)

    def _predictions_of(
        self, givens: Sequence[Given], report: WordsOfItems | None
    ) -> Iterator[Prediction]:
        examples = [example for given in givens for example in given.examples]
        if report is not None:
            report.begin(sum(map(size_of, examples)))
        found = iter(self.task.answered(examples, partial(self._answers, progress=report)))
        for given in givens:
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
    """Tells of some items at a time how many words are read; of how many, nobody knows."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self._before = self._now = 0

    def begin(self, words: int) -> None:
        """Of the next items, which have so many."""
        self._before += self._now
        self._now = words

    def __call__(self, done: int, total: int | None) -> None:
        """So many of them are done; those of a text that several ask about may count once."""
        share = done / total if total else 1.0
        self.progress(self._before + round(share * self._now), None)
