"""A trained task as a folder: load it, predict, evaluate."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any, NamedTuple

import torch

from elmokit.bundled import version_of
from elmokit.config import Settings, make_table, naming
from elmokit.errors import ElmoWarning, FormatError, InputError
from elmokit.formats.native import SavedModel, check_finite, misfit, write_model
from elmokit.formats.published import check_fetched
from elmokit.inference.embedder import Embedder
from elmokit.inference.token_vectors import check_device
from elmokit.io.fetch import Progress
from elmokit.io.files import disk_errors, read_object, sha256_of, write_atomically, write_json
from elmokit.io.text_files import TextSettings
from elmokit.jobs.checkpoints import read_tensors, write_tensors
from elmokit.jobs.progress import Observer
from elmokit.model.weights import without_values
from elmokit.tasks.config import Kind, TaskConfig
from elmokit.tasks.coref.task import CorefTask
from elmokit.tasks.examples import AnyExample, Labels, size_of
from elmokit.tasks.files.examples import after_training, read_examples
from elmokit.tasks.folder import (
    BILM,
    CONFIG,
    FORMAT,
    LABELS,
    STATIC,
    VERSION,
    WEIGHTS,
    TaskFolder,
)
from elmokit.tasks.inputs import StaticLookup, build_inputs
from elmokit.tasks.labelling import PairTask, TagTask, TextTask
from elmokit.tasks.layer_store import identity_of_bilm
from elmokit.tasks.reading.task import ReadingTask
from elmokit.tasks.srl.task import SrlTask
from elmokit.tasks.task import AnyTask, ParsedInput, Prediction, TaskModel
from elmokit.tasks.trainer import Evaluation, answers, evaluate
from elmokit.text.tokenizer import AnyTokenizer, Tokenizer, tokenizer_of

OF_BILM = "inputs.elmo.bilm."
"""What the names of its weights begin with, which are not among the task's."""


def load_static(folder: TaskFolder) -> StaticLookup | None:
    """The table of static vectors, all zeros; None where there is none."""
    if STATIC not in folder.sha256:
        return None
    path = folder.file(STATIC)
    described = read_object(path)
    try:
        if not all(isinstance(word, str) for word in described["words"]):
            raise ValueError("has numbers where words belong")
        if described["size"] * len(described["words"]) > folder.file(WEIGHTS).stat().st_size:
            raise ValueError(f"has more numbers than {WEIGHTS}")
        return StaticLookup.from_description(described)
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{path}: describes no static vectors ({error}); train again") from error


def load_model(folder: TaskFolder, build: Callable[[], TaskModel[Any]]) -> TaskModel[Any]:
    """A model with its weights, whose shapes are compared before it takes any memory."""
    path = folder.file(WEIGHTS)
    weights = read_tensors(path)
    try:
        with without_values():
            expected = build().state_dict()
    except (RuntimeError, TypeError) as error:  # more numbers than torch can count
        reason = " ".join(str(error).split())[:120]
        raise FormatError(f"{folder.folder / CONFIG}: describes no network ({reason})") from error
    shapes = [{name: tuple(v.shape) for name, v in some.items()} for some in (expected, weights)]
    if wrong := misfit(*shapes):
        raise FormatError(f"{path}: does not fit {CONFIG} ({wrong}); train again")
    for name, value in weights.items():
        if value.dtype != expected[name].dtype:
            raise FormatError(f"{path}: {name} holds {value.dtype}, not {expected[name].dtype}")
        check_finite(value, f"{path}: {name}")
    model = build()
    model.load_state_dict(weights)
    return model


def load_bilm_of(
    folder: TaskFolder,
    given: BilmReference | Embedder | None,
    device: str | torch.device | None,
    progress: Progress | None,
) -> UsedBilm | None:
    """The biLM that the task was trained with, checked to be the same."""
    if folder.bilm is None:
        if given is not None:
            raise InputError(f"{folder.folder}: was trained without ELMo; give no model")
        return None
    if isinstance(given, Embedder):
        used = UsedBilm(given, None)
    else:
        reference = given or _reference(folder, folder.bilm)
        manner = _manner(folder, folder.bilm)
        manner["softmax"] = given is None and bool(folder.bilm.get("inside"))
        embedder = reference.load(device, progress, **manner)
        used = UsedBilm(embedder, reference, keep=manner["softmax"])
    found = identity_of_bilm(used.embedder)
    if found["model"] != folder.bilm.get("sha256"):
        was, here = version_of(str(folder.bilm.get("sha256"))), version_of(found["model"])
        told = another_bilm(was, here, used.described())
        raise InputError(f"{folder.folder}: was trained with {told} (--model)")
    for name in ("state", "precision"):
        if found[name] != folder.bilm.get(name):
            raise InputError(
                f"{folder.folder}: was trained with a biLM whose {name} was "
                f"{folder.bilm.get(name)}, and {used.described()} has {found[name]}; load it "
                "likewise"
            )
    return used


def another_bilm(was: str, here: str, described: str) -> str:
    """Say which biLM a task was trained with, by its version if it has one, and what to do."""
    if not was:
        return f"another biLM than {described}{here and f' ({here})'}; name its own"
    this = f"{described} is {here or 'another model'}"
    return f"{was}, and {this}; train again, or name the folder of {was}"


def _manner(folder: TaskFolder, about: Mapping[str, Any]) -> dict[str, Any]:
    """How a biLM must read, beside what it is, for the same layers."""
    try:
        state, warm_runs = about["state"]
        return {"state": state, "warm_runs": warm_runs, "precision": about["precision"]}
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(
            f"{folder.folder / CONFIG}: does not say in which state and precision the biLM was "
            "read; train again"
        ) from error


def _reference(folder: TaskFolder, about: Mapping[str, Any]) -> BilmReference:
    """Where the biLM was in training."""
    if about.get("inside"):
        return BilmReference(str(folder.folder / BILM))
    if about.get("reference") is None:
        raise InputError(
            f"{folder.folder}: its biLM was made in memory and not saved; "
            "give it again: TrainedTask.load(folder, bilm=embedder)"
        )
    with naming(folder.folder / CONFIG):
        reference: BilmReference = make_table(BilmReference, "reference", about["reference"])
    for place in filter(None, (reference.model, reference.weights, reference.vocabulary)):
        check_fetched(place, f"{folder.folder}: its biLM", "name it to fetch it (--model)")
    place = reference.model or ""
    if os.path.isabs(place) and not os.path.exists(place):
        raise InputError(
            f"{folder.folder}: the biLM that it was trained with is no longer in {place}; say "
            "where it is now (--model)"
        )
    return reference


@dataclass(frozen=True)
class BilmReference(Settings):
    """What `Embedder.load` takes."""

    model: str | None = None
    """A model folder, the name of one, or options; None for the bundled model."""
    weights: str | None = None
    vocabulary: str | None = None

    def load(
        self, device: str | torch.device | None, progress: Progress | None, **manner: Any
    ) -> Embedder:
        """Load the model; `manner` says how it reads, and if its softmax is to be written."""
        return Embedder.load(
            self.model,
            self.weights,
            vocabulary=self.vocabulary,
            device=device,
            progress=progress,
            **manner,
        )

    def absolute(self) -> BilmReference:
        """The same, found from any folder; names and URLs stay as they are."""
        given = (self.model, self.weights, self.vocabulary)
        return BilmReference(
            *(os.path.abspath(each) if each and os.path.exists(each) else each for each in given)
        )


class UsedBilm(NamedTuple):
    """The biLM of a task."""

    embedder: Embedder
    reference: BilmReference | None  # where it is; None where it was made in memory
    keep: bool = False  # in the folder of the task

    def described(self) -> str:
        """What errors call it."""
        if self.reference is None:
            return "the one given"
        return "the bundled one" if self.reference.model is None else self.reference.model


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


OF_GIVEN_WORDS = ("tags", "srl", "coref")
GIVEN_WORDS = (
    "raw text is split into Kiwi's morphemes; if the words that this task was trained on are not "
    "Kiwi's, give lists of such words"
)


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
        tokenizer: AnyTokenizer | None = None,
    ) -> None:
        self.task = task
        self.model = model.eval()
        self.bilm = bilm
        self._warned = False
        self.tokenizer = tokenizer_of(tokenizer or task.config.files.tokenizer or "default")

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
        folder: str | Path | TaskFolder,
        *,
        bilm: BilmReference | Embedder | None = None,
        tokenizer: AnyTokenizer | None = None,
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
        opened = folder if isinstance(folder, TaskFolder) else TaskFolder(folder)
        config = opened.config
        used = load_bilm_of(opened, bilm, device, progress)
        task = KINDS[config.kind](config, opened.labels())
        # What was trained with the task is read as any biLM from now on.
        settings = replace(config.inputs, finetune_bilm=False)

        def build() -> TaskModel[Any]:
            embedder = None if used is None else used.embedder
            inputs = build_inputs(settings, embedder, load_static(opened))
            return TaskModel(inputs, task.make_network(inputs.sizes))

        model = load_model(opened, build)
        if device is not None:
            model = model.to(check_device(device))
        return cls(task, model, used, tokenizer)

    def save(self, folder: str | Path) -> None:
        """Write the folder; config.json comes last, so what is there with it is complete."""
        folder = Path(folder)
        with disk_errors(folder, "written"):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / CONFIG).unlink(missing_ok=True)
        static = self.model.inputs.static
        if static is not None:
            write_json(folder / STATIC, static.description(), indent=None)
        write_json(folder / LABELS, {"labels": list(self.labels.names)})
        weights = self.model.state_dict().items()
        with write_atomically(folder / WEIGHTS) as temporary:
            of_task = {name: value for name, value in weights if not name.startswith(OF_BILM)}
            write_tensors(of_task, temporary)
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
        """Describe the biLM, and write it if it is to be kept or was trained with the task."""
        embedder, reference, keep = used
        keep = keep or self.config.inputs.finetune_bilm
        identity = identity_of_bilm(embedder)
        if keep:
            saved = SavedModel(
                embedder.config,
                embedder.bilm.state_dict(),
                embedder.tokenizer.name,
                embedder.vocabulary,
                version=version_of(identity["model"]),
            )
            half = all(torch.equal(each, each.half().float()) for each in saved.weights.values())
            write_model(folder / BILM, saved, half=half, force=True)
            reference = None
        return {
            "sha256": identity["model"],
            "state": identity["state"],
            "precision": identity["precision"],
            "inside": keep,
            "reference": None if reference is None else asdict(reference.absolute()),
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
        observer: Observer | None = None,
    ) -> Iterator[Prediction]:
        """What `predict` gives of any number of items, in constant memory.

        Some items are read and answered at once: few at first, then more. With a file of static
        vectors they are many, since it is read for each new word among them.
        """
        if isinstance(items, str):
            raise InputError(f"expected a list of texts, got one; write [{items[:40]!r}]")
        if places is None:
            places = (f"item {number}" for number in count(1))
        named = zip(items, places, strict=False)
        inputs = (self.parse(item, place) for item, place in named)
        size = most = ITEMS_PER_LOOK_UP
        if self.model.inputs.static is None:
            size, most = min(FIRST_ITEMS, ITEMS_AT_ONCE), ITEMS_AT_ONCE
        observer = observer or Observer()
        with observer.stage("predicting", "word") as advance:
            done = 0
            while read := list(islice(inputs, size)):
                self.look_up([one for parsed in read for one in parsed.examples], observer)
                for start in range(0, len(read), ITEMS_AT_ONCE):
                    some = read[start : start + ITEMS_AT_ONCE]
                    words = sum(size_of(one) for parsed in some for one in parsed.examples)
                    yield from self.predict_parsed(some, partial(_part, advance, done, words))
                    done += words
                size = min(2 * size, most)

    def parse(self, item: Any, place: str, tokenizer: Tokenizer | None = None) -> ParsedInput:
        """What somebody asks about, as sentences of words; `place` names it in errors."""
        split_by = self.tokenizer if tokenizer is None else tokenizer
        parsed = self.task.parse_input(item, split_by, place)
        of_given_words = parsed.text is not None and self.task.kind in OF_GIVEN_WORDS
        if of_given_words and self.tokenizer.name == "kiwi" and not self._warned:
            self._warned = True
            warnings.warn(GIVEN_WORDS, ElmoWarning, stacklevel=2)
        return parsed

    def predict_parsed(
        self, inputs: Sequence[ParsedInput], progress: Progress | None = None
    ) -> Iterator[Prediction]:
        """Predictions for what `parse` gave, all computed at once."""
        examples = [example for parsed in inputs for example in parsed.examples]
        found = iter(self.predict_examples(examples, progress))
        for parsed in inputs:
            yield self.task.merge_predictions(parsed, list(islice(found, len(parsed.examples))))

    def predict_examples(
        self, examples: Sequence[AnyExample], progress: Progress | None = None
    ) -> Sequence[Any]:
        """What is said of each, of which `Task.merge_predictions` makes predictions."""
        return self.task.predict_batches(
            examples, lambda some: answers(self.model, some, self.task.predict, progress)
        )

    def evaluate(
        self,
        *files: str | Path,
        reading: TextSettings | None = None,
        observer: Observer | None = None,
    ) -> Evaluation:
        """Compare what it says of files of labelled examples with their labels.

        Args:
            files: Files of the task's kind.
            reading: How to read them, if not as the training files were.
            observer: Told how far it is.
        """
        reading = replace(reading or self.config.files, phrases=False)
        kind, examples = self.task.kind, []
        for file in files:
            settings = after_training(kind, file, reading, self.config.files)
            examples += read_examples(kind, file, settings, self.tokenizer)
        prepared = self.task.prepare(examples)
        observer = observer or Observer()
        self.look_up(prepared, observer)
        with observer.stage("scoring", "word") as progress:
            return evaluate(self.task, self.model, prepared, progress)

    def look_up(self, examples: Sequence[AnyExample], observer: Observer) -> None:
        """Find the static vectors of words that were not in the training data."""
        static = self.model.inputs.static
        if static is not None:
            words = {w for each in examples for words in each.sentences for w in words}
            with observer.stage("reading static vectors", "byte") as progress:
                static.look_up(words, progress)


def _part(advance: Progress, before: int, words: int, done: int, total: int | None) -> None:
    """Tell that a part of some items is done, by their words' share: a text may be read once."""
    advance(before + round(words * done / total if total else words), None)
