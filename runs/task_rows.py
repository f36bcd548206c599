"""The rows of the tables: each a task on its data, and what the ELMo paper has for it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from benchmarks.text import REPOSITORY
from elmokit.bundled import (
    BUNDLED,
    ENGLISH_SMALL,
    KOREAN_SMALL,
    KOREAN_SMALL_WORD2VEC,
)
from elmokit.static.files import VECTORS_FILE

DATA = REPOSITORY.parent / "shared/data"
GLOVE = DATA / "glove/glove.6B.50d.top50k.txt.gz"
CONVERTED = REPOSITORY / "checkpoints/korean-data"
SEEDS = (1, 2, 3)


class Language(NamedTuple):
    """What the rows of a language are made with."""

    model: str  # bundled
    static: Path


ENGLISH = Language(ENGLISH_SMALL, GLOVE)
KOREAN = Language(KOREAN_SMALL, BUNDLED / KOREAN_SMALL_WORD2VEC / VECTORS_FILE)


class Row(NamedTuple):
    """A task on its data."""

    task: str
    title: str
    measure: str
    train: str | tuple[str, ...]  # one file or several
    dev: str | None
    test: str
    settings: Mapping[str, Any] = MappingProxyType({})
    seeds: tuple[int, ...] = SEEDS  # unless others are asked for
    beside: str | None = None  # a second number of the results, shown in brackets
    alone: bool = True  # whether ELMo is tried without the baseline's vectors too
    language: Language = ENGLISH

    @property
    def train_files(self) -> tuple[str, ...]:
        """The files to train on."""
        return (self.train,) if isinstance(self.train, str) else self.train


PAPER_TABLE = "NAACL 2018, table 1"


class Paper(NamedTuple):
    """What the ELMo paper (Peters et al. 2018, see `PAPER_TABLE`) has for a task."""

    previous: float
    baseline: float
    elmo: float


SNLI = {"files.tokenizer": "whitespace"}  # its words are split already
KIWI = {"files.tokenizer": "kiwi"}


def in_parts(pattern: str) -> tuple[str, str, str]:
    """The files to train on, to choose by and to test on."""
    return pattern.format("train"), pattern.format("dev"), pattern.format("test")


NSMC = in_parts("ko-nsmc/nsmc-rebuilt.{}.tsv.gz")
ROWS = {
    "sst": Row(
        "sst", "SST-5, sentences", "accuracy",
        "sst5/trees.train.txt.gz", "sst5/trees.dev.txt.gz", "sst5/trees.test.txt.gz",
    ),
    "sst-phrases": Row(
        "sst", "SST-5, phrases of 4 words or more too", "accuracy",
        "sst5/trees.train.txt.gz", "sst5/trees.dev.txt.gz", "sst5/trees.test.txt.gz",
        # One epoch of them has more steps than all epochs of the sentences.
        {"files.phrases": True, "files.shortest_phrase": 4, "training.epochs": 1},
        seeds=(1,),
    ),
    "ner": Row(
        "ner", "CoNLL-2003 English", "F1",
        "conll2003/eng.train.gz", "conll2003/eng.testa.gz", "conll2003/eng.testb.gz",
    ),
    "pos": Row(
        "pos", "UD English EWT, universal tags", "accuracy",
        "ud-ewt/en_ewt-ud-train.rebuilt.conllu.gz", "ud-ewt/en_ewt-ud-dev.conllu.gz",
        "ud-ewt/en_ewt-ud-test.conllu.gz",
    ),
    "snli": Row(
        "nli", "SNLI, trained on nine tenths of its dev part, not the standard set-up", "accuracy",
        "nli/snli.dev.tsv.gz", None, "nli/snli.test.tsv.gz", SNLI,
    ),
    "sick": Row(
        "nli", "SICK", "accuracy",
        "nli/sick.train.tsv.gz", "nli/sick.trial.tsv.gz", "nli/sick.test.tsv.gz",
    ),
    # SQuADShifts was made to test with; a tenth of its paragraphs are held out for dev here and
    # the others trained on. So the scores do not compare with those of models that were trained
    # on SQuAD's own training data.
    "squad": Row(
        "squad", "SQuAD v1.1 dev, trained on SQuADShifts (27,626 questions)", "F1 (exact match)",
        (
            "qa/squadshifts.new_wiki.json.gz", "qa/squadshifts.reddit.json.gz",
            "qa/squadshifts.amazon_reviews.json.gz",
        ),
        None, "qa/squad-v1.1.dev.json.gz",
        seeds=(1, 2),
        beside="exact_match",
        alone=False,
    ),
    # Web text, with predicates that are nouns and adjectives among the verbs: its scores do not
    # compare with those of CoNLL-2012.
    "srl": Row(
        "srl", "PropBank, English Web Treebank", "F1",
        "srl-ewt/propbank-ewt.train.tsv.gz", "srl-ewt/propbank-ewt.dev.tsv.gz",
        "srl-ewt/propbank-ewt.test.tsv.gz",
        seeds=(1, 2),
        alone=False,
    ),
    "ontogum": Row(
        "coref", "OntoGUM", "mean F1",
        "coref-gum/ontogum.train.conll.gz", "coref-gum/ontogum.dev.conll.gz",
        "coref-gum/ontogum.test.conll.gz",
        seeds=(1, 2),
        alone=False,
    ),
    "litbank": Row(
        "coref", "LitBank, with singletons, one split of our own", "mean F1",
        "coref-litbank/litbank.train.conll.gz", "coref-litbank/litbank.dev.conll.gz",
        "coref-litbank/litbank.test.conll.gz",
        {"coref.singletons": True},
        seeds=(1,),
        alone=False,
    ),
    "gap": Row(
        "coref", "GAP, trained on its development rows", "F1 (accuracy)",
        "coref-gap/gap-development.tsv.gz", "coref-gap/gap-validation.tsv.gz",
        "coref-gap/gap-test.tsv.gz",
        seeds=(1,),
        beside="accuracy",
        alone=False,
    ),
    # Korean. The converted files are made by `python -m runs.korean_data`.
    "nsmc": Row("sst", "NSMC, rebuilt", "accuracy", *NSMC, KIWI, language=KOREAN),
    "nsmc-6000": Row(
        "sst", "NSMC, rebuilt, 6,000 reviews of it", "accuracy", *NSMC,
        {**KIWI, "training.fraction": 0.15}, language=KOREAN,
    ),
    "klue-ner": Row(
        "ner", "KLUE-NER, its dev part in parts of our own", "F1",
        *in_parts(f"{CONVERTED}/klue-ner.{{}}.conll"), language=KOREAN,
    ),
    "klp2016": Row(
        "ner", "KLP2016 entities, for research alone", "F1",
        *in_parts(f"{CONVERTED}/klp2016.{{}}.conll"), language=KOREAN,
    ),
    "korquad": Row(
        "squad", "KorQuAD 1.0, articles of its dev part in parts of our own", "F1 (exact match)",
        *in_parts(f"{CONVERTED}/korquad.{{}}.json"), KIWI,
        seeds=(1,),
        beside="exact_match",
        alone=False,
        language=KOREAN,
    ),
    "xnli-ko": Row(
        "nli", "XNLI in Korean, trained on its dev part and on KLUE-NLI's", "accuracy",
        ("ko-kornlu/xnli.dev.ko.tsv.gz", f"{CONVERTED}/klue-nli.jsonl"), None,
        "ko-kornlu/xnli.test.ko.tsv.gz", KIWI,
        alone=False,
        language=KOREAN,
    ),
}  # fmt: skip
PAPER = {
    "sst": Paper(53.7, 51.4, 54.7),
    "sst-phrases": Paper(53.7, 51.4, 54.7),
    "ner": Paper(91.93, 90.15, 92.22),
    "snli": Paper(88.6, 88.0, 88.7),
    "squad": Paper(84.4, 81.1, 85.8),  # of its test data, trained on its own 87,599 questions
    "srl": Paper(81.7, 81.4, 84.6),  # of CoNLL-2012
    "ontogum": Paper(67.2, 67.2, 70.4),  # of OntoNotes
}
