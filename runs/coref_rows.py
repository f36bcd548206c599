"""Coreference in the tables: its data, and what the ELMo paper has for it.

`task_runs.Row`s, to be run with and without ELMo. A model of OntoGUM is also to be scored out of
its domain: `elmo task evaluate FOLDER` with `coref-gum/ontogum.test2.conll.gz`, or with
`coref-gap/gap-test.tsv.gz` for its pronouns.
"""

from __future__ import annotations

from runs.task_runs import Paper, Row

COREF_ROWS = {
    "ontogum": Row(
        "coref", "OntoGUM", "mean F1",
        "coref-gum/ontogum.train.conll.gz", "coref-gum/ontogum.dev.conll.gz",
        "coref-gum/ontogum.test.conll.gz",
        seeds=(1, 2),
    ),
    "litbank": Row(
        "coref", "LitBank, with singletons, one split of our own", "mean F1",
        "coref-litbank/litbank.train.conll.gz", "coref-litbank/litbank.dev.conll.gz",
        "coref-litbank/litbank.test.conll.gz",
        {"coref.singletons": True},
        seeds=(1,),
    ),
    "gap": Row(
        "coref", "GAP, trained on its development rows", "F1",
        "coref-gap/gap-development.tsv.gz", "coref-gap/gap-validation.tsv.gz",
        "coref-gap/gap-test.tsv.gz",
        seeds=(1,),
    ),
}  # fmt: skip
COREF_PAPER = {"ontogum": Paper(67.2, 67.2, 70.4)}
"""Of OntoNotes, which is not ours to train on."""
