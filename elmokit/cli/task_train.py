"""`elmo task train`: labelled examples to a trained task."""

from __future__ import annotations

import json
from typing import Any, get_args

import click

from elmokit.cli.options import (
    QUIET_OPTION,
    ModelCommand,
    check_place,
    device_options,
    model_options,
)
from elmokit.cli.task_options import bilm_reference, files_options, settings_of_flags
from elmokit.cli.task_progress import Shown
from elmokit.cli.training import settings_of
from elmokit.process_memory import keep_large_blocks
from elmokit.tasks.catalogue import CATALOGUE, task_config
from elmokit.tasks.config import ElmoPlace, Preset

EXAMPLE = "training.epochs=5"


@click.command(cls=ModelCommand)
@click.argument("name", type=click.Choice(list(CATALOGUE)), metavar="NAME")
@click.option(
    "--train",
    "train_files",
    multiple=True,
    required=True,
    metavar="FILE",
    help="Labelled examples to learn from. Can be given several times, as --dev and --test.",
)
@click.option(
    "--dev",
    "dev_files",
    multiple=True,
    metavar="FILE",
    help="To choose the best epoch by. Without it: a fixed tenth of the training data is held out.",
)
@click.option("--test", "test_files", multiple=True, metavar="FILE", help="To score the result on.")
@click.option("-o", "--output", required=True, metavar="FOLDER", help="The trained task.")
@click.option(
    "--preset",
    type=click.Choice(list(get_args(Preset))),
    default="small",
    show_default=True,
    help="Minutes on two cores, or the ELMo paper's networks.",
)
@click.option("--static", metavar="FILE", help="Word vectors to join: GloVe's or word2vec's.")
@click.option(
    "--elmo",
    "elmo_place",
    type=click.Choice(list(get_args(ElmoPlace))),
    help="Where ELMo joins. Without it: what the preset says.",
)
@click.option("--no-elmo", is_flag=True, help="The baseline of the same network: --elmo none.")
@click.option("--layers", metavar="mix|top|N", help="All layers mixed, or one alone (mix).")
@click.option("--per-direction", is_flag=True, help="Mix the directions of a layer separately.")
@click.option("--finetune-bilm", is_flag=True, help="Train the biLM too.")
@click.option("--phrases", is_flag=True, help="Train on all phrases of sentiment trees.")
@click.option(
    "--fraction",
    type=float,
    metavar="SHARE",
    help="Train on a fixed random part of the examples, such as 0.1.",
)
@click.option("--seed", type=click.IntRange(min=0), metavar="N", help="Of all randomness (1).")
@click.option(
    "--cache",
    type=click.Choice(["memory", "disk", "none"]),
    default="memory",
    show_default=True,
    help="Where the layers of a frozen biLM are kept; disk is for other runs too, in "
    "ELMOKIT_CACHE.",
)
@files_options
@model_options
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Change a setting, such as training.epochs=5; NAME= takes it away. Can be given several "
    "times.",
)
@click.option("--resume", is_flag=True, help="Go on where the run in FOLDER stopped.")
@click.option("--force", is_flag=True, help="Replace the run in FOLDER.")
@device_options
@QUIET_OPTION
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def train(
    name: str,
    train_files: tuple[str, ...],
    dev_files: tuple[str, ...],
    test_files: tuple[str, ...],
    output: str,
    preset: Any,
    cache: Any,
    settings: tuple[str, ...],
    resume: bool,
    force: bool,
    device: str | None,
    quiet: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Train a task on files of examples.

    \b
    NAME says what is learnt; your own files take the place of the well-known ones:
      spam   a text's class, from the mean of its word vectors
      sst    a sentence's class, with a biattentive classification network
      ner    entities: words with tags such as B-PER; a BiLSTM with a CRF
      pos    a tag for each word; a BiLSTM
      nli    the class of a pair of sentences; ESIM
      squad  the words of a text that answer a question; BiDAF with self-attention
      coref  which words of a document mean the same; span ranking
      srl    who did what to whom: arguments of predicates; a deep highway LSTM

    Files are CSV, TSV, JSON lines, CoNLL columns, CoNLL-U, sentiment trees; for squad its JSON, for
    coref the columns of CoNLL-2012 or GAP's TSV, for srl those of PropBank or CoNLL-2012; plain or
    compressed.
    FOLDER gets the trained task, scores, curves.png, mix.png and, where there are classes,
    confusion.png. Stop it whenever you like: --resume goes on exactly where it was.

    \b
    Examples:
      elmo task train spam --train spam.csv --encoding latin-1 -o my-spam
      elmo task train ner --train eng.train --dev eng.testa --test eng.testb -o my-ner
      elmo task train ner --train eng.train --dev eng.testa --static glove.txt --no-elmo -o base
      elmo task train sst --train trees.txt --dev dev.txt --set training.epochs=5 -o sst
      elmo task train squad --train wiki.json --train reddit.json --test dev.json -o my-squad
      elmo task train coref --train train.conll --dev dev.conll -o my-coref
      elmo task train srl --train propbank.train.tsv --dev propbank.dev.tsv -o my-srl
    """
    from elmokit.tasks.run import train_task

    keep_large_blocks()
    check_place(output)
    bilm = bilm_reference(flags.pop("model"), flags.pop("weights"), flags.pop("vocabulary"))
    config = task_config(name, preset, settings_of(settings, EXAMPLE, **settings_of_flags(**flags)))
    shown = Shown(quiet)
    try:
        result = train_task(
            config,
            output,
            train=train_files,
            dev=dev_files or None,
            test=test_files or None,
            bilm=bilm,
            cache=cache,
            resume=resume,
            force=force,
            device=device,
            watcher=shown,
        )
    finally:
        shown.close()
    click.echo(json.dumps(result.to_dict()) if as_json else result.describe())
