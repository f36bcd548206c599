"""`elmo info`: what a model is, a trained task, an index, a file of vectors, a run."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from elmokit.cli import options
from elmokit.cli.progress import Display
from elmokit.errors import FormatError


@click.command()
@click.argument("model", nargs=-1, metavar="[MODEL]")
@options.value("--vocabulary", "FILE", "The words of a word-input AllenNLP model.")
@options.as_json
def info(model: tuple[str, ...], vocabulary: str | None, as_json: bool) -> None:
    """Say what a model is: its shape, its size, where it is.

    MODEL is a folder, an archive or a checkpoint of a model, a URL, a published name, hf://user/name
    (Hugging Face), or OPTIONS WEIGHTS; without it, the bundled model. It may also be a trained
    task, the folder of a run, an index of occurrences, a file of vectors, or static vectors.
    """
    if len(model) > 2:
        raise click.UsageError("give a folder, or OPTIONS WEIGHTS")
    facts = other_facts(model[0]) if len(model) == 1 else None
    facts = facts or model_facts(model, vocabulary)
    if as_json:
        click.echo(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    width = max(map(len, facts))
    for name, value in facts.items():
        click.echo(f"{name:<{width}}  {in_words(value)}")


def model_facts(model: tuple[str, ...], vocabulary: str | None) -> dict[str, Any]:
    """What a model is, and the run that made it, where it is in the folder of one."""
    from elmokit.formats.find import find_model, read_model
    from elmokit.formats.native import describe

    with Display() as shown:
        found = find_model(*model, progress=shown.fetching, softmax=True)
        described = describe(read_model(*model, vocabulary=vocabulary, progress=shown.fetching))
    facts = {"model": found.name, "format": found.format, **described, "path": found.path}
    return facts | {"run": run_facts(Path(model[0]))} if is_run(model) else facts


def is_run(named: tuple[str, ...]) -> bool:
    """Whether what is named is the folder of a run."""
    from elmokit.tasks.folder import CHECKPOINTS

    return len(named) == 1 and (Path(named[0]) / CHECKPOINTS).is_dir()


def run_facts(folder: Path) -> dict[str, Any]:
    """How far a run of training is, and what it has measured last."""
    from elmokit.jobs.checkpoints import Checkpoints
    from elmokit.jobs.metrics import METRICS, read_metrics
    from elmokit.tasks.folder import CHECKPOINTS

    checkpoints = Checkpoints(folder / CHECKPOINTS)
    metrics = read_metrics(folder / METRICS) if (folder / METRICS).is_file() else []
    task = checkpoints.settings().get("name")
    steps = checkpoints.steps()
    return {"trains": task or "a model", "checkpoints": steps, "measured": (metrics or [{}])[-1]}


def other_facts(name: str) -> dict[str, Any] | None:
    """What is known of a file or folder that is not a model; None for a model."""
    from elmokit.analysis.neighbours.store import is_index, read_description
    from elmokit.bundled import BUNDLED, BUNDLED_VECTORS, is_bundled
    from elmokit.formats.native import is_native
    from elmokit.io.files import PARTS
    from elmokit.io.text_files import suffix
    from elmokit.static.files import VECTORS_FILE, WRITTEN
    from elmokit.tasks.folder import TaskFolder, is_task
    from elmokit.vectors.files import CONTENTS, FORMATS

    path, place = Path(name), {"path": os.path.abspath(name)}
    if is_task(path):
        return {"name": path.name, "format": "trained task", **TaskFolder(path).facts(), **place}
    if is_index(path):
        known = {key: value for key, value in vars(read_description(path)).items() if key != "run"}
        return {"index": path.name, "format": "index of occurrences", **known, **place}
    if is_bundled(path, BUNDLED_VECTORS):
        return static_facts(name) | {"path": str(BUNDLED / name.lower())}
    if path.suffix == PARTS and path.is_dir():
        what = "unfinished output; the same command with --resume completes it"
        return {"run": path.stem, "format": what, **place}
    if is_run((name,)) and not is_native(path) and not is_native(path / "model"):
        what = "run that is not finished; the same command with --resume continues it"
        return {"run": path.name, "format": what, **run_facts(path), **place}
    if (path / CONTENTS).is_file() or (path.is_file() and path.suffix.lower() in FORMATS):
        with suppress(FormatError):  # weights of AllenNLP have the same suffix
            return vectors_facts(path) | place
    static = (path / VECTORS_FILE).is_file() or (path.is_file() and suffix(path) in WRITTEN)
    return static_facts(name) | place if static else None


def vectors_facts(path: Path) -> dict[str, Any]:
    """How many vectors a file has, of which shape, and what its writer remembered."""
    from elmokit.vectors.files import open_vectors

    with open_vectors(path) as file:
        shape = list(file[0].vectors.shape) if len(file) else None
        about = {"items": len(file), "shape of the first": shape, **file.description}
    return {"vectors": path.name, "format": "vectors of sentences", **about}


def static_facts(name: str) -> dict[str, Any]:
    """How many words static vectors have, and how large they are."""
    from elmokit.static.vectors import StaticVectors

    with Display() as shown, shown.stage("reading vectors", "byte") as advance:
        found = StaticVectors.load(name, progress=advance)
    about = {"words": len(found.words), "vector size": found.vector_size, **found.description}
    return {"static vectors": found.name, "format": "one vector a word", **about}


def in_words(value: object) -> str:
    """A fact in words for people."""
    words = {None: "none", True: "yes", False: "no"}
    if value is None or isinstance(value, bool):
        return words[value]
    if isinstance(value, dict):
        return ", ".join(f"{name} {in_words(each)}" for name, each in value.items()) or "nothing"
    if isinstance(value, list | tuple):
        return ", ".join(map(in_words, value)) or "none"
    if isinstance(value, float):
        return str(round(value, 4))
    return f"{value:,}" if isinstance(value, int) else str(value)


@click.command()
@click.argument("source", nargs=-1, metavar="SRC")
@click.argument("destination", metavar="DST")
@options.choice(
    "--to",
    ("native", "allennlp", "cached-vocabulary", "onnx"),
    "What to write. Without it: the other one of native and allennlp.",
    called="target",
)
@options.value(
    "--vocabulary",
    "FILE",
    "The words of the softmax, of a word-input model, or to cache; one per line.",
)
@options.value("--embedding", "FILE", "A second file with a word-input model's words.")
@options.value("--tokenizer", "NAME", "The tokenizer to record: default, whitespace, kiwi.")
@options.flag("--half", "Store native weights as float16: half the space.")
@options.flag("--int8", "Store an ONNX graph's products in 8 bits: a third of the space.")
@options.threads
@options.flag("--force", "Replace what DST holds.")
def convert(source: tuple[str, ...], destination: str, **settings: Any) -> None:
    """Convert between a model folder and AllenNLP's files, or to ONNX.

    SRC is a folder, an archive or a checkpoint of a model, a published name, hf://user/name, or
    OPTIONS WEIGHTS (paths or URLs). DST is a folder; AllenNLP's options.json and weights.hdf5 are
    written into it. `--to cached-vocabulary` writes the token vectors of the words in
    `--vocabulary` to the HDF5 file DST; `--to onnx` a graph for ONNX Runtime, into the folder DST
    (docs/how-to/use-without-torch.md).

    \b
    Examples:
      elmo convert options.json weights.hdf5 my-model
      elmo convert my-model allennlp-files
      elmo convert my-model words.hdf5 --to cached-vocabulary --vocabulary words.txt
      elmo convert english-small my-onnx --to onnx
    """
    from elmokit.formats.convert import convert_model

    if not source:
        raise click.UsageError(f"name DST too, the folder to write: elmo convert {destination} DST")
    if len(source) > 2:
        raise click.UsageError("SRC is a folder, or OPTIONS WEIGHTS")
    with Display() as shown:
        written = convert_model(source, destination, **settings, progress=shown.fetching)
    click.echo("\n".join(str(path) for path in written))


@click.command()
@click.argument("name", required=False)
@options.flag("--softmax", "Fetch the softmax and its words too, which predict words.")
@options.quiet
def download(name: str | None, softmax: bool, quiet: bool) -> None:
    """Fetch a published model once; without NAME, list them.

    The cache is the folder ELMOKIT_CACHE, or ~/.cache/elmokit. Prints the paths of the files. All
    commands take NAME as a model, with its softmax where that was fetched.
    """
    from elmokit.formats import published

    if name is None:
        for model in published.PUBLISHED_MODELS:
            size = f"{model.megabytes():>4} MB"
            if model.softmax_words:
                size += f", {model.megabytes(softmax=True):,} MB with --softmax"
            click.echo(f"{model.name:<14} {size:<30} {model.description}")
        click.echo(f"efml-LANGUAGE  ELMoForManyLangs: {', '.join(published.EFML_LANGUAGES)}")
        return
    with Display(quiet) as shown:
        shown.note(f"{name}: {published.size_of(name, softmax)}")
        paths = published.fetch(name, softmax, shown.fetching)
    click.echo(" ".join(map(str, paths)))
