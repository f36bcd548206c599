"""The files of a trained task: what they are called, how they are written, read and checked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from elmokit.errors import ConfigError, FormatError, InputError
from elmokit.formats.files import sha256_of, write_atomically
from elmokit.formats.json_files import read_object, write_object
from elmokit.tasks.checkpoints import CHECKPOINTS
from elmokit.tasks.config import TaskConfig
from elmokit.tasks.labels import Labels
from elmokit.tasks.static_vectors import StaticVectors
from elmokit.tasks.task import TaskModel

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
            raise InputError(f"{folder}: its training is not finished; go on with --resume")
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
        raise FormatError(f"{path}: {name} is {values[name]!r}; it must be an object: train anew")


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
        raise FormatError(f"{path}: is missing; copy the folder again, or train anew")
    if sha256_of(path) != (values.get("sha256") or {}).get(name):
        raise FormatError(
            f"{path}: is damaged, or of another task: its SHA-256 is not the one in {CONFIG}; "
            "copy the folder again, or train anew"
        )
    return path


def read_labels(values: Mapping[str, Any], folder: Path) -> Labels:
    """The labels that the task knows."""
    path = checked_file(values, folder, LABELS)
    names = read_object(path).get("labels")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise FormatError(f"{path}: labels is {names!r}; it must be a list of names")
    return Labels(tuple(names))


def read_static(values: Mapping[str, Any], folder: Path) -> StaticVectors | None:
    """The table of static vectors, all zeros; None where there is none."""
    if STATIC not in (values.get("sha256") or {}):
        return None
    return StaticVectors.from_description(read_object(checked_file(values, folder, STATIC)))


def load_weights(model: TaskModel[Any], path: Path) -> None:
    """Give a model the weights of a file."""
    try:
        with safe_open(path, framework="pt") as file:
            weights = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
        model.load_state_dict(weights)
    except (SafetensorError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:120]
        raise FormatError(f"{path}: does not fit {CONFIG} ({reason}); train anew") from error
