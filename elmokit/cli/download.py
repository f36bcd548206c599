"""`elmo download`: fetch a published model once."""

from __future__ import annotations

import click


@click.command()
@click.argument("name", required=False)
@click.option("--quiet", is_flag=True, help="Show no progress.")
def download(name: str | None, quiet: bool) -> None:
    """Fetch a published model once; without NAME, list them.

    The cache is the folder ELMOKIT_CACHE, or ~/.cache/elmokit. Prints the paths of the two files.
    """
    from elmokit.cli.progress import Fetched
    from elmokit.formats import published

    if name is None:
        for model in published.PUBLISHED_MODELS:
            click.echo(f"{model.name:<14} {model.millions:>5} M parameters  {model.description}")
        return
    with Fetched(f"fetching {name}", quiet) as progress:
        options, weights = published.download(name, progress)
    click.echo(f"{options} {weights}")
