"""Checkpoints of training: a crash at any moment loses neither the newest nor the best."""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from elmokit.errors import ConfigError, DiskError, ElmoWarning, FormatError, StoppedError
from elmokit.io.files import (
    disk_errors,
    read_object,
    remove_folder,
    remove_leftovers,
    sha256_of,
    write_folder_atomically,
    write_object,
)
from elmokit.jobs.run_folder import as_json, check_same

FORMAT = "elmokit-checkpoint"
VERSION = 1
TENSORS = "state.safetensors"
RECORD = "state.json"
BEST = "best"  # an empty file that marks the folder it is in
FOLDER_NAME = re.compile(r"step-\d{9,}(-\d+|-again)?")
LEFTOVERS = ".tmp-*-step-*"


class Checkpoint(NamedTuple):
    """Everything a run needs in order to resume as if it had never stopped."""

    step: int
    tensors: dict[str, Tensor]  # flat names: "model.forward_lstm.layers.0.bias", "optimiser.…"
    values: dict[str, Any]  # what JSON can hold: data position, settings, best perplexity


def prefixed(prefix: str, tensors: Iterable[tuple[str, Tensor]]) -> dict[str, Tensor]:
    """Tensors of one kind, under the names they have in a checkpoint."""
    return {prefix + name: value for name, value in tensors}


def named(checkpoint: Checkpoint, prefix: str) -> dict[str, Tensor]:
    """Tensors of one kind, under their own names."""
    return {
        name.removeprefix(prefix): value
        for name, value in checkpoint.tensors.items()
        if name.startswith(prefix)
    }


class Checkpoints:
    """The checkpoints of one run, in a folder of their own that one process writes to.

    Each is a folder `step-000001200` with its tensors, its record, and a mark if it is the best;
    a second save of a step is `step-000001200-2`. It appears complete, mark included; only then
    are older ones removed, each by a rename first, so whenever the process is killed, each folder
    that has a name is complete. The last few are kept, and the best besides.
    """

    def __init__(self, folder: str | Path, keep: int = 2) -> None:
        self.folder = Path(folder)
        self.keep = keep

    def steps(self) -> list[int]:
        """The steps that have a checkpoint, damaged or not, in rising order."""
        return sorted({_step_of(path) for path in self._paths()})

    def settings(self) -> dict[str, Any]:
        """Those of the newest checkpoint whose record can be read; opens no tensors."""
        for path in reversed(self._paths()):
            with suppress(FormatError, DiskError, KeyError):
                return dict(read_object(path / RECORD)["values"]["settings"])
        return {}

    def newest(self) -> Checkpoint | None:
        """Read the newest complete checkpoint; None where there are no checkpoints at all."""
        return self._newest_complete(marked=False)

    def best(self) -> Checkpoint | None:
        """Read the checkpoint last saved as the best; None where none was."""
        return self._newest_complete(marked=True)

    def save(self, checkpoint: Checkpoint, best: bool = False) -> None:
        """Write a checkpoint, then remove those that are neither the best nor among the last."""
        values = as_json(checkpoint.values)
        record = {"format": FORMAT, "version": VERSION, "step": checkpoint.step, "values": values}
        remove_leftovers(self.folder)
        earlier = [path for path in self._paths() if _step_of(path) == checkpoint.step]
        best = best or any((path / BEST).exists() for path in earlier)
        number = f"-{_order(earlier[-1])[1] + 1}" if earlier else ""
        target = self.folder / f"step-{checkpoint.step:09d}{number}"
        with write_folder_atomically(target) as temporary:
            write_tensors(checkpoint.tensors, temporary / TENSORS)
            record["sha256"] = sha256_of(temporary / TENSORS)
            write_object(record | {"fingerprint": fingerprint(record)}, temporary / RECORD)
            if best:
                (temporary / BEST).touch()
        self._rotate(target)

    def _paths(self) -> list[Path]:
        """Folders of checkpoints, the oldest first."""
        if not self.folder.is_dir():
            return []
        with disk_errors(self.folder, "read"):
            found = [path for path in self.folder.iterdir() if FOLDER_NAME.fullmatch(path.name)]
        return sorted(found, key=_order)

    def _newest_complete(self, marked: bool) -> Checkpoint | None:
        """Read the newest folder that is complete, warning of those passed over."""
        problems = []
        for path in reversed(self._paths()):
            if marked and not (path / BEST).exists():
                continue
            try:
                checkpoint = _read(path)
            except _NewerVersionError:
                raise  # the remedy is to upgrade, not to go back
            except (FormatError, DiskError) as error:
                if not path.exists():  # another process has replaced it by a newer one
                    return self._newest_complete(marked)
                problems.append(str(error))
                continue
            for problem in problems:
                message = f"{problem}; {path.name} is used instead"
                warnings.warn(message, ElmoWarning, stacklevel=3)
            return checkpoint
        if problems:
            raise FormatError(f"{problems[0]}; no other can be used instead: start a new run")
        return None

    def _rotate(self, saved: Path) -> None:
        """Remove what need not be stored beside `saved`, and damaged ones of later steps."""
        paths = self._paths()
        before = [path for path in paths if _step_of(path) < _step_of(saved)]
        marked = [path for path in (*before, saved) if (path / BEST).exists()]
        last = before[max(0, len(before) - (self.keep - 1)) :]
        for path in paths:
            if path not in (saved, *last, *marked[-1:]):
                with suppress(OSError):  # tried again at the next save: no reason to stop a run
                    remove_folder(path)


class _NewerVersionError(FormatError):
    """A checkpoint that is complete, but that only a later elmokit can read."""


def _order(path: Path) -> tuple[int, int]:
    """Of a checkpoint's folder, its step and which save of that step it is, from 1."""
    _, step, *number = path.name.split("-")
    if number == ["again"]:  # what elmokit 0.1 called a second save until the first was removed
        return int(step), 2
    return int(step), int(number[0]) if number else 1


def _step_of(path: Path) -> int:
    return _order(path)[0]


def write_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write a safetensors file; a full disk is the OSError that it was before safetensors."""
    path.touch()
    mode = path.stat().st_mode
    try:
        save_file(_separated(tensors), path, metadata={"format": "pt"})
    except SafetensorError as error:
        if found := re.search(r"\(os error (\d+)\)", str(error)):
            raise OSError(int(found[1]), str(error)) from error
        raise
    path.chmod(mode)  # safetensors lets only the owner read its file


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file."""
    try:
        with safe_open(path, framework="pt") as file:
            # Copies, since safetensors gives views of the file, which may be removed.
            return {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise FormatError(f"{path}: is not a safetensors file ({error})") from error


def _separated(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors on the CPU, each in memory of its own: safetensors saves no others."""
    separated, storages = {}, set()
    for name, tensor in tensors.items():
        value = tensor.detach().cpu().contiguous()
        storage = value.untyped_storage()
        if storage.data_ptr() in storages or storage.nbytes() != value.nbytes:
            value = value.clone()
        storages.add(value.untyped_storage().data_ptr())
        separated[name] = value
    return separated


def _read(folder: Path) -> Checkpoint:
    """Read a checkpoint after checking, by the sums, that it is what was written."""
    path = folder / RECORD
    record = read_object(path)
    if record.get("format") != FORMAT:
        raise FormatError(f"{path}: format is {record.get('format')!r}; it must be {FORMAT!r}")
    if record.pop("fingerprint", None) != fingerprint(record):
        raise FormatError(f"{path}: is damaged: its fingerprint is not that of its contents")
    if record["version"] > VERSION:
        raise _NewerVersionError(
            f"{path}: is of version {record['version']}, this elmokit reads up to {VERSION}; "
            "install a newer elmokit"
        )
    if record["step"] != _step_of(folder):
        raise FormatError(f"{path}: is of step {record['step']}, which its folder's name denies")
    if sha256_of(folder / TENSORS) != record["sha256"]:
        raise FormatError(f"{folder / TENSORS}: is damaged: its SHA-256 is not that in {RECORD}")
    return Checkpoint(record["step"], read_tensors(folder / TENSORS), record["values"])


def fingerprint(settings: Mapping[str, Any]) -> str:
    """SHA-256 of settings, the same for the same settings in any order."""
    return hashlib.sha256(json.dumps(as_json(settings), sort_keys=True).encode()).hexdigest()


def seed_by(*numbers: int) -> None:
    """Seed torch's generators by some numbers, whatever was drawn before."""
    seed = int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] // 2)
    if torch.cuda.is_available() or torch.backends.mps.is_available():
        torch.manual_seed(seed)
    else:  # without three tracebacks of each call, for devices that may come
        torch.default_generator.manual_seed(seed)


def optimiser_tensors(optimiser: Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """What the optimiser remembers, by the names of the weights: `forward_lstm.….bias.sum`."""
    names: dict[Tensor, str] = {weight: name for name, weight in model.named_parameters()}
    return {
        f"{names[weight]}.{key}": value
        for weight, memory in optimiser.state.items()
        for key, value in memory.items()
    }


def restore_optimiser(
    optimiser: Optimizer, model: nn.Module, tensors: Mapping[str, Tensor]
) -> None:
    """Give the optimiser back what `optimiser_tensors` gave."""
    names: dict[Tensor, str] = {weight: name for name, weight in model.named_parameters()}
    memories: dict[str, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        weight_name, _, key = name.rpartition(".")
        memories.setdefault(weight_name, {})[key] = value
    weights = [weight for group in optimiser.param_groups for weight in group["params"]]
    contents = optimiser.state_dict()
    contents["state"] = {
        number: memories[names[weight]]
        for number, weight in enumerate(weights)
        if names[weight] in memories
    }
    optimiser.load_state_dict(contents)


def newest_of_run(
    checkpoints: Checkpoints, identity: Mapping[str, Any], may_differ: Collection[str]
) -> Checkpoint:
    """The newest checkpoint of a folder that has some, if it is of the same run.

    Their identities, "settings" among them, must be the same; for what may differ see `check_same`.
    """
    checkpoint = checkpoints.newest()
    assert checkpoint is not None  # there was one when the folder was looked at
    advice = "resume with the same, or choose another --output"
    settings = {"settings": identity["settings"]}
    others = {f"settings.{name}" for name in may_differ}
    check_same(checkpoint.values, settings, checkpoints.folder, advice, others, ConfigError)
    check_same(checkpoint.values, identity, checkpoints.folder, advice, others)
    return checkpoint


def interrupted(checkpoints: Checkpoints) -> StoppedError:
    """Say what is saved of a run that was stopped at once, and how to resume."""
    steps = checkpoints.steps()
    if not steps:
        return StoppedError("interrupted before anything was saved; run the same command again")
    return StoppedError(
        f"interrupted; the last checkpoint: step {steps[-1]:,} is saved in {checkpoints.folder}; "
        "run the same command with --resume"
    )
