"""The variants of the tables' tasks, and one run of any of them.

A run that is done is not run again, under whichever name: its folder keeps the results, their
settings, and where they were measured.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from benchmarks.machine import describe, mean_and_deviation
from benchmarks.text import REPOSITORY
from elmokit.bundled import BUNDLED
from elmokit.cli.progress import Display
from elmokit.errors import ConfigError, InputError
from elmokit.formats.native import weights_file
from elmokit.io.files import sha256_of, write_atomically
from elmokit.system import keep_large_blocks
from elmokit.tasks.catalogue import task_config
from elmokit.tasks.config import TaskConfig
from elmokit.tasks.folder import CHECKPOINTS, RESULTS
from elmokit.tasks.run import train_task
from elmokit.tasks.trained import BilmReference
from runs.task_rows import DATA, GLOVE, ROWS, Language, Row

FOLDER = REPOSITORY / "checkpoints/tasks"
MADE = "made.txt"

Settings = Mapping[str, Any]

BASELINE, ELMO, BOTH = "baseline", "ELMo", "baseline + ELMo"
STATIC: Settings = {"inputs.static": "of the row's language"}
VARIANTS: dict[str, Settings] = {
    BASELINE: {**STATIC, "inputs.elmo": "none"},
    ELMO: {"inputs.characters": False},
    BOTH: STATIC,
}


class Scores(NamedTuple):
    """What runs that differ by their seed have come to."""

    tests: tuple[float, ...]  # per cent
    seconds: tuple[float, ...]  # of all: reading, computing layers, training, scoring
    made: frozenset[str]  # where, when, and from which commit
    beside: tuple[float, ...] = ()  # a second measure, per cent, where a row has one

    @property
    def mean(self) -> float:
        """Of the seeds."""
        return mean(self.tests)

    def cell(self) -> str:
        """Mean and deviation; in brackets those of the second measure."""
        shown = mean_and_deviation(self.tests)
        return f"{shown} ({mean_and_deviation(self.beside)})" if self.beside else shown


def run_seeds(row: str, name: str, settings: Settings, seeds: Iterable[int]) -> Scores:
    """Train a task once for each seed, unless that is done; how each did on the test data."""
    found = [run_one(row, name, settings, seed) for seed in seeds]
    beside = ROWS[row].beside
    return Scores(
        tuple(100 * main_score(results["test"]) for results, _ in found),
        tuple(results["seconds_in_all"] for results, _ in found),
        frozenset(made for _, made in found),
        () if beside is None else tuple(100 * results["test"][beside] for results, _ in found),
    )


def run_one(row: str, name: str, settings: Settings, seed: int) -> tuple[dict[str, Any], str]:
    """The results of one run, and where it was made."""
    folder = run_folder(row, name, settings, seed)
    found = results_in(folder)
    assert found is not None  # a run that ends has written them
    return found, made_in(folder)


def run_folder(row: str, name: str, settings: Settings, seed: int) -> Path:
    """The folder of one run, which is trained unless that is done."""
    wanted = config_of(ROWS[row], settings, seed)
    runs = FOLDER / inputs_of(wanted, ROWS[row].language) / row
    folder = done_before(runs, wanted)
    if folder is None:
        print(f"{row}, {name}, seed {seed}", file=sys.stderr, flush=True)
        folder = runs / f"{plain(name)}-{seed}"
        train(ROWS[row], wanted, folder)
    return folder


def config_of(row: Row, settings: Settings, seed: int) -> TaskConfig:
    """All settings of a run; static vectors are those of the row's language."""
    settings = {**row.settings, **settings, "training.seed": seed}
    if "inputs.static" in settings:
        settings["inputs.static"] = str(row.language.static)
    return task_config(row.task, settings=settings)


def made_in(folder: Path) -> str:
    """Where a run was made."""
    made = folder / MADE
    return made.read_text(encoding="utf-8") if made.exists() else "unknown"


@contextmanager
def noted(folder: Path, before: str | None = None) -> Iterator[None]:
    """Note in a run's folder where it is made, of a run that is stopped too.

    Args:
        folder: The run's.
        before: Where what continues was made.
    """
    where = describe()  # before: a commit made meanwhile is not what is measured
    if before is not None:
        where = before if before.endswith(where) else f"{before}, and from there on {where}"
    begun = True
    try:
        yield
    except (ConfigError, InputError):
        begun = False
        raise
    finally:
        if begun and folder.exists():
            with write_atomically(folder / MADE) as temporary:
                temporary.write_text(where, encoding="utf-8")


def done_before(runs: Path, wanted: TaskConfig) -> Path | None:
    """The folder of a finished run with the settings that are wanted."""
    for folder in sorted(runs.glob("*")):
        found = results_in(folder)
        if found is not None and is_of(found, wanted):
            return folder
    return None


def results_in(folder: Path) -> dict[str, Any] | None:
    """What a run has come to; None where there is none that is finished."""
    path = folder / RESULTS
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def is_of(results: Mapping[str, Any], wanted: TaskConfig) -> bool:
    """Whether results were made with the settings that are wanted."""
    try:
        made_with = TaskConfig.from_dict(results["config"])
    except ConfigError:
        return False
    return comparable(made_with, made_with) == comparable(wanted, made_with)


def comparable(config: TaskConfig, made_with: TaskConfig) -> TaskConfig:
    """Settings without what a run fills in, and wherever the static vectors lie."""
    files, inputs = config.files, config.inputs
    if files.tokenizer is None:
        files = replace(files, tokenizer=made_with.files.tokenizer)
    if inputs.static is not None:
        inputs = replace(inputs, static=Path(inputs.static).name)
    return replace(config, files=files, inputs=inputs)


def inputs_of(config: TaskConfig, language: Language) -> str:
    """The folder of all runs on the same inputs: one for each version of what is bundled."""
    weights = weights_file(BUNDLED / language.model)
    inputs = [version(weights) if config.inputs.uses_elmo else "without-elmo"]
    if config.inputs.static is not None and language.static != GLOVE:
        inputs.append(version(language.static))
    return "-".join(inputs)


def plain(name: str) -> str:
    """A variant's name as that of a file."""
    return "".join(letter if letter.isalnum() or letter in ".%" else "-" for letter in name)


def version(file: Path) -> str:
    """Which version of a bundled file this is: the beginning of its checksum."""
    return sha256_of(file)[:8]


def train(row: Row, config: TaskConfig, folder: Path) -> None:
    """One run, into its folder.

    One that was stopped continues, if its settings are the same; any other is replaced.
    """
    if (folder / CHECKPOINTS).exists() and results_in(folder) is None:
        try:
            with noted(folder, made_in(folder)):
                run(row, config, folder, resume=True)
            return
        except ConfigError:
            pass  # what was stopped was of other settings
    (folder / MADE).unlink(missing_ok=True)  # of what is replaced
    with noted(folder):
        run(row, config, folder, force=folder.exists())


def run(
    row: Row, config: TaskConfig, folder: Path, *, resume: bool = False, force: bool = False
) -> None:
    """Train on the data of a row."""
    keep_large_blocks()  # as `elmo task train` does
    with Display() as shown:
        train_task(
            config,
            folder,
            train=[DATA / file for file in row.train_files],
            dev=None if row.dev is None else DATA / row.dev,
            test=DATA / row.test,
            bilm=BilmReference(row.language.model),
            cache="disk",
            resume=resume,
            force=force,
            observer=shown,
        )


def main_score(scores: Mapping[str, Any]) -> float:
    """The number of a task's results that counts."""
    return float(scores["f1"] if "f1" in scores else scores["accuracy"])


def error_reduction(before: float, after: float) -> float:
    """By which share of the errors of `before` there are fewer in `after`, both in per cent.

    >>> round(error_reduction(90.15, 92.22), 2)
    0.21
    """
    return (after - before) / (100 - before)


class Asked(NamedTuple):
    """What a command line asks for."""

    rows: list[str]
    seeds: tuple[int, ...] | None  # None for those of each row
    command: str  # as it was given
    given: argparse.Namespace

    def seeds_of(self, row: str) -> tuple[int, ...]:
        """The seeds that a row is run with."""
        return ROWS[row].seeds if self.seeds is None else self.seeds


def asked_for(
    script: str,
    parser: argparse.ArgumentParser,
    rows: Sequence[str],
    arguments: Sequence[str] | None,
) -> Asked:
    """Rows and seeds of a command line, which every script of tables takes.

    Args:
        script: The name of its module.
        parser: With options of its own, or without.
        rows: Those that are made if none are named.
        arguments: The command line; None for that of this process.
    """
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)}")
    parser.add_argument("--seeds", type=int, nargs="+", metavar="N")
    arguments = sys.argv[1:] if arguments is None else arguments
    given = parser.parse_args(arguments)
    if unknown := sorted(set(given.rows) - set(ROWS)):
        parser.error(f"no row is called {unknown[0]}; use {', '.join(ROWS)}")
    command = " ".join([f"python -m {script}", *arguments])
    seeds = None if given.seeds is None else tuple(given.seeds)
    return Asked(given.rows or list(rows), seeds, command, given)


def sources(command: str, scores: Iterable[Scores]) -> str:
    """The command, and where all runs were made."""
    made = sorted(frozenset().union(*(one.made for one in scores)))
    return f"`{command}`: {'; '.join(made)}"
