"""The main job, from a model's files to a file of vectors: `make demo`.

No trained model ships with this version, so the demo makes a tiny one with random weights. What it
shows is the way, not the quality of the vectors.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import torch

from elmokit import BiLM, ModelConfig
from elmokit.config import CharacterEncoderConfig
from elmokit.conversion import write_pair
from elmokit.formats.native import SavedModel
from elmokit.formats.vectors import read_vectors

FOLDER = Path("demo")
SAMPLE = """\
He sat on the river bank .
She opened a bank account .

Die Katze saß auf der Fensterbank .
은행에 계좌를 열었다 .
"""


def make_published_files(folder: Path) -> None:
    """Write a tiny random model as AllenNLP's options.json and weights.hdf5."""
    torch.manual_seed(0)
    config = ModelConfig(
        CharacterEncoderConfig(filters=((1, 16), (2, 16), (3, 32), (4, 64))),
        token_size=32,
        cell_size=128,
        cell_clip=3.0,
        projection_clip=3.0,
    )
    weights = BiLM(config).state_dict()
    write_pair(SavedModel(config, weights, tokenizer="whitespace"), folder, force=True)


def run(*arguments: str) -> None:
    """Show a command and run it."""
    print(f"\n$ {shlex.join(['elmo', *arguments])}", flush=True)
    subprocess.run([sys.executable, "-m", "elmokit", *arguments], check=True)


def show(path: str) -> None:
    """Print what a file of vectors holds."""
    for number, item in enumerate(read_vectors(path)):
        print(f"  {number}  {item.vectors.shape!s:<12} {item.sentence}")


def main() -> None:
    """Make a model, convert it, embed a sample with it, compare two words."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    print("No trained model is bundled yet: this demo makes a tiny one with RANDOM weights.")
    files = FOLDER / "published"
    make_published_files(files)
    options, weights = str(files / "options.json"), str(files / "weights.hdf5")
    model, text, vectors = (str(FOLDER / name) for name in ("model", "sample.txt", "sample.h5"))
    Path(text).write_text(SAMPLE, encoding="utf-8")
    run("convert", options, weights, model)
    run("info", model)
    run("embed", text, "-o", vectors, "--layers", "all", "--model", model)
    print("  line, (layers, words, size), sentence")
    show(vectors)
    first, second, *_ = SAMPLE.splitlines()
    run("compare", "bank", first, second, "--model", model)
    print(f"\nThe files are in {FOLDER}/. The weights are random: only the way is real.")


if __name__ == "__main__":
    main()
