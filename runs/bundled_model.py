"""Measure a trained model and ship it in elmokit/bundled, with its cards and its version.

    python -m runs.bundled_model english-small checkpoints/english-small
    python -m runs.bundled_model korean-small checkpoints/korean-small
    python -m runs.bundled_model korean-small checkpoints/korean-small --tables context,sts

The second argument is the folder of a run of `elmo pretrain` or `elmo finetune`, or a copy of that
of a shipped model, which gets new cards then. What is measured is what is shipped: the weights in
half precision. Every table of the cards is what one command printed. They are kept in the run's
folder, by the command and the checksum of the weights or of the recipe; a table that is there
already is not made again, so that work cut short continues. With `--tables` only these are made,
and nothing is shipped. The prose around them is in runs/data, for each model a file in English and
one in Korean.

Shipped weights that no version has had before are the next version, or `--version`, and are added
to elmokit/bundled/versions.json.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import fields
from hashlib import sha256
from pathlib import Path

from benchmarks.machine import command_line, one_line_errors
from elmokit.bundled import BUNDLED, ENGLISH_SMALL, KOREAN_SMALL, VERSIONS, known_versions
from elmokit.cli.models import in_words
from elmokit.errors import InputError
from elmokit.formats.find import read_model
from elmokit.formats.native import (
    CARD,
    CONFIG,
    VOCABULARY,
    SavedModel,
    describe,
    write_model,
)
from elmokit.inference.embedder import Embedder
from elmokit.io.files import read_object, sha256_of, write_atomically, write_object
from elmokit.jobs.checkpoints import Checkpoints
from elmokit.pretraining.config import TrainingConfig
from elmokit.pretraining.run import CHECKPOINTS

DATA = "../shared/data"
PROSE = Path(__file__).parent / "data"
NAMES = (ENGLISH_SMALL, KOREAN_SMALL)
CARDS = {"README.md": "_card.md", "README.ko.md": "_card.ko.md"}
"""The cards of a model, and how the names of the files with their prose end."""

HISTORY = re.compile(r"^\| \| \|\n\|---\|---\|\n\| steps \|.*(\n\|.*)*", re.MULTILINE)
"""The table of a card that `elmo pretrain` and `elmo finetune` write."""

Commands = dict[str, list[str]]
"""What makes each table of a card."""


def commands(name: str, model: str) -> Commands:
    """Those of a bundled model, which is measured in the folder `model`."""
    n_grams = [
        "benchmarks.ngram_baseline", "--run", recipe(name), "--orders", "3,5",
        "--vocabulary", f"{model}/{VOCABULARY}",
    ]  # fmt: skip
    of_language = {ENGLISH_SMALL: english, KOREAN_SMALL: korean}[name]
    return {"n_grams": n_grams, **of_language(model)}


def recipe(name: str) -> str:
    """What a model was trained by."""
    return f"runs/{name}.toml"


def english(model: str) -> Commands:
    """Those of a model of English."""
    held_out = f"{DATA}/pretrain-en"
    wikipedia = f"{held_out}/enwiki.heldout.txt.xz"
    return {
        "held_out": [
            "runs.heldout", "--model", model,
            "--text", f"Wikipedia={wikipedia}",
            "--text", f"books={held_out}/books.heldout.txt.xz",
            "--whitespace", f"WikiText-2={DATA}/wikitext-2/wiki.valid.tokens.gz",
        ],
        "context": ["runs.context_check", "--model", model, "--text", wikipedia],
        "examples": ["runs.examples", "--model", model, "--text", wikipedia],
        "mistakes": ["runs.mistakes", "--model", model, "--text", wikipedia],
        "blimp": ["elmokit", "probe", "blimp", f"{DATA}/blimp/blimp.jsonl.gz", "--model", model],
        "probes": [
            "runs.layer_probes", "--model", model, "--ewt", f"{DATA}/ud-ewt",
            "--conll", f"{DATA}/conll2003", "--wsd", f"{DATA}/wsd",
        ],
        "sts": [
            "runs.sentence_vectors", "english", "--model", model, "--sets", "SICK",
            "--pools", "mean",
        ],
    }  # fmt: skip


def korean(model: str) -> Commands:
    """Those of a model of Korean."""
    held_out = f"{DATA}/pretrain-ko"
    wikipedia = f"{held_out}/kowiki.heldout.txt.xz"
    return {
        "held_out": [
            "runs.heldout", "--model", model,
            "--text", f"Wikipedia={wikipedia}",
            "--text", f"film reviews={held_out}/reviews.heldout.txt.xz",
        ],
        "context": ["runs.context_check", "--korean", "--model", model, "--text", wikipedia],
        "examples": ["runs.examples", "--korean", "--model", model, "--text", wikipedia],
        "mistakes": ["runs.mistakes", "--model", model, "--text", wikipedia],
        "sts": [
            "runs.sentence_vectors", "korean", "--model", model, "--sets", "STS", "--pools", "mean",
        ],
    }  # fmt: skip


def measure(
    name: str, model: Path, folder: Path, only: Sequence[str] | None = None
) -> dict[str, str]:
    """The tables, each made by its command or found where it was kept."""
    weights = read_object(model / CONFIG)["weights"]["sha256"]
    tables = {}
    for table, command in commands(name, str(model)).items():
        if only is not None and table not in only:
            continue
        checksum = weights if str(model) in command else sha256_of(recipe(name))
        made_by = sha256(json.dumps([checksum, *command]).encode()).hexdigest()
        kept = folder / "results" / f"{table}-{made_by[:8]}.md"
        if not kept.exists():
            print(f"$ python -m {shlex.join(command)}", flush=True)
            started = time.monotonic()
            run = [sys.executable, "-m", *command]
            done = subprocess.run(run, stdout=subprocess.PIPE, text=True, check=True).stdout
            if command[0] == "elmokit":  # which does not tell what it was run on
                done = f"```\n{done.rstrip()}\n```\n\n{command_line(command[0], command[1:])}\n"
            with write_atomically(kept) as path:
                path.write_text(done, encoding="utf-8")
            print(f"{table}: {time.monotonic() - started:,.0f} s", flush=True)
        tables[table] = kept.read_text(encoding="utf-8").strip()
    return tables


def training_table(card: str) -> str:
    """The history of a model's training, of the card of its run or of one that was shipped.

    Without its perplexity, which is that of the weights before they were halved.
    """
    history = HISTORY.search(card)
    if history is None:
        raise InputError("the model's card has no history of its training; name a run's folder")
    return "\n".join(line for line in history[0].splitlines() if "held-out text" not in line)


def settings_table(run: Path) -> str:
    """The settings of the training of a run that are not the defaults; nothing of a model alone."""
    settings = Checkpoints(run / CHECKPOINTS).settings().get("training", {})
    defaults = {one.name: json.dumps(one.default, default=str) for one in fields(TrainingConfig)}
    rows = [
        f"| `training.{name}` | {json.dumps(value)} |"
        for name, value in settings.items()
        if json.dumps(value) != defaults.get(name)
    ]
    return "\n".join(["| setting | |", "|---|---|", *rows]) if rows else ""


def make_card(
    name: str, saved: SavedModel, tables: dict[str, str], ending: str, settings: str = ""
) -> str:
    """The prose in the file of an ending, with its tables in their places."""
    facts = describe(saved)
    values = {
        **tables,
        "context": lower_headings(tables["context"]),
        "examples": lower_headings(tables["examples"]),
        "training": training_table(saved.card),
        "settings": settings,
        "version": saved.version.rpartition(" ")[2],
        "shape": "\n".join(f"| {name} | {in_words(value)} |" for name, value in facts.items()),
        "parameters": in_words(facts["parameters"]),
        "words": in_words(facts["softmax words"]),
    }
    prose = PROSE / f"{name.replace('-', '_')}{ending}"
    return prose.read_text(encoding="utf-8").format_map(values)


def lower_headings(document: str) -> str:
    """A document as a part of another: its title dropped, its headings a level lower."""
    return re.sub(r"^#", "##", document.partition("\n")[2].strip(), flags=re.MULTILINE)


def version_for(name: str, fingerprint: str, number: int | None) -> str:
    """The version of weights: the one that is asked for, that they had before, or the next."""
    known = known_versions()
    if number is None and fingerprint in known:
        return known[fingerprint]
    before = [each for each in known.values() if each.rpartition(" ")[0] == name]
    return f"{name} {len(before) + 1 if number is None else number}"


def remember(version: str, fingerprint: str, path: Path = VERSIONS) -> None:
    """Add a version to those that are known, in the place of other weights that had its number."""
    versions = {print: name for print, name in read_object(path).items() if name != version}
    ordered = sorted((versions | {fingerprint: version}).items(), key=lambda each: each[1])
    write_object(dict(ordered), path)


def ship(
    name: str,
    run: Path,
    output: Path,
    *,
    number: int | None = None,
    only: Sequence[str] | None = None,
    versions: Path = VERSIONS,
) -> None:
    """Halve the weights, measure them, write them with their cards, remember their version."""
    saved, halved = read_model(run), run / "halved"
    write_model(halved, saved, half=True, force=True)
    fingerprint = Embedder.load(halved).fingerprint()
    saved = saved._replace(version=version_for(name, fingerprint, number))
    tables = measure(name, halved, run, only)
    if only is not None:
        return
    settings = settings_table(run)
    cards = {card: make_card(name, saved, tables, end, settings) for card, end in CARDS.items()}
    write_model(output, saved._replace(card=cards[CARD]), half=True, force=True)
    for card in cards.keys() - {CARD}:
        (output / card).write_text(cards[card], encoding="utf-8")
    if output.resolve() == BUNDLED / name:
        remember(saved.version, fingerprint, versions)
    size = sum(file.stat().st_size for file in output.iterdir())
    print(f"{output.name}: {saved.version}, {size / 1e6:.1f} MB")


@one_line_errors()
def main() -> None:
    """Read the command line; say what went wrong in one line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("run", type=Path, help="the folder of the run")
    parser.add_argument("--output", type=Path, help="where to ship to")
    parser.add_argument("--version", type=int, help="its number; without it, the next one")
    parser.add_argument("--tables", help="make only these, by their names with commas between")
    given = parser.parse_args()
    output, only = given.output or BUNDLED / given.name, given.tables
    known = commands(given.name, "")
    if only is not None and (wrong := set(only.split(",")) - known.keys()):
        raise InputError(f"there is no table {wrong.pop()!r}; there are {', '.join(known)}")
    only = None if only is None else only.split(",")
    ship(given.name, given.run, output, number=given.version, only=only)


if __name__ == "__main__":
    main()
