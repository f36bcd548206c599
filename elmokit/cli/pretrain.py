"""`elmo pretrain`: text to a language model."""

from __future__ import annotations

import json

import click

from elmokit.cli.training import training_options
from elmokit.process_memory import keep_large_blocks


@click.command()
@click.argument("run", metavar="RUN.toml")
@click.option(
    "--train",
    multiple=True,
    metavar="FILES",
    help="Text to train on: a file, folder or pattern. Can be given several times.",
)
@click.option("-o", "--output", metavar="FOLDER", help="The folder of the run.")
@training_options
def pretrain(
    run: str,
    train: tuple[str, ...],
    output: str | None,
    valid: tuple[str, ...],
    resume: bool,
    settings: tuple[str, ...],
    processes: int | None,
    device: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Train a bidirectional language model on text of your own.

    RUN.toml holds the recipe; flags take the place of what it says. FOLDER gets the model (in
    FOLDER/model), checkpoints, metrics.jsonl and curves.png. Stop it whenever you like: --resume
    goes on exactly where it was. The same command runs under torchrun on many processes.

    \b
    Examples:
      elmo pretrain runs/modern.toml --train "text/*.gz" --valid heldout.txt -o my-bilm
      elmo pretrain runs/modern.toml --train "text/*.gz" --valid heldout.txt -o my-bilm --resume
      torchrun --nproc-per-node 8 -m elmokit pretrain runs/paper.toml --train text -o my-bilm
    """
    from elmokit.cli.training import Shown, settings_of
    from elmokit.pretraining.config import read_run
    from elmokit.pretraining.pretrain import pretrain as train_model

    more = {"corpus__train": list(train), "corpus__valid": list(valid), "output": output}
    config = read_run(run, settings_of(settings, **more))
    shown = Shown(quiet)
    keep_large_blocks()
    try:
        result = train_model(
            config, resume=resume, device=device, processes=processes, report=shown
        )
    finally:
        shown.close()
    if result is not None:
        click.echo(json.dumps(result.to_dict()) if as_json else result.describe())
