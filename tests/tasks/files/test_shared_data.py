"""The public data sets as they are, against the counts that they are published with."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tasks import small_files
from tasks.small_files import DEFAULT, WHITESPACE

from elmokit.tasks.config import Kind
from elmokit.tasks.examples import Example
from elmokit.tasks.files.trees import unescaped
from elmokit.tasks.tags import convert, spans

DATA = Path(__file__).resolve().parents[3].parent / "shared" / "data"
slow = pytest.mark.slow


def read(kind: Kind, name: str, tokenizer: Any = WHITESPACE, **settings: Any) -> list[Any]:
    if not (DATA / name).exists():
        pytest.skip(f"{name} is in ../shared/data, which is not here")
    return small_files.read(kind, DATA / name, tokenizer, **settings)


def labels(examples: list[Example]) -> dict[str, int]:
    return dict(sorted(Counter(label for example in examples for label in example.labels).items()))


def words(examples: list[Example]) -> int:
    return sum(len(sentence) for example in examples for sentence in example.sentences)


def test_sms_spam_collection():
    examples = read("text", "sms-spam/spam.csv", encoding="latin-1")
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
    assert len(read("text", name, phrases=True)) == phrases

    tabular = read("text", f"sst5/sentences.{split}.tsv.gz", header=False)
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
    expected = dict(zip(("LOC", "MISC", "ORG", "PER"), entities, strict=True))
    tags = [example.labels for example in examples]
    for written in (tags, [convert(each, "IOBES") for each in tags]):
        found = (span.type for each in written for span in spans(each))
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
            "snli.test", {"contradiction": 3237, "entailment": 3368, "neutral": 3219}, marks=slow
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


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("coref-litbank/litbank.dev.conll.gz", (10, 975, 20541, 3067, 857)),
        # One span there is a mention of two chains, of which it is counted in the first.
        ("coref-gum/ontogum.test2.conll.gz", (25, 1327, 17637, 1889 - 1, 451)),
    ],
)
def test_documents_sentences_words_mentions_and_chains(name: str, counts: tuple[int, ...]) -> None:
    documents = read("coref", name)
    clusters = [cluster for document in documents for cluster in document.clusters or ()]
    sentences = [words for document in documents for words in document.sentences]
    assert counts == (
        len(documents), len(sentences), sum(map(len, sentences)), sum(map(len, clusters)),
        len(clusters),
    )  # fmt: skip


def test_gap_has_as_many_names_of_each_kind() -> None:
    documents = read("coref", "coref-gap/gap-validation.tsv.gz", DEFAULT)
    questions = [document.question for document in documents if document.question is not None]
    assert len(questions) == 454
    assert sum(question.is_first for question in questions) == 187
    assert sum(question.is_second for question in questions) == 205
    assert sum(question.feminine for question in questions) == 227
