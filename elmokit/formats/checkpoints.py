"""Checkpoints of training: a crash at any moment loses neither the newest nor the best."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from elmokit.errors import ConfigError, DiskError, ElmoWarning, FormatError, InputError
from elmokit.formats.files import disk_errors, sha256_of, write_folder_atomically
from elmokit.formats.json_files import read_object, write_object

FORMAT = "elmokit-checkpoint"
VERSION = 1
TENSORS = "state.safetensors"
RECORD = "state.json"
BEST = "best"  # an empty file that marks the folder it is in
AGAIN = "-again"
FOLDER_NAME = re.compile(r"step-(\d{9,})(?:-again)?")
LEFTOVERS = ".tmp-*-step-*"
ROOM_BESIDE_TENSORS = 2**20  # bytes for the record, the folder and the disk's rounding
NAMED_DIFFERENCES = 3

DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


class Checkpoint(NamedTuple):
    """Everything a run needs in order to go on as if it had never stopped."""

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

    Each is a folder `step-000001200` with its tensors, its record, and a mark if it is the best.
    It appears whole, mark included; only then are older ones removed, each by a rename first, so
    whenever the process is killed, each folder that has a name is whole.

    Args:
        folder: Where the checkpoints are; it is made when the first is saved.
        keep: How many of the last to keep; the best is kept besides.
    """

    def __init__(self, folder: str | Path, keep: int = 2) -> None:
        if keep < 1:
            raise ConfigError(f"keep is {keep}; it must be at least 1")
        self.folder = Path(folder)
        self.keep = keep

    def steps(self) -> list[int]:
        """The steps that have a checkpoint, damaged or not, in rising order."""
        return sorted({_step_of(path) for path in self._saved()})

    def newest(self) -> Checkpoint | None:
        """Read the newest checkpoint that is whole; None where there are no checkpoints at all."""
        return self._first_whole(marked=False)

    def best(self) -> Checkpoint | None:
        """Read the checkpoint last saved as the best; None where none was."""
        return self._first_whole(marked=True)

    def save(self, checkpoint: Checkpoint, best: bool = False) -> None:
        """Write a checkpoint, then remove those that are neither the best nor among the last.

        Args:
            checkpoint: What to write. Tensors on other devices are fetched one at a time.
            best: Whether this is the best so far, to be kept until there is a better one.
        """
        record = _record(checkpoint)
        self._finish_what_was_cut_short()
        self._check_not_going_back(checkpoint.step)
        self._make_room(checkpoint)
        first = self._path(checkpoint.step)
        # A second save of a step stands beside the first until it is whole.
        target = first.with_name(first.name + AGAIN) if first.exists() else first
        with write_folder_atomically(target, force=True) as temporary:
            record["sha256"] = _write_tensors(checkpoint.tensors, temporary / TENSORS)
            write_object(record | {"fingerprint": fingerprint(record)}, temporary / RECORD)
            if best or (first / BEST).exists():
                (temporary / BEST).touch()
        self._finish_what_was_cut_short()
        for step in self._outdated(checkpoint.step):
            _discard(self._path(step))

    def _path(self, step: int) -> Path:
        return self.folder / f"step-{step:09d}"

    def _saved(self) -> list[Path]:
        """Folders of checkpoints, the newest first."""
        if not self.folder.is_dir():
            return []
        with disk_errors(self.folder, "read"):
            found = [path for path in self.folder.iterdir() if FOLDER_NAME.fullmatch(path.name)]
        return sorted(found, key=lambda path: (_step_of(path), path.name), reverse=True)

    def _first_whole(self, marked: bool) -> Checkpoint | None:
        """Read the newest folder that is whole, warning of those passed over."""
        problems = []
        for path in self._saved():
            if marked and not (path / BEST).exists():
                continue
            try:
                checkpoint = _read(path)
            except _NewerVersionError:
                raise  # the remedy is to upgrade, not to go back
            except (FormatError, DiskError) as error:
                if not path.exists():  # another process has replaced it by a newer one
                    return self._first_whole(marked)
                problems.append(str(error))
                continue
            for problem in problems:
                message = f"{problem}; {path.name} is used instead"
                warnings.warn(message, ElmoWarning, stacklevel=3)
            return checkpoint
        if problems:
            raise FormatError(f"{problems[0]}; no other can be used instead: start a new run")
        return None

    def _finish_what_was_cut_short(self) -> None:
        """Remove what a killed process left, and let second saves of a step replace the first."""
        for leftover in self.folder.glob(LEFTOVERS):
            shutil.rmtree(leftover, ignore_errors=True)
        for again in self.folder.glob(f"step-*{AGAIN}"):
            first = again.with_name(again.name.removesuffix(AGAIN))
            _discard(first)
            with suppress(OSError):
                os.rename(again, first)

    def _check_not_going_back(self, step: int) -> None:
        """Refuse to save a step before one that is whole: rotation would remove it."""
        later = [other for other in self.steps() if other > step and self._is_whole(other)]
        if later:
            raise InputError(
                f"{self.folder}: already holds step {later[-1]}, and step {step} was to be saved; "
                "resume from there, or choose another folder (--output)"
            )

    def _is_whole(self, step: int) -> bool:
        try:
            _read_record(self._path(step))
        except _NewerVersionError:
            raise
        except (FormatError, DiskError):
            return False
        return True

    def _outdated(self, step: int) -> list[int]:
        """Steps that need not be kept once `step` is saved, the oldest first."""
        before = [other for other in self.steps() if other < step]
        # Whatever lies ahead is damaged: this run has gone back behind it and will make it anew.
        ahead = [other for other in self.steps() if other > step]
        marked = [other for other in (*before, step) if (self._path(other) / BEST).exists()]
        surplus = before[: max(0, len(before) - (self.keep - 1))]
        return [other for other in surplus if other not in marked[-1:]] + ahead

    def _make_room(self, checkpoint: Checkpoint) -> None:
        """Remove outdated checkpoints beforehand if that makes the room that is missing.

        The newest that is whole stays in any case, since the new one may yet fail.
        """
        needed = _bytes_of(checkpoint.tensors) + ROOM_BESIDE_TENSORS
        with disk_errors(self.folder, "written"):
            self.folder.mkdir(parents=True, exist_ok=True)
            free = shutil.disk_usage(self.folder).free
        if free >= needed:
            return
        newest = self._newest_step()
        outdated = [step for step in self._outdated(checkpoint.step) if step != newest]
        sizes = {step: _size_of(self._path(step)) for step in outdated}
        if free + sum(sizes.values()) < needed:
            raise DiskError(
                f"{self.folder}: a checkpoint takes {needed / 1e6:,.1f} MB and "
                f"{free / 1e6:,.1f} MB are free; free some space or choose another disk"
            )
        for step, size in sizes.items():
            if free < needed:
                _discard(self._path(step))
                free += size

    def _newest_step(self) -> int | None:
        """The newest step whose checkpoint is whole."""
        return next((step for step in reversed(self.steps()) if self._is_whole(step)), None)


class _NewerVersionError(FormatError):
    """A checkpoint that is whole, but that only a later elmokit can read."""


def fingerprint(settings: Mapping[str, Any]) -> str:
    """SHA-256 of settings, the same for the same settings in any order."""
    return hashlib.sha256(json.dumps(_as_json(settings), sort_keys=True).encode()).hexdigest()


def check_same_settings(
    saved: Mapping[str, Any], given: Mapping[str, Any], may_differ: Collection[str] = ()
) -> None:
    """Refuse to go on with other settings than those a checkpoint was made with.

    Args:
        saved: The settings in the checkpoint, nested as they are in the file of the run.
        given: The settings of this run.
        may_differ: Dotted names, "training.steps", of settings that may; "logging" stands for all
            settings in it.
    """
    before, here = dict(_flat(_as_json(saved))), dict(_flat(_as_json(given)))
    differing = [
        f"{name} is {_shown(before, name)} in the checkpoint and {_shown(here, name)} here"
        for name in (*before, *(name for name in here if name not in before))
        if not _covered(name, may_differ) and not _same(name, before, here)
    ]
    if differing:
        more = len(differing) - NAMED_DIFFERENCES
        raise ConfigError(
            ", ".join(differing[:NAMED_DIFFERENCES])
            + (f", and {more} more" if more > 0 else "")
            + "; resume with the same settings, or choose another folder (--output)"
        )


def _as_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values as they will be read back: tuples as lists, keys as texts."""
    try:
        return json.loads(json.dumps(values))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"values that JSON cannot hold ({error}); use texts and numbers"
        ) from error


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested settings as pairs of a dotted name and a value."""
    for name, value in settings.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _covered(name: str, may_differ: Collection[str]) -> bool:
    parts = name.split(".")
    return any(".".join(parts[:count]) in may_differ for count in range(1, len(parts) + 1))


def _same(name: str, before: Mapping[str, Any], here: Mapping[str, Any]) -> bool:
    return name in before and name in here and before[name] == here[name]


def _shown(settings: Mapping[str, Any], name: str) -> str:
    if name not in settings:
        return "not set"
    text = json.dumps(settings[name], ensure_ascii=False)
    return text if len(text) <= 60 else text[:59] + "…"


def _step_of(path: Path) -> int:
    return int(path.name.split("-")[1])


def _record(checkpoint: Checkpoint) -> dict[str, Any]:
    """What the JSON file is to hold, refusing beforehand what could not be read back."""
    if checkpoint.step < 0:
        raise InputError(f"step is {checkpoint.step}; it must not be negative")
    for name, tensor in checkpoint.tensors.items():
        if tensor.dtype not in DTYPES:
            raise InputError(f"{name} is of {tensor.dtype}, which a checkpoint cannot hold")
        if name == "__metadata__":
            raise InputError("a tensor is named '__metadata__', which safetensors has taken")
    return {
        "format": FORMAT,
        "version": VERSION,
        "step": checkpoint.step,
        "values": _as_json(checkpoint.values),
    }


def _write_tensors(tensors: Mapping[str, Tensor], path: Path) -> str:
    """Write a safetensors file and return its SHA-256.

    The format's own library wants all tensors on the processor at once and wraps a full disk into
    an error of its own. The format is a header in JSON, and then the numbers.
    """
    sha256 = hashlib.sha256()
    with open(path, "wb") as file:
        for part in _parts(tensors):
            sha256.update(part)
            file.write(part)
    return sha256.hexdigest()


def _parts(tensors: Mapping[str, Tensor]) -> Iterator[bytes | memoryview]:
    """The contents of a safetensors file, one tensor after the other."""
    # The widest types first: so each tensor starts at a multiple of its own item size.
    names = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    yield _header(tensors, names)
    for name in names:
        flat = tensors[name].detach().to("cpu").contiguous().reshape(-1)
        yield flat.view(torch.uint8).numpy().data


def _header(tensors: Mapping[str, Tensor], names: list[str]) -> bytes:
    """Length and JSON of a safetensors header, padded to a multiple of eight bytes."""
    contents: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    start = 0
    for name in names:
        tensor = tensors[name]
        end = start + tensor.nbytes
        contents[name] = {
            "dtype": DTYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
        start = end
    text = json.dumps(contents).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _read(folder: Path) -> Checkpoint:
    """Read a checkpoint after checking that it is what was written."""
    record = _read_record(folder)
    path = folder / TENSORS
    try:
        with safe_open(path, framework="pt") as file:
            # Copies, since safetensors gives views of the file, which rotation may remove.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise FormatError(f"{path}: is not a safetensors file ({error})") from error
    return Checkpoint(record["step"], tensors, record["values"])


def _read_record(folder: Path) -> dict[str, Any]:
    """Read the record of a checkpoint, checking it and the tensors by their sums."""
    path = folder / RECORD
    record = read_object(path)
    if record.get("format") != FORMAT:
        raise FormatError(f"{path}: format is {record.get('format')!r}; it must be {FORMAT!r}")
    if record.pop("fingerprint", None) != fingerprint(record):
        raise FormatError(f"{path}: is damaged: its fingerprint is not that of its contents")
    if record["version"] > VERSION:
        raise _NewerVersionError(
            f"{path}: is of version {record['version']}, this elmokit reads up to {VERSION}; "
            "upgrade it: pip install --upgrade elmokit"
        )
    if record["step"] != _step_of(folder):
        raise FormatError(f"{path}: is of step {record['step']}, which its folder's name denies")
    if sha256_of(folder / TENSORS) != record["sha256"]:
        raise FormatError(f"{folder / TENSORS}: is damaged: its SHA-256 is not that in {RECORD}")
    return record


def _discard(folder: Path) -> None:
    """Remove a folder so that it is whole as long as it has its name.

    What cannot be removed now is tried again at the next save: no reason to stop a run.
    """
    doomed = folder.with_name(f".tmp-{token_hex(4)}-{folder.name}")
    with suppress(OSError):
        os.rename(folder, doomed)
        shutil.rmtree(doomed)


def _bytes_of(tensors: Mapping[str, Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors.values())


def _size_of(folder: Path) -> int:
    with disk_errors(folder, "read"):
        return sum(file.stat().st_size for file in folder.iterdir())
