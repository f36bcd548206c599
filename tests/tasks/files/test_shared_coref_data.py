"""The public data sets of coreference as they are, against the counts they are published with."""

from __future__ import annotations

from pathlib import Path

import pytest

from elmokit.tasks.files.conll import read_conll_coref
from elmokit.tasks.files.gap import read_gap
from elmokit.text.tokenizer import load_tokenizer

DATA = Path(__file__).resolve().parents[3].parent / "shared" / "data"


def path_of(name: str) -> Path:
    if not (DATA / name).exists():
        pytest.skip(f"{name} is in ../shared/data, which is not here")
    return DATA / name


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("coref-litbank/litbank.dev.conll.gz", (10, 975, 20541, 3067, 857)),
        # One span there is a mention of two chains, of which it is counted in the first.
        ("coref-gum/ontogum.test2.conll.gz", (25, 1327, 17637, 1889 - 1, 451)),
    ],
)
def test_documents_sentences_words_mentions_and_chains(name: str, counts: tuple[int, ...]) -> None:
    documents = read_conll_coref(path_of(name))
    clusters = [cluster for document in documents for cluster in document.clusters or ()]
    sentences = [words for document in documents for words in document.sentences]
    assert counts == (
        len(documents), len(sentences), sum(map(len, sentences)), sum(map(len, clusters)),
        len(clusters),
    )  # fmt: skip


def test_gap_has_as_many_names_of_each_kind() -> None:
    documents = read_gap(path_of("coref-gap/gap-validation.tsv.gz"), load_tokenizer("default"))
    questions = [document.question for document in documents if document.question is not None]
    assert len(questions) == 454
    assert sum(question.is_first for question in questions) == 187
    assert sum(question.is_second for question in questions) == 205
    assert sum(question.feminine for question in questions) == 227
