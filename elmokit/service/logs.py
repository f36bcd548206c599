"""What the service writes down: a line of JSON for each event, and never a client's text."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

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
    places = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append(
            f"{trace.tb_frame.f_globals.get('__name__')}:{code.co_name}:{trace.tb_lineno}"
        )
        trace = trace.tb_next
    log(logging.ERROR, event, error=type(error).__name__, trace=places[-12:], **fields)


def configure_logs(level: int) -> None:
    """Send events of at least this level to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    LOGGER.handlers = [handler]
    LOGGER.setLevel(level)
    LOGGER.propagate = False
