"""What each layer of a model knows: parts of speech, entities, word senses.

    python -m runs.layer_probes --ewt ../shared/data/ud-ewt --wsd ../shared/data/wsd \
        --conll ../shared/data/conll2003

Vectors are frozen. Tags come from a linear softmax over the vector of the word alone, trained in
the same way for every layer. Senses come from the nearest mean vector, by cosine, of the senses
that the lemma has in SemCor; a lemma that is not there has its first sense in WordNet. The
baseline sees no vector: the tag that the word has most often, the first sense. A folder that is
not given is left out of the table.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.machine import describe
from elmokit.analysis.probes.files import (
    ALL,
    SenseTestFiles,
    TaggedWords,
    read_semcor,
    read_sense_index,
    read_sense_test,
    read_tagged,
)
from elmokit.analysis.probes.probes import embed_words, most_frequent_tags, tags_of
from elmokit.analysis.probes.report import SENTENCES_AT_A_TIME, Stages
from elmokit.analysis.probes.senses import SenseData, probe_word_senses
from elmokit.cli.progress import ScoringProgress
from elmokit.config import check_size
from elmokit.errors import ElmoError, InputError
from elmokit.inference.embedder import Embedder
from elmokit.io.files import write_atomically
from elmokit.io.text_files import paragraphs, read_lines

FILES = {
    "ewt": ("en_ewt-ud-train.rebuilt.conllu.gz", "en_ewt-ud-test.conllu.gz"),
    "conll": ("eng.train.gz", "eng.testb.gz"),
    "wsd": (
        "semcor3.brown1.tsv.gz",
        "semcor3.brown2.tsv.gz",
        "ALL.data.xml.gz",
        "ALL.gold.key.txt.gz",
        "wordnet-3.0.index.sense.gz",
    ),
}
NO_ENTITY = "O"
EPOCHS = 10
TOKENS_PER_BATCH = 512
LEARNING_RATE = 1e-2
SEED = 0

Columns = dict[str, list[float]]
"""A column's name → its values: the baseline, each layer, the average of the layers."""


def probe_parts_of_speech(embedder: Embedder, files: Sequence[Path], most: int | None) -> Columns:
    """Accuracy of universal tags on UD English EWT."""
    train, test = map(read_tagged, files)
    columns = probe_tags(embedder, "EWT", train[:most], test)
    return {"POS accuracy": columns["accuracy"]}


def probe_entities(embedder: Embedder, files: Sequence[Path], most: int | None) -> Columns:
    """Accuracy and F1 of the words' entity types on CoNLL-2003; word by word, not by entity."""
    train, test = (list(read_entity_types(path)) for path in files)
    columns = probe_tags(embedder, "CoNLL-2003", train[:most], test)
    return {f"entity {name}": values for name, values in columns.items()}


def read_entity_types(path: Path) -> Iterator[TaggedWords]:
    """Words and entity types (PER, LOC, ORG, MISC or O) of a CoNLL-2003 file."""
    for lines in paragraphs(read_lines(path)):
        rows = [line.text.split() for line in lines]
        if rows[0][0] != "-DOCSTART-":
            types = tuple(values[-1].rpartition("-")[2] for values in rows)
            yield TaggedWords(tuple(values[0] for values in rows), types)


def probe_tags(
    embedder: Embedder, name: str, train: list[TaggedWords], test: list[TaggedWords]
) -> Columns:
    """Accuracy, micro F1 and macro F1 of the tags that each layer gives to `test`."""
    learnt, wanted = tags_of(train), tags_of(test)
    known = sorted(set(learnt))
    labels = torch.tensor([known.index(tag) for tag in learnt])
    train_vectors = embed_tokens(embedder, train, f"{name}, training")
    test_vectors = embed_tokens(embedder, test, f"{name}, test")
    answers = [most_frequent_tags(train, test)]
    for row in range(embedder.config.layer_count + 1):
        predicted = linear_predictions(
            layer_of(train_vectors, row), labels, layer_of(test_vectors, row)
        )
        answers.append([known[number] for number in predicted.tolist()])
    return {
        "accuracy": [accuracy(given, wanted) for given in answers],
        "micro F1": [micro_f1(given, wanted) for given in answers],
        "macro F1": [macro_f1(given, wanted) for given in answers],
    }


def embed_tokens(
    embedder: Embedder, sentences: Sequence[TaggedWords], label: str
) -> NDArray[np.float16]:
    """The vectors (layers, tokens, size) of all words."""
    with ScoringProgress(label) as progress:
        stages = Stages(progress, len(sentences), SENTENCES_AT_A_TIME)
        return embed_words(embedder, sentences, stages)


def layer_of(vectors: NDArray[np.float16], row: int) -> Tensor:
    """One layer (tokens, size) of (layers, tokens, size), or after the last their average."""
    if row < len(vectors):
        return torch.from_numpy(vectors[row].astype(np.float32))
    return torch.from_numpy(vectors.mean(0, dtype=np.float32))


def linear_predictions(train: Tensor, labels: Tensor, test: Tensor) -> Tensor:
    """Train a linear softmax on (tokens, size) and their labels; give the labels of `test`."""
    # Layers differ in scale: made alike, the same settings are fair to each.
    mean, deviation = train.mean(0), train.std(0).clamp_min(1e-6)
    train, test = (train - mean) / deviation, (test - mean) / deviation
    torch.manual_seed(SEED)
    classifier = nn.Linear(train.shape[1], int(labels.max()) + 1)
    optimizer = torch.optim.AdamW(classifier.parameters(), lr=LEARNING_RATE)
    steps = EPOCHS * math.ceil(len(train) / TOKENS_PER_BATCH)
    falling = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
    for _ in range(EPOCHS):
        for batch in torch.split(torch.randperm(len(train)), TOKENS_PER_BATCH):
            loss = cross_entropy(classifier(train[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            falling.step()
    with torch.inference_mode():
        return classifier(test).argmax(1)


def accuracy(given: Sequence[str], wanted: Sequence[str]) -> float:
    """Which share of the tags is right."""
    return sum(one == other for one, other in zip(given, wanted, strict=True)) / len(wanted)


def micro_f1(given: Sequence[str], wanted: Sequence[str]) -> float:
    """F1 of all tags but `O` together."""
    right = sum(a == b != NO_ENTITY for a, b in zip(given, wanted, strict=True))
    marked = sum(tag != NO_ENTITY for tag in chain(given, wanted))
    return 2 * right / max(marked, 1)


def macro_f1(given: Sequence[str], wanted: Sequence[str]) -> float:
    """The mean of the F1 of each tag but `O`."""
    right = Counter(a for a, b in zip(given, wanted, strict=True) if a == b)
    marked = Counter(chain(given, wanted))
    values = [2 * right[tag] / marked[tag] for tag in set(wanted) - {NO_ENTITY}]
    return sum(values) / max(len(values), 1)


def probe_senses(embedder: Embedder, files: Sequence[Path], most: int | None) -> Columns:
    """F1 of word senses, as `elmo probe wsd` measures it."""
    *semcor, data, keys, index = files
    test = read_sense_test(SenseTestFiles(data, keys))
    learnt = SenseData(read_semcor(semcor)[:most], {ALL: test}, read_sense_index(index))
    with ScoringProgress("senses") as progress:
        scores = probe_word_senses([embedder], learnt, progress).scores
    return {"sense F1": [float(f1 or 0.0) for (f1,) in scores.values()]}


PROBES: dict[str, Callable[[Embedder, Sequence[Path], int | None], Columns]] = {
    "ewt": probe_parts_of_speech,
    "conll": probe_entities,
    "wsd": probe_senses,
}


def files_of(folders: dict[str, Path]) -> dict[str, list[Path]]:
    """The files of each data set; a line for each that is absent."""
    files = {name: [folder / file for file in FILES[name]] for name, folder in folders.items()}
    absent = [path for paths in files.values() for path in paths if not path.is_file()]
    if absent:
        raise InputError("\n".join(f"{path}: is not there; name its folder" for path in absent))
    return files


def print_table(layers: int, columns: Columns) -> None:
    """One line for the baseline, each layer, and their average; in percent."""
    print("| layer | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for row, name in enumerate(["baseline", *map(str, range(layers)), "average"]):
        print(f"| {name} | " + " | ".join(f"{100 * v[row]:.1f}" for v in columns.values()) + " |")


def run(arguments: argparse.Namespace) -> None:
    """Run the probes whose folders are given; print a table."""
    if arguments.sentences is not None:
        check_size("sentences", arguments.sentences)
    folders = {name: getattr(arguments, name) for name in PROBES if getattr(arguments, name)}
    files = files_of(folders)
    embedder = Embedder.load(arguments.model)
    columns: Columns = {}
    for name, paths in files.items():
        columns |= PROBES[name](embedder, paths, arguments.sentences)
    print_table(embedder.config.layer_count, columns)
    machine = describe()
    print(f"\n`python -m runs.layer_probes {arguments.command}`: {machine}")
    if arguments.json is not None:
        result = {"machine": machine, "sentences": arguments.sentences, "columns": columns}
        with write_atomically(arguments.json) as path:
            path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line; say what went wrong in one line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="a model folder; without it, the bundled model")
    parser.add_argument("--ewt", type=Path, help="folder of UD English EWT: parts of speech")
    parser.add_argument("--conll", type=Path, help="folder of CoNLL-2003: entities")
    parser.add_argument("--wsd", type=Path, help="folder of SemCor and its test sets: word senses")
    parser.add_argument("--sentences", type=int, help="train on no more than this many of each")
    parser.add_argument("--json", type=Path, help="write the numbers to this file too")
    parsed = parser.parse_args(arguments)
    parsed.command = shlex.join(sys.argv[1:] if arguments is None else arguments)
    if not (parsed.ewt or parsed.conll or parsed.wsd):
        parser.error("no data is given; use --ewt, --conll or --wsd")
    try:
        run(parsed)
    except ElmoError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
