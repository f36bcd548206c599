"""What a run measures as it goes: one JSON object per line, and TensorBoard if asked for."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmokit.errors import FormatError, InputError
from elmokit.formats.files import disk_errors, write_atomically

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

METRICS = "metrics.jsonl"
TENSORBOARD = "tensorboard"


class MetricsLog:
    """The measurements of one run, appended to `metrics.jsonl` in its folder.

    Args:
        folder: The folder of the run; it is made when the first line is written.
        tensorboard: Whether to write the same for TensorBoard, into a folder beside.
    """

    def __init__(self, folder: str | Path, tensorboard: bool = False) -> None:
        self.path = Path(folder) / METRICS
        self._tensorboard = _TensorBoard(Path(folder) / TENSORBOARD) if tensorboard else None

    def __enter__(self) -> MetricsLog:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def write(self, step: int, kind: str, values: Mapping[str, Any]) -> None:
        """Append one line, which is in the file when this returns.

        Args:
            step: The step that was measured.
            kind: "train" or "validation".
            values: Numbers by name. What is no number, NaN or infinity, is written as null.
        """
        numbers = {name: _plain(value) for name, value in values.items()}
        line = json.dumps({"step": step, "kind": kind} | numbers, allow_nan=False) + "\n"
        with disk_errors(self.path, "written"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            _cut_half_line(self.path)
            with open(self.path, "ab") as file:
                file.write(line.encode())
        if self._tensorboard is not None:
            self._tensorboard.write(step, kind, numbers)

    def resume(self, step: int) -> None:
        """Forget what was measured after `step`, since it will be measured again."""
        if self._tensorboard is not None:
            self._tensorboard.resume(step)
        if not self.path.exists():
            return
        kept = [line for line in read_metrics(self.path) if line.get("step", 0) <= step]
        with write_atomically(self.path) as temporary:
            text = "".join(json.dumps(line) + "\n" for line in kept)
            temporary.write_text(text, encoding="utf-8")

    def close(self) -> None:
        """Finish the files of TensorBoard; the lines need no closing."""
        if self._tensorboard is not None:
            self._tensorboard.close()


def read_metrics(path: str | Path) -> list[dict[str, Any]]:
    """Read a file of metrics, except for a last line that was cut off in the middle."""
    path = Path(path)
    with disk_errors(path, "read"):
        lines = path.read_bytes().split(b"\n")
    metrics = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            metrics.append(_parsed(line))
        except ValueError as error:
            if any(rest.strip() for rest in lines[number:]):
                raise FormatError(
                    f"{path}, line {number}: is not a JSON object ({error}); remove the line"
                ) from error
    return metrics


def _parsed(line: bytes) -> dict[str, Any]:
    values = json.loads(line.decode("utf-8"))
    if not isinstance(values, dict):
        raise ValueError(f"it holds a {type(values).__name__}")
    return values


def _plain(value: Any) -> int | float | str | None:
    """A number as JSON can hold it; tensors and arrays of one number are accepted."""
    if value is None or isinstance(value, (int, str)):
        return value
    number = float(value)
    return number if math.isfinite(number) else None


def _cut_half_line(path: Path) -> None:
    """Remove what a killed process wrote of its last line, which the next would be glued to."""
    if not path.exists():
        return
    with open(path, "rb+") as file:
        end = file.seek(0, os.SEEK_END)
        if end == 0:
            return
        file.seek(-1, os.SEEK_END)
        if file.read(1) == b"\n":
            return
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)


class _TensorBoard:
    """Events for TensorBoard; its file is made when the first is written."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise InputError(
                'TensorBoard is not installed; run: pip install "elmokit[tensorboard]"'
            ) from error
        self._make_writer = SummaryWriter
        self._folder = folder
        self._first_step: int | None = None
        self._writer: SummaryWriter | None = None

    def resume(self, step: int) -> None:
        self.close()
        self._first_step = step + 1

    def write(self, step: int, kind: str, numbers: Mapping[str, int | float | str | None]) -> None:
        with disk_errors(self._folder, "written"):
            if self._writer is None:
                self._writer = self._make_writer(str(self._folder), purge_step=self._first_step)
            for name, number in numbers.items():
                if isinstance(number, (int, float)):
                    self._writer.add_scalar(f"{kind}/{name}", number, step)
            self._writer.flush()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
