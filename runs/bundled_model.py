"""Measure a trained model and ship it in elmokit/bundled, with its card.

    elmo pretrain runs/english-small.toml --output checkpoints/english-small
    python -m runs.bundled_model english-small checkpoints/english-small

    elmo pretrain runs/korean-small.toml --output checkpoints/korean-small
    python -m runs.bundled_model korean-small checkpoints/korean-small

What is measured is what is shipped: the weights in half precision. Every table of the card is what
one command printed. They are kept in the run's folder, by the checksum of the weights or of the
recipe; a table that is there already is not made again, so that work cut short continues. The prose
around them is in runs/data, a file for each model.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from pathlib import Path

from benchmarks.machine import one_line_errors
from elmokit.bundled import BUNDLED, ENGLISH_SMALL, KOREAN_SMALL
from elmokit.cli.models import in_words
from elmokit.errors import InputError
from elmokit.formats.find import read_model
from elmokit.formats.native import CONFIG, VOCABULARY, SavedModel, describe, write_model
from elmokit.io.files import read_object, sha256_of, write_atomically

DATA = "../shared/data"
PROSE = Path(__file__).parent / "data"
NAMES = (ENGLISH_SMALL, KOREAN_SMALL)

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
    return {
        "held_out": [
            "runs.heldout", "--model", model, "--state", "zero",
            "--text", f"Wikipedia={held_out}/enwiki.heldout.txt.xz",
            "--text", f"books={held_out}/books.heldout.txt.xz",
            "--whitespace", f"WikiText-2={DATA}/wikitext-2/wiki.valid.tokens.gz",
        ],
        "context": [
            "runs.context_check", "--model", model, "--text", f"{held_out}/enwiki.heldout.txt.xz",
        ],
        "probes": [
            "runs.layer_probes", "--model", model, "--ewt", f"{DATA}/ud-ewt",
            "--conll", f"{DATA}/conll2003", "--wsd", f"{DATA}/wsd",
        ],
    }  # fmt: skip


def korean(model: str) -> Commands:
    """Those of a model of Korean."""
    held_out = f"{DATA}/pretrain-ko"
    wikipedia = f"{held_out}/kowiki.heldout.txt.xz"
    return {
        "held_out": [
            "runs.heldout", "--model", model, "--state", "zero",
            "--text", f"Wikipedia={wikipedia}",
            "--text", f"film reviews={held_out}/reviews.heldout.txt.xz",
        ],
        "context": ["runs.context_check", "--korean", "--model", model, "--text", wikipedia],
        "sts": [
            "runs.sentence_vectors", "korean", "--model", model, "--sets", "STS", "--pools", "mean",
        ],
    }  # fmt: skip


def measure(name: str, model: Path, folder: Path) -> dict[str, str]:
    """The tables, each made by its command or found where it was kept."""
    weights = read_object(model / CONFIG)["weights"]["sha256"]
    tables = {}
    for table, command in commands(name, str(model)).items():
        checksum = weights if str(model) in command else sha256_of(recipe(name))
        kept = folder / "results" / f"{table}-{checksum[:8]}.md"
        if not kept.exists():
            print(f"$ python -m {shlex.join(command)}", flush=True)
            run = [sys.executable, "-m", *command]
            done = subprocess.run(run, stdout=subprocess.PIPE, text=True, check=True)
            with write_atomically(kept) as path:
                path.write_text(done.stdout, encoding="utf-8")
        tables[table] = kept.read_text(encoding="utf-8").strip()
    return tables


def training_table(card: str) -> str:
    """The history that `elmo pretrain` wrote into the card of its model.

    Without its perplexity, which is that of the weights before they were halved.
    """
    history = card.partition("## Training\n")[2].strip()
    if not history:
        raise InputError("the model's card has no history of its training; name a run's folder")
    return "\n".join(line for line in history.splitlines() if "held-out text" not in line)


def make_card(name: str, saved: SavedModel, tables: dict[str, str]) -> str:
    """The prose with its tables in their places."""
    facts = describe(saved)
    values = {
        **tables,
        "context": lower_headings(tables["context"]),
        "training": training_table(saved.card),
        "shape": "\n".join(f"| {name} | {in_words(value)} |" for name, value in facts.items()),
        "parameters": in_words(facts["parameters"]),
        "words": in_words(facts["softmax words"]),
    }
    prose = PROSE / f"{name.replace('-', '_')}_card.md"
    return prose.read_text(encoding="utf-8").format_map(values)


def lower_headings(document: str) -> str:
    """A document as a part of another: its title dropped, its headings a level lower."""
    return re.sub(r"^#", "##", document.partition("\n")[2].strip(), flags=re.MULTILINE)


def ship(name: str, run: Path, output: Path) -> None:
    """Halve the weights, measure them, write them with their card."""
    saved = read_model(run)
    halved = run / "halved"
    write_model(halved, saved, half=True, force=True)
    shipped = saved._replace(card=make_card(name, saved, measure(name, halved, run)))
    write_model(output, shipped, half=True, force=True)
    size = sum(file.stat().st_size for file in output.iterdir())
    print(f"{output.name}: {size / 1e6:.1f} MB")


@one_line_errors()
def main() -> None:
    """Read the command line; say what went wrong in one line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("run", type=Path, help="the folder of the run")
    parser.add_argument("--output", type=Path, help="where to ship to")
    given = parser.parse_args()
    ship(given.name, given.run, given.output or BUNDLED / given.name)


if __name__ == "__main__":
    main()
