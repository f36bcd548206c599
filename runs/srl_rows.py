"""Semantic roles in the tables: their data, and what the ELMo paper has for them.

`task_runs.Row`s, to be run with and without ELMo. PropBank's annotation of the English Web Treebank
is web text, with predicates that are nouns and adjectives among the verbs: its scores do not
compare with those of CoNLL-2012.
"""

from __future__ import annotations

from runs.task_runs import Paper, Row

SRL_ROWS = {
    "srl": Row(
        "srl", "PropBank, English Web Treebank", "F1",
        "srl-ewt/propbank-ewt.train.tsv.gz", "srl-ewt/propbank-ewt.dev.tsv.gz",
        "srl-ewt/propbank-ewt.test.tsv.gz",
        seeds=(1, 2),
    ),
}  # fmt: skip
SRL_PAPER = {"srl": Paper(81.7, 81.4, 84.6)}
"""Of CoNLL-2012, which is not ours to train on."""
