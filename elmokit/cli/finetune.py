"""`elmo finetune`: a trained model, trained on for a domain."""

from __future__ import annotations

import json

import click

from elmokit.cli.training import training_options
from elmokit.process_memory import keep_large_blocks


@click.command()
@click.argument("model")
@click.argument("corpus", nargs=-1, required=True)
@click.option("-o", "--output", required=True, metavar="FOLDER", help="The folder of the run.")
@click.option("--epochs", type=float, metavar="N", help="How often to read the text (1).")
@click.option(
    "--new-words",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Add the text's N most frequent new words to the vocabulary. Without it: it is kept.",
)
@training_options
def finetune(
    model: str,
    corpus: tuple[str, ...],
    output: str,
    epochs: float | None,
    new_words: int,
    valid: tuple[str, ...],
    resume: bool,
    settings: tuple[str, ...],
    processes: int | None,
    device: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Train a model on for a domain, and say what it has gained.

    MODEL is a model folder with a softmax. CORPUS is text of the domain: files, folders, patterns;
    it is split as the model's own text was. FOLDER/model is the new model.

    \b
    Example:
      elmo finetune my-bilm/model reviews/*.txt --valid heldout-reviews.txt -o my-reviews
    """
    from elmokit.cli.training import Shown, settings_of
    from elmokit.formats.models import read_model
    from elmokit.pretraining.finetuning import finetune as train_on
    from elmokit.pretraining.finetuning import finetuning_run

    saved = read_model(model)
    changes = settings_of(settings, training__epochs=epochs)
    config = finetuning_run(saved, corpus, output, valid=valid, settings=changes)
    shown = Shown(quiet)
    keep_large_blocks()
    try:
        result = train_on(
            saved,
            config,
            new_words=new_words,
            resume=resume,
            device=device,
            processes=processes,
            report=shown,
        )
    finally:
        shown.close()
    if result is not None:
        click.echo(json.dumps(result.to_dict()) if as_json else result.describe())
