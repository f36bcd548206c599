"""How a request is refused: a status, and one line that says what to do."""

from __future__ import annotations

from typing import Any

from elmokit.errors import ElmoError

LONGEST_MESSAGE = 400
"""Characters: a message may quote what it got, which may be long."""
KINDS = {
    401: "authentication_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "too_large_error",
    500: "server_error",
    503: "overloaded_error",
}
"""OpenAI's names where it has one; every other refusal is an `invalid_request_error`."""


class Refusal(ElmoError):
    """A request that is not answered.

    Args:
        status: Of HTTP.
        message: Where, what it got, what to do.
        parameter: The part of the body that is to blame.
        retry_after: Seconds after which it may be tried again.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        parameter: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.parameter = parameter
        self.retry_after = retry_after

    @property
    def headers(self) -> dict[str, str]:
        """What the answer's head says about it."""
        headers = {} if self.retry_after is None else {"retry-after": str(self.retry_after)}
        if self.status == 401:
            headers["www-authenticate"] = "Bearer"
        return headers

    def body(self) -> dict[str, Any]:
        """As OpenAI writes it, so that its clients understand."""
        return refusal_body(self.status, str(self), self.parameter)


def refusal_body(status: int, message: str, parameter: str | None = None) -> dict[str, Any]:
    """The body of an answer that is a refusal.

    >>> refusal_body(404, "there is no such page")["error"]["type"]
    'not_found_error'
    """
    if len(message) > LONGEST_MESSAGE:
        message = message[:LONGEST_MESSAGE] + "…"
    kind = KINDS.get(status, "invalid_request_error")
    error = {"message": message, "type": kind, "param": parameter, "code": None}
    return {"error": error}
