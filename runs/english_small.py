"""Measure a trained model and ship it as elmokit/bundled/english-small, with its card.

    elmo pretrain runs/english-small.toml --output checkpoints/english-small
    python -m runs.english_small checkpoints/english-small

What is measured is what is shipped: the weights in half precision. Every table of the card is what
one command printed. They are kept in the run's folder, by the checksum of the weights or of the
recipe; a table that is there already is not made again, so that work cut short continues. The prose
around them is in runs/data/english_small_card.md.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from pathlib import Path

from benchmarks.machine import one_line_errors
from elmokit.bundled import BUNDLED, ENGLISH_SMALL
from elmokit.cli.models import in_words
from elmokit.errors import InputError
from elmokit.formats.find import read_model
from elmokit.formats.native import CONFIG, SavedModel, describe, write_model
from elmokit.io.files import read_object, sha256_of, write_atomically

DATA = "../shared/data"
HELD_OUT = f"{DATA}/pretrain-en"
RECIPE = "runs/english-small.toml"
PROSE = Path(__file__).parent / "data" / "english_small_card.md"


def commands(model: str) -> dict[str, list[str]]:
    """What makes each table of the card."""
    return {
        "held_out": [
            "runs.heldout", "--model", model, "--state", "zero",
            "--text", f"Wikipedia={HELD_OUT}/enwiki.heldout.txt.xz",
            "--text", f"books={HELD_OUT}/books.heldout.txt.xz",
            "--whitespace", f"WikiText-2={DATA}/wikitext-2/wiki.valid.tokens.gz",
        ],
        "n_grams": [
            "benchmarks.ngram_baseline", "--run", RECIPE, "--orders", "3,5",
        ],
        "context": [
            "runs.context_check", "--model", model, "--text", f"{HELD_OUT}/enwiki.heldout.txt.xz",
        ],
        "probes": [
            "runs.layer_probes", "--model", model, "--ewt", f"{DATA}/ud-ewt",
            "--conll", f"{DATA}/conll2003", "--wsd", f"{DATA}/wsd",
        ],
    }  # fmt: skip


def measure(model: Path, folder: Path) -> dict[str, str]:
    """The tables, each made by its command or found where it was kept."""
    weights = read_object(model / CONFIG)["weights"]["sha256"]
    tables = {}
    for name, command in commands(str(model)).items():
        checksum = weights if str(model) in command else sha256_of(RECIPE)
        kept = folder / "results" / f"{name}-{checksum[:8]}.md"
        if not kept.exists():
            print(f"$ python -m {shlex.join(command)}", flush=True)
            run = [sys.executable, "-m", *command]
            done = subprocess.run(run, stdout=subprocess.PIPE, text=True, check=True)
            with write_atomically(kept) as path:
                path.write_text(done.stdout, encoding="utf-8")
        tables[name] = kept.read_text(encoding="utf-8").strip()
    return tables


def training_table(card: str) -> str:
    """The history that `elmo pretrain` wrote into the card of its model.

    Without its perplexity, which is that of the weights before they were halved.
    """
    history = card.partition("## Training\n")[2].strip()
    if not history:
        raise InputError("the model's card has no history of its training; name a run's folder")
    return "\n".join(line for line in history.splitlines() if "held-out text" not in line)


def make_card(saved: SavedModel, tables: dict[str, str]) -> str:
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
    return PROSE.read_text(encoding="utf-8").format_map(values)


def lower_headings(document: str) -> str:
    """A document as a part of another: its title dropped, its headings a level lower."""
    return re.sub(r"^#", "##", document.partition("\n")[2].strip(), flags=re.MULTILINE)


def ship(run: Path, output: Path) -> None:
    """Halve the weights, measure them, write them with their card."""
    saved = read_model(run)
    halved = run / "halved"
    write_model(halved, saved, half=True, force=True)
    shipped = saved._replace(card=make_card(saved, measure(halved, run)))
    write_model(output, shipped, half=True, force=True)
    size = sum(file.stat().st_size for file in output.iterdir())
    print(f"{output.name}: {size / 1e6:.1f} MB")


@one_line_errors()
def main() -> None:
    """Read the command line; say what went wrong in one line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="the folder of the run")
    parser.add_argument(
        "--output", type=Path, default=BUNDLED / ENGLISH_SMALL, help="where to ship to"
    )
    arguments = parser.parse_args()
    ship(arguments.run, arguments.output)


if __name__ == "__main__":
    main()
