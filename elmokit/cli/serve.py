"""`elmo serve`: the HTTP service and the explorer page."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from elmokit.cli import options
from elmokit.cli.progress import Display
from elmokit.system import (
    SHAPES_OF_A_SERVICE,
    counted,
    give_back_large_blocks,
    import_extra,
    remember_few_shapes,
)

if TYPE_CHECKING:
    from elmokit.service.middleware import Limits
    from elmokit.service.server import ModelServer
    from elmokit.service.state import ServedModel


def explain_workers(context: click.Context, parameter: click.Parameter, given: str | None) -> None:
    """Say how several processes serve, to who wants them from this one."""
    if given is not None:
        raise click.UsageError(
            "--workers: one process computes with all CPUs; for several, run elmo serve once for "
            "each, with a --port and --threads of its own, behind a proxy"
        )


@click.command(cls=options.ModelCommand)
@options.model
@options.precision
@options.device
@options.value(
    "--index",
    "INDEX",
    "What elmo neighbours build has made: neighbours and senses are found in it.",
)
@options.static
@options.value(
    "--task",
    "FOLDER",
    "What elmo task train has made: it is asked by the name of its folder, at /tasks/NAME. May be "
    "repeated.",
    called="tasks",
    multiple=True,
)
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
@options.value(
    "--api-key",
    "FILE",
    "Respond only to those who send a key of this file, one per line. Without it: the key in "
    "ELMO_API_KEY, if that is set.",
)
@options.value(
    "--allow-host",
    "NAME",
    "A host name or IP address that it responds to, beside localhost; may be repeated.",
    multiple=True,
)
@options.value(
    "--root-path",
    "PREFIX",
    "What a proxy in front has before every path, such as /elmo.",
    default="",
)
@options.value("--workers", "N", "", hidden=True, expose_value=False, callback=explain_workers)
@options.number(
    "--max-body", "Of one request.  [default: 4194304]", called="body_bytes", metavar="BYTES"
)
@options.number("--max-sentences", "Of one request.  [default: 2048]", called="sentences")
@options.number("--max-words", "Of one sentence.  [default: 2048]", called="words_per_sentence")
@options.value(
    "--timeout",
    "SECONDS",
    "Until a request has its response or is given up.  [default: 60]",
    called="request_seconds",
    type=click.FloatRange(min=0, min_open=True),
)
@options.flag("--quiet", "Write down what goes wrong, not every request.")
def serve(**flags: Any) -> None:
    """Serve vectors and trained tasks over HTTP, and show the explorer page.

    The page is at the URL that is printed, the API at /docs. Clients of OpenAI's embeddings work
    with that URL and v1 as their base URL. Only this machine can ask unless --host says otherwise;
    nothing that a client sends is stored or written down.

    SIGTERM and Ctrl-C end it after the requests in progress, a second Ctrl-C at once.

    \b
    Examples:
      elmo serve
      elmo serve --task my-ner --task my-spam
      elmo serve --model my-model --host 0.0.0.0 --api-key keys.txt
    """
    give_back_large_blocks()
    remember_few_shapes(SHAPES_OF_A_SERVICE)
    for name in ("fastapi", "httptools", "prometheus_client", "uvicorn"):
        import_extra(name, "service")  # says what to install where one is missing
    try:
        run_service(**flags)
    except KeyboardInterrupt:  # before it serves; from then on it takes signals itself
        click.echo("elmo: stopped before it was ready", err=True)


def run_service(
    *,
    index: str | None,
    tasks: tuple[str, ...],
    static: str | None,
    host: str,
    port: int,
    api_key: str | None,
    allow_host: tuple[str, ...],
    root_path: str,
    quiet: bool,
    **flags: Any,
) -> None:
    """Serve until told to stop; what needs no PyTorch is looked at before that is loaded."""
    from elmokit.service.middleware import ENVIRONMENT_VARIABLE, read_keys
    from elmokit.service.monitoring import configure_logs

    keys = read_keys(api_key, os.environ.get(ENVIRONMENT_VARIABLE))
    limits = limits_of(flags)
    configure_logs(logging.WARNING if quiet else logging.INFO)
    if index is not None:
        from elmokit.analysis.neighbours.store import read_description

        read_description(index)
    if tasks:
        from elmokit.tasks.folder import task_folders

        task_folders(tasks)
    from elmokit.service.server import ModelServer, is_loopback

    server = ModelServer(
        partial(load_served, quiet, static, index=index, tasks=tasks, **flags),
        host=host,
        port=port,
        limits=limits,
        keys=keys,
        allowed_hosts=allow_host,
        root_path=root_path,
        on_ready=announce,
        on_stopping=say_what_it_waits_for,
    )
    click.echo(f"elmo: {server.url} listens; the model is being loaded", err=True)
    if keys is None and not is_loopback(server.listener):
        click.echo(
            "elmo: warning: anyone who reaches this machine can use the service; "
            "--api-key FILE lets in only those who have a key",
            err=True,
        )
    server.run()


def load_served(quiet: bool, static: str | None, **flags: Any) -> ServedModel:
    """The model that the flags describe; from then on memory is kept for its steps alone."""
    from elmokit.service.state import load_model

    with Display(quiet) as shown:
        model = load_model(**flags, progress=shown.fetching)
        model = replace(model, static=options.load_static(static, model.embedder))
    give_back_large_blocks(model.block_kept)
    return model


def limits_of(flags: dict[str, Any]) -> Limits:
    """What a request may cost; the flags are taken out of all."""
    from elmokit.service.middleware import Limits

    names = ("body_bytes", "sentences", "words_per_sentence", "request_seconds")
    chosen = {name: flags.pop(name) for name in names}
    return Limits(**{name: value for name, value in chosen.items() if value is not None})


def announce(server: ModelServer) -> None:
    """Print where it is."""
    from elmokit.service.server import ALL_ADDRESSES

    everywhere = server.listener.getsockname()[0] in ALL_ADDRESSES
    places = ", on all addresses of this machine" if everywhere else ""
    click.echo(f"{server.url}  ({server.service.model.name}{places}; Ctrl-C ends it)")


def say_what_it_waits_for(requests: int) -> None:
    """Print why it does not end at once."""
    what = counted(requests, "request") if requests else "the model to be loaded"
    click.echo(f"elmo: waiting for {what}; Ctrl-C again leaves at once", err=True)
