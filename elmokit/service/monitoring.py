"""Monitoring: the log, one line of JSON for each event, and the metrics."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from platform import python_version
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    generate_latest,
)

from elmokit import __version__

LOGGER = logging.getLogger("elmokit.service")


class JsonLines(logging.Formatter):
    """A record as one line of JSON: time, level, event, and the event's own fields."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"time": time, "level": record.levelname.lower(), "event": record.getMessage()}
        return json.dumps(line | getattr(record, "fields", {}))


def log(level: int, event: str, **fields: Any) -> None:
    """Write an event down."""
    if LOGGER.isEnabledFor(level):
        LOGGER.log(level, event, extra={"fields": fields})


def log_failure(event: str, error: BaseException, **fields: Any) -> None:
    """Write down where an error came from; its message is left out, as it may quote a text."""
    places = [
        f"{frame.f_globals.get('__name__')}:{frame.f_code.co_name}:{line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    log(logging.ERROR, event, error=type(error).__name__, trace=places[-12:], **fields)


def configure_logs(level: int) -> None:
    """Send events of at least this level to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    LOGGER.handlers = [handler]
    LOGGER.setLevel(level)
    LOGGER.propagate = False


SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
GAUGES = {
    "ready": "Whether the model is loaded.",
    "waiting_requests": "Requests that wait for the model, or are being computed.",
    "waiting_words": "Their words, sentence markers included.",
    "waiting_values": "Numbers that their responses will hold.",
}


class ServiceMetrics:
    """What the service has done since it started, for Prometheus."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)  # its memory, threads, files, processor time
        build = Info("elmo_build", "Versions of what serves.", registry=self.registry)
        build.info({"version": __version__, "torch": version("torch"), "python": python_version()})
        count = partial(Counter, registry=self.registry)
        measure = partial(Histogram, registry=self.registry)
        self._requests = count("elmo_requests", "Requests by status.", ["route", "status"])
        self._request_seconds = measure(
            "elmo_request_seconds", "Seconds of a request.", ["route"], buckets=SECONDS
        )
        # Batches were once called turns; what Prometheus has collected continues under that name.
        self._batch_requests = measure("elmo_turn_requests", "Requests of a batch.", buckets=SIZES)
        self._batch_seconds = measure("elmo_turn_seconds", "Seconds of a batch.", buckets=SECONDS)
        self._items = count("elmo_items", "Sentences and places for a word computed.")
        self._words = count("elmo_words", "Work done, in words.")
        self._gauges = {
            name: Gauge(f"elmo_{name}", text, registry=self.registry)
            for name, text in GAUGES.items()
        }

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count a request that has its response."""
        self._requests.labels(route, status).inc()
        self._request_seconds.labels(route).observe(seconds)

    def batch(self, requests: int, items: int, cost: int, seconds: float) -> None:
        """Count a batch that the model has computed."""
        self._batch_requests.observe(requests)
        self._batch_seconds.observe(seconds)
        self._items.inc(items)
        self._words.inc(cost)

    def text(self, gauges: Mapping[str, int]) -> bytes:
        """Everything in Prometheus' format, with some numbers as they are now."""
        for name, value in gauges.items():
            self._gauges[name].set(value)
        return generate_latest(self.registry)
