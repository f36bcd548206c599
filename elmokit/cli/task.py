"""`elmo task`: train a network on ELMo's vectors, measure it, and ask it."""

from __future__ import annotations

import click

from elmokit.cli.task_evaluate import evaluate
from elmokit.cli.task_predict import predict
from elmokit.cli.task_train import train


@click.group()
def task() -> None:
    """Train a task network on ELMo's vectors; measure it, and ask it.

    \b
    Example:
      elmo task train spam --train messages.csv -o my-spam
      elmo task evaluate my-spam more-messages.csv
      echo "Free entry! Text WIN to 80086 now" | elmo task predict my-spam -
    """


for command in (train, evaluate, predict):
    task.add_command(command)
