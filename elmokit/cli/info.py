"""`elmo info`: what a model is."""

from __future__ import annotations

import json

import click


@click.command()
@click.argument("model", nargs=-1, metavar="[MODEL]")
@click.option("--vocabulary", metavar="FILE", help="The words of a word-input AllenNLP model.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def info(model: tuple[str, ...], vocabulary: str | None, as_json: bool) -> None:
    """Say what a model is: its name, its shape, its size, its tokenizer, where it is.

    MODEL is a model folder, or OPTIONS WEIGHTS; without it, the bundled model.
    """
    from elmokit.formats.models import describe, find_model, read_model

    if len(model) > 2:
        raise click.UsageError("give a folder, or OPTIONS WEIGHTS")
    found = find_model(*model)
    described = describe(read_model(*model, vocabulary=vocabulary))
    facts = {"model": found.name, **described, "path": found.path}
    if as_json:
        click.echo(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    width = max(map(len, facts))
    for name, value in facts.items():
        click.echo(f"{name:<{width}}  {shown(value)}")


def shown(value: object) -> str:
    """A fact in words for people."""
    words = {None: "none", True: "yes", False: "no"}
    if value is None or isinstance(value, bool):
        return words[value]
    return f"{value:,}" if isinstance(value, int) else str(value)
