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
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, f1_score  # type: ignore[import-untyped]
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.machine import command_line, describe, one_line_errors, table, write_numbers
from elmokit.analysis.probes.files import (
    ALL,
    TaggedWords,
    read_semcor,
    read_sense_index,
    read_sense_test,
    read_tagged,
)
from elmokit.analysis.probes.probes import embed_words, most_frequent_tags, tags_of
from elmokit.analysis.probes.report import SENTENCES_AT_A_TIME, counted_stage
from elmokit.analysis.probes.senses import SenseData, probe_word_senses
from elmokit.cli.progress import Display
from elmokit.config import Count, checked
from elmokit.errors import InputError
from elmokit.inference.embedder import Embedder
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
    """Accuracy of the tags that each layer gives to `test`, and F1 of those but `O`."""
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
    counted = {"labels": sorted(set(wanted) - {NO_ENTITY}), "zero_division": 0}
    return {
        "accuracy": [accuracy_score(wanted, given) for given in answers],
        "micro F1": [f1_score(wanted, given, average="micro", **counted) for given in answers],
        "macro F1": [f1_score(wanted, given, average="macro", **counted) for given in answers],
    }


def embed_tokens(
    embedder: Embedder, sentences: Sequence[TaggedWords], label: str
) -> NDArray[np.float16]:
    """The vectors (layers, tokens, size) of all words."""
    total = len(sentences)
    with (
        Display() as shown,
        counted_stage(shown, label, "sentence", total, SENTENCES_AT_A_TIME) as step,
    ):
        return embed_words(embedder, sentences, step)


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


def probe_senses(embedder: Embedder, files: Sequence[Path], most: int | None) -> Columns:
    """F1 of word senses, as `elmo probe wsd` measures it."""
    *semcor, data, keys, index = files
    test = read_sense_test(data, keys)
    learnt = SenseData(read_semcor(semcor)[:most], {ALL: test}, read_sense_index(index))
    with Display() as shown:
        scores = probe_word_senses([embedder], learnt, shown).scores
    return {"sense F1": [float(f1 or 0.0) for (f1,) in scores.values()]}


PROBES: dict[str, Callable[[Embedder, Sequence[Path], int | None], Columns]] = {
    "ewt": probe_parts_of_speech,
    "conll": probe_entities,
    "wsd": probe_senses,
}


def files_of(folders: dict[str, Path]) -> dict[str, list[Path]]:
    """The files of each data set."""
    files = {name: [folder / file for file in FILES[name]] for name, folder in folders.items()}
    absent = [path for paths in files.values() for path in paths if not path.is_file()]
    if absent:
        raise InputError(f"{', '.join(map(str, absent))}: not there; name the folder")
    return files


def run(arguments: argparse.Namespace) -> None:
    """Run the probes whose folders are given; print a table."""
    if arguments.sentences is not None:
        checked("sentences", arguments.sentences, Count)
    folders = {name: getattr(arguments, name) for name in PROBES if getattr(arguments, name)}
    files = files_of(folders)
    embedder = Embedder.load(arguments.model)
    columns: Columns = {}
    for name, paths in files.items():
        columns |= PROBES[name](embedder, paths, arguments.sentences)
    names = ["baseline", *map(str, range(embedder.config.layer_count)), "average"]
    values = zip(names, *columns.values(), strict=True)
    rows = ([name, *(f"{100 * value:.1f}" for value in row)] for name, *row in values)
    print(table(["layer", *columns], rows))
    result = {"machine": describe(), "sentences": arguments.sentences, "columns": columns}
    write_numbers(arguments.json, result)


@one_line_errors()
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
    if not (parsed.ewt or parsed.conll or parsed.wsd):
        parser.error("no data is given; use --ewt, --conll or --wsd")
    run(parsed)
    print("\n" + command_line("runs.layer_probes", arguments))


if __name__ == "__main__":
    main()
