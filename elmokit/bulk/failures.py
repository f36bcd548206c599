"""Errors of other machines, as messages that are raised where the user is."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from elmokit import errors
from elmokit.bulk.parts import Message
from elmokit.errors import ElmoError


def or_failure(compute: Callable[[], Message]) -> Message:
    """A message, or in its place the error: it is to be told where the user is."""
    try:
        return compute()
    except ElmoError as error:
        return failure(error)


def with_failure(messages: Iterator[Message]) -> Iterator[Message]:
    """Messages, and the error that ended them."""
    try:
        yield from messages
    except ElmoError as error:
        yield failure(error)


def failure(error: ElmoError) -> Message:
    """An error as a message."""
    return {"failure": type(error).__name__, "why": str(error)}


def checked(message: Message) -> Message:
    """A message that is no failure; raise the error that happened elsewhere."""
    if "failure" in message:
        raise getattr(errors, message["failure"])(message["why"])
    return message
