"""The public data sets as they are, against the counts that they are published with."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from elmokit.tasks.config import FilesConfig, Kind
from elmokit.tasks.examples import Example
from elmokit.tasks.files.examples import read_examples
from elmokit.tasks.files.trees import unescaped
from elmokit.tasks.tags import convert, convert_sentences, spans

DATA = Path(__file__).resolve().parents[3].parent / "shared" / "data"
slow = pytest.mark.slow


def read(kind: Kind, name: str, settings: FilesConfig | None = None) -> list[Example]:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{name} is in ../shared/data, which is not here")
    return read_examples(kind, path, settings)


def labels(examples: list[Example]) -> dict[str, int]:
    return dict(sorted(Counter(label for example in examples for label in example.labels).items()))


def words(examples: list[Example]) -> int:
    return sum(len(sentence) for example in examples for sentence in example.sentences)


def test_sms_spam_collection():
    examples = read("text", "sms-spam/spam.csv", FilesConfig(encoding="latin-1"))
    assert labels(examples) == {"ham": 4825, "spam": 747}
    assert examples[-1].sentences == (("Rofl.", "Its", "true", "to", "its", "name"),)
    assert len({example.place for example in examples}) == 5572


@pytest.mark.parametrize(
    ("split", "counts", "phrases"),
    [
        ("dev", (139, 289, 229, 279, 165), 24_771),
        pytest.param("test", (279, 633, 389, 510, 399), 46_662, marks=slow),
        pytest.param("train", (1092, 2218, 1624, 2322, 1288), 159_273, marks=slow),
    ],
)
def test_stanford_sentiment_treebank(split, counts, phrases):
    name = f"sst5/trees.{split}.txt.gz"
    sentences = read("text", name)
    assert labels(sentences) == dict(zip("01234", counts, strict=True))
    assert len(read("text", name, FilesConfig(phrases=True))) == phrases

    table = FilesConfig(header=False)
    tabular = read("text", f"sst5/sentences.{split}.tsv.gz", table)
    assert [(tuple(map(unescaped, *one.sentences)), one.labels) for one in tabular] == [
        (*one.sentences, one.labels) for one in sentences
    ]


@pytest.mark.parametrize(
    ("split", "sentences", "tokens", "entities"),
    [
        ("testb", 3453, 46_435, (1668, 702, 1661, 1617)),
        pytest.param("testa", 3250, 51_362, (1837, 922, 1341, 1842), marks=slow),
        pytest.param("train", 14_041, 203_621, (7140, 3438, 6321, 6600), marks=slow),
    ],
)
def test_conll_2003(split, sentences, tokens, entities):
    examples = read("tags", f"conll2003/eng.{split}.gz")
    assert (len(examples), words(examples)) == (sentences, tokens)
    legal = sum(convert(example.labels, "IOB1") == example.labels for example in examples)
    assert legal > 0.999 * len(examples)  # train has a mistake or two
    expected = dict(zip(("LOC", "MISC", "ORG", "PER"), entities, strict=True))
    converted: list[Example] = [*convert_sentences(examples, "IOBES")]  # type: ignore[arg-type]
    for written in (examples, converted):
        found = (span.type for example in written for span in spans(example.labels))
        assert dict(sorted(Counter(found).items())) == expected


@pytest.mark.parametrize(
    ("name", "sentences", "tokens"),
    [
        ("en_ewt-ud-dev", 2001, 25_147),
        pytest.param("en_ewt-ud-test", 2077, 25_094, marks=slow),
        pytest.param("en_ewt-ud-train.rebuilt", 12_544, 204_577, marks=slow),
    ],
)
def test_universal_dependencies_of_english(name, sentences, tokens):
    examples = read("tags", f"ud-ewt/{name}.conllu.gz")
    assert (len(examples), words(examples)) == (sentences, tokens)
    assert len(labels(examples)) == 17


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("snli.dev", {"contradiction": 3278, "entailment": 3329, "neutral": 3235}),
        pytest.param(
            "snli.test",
            {"contradiction": 3237, "entailment": 3368, "neutral": 3219},
            marks=slow,
        ),
        ("sick.train", {"CONTRADICTION": 665, "ENTAILMENT": 1299, "NEUTRAL": 2536}),
        ("sick.trial", {"CONTRADICTION": 74, "ENTAILMENT": 144, "NEUTRAL": 282}),
        ("sick.test", {"CONTRADICTION": 720, "ENTAILMENT": 1414, "NEUTRAL": 2793}),
        ("rte1_dev", {"entailment": 283, "not_entailment": 284}),
        ("rte2_dev", {"entailment": 210, "not_entailment": 190}),
        ("rte3_test", {"entailment": 410, "not_entailment": 390}),
    ],
)
def test_natural_language_inference(name, counts):
    assert labels(read("pair", f"nli/{name}.tsv.gz")) == counts
