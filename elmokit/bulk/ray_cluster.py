"""Being part of a Ray cluster, and how Ray is to work there."""

from __future__ import annotations

import importlib
import logging
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from elmokit.errors import InputError

SECONDS_FOR_PORT = 20
LOST_STARTS = 8
"""So many workers in a row may be lost while they start, before a run is given up."""


def import_ray() -> Any:
    """The library for many machines, which is an extra."""
    try:
        importlib.import_module("ray.data")
        return importlib.import_module("ray")
    except ImportError:
        raise InputError(
            "the engine ray needs one more library: pip install 'elmokit[ray]'"
        ) from None


@contextmanager
def connected(ray: Any, address: str | None, quiet: bool) -> Iterator[None]:
    """Be part of a cluster for a while; one that this process is part of already is used."""
    if ray.is_initialized():
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # unless the user wants to be counted
    try:
        try_port(address or os.environ.get("RAY_ADDRESS", ""))
        ray.init(
            address=address,
            include_dashboard=False,
            log_to_driver=not quiet,
            logging_level=logging.ERROR if quiet else logging.INFO,
        )
    except (OSError, RuntimeError, ValueError) as error:
        where = f"{address}: no Ray cluster answers" if address else "Ray does not start"
        raise InputError(
            f"{where} ({last_line(error)}); see whether one runs (ray status), or start one "
            "(ray start --head)"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def try_port(address: str) -> None:
    """Fail at once where nobody listens: Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if host and "/" not in host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), SECONDS_FOR_PORT).close()


@contextmanager
def data_settings(ray: Any, *, quiet: bool, progress: bool) -> Iterator[None]:
    """Set for a while how Ray Data works, as far as its version has the setting.

    Args:
        ray: The library.
        quiet: Let it show nothing but errors.
        progress: Let it show bars and notes of its own; else only warnings, unless it is quiet.
    """
    context = ray.data.DataContext.get_current()
    bars = progress and not quiet
    wanted = {
        "target_max_block_size": 1,  # each part by itself, so that all workers get some
        "enable_progress_bars": bars,
        "max_consecutive_actor_init_deaths": LOST_STARTS,
    }
    levels = {
        "ray.data": logging.ERROR if quiet else logging.WARNING,
        "ray.data._internal.progress": logging.ERROR,  # which warns that there are no bars
    }
    before = {name: getattr(context, name) for name in wanted if hasattr(context, name)}
    try:
        for name in before:
            setattr(context, name, wanted[name])
        with log_levels({} if bars else levels):
            yield
    finally:
        for name, value in before.items():
            setattr(context, name, value)


@contextmanager
def log_levels(levels: Mapping[str, int]) -> Iterator[None]:
    """Set for a while what loggers let through, by their names."""
    before = {name: logging.getLogger(name).level for name in levels}
    try:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


def worker_count(ray: Any, resource: str) -> int:
    """How many workers the cluster has room for."""
    count = int(ray.cluster_resources().get(resource, 0))
    if not count:
        raise InputError(f"the Ray cluster has no {resource}; add machines that have one")
    return count


def last_line(error: BaseException) -> str:
    """The last line of a message: where it has a trace, what went wrong is at its end."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:200] if lines else type(error).__name__
