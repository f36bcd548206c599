"""Folder of a trained task: what is in it, checked without loading torch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from elmokit.bundled import version_of
from elmokit.config import naming
from elmokit.errors import FormatError, InputError, MissingFileError
from elmokit.io.files import read_object, sha256_of
from elmokit.tasks.config import TaskConfig
from elmokit.tasks.examples import Labels
from elmokit.tasks.srl.propositions import CONTINUED, VERB
from elmokit.tasks.tags import entity_tag, entity_types, shown_type

FORMAT = "elmokit-task"
VERSION = 1
CONFIG = "config.json"
LABELS = "labels.json"
WEIGHTS = "weights.safetensors"
STATIC = "static.json"
BILM = "bilm"  # the folder of a biLM that was trained with the task
CHECKPOINTS = "checkpoints"  # the folder of them, in that of a run
RESULTS = "results.json"
OF_VERB = (VERB, CONTINUED + VERB)
"""Roles that answers have not: the predicate itself, and the rest of it."""


def is_task(folder: Path) -> bool:
    """Whether a folder is that of a trained task."""
    path = folder / CONFIG
    return path.is_file() and read_object(path).get("format") == FORMAT


class TaskFolder:
    """The folder of a trained task: config.json, read once, and the files that belong to it."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        path = self.folder / CONFIG
        if not path.exists():
            if (self.folder / CHECKPOINTS).is_dir():
                raise InputError(f"{folder}: its training is not finished; continue with --resume")
            raise MissingFileError(f"{folder}: holds no trained task; train one: elmo task train")
        values = read_object(path)
        if values.get("format") != FORMAT:
            raise FormatError(
                f"{path}: format is {values.get('format')!r}, not {FORMAT!r}; "
                "name a folder that elmo task train wrote"
            )
        version = values.get("version")
        if version != VERSION:
            raise FormatError(
                f"{path}: version is {version!r}; this elmokit reads version {VERSION}"
            )
        self.bilm: dict[str, Any] | None = values.get("bilm")  # None without ELMo
        self.sha256: dict[str, str] = values.get("sha256") or {}
        for name in ("task", "bilm", "sha256"):
            if not isinstance(values.get(name, {}), dict if name == "task" else dict | None):
                raise FormatError(f"{path}: {name} is {values[name]!r}; it must be an object")
        with naming(path):
            self.config = TaskConfig.from_dict(values.get("task", {}))

    def file(self, name: str) -> Path:
        """The path of a file, which must be the one that was written with config.json."""
        path = self.folder / name
        if not path.is_file():
            raise MissingFileError(f"{path}: is missing; copy the folder again, or train again")
        if sha256_of(path) != self.sha256.get(name):
            raise FormatError(
                f"{path}: is damaged, or of another task: its SHA-256 is not the one in {CONFIG}; "
                "copy the folder again, or train again"
            )
        return path

    def labels(self) -> Labels:
        """The labels that the task knows."""
        path = self.file(LABELS)
        names = read_object(path).get("labels")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise FormatError(f"{path}: labels must be a list of names; train again")
        return Labels(tuple(names))

    def answer_labels(self) -> tuple[str, ...]:
        """The labels as answers have them: of entities and of roles the types alone."""
        names = self.labels().names
        if self.config.kind not in ("tags", "srl") or not all(map(entity_tag, names)):
            return names
        types = map(shown_type, entity_types(names))
        return tuple(each for each in types if self.config.kind == "tags" or each not in OF_VERB)

    def facts(self) -> dict[str, Any]:
        """What it is and how good, as plain values: the main numbers of its scores."""
        scores = {
            part: {name: value for name, value in score.items() if isinstance(value, float)}
            for part, score in self.scores().items()
        }
        about = {"task": self.config.name, "kind": self.config.kind, "bilm": self.bilm_name()}
        return {**about, "labels": list(self.answer_labels()), "scores": scores}

    def bilm_name(self) -> str | None:
        """What its biLM is called: by its version, or by its folder's name, not by its place."""
        if self.bilm is None:
            return None
        reference = self.bilm.get("reference")
        model = reference.get("model") if isinstance(reference, dict) else None
        version = version_of(str(self.bilm.get("sha256")))
        name = version or Path(str(model or "a model without a name")).name
        return f"{name}, kept in its folder" if self.bilm.get("inside") else name

    def scores(self) -> dict[str, dict[str, Any]]:
        """Its scores on dev and on test, as far as training has left them."""
        path = self.folder / RESULTS
        found = read_object(path) if path.is_file() else {}
        return {part: found[part] for part in ("dev", "test") if isinstance(found.get(part), dict)}


def task_folders(folders: Sequence[str | Path]) -> dict[str, TaskFolder]:
    """Folders of trained tasks, by the names that clients know them by, which must differ."""
    found: dict[str, TaskFolder] = {}
    for folder in folders:
        name = Path(os.path.abspath(folder)).name
        if name in found:
            raise InputError(
                f"{folder}: another task is called {name!r} too, by the name of its folder; rename "
                "one of them"
            )
        found[name] = TaskFolder(folder)
    return found
