"""`elmo serve`: the HTTP service and the explorer page."""

from __future__ import annotations

import logging
import os
import socket
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from elmokit.cli.options import (
    PRECISION_OPTION,
    STATIC_OPTION,
    ModelCommand,
    device_options,
    load_static,
    model_options,
)
from elmokit.errors import InputError
from elmokit.system import (
    SHAPES_OF_A_SERVICE,
    counted,
    give_back_large_blocks,
    import_extra,
    remember_few_shapes,
)

if TYPE_CHECKING:
    from elmokit.service.middleware import Limits
    from elmokit.service.state import ServedModel


@click.command(cls=ModelCommand)
@model_options
@PRECISION_OPTION
@device_options
@click.option(
    "--index",
    metavar="INDEX",
    help="What elmo neighbours build has made: neighbours and senses are found in it.",
)
@STATIC_OPTION
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen on; 0.0.0.0 for every machine that can reach this one.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8017,
    show_default=True,
    help="The port; 0 for any that is free.",
)
@click.option(
    "--api-key",
    metavar="FILE",
    help="Respond only to those who send a key of this file, one per line. Without it: the key in "
    "ELMO_API_KEY, if that is set.",
)
@click.option(
    "--allow-host",
    multiple=True,
    metavar="NAME",
    help="A host name or IP address that it responds to, beside localhost; may be repeated.",
)
@click.option(
    "--max-body",
    type=click.IntRange(min=1),
    metavar="BYTES",
    help="Of one request.  [default: 4194304]",
)
@click.option(
    "--max-sentences",
    type=click.IntRange(min=1),
    metavar="N",
    help="Of one request.  [default: 2048]",
)
@click.option(
    "--max-words",
    type=click.IntRange(min=1),
    metavar="N",
    help="Of one sentence.  [default: 2048]",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Until a request has its response or is given up.  [default: 60]",
)
@click.option("--quiet", is_flag=True, help="Write down what goes wrong, not every request.")
def serve(**flags: Any) -> None:
    """Serve vectors over HTTP, and show the explorer page.

    The page is at the URL that is printed, the API at /docs. Clients of OpenAI's embeddings work
    with that URL and v1 as their base URL. Only this machine can ask unless --host says otherwise;
    nothing that a client sends is stored or written down.

    SIGTERM and Ctrl-C end it after the requests in progress, a second Ctrl-C at once.

    \b
    Examples:
      elmo serve
      elmo serve --model my-model --host 0.0.0.0 --api-key keys.txt
    """
    give_back_large_blocks()
    remember_few_shapes(SHAPES_OF_A_SERVICE)
    check_installed()
    try:
        run_service(**flags)
    except KeyboardInterrupt:  # before it serves; from then on it takes signals itself
        click.echo("elmo: stopped before it was ready", err=True)


def run_service(
    *,
    index: str | None,
    static: str | None,
    host: str,
    port: int,
    api_key: str | None,
    allow_host: tuple[str, ...],
    quiet: bool,
    **flags: Any,
) -> None:
    """Serve until told to stop; what needs no PyTorch is looked at before that is loaded."""
    from elmokit.service.middleware import ENVIRONMENT_VARIABLE, configure_logs, read_keys
    from elmokit.service.server import is_everywhere, listen

    keys = read_keys(api_key, os.environ.get(ENVIRONMENT_VARIABLE))
    limits = limits_of(flags)
    configure_logs(logging.WARNING if quiet else logging.INFO)
    check_files(index, static)
    listener = listen(host, port)
    if keys is None:
        warn_if_open(listener)
    from elmokit.service.server import serve as serve_model

    serve_model(
        partial(load_served, quiet, static, index=index, **flags),
        host=host,
        listener=listener,
        limits=limits,
        keys=keys,
        allowed_hosts=allow_host,
        on_ready=partial(announce, everywhere=is_everywhere(listener)),
        on_stopping=say_what_it_waits_for,
    ).run()


def check_files(index: str | None, static: str | None) -> None:
    """Refuse an index that cannot be read, or static vectors that are not there."""
    if index is not None:
        from elmokit.analysis.neighbours.store import read_description

        read_description(index)
    if static not in (None, "none") and not Path(static).exists():
        raise InputError(f"{static}: is not there; name a file of static vectors, or none")


def load_served(quiet: bool, static: str | None, **flags: Any) -> ServedModel:
    """The model that the flags describe; from then on memory is kept for its steps alone."""
    from elmokit.cli.progress import DownloadProgress
    from elmokit.service.state import load_model

    with DownloadProgress("fetching", quiet) as progress:
        model = load_model(**flags, static=load_static(static), progress=progress)
    give_back_large_blocks(model.block_kept)
    return model


def limits_of(flags: dict[str, Any]) -> Limits:
    """What a request may cost; the flags are taken out of all."""
    from elmokit.service.middleware import Limits

    chosen = {
        "body_bytes": flags.pop("max_body"),
        "sentences": flags.pop("max_sentences"),
        "words_per_sentence": flags.pop("max_words"),
        "request_seconds": flags.pop("timeout"),
    }
    return Limits(**{name: value for name, value in chosen.items() if value is not None})


def check_installed() -> None:
    """Say what to install where the service's own packages are missing."""
    for name in ("fastapi", "httptools", "prometheus_client", "uvicorn"):
        import_extra(name, "service")


def warn_if_open(listener: socket.socket) -> None:
    """Say so where everybody who reaches this machine may ask."""
    from elmokit.service.server import is_loopback

    if not is_loopback(listener):
        click.echo(
            "elmo: warning: anyone who reaches this machine can use the service; "
            "--api-key FILE lets in only those who have a key",
            err=True,
        )


def announce(url: str, model: ServedModel, everywhere: bool) -> None:
    """Print where it is."""
    places = ", on all addresses of this machine" if everywhere else ""
    click.echo(f"{url}  ({model.name}{places}; Ctrl-C ends it)")


def say_what_it_waits_for(requests: int) -> None:
    """Print why it does not end at once."""
    what = counted(requests, "request") if requests else "the model to be loaded"
    click.echo(f"elmo: waiting for {what}; Ctrl-C again leaves at once", err=True)
