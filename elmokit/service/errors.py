"""HTTP errors: what clients know each by, and how it is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from elmokit.errors import ElmoError

LONGEST_MESSAGE = 400  # characters: a message may quote what it got, which may be long
LONGEST_NAME = 40  # characters of a field's name, which a client may invent
CODES = {
    400: "invalid_body invalid_field wrong_fields empty_list wrong_dimensions wrong_layers "
    "sentence_count position_out_of_range gap_count gap_in_word unknown_word word_not_in_index "
    "empty_text invalid_input",
    401: "invalid_api_key",
    404: "unknown_route model_not_found task_not_found no_index no_words missing_library",
    405: "method_not_allowed",
    406: "several_arrays",
    413: "body_too_long sentence_too_long too_many_sentences too_many_texts too_many_words "
    "too_many_characters too_many_candidates response_too_long",
    421: "unknown_host",
    500: "failure",
    503: "loading overloaded timeout",
}
"""What clients know an error by, whatever its words; those of each status."""
STATUS_OF = {code: status for status, codes in CODES.items() for code in codes.split()}
ERROR_TYPES = {
    401: "authentication_error",
    404: "not_found_error",
    413: "too_large_error",
    500: "server_error",
    503: "overloaded_error",
}
"""OpenAI's names where it has one; every other error is an `invalid_request_error`."""


class RequestError(ElmoError):
    """An HTTP error; `parameter` is the part of the body to blame, `retry_after` in seconds.

    `code` is one of `STATUS_OF`; with `values`, what the message names, a client can word the error
    itself. `close` ends the connection, where the rest of the body is not read.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        parameter: str | None = None,
        retry_after: int = 1,
        close: bool = False,
        **values: Any,
    ) -> None:
        super().__init__(message, code, **values)
        self.status = STATUS_OF[code]
        self.parameter = parameter
        self.retry_after = retry_after
        self.close = close

    def response(self) -> JSONResponse:
        """As OpenAI writes it, so that its clients understand; the values are our addition.

        >>> RequestError("timeout", "too late", seconds=60).response().body.decode()[-43:]
        ',"code":"timeout","values":{"seconds":60}}}'
        """
        message = str(self)
        if len(message) > LONGEST_MESSAGE:
            message = message[:LONGEST_MESSAGE] + "…"
        kind = ERROR_TYPES.get(self.status, "invalid_request_error")
        error = {"message": message, "type": kind, "param": self.parameter, "code": self.code}
        headers = {"retry-after": str(self.retry_after)} if self.status == 503 else {}
        if self.status == 401:
            headers["www-authenticate"] = "Bearer"
        if self.close:
            headers["connection"] = "close"
        return JSONResponse({"error": error | {"values": self.values}}, self.status, headers)


ROUTE_ERRORS = {
    400: ("invalid_body", "the body is not JSON in UTF-8; send an object"),
    404: ("unknown_route", "there is no such page; see /docs"),
    405: ("method_not_allowed", "this method is not for this page; see /docs"),
}
NOT_AN_OBJECT = (
    "the body is not a JSON object; send one, with the header Content-Type: application/json"
)


def validation_error(error: Mapping[str, Any]) -> RequestError:
    """One of pydantic's errors, with the field that it is about.

    >>> wrong = {"type": "missing", "loc": ("body", "texts"), "msg": "Field required"}
    >>> str(validation_error(wrong))
    'texts: Field required'
    """
    unknown = error["ctx"]["field"] if error["type"] == "unknown_field" else ()
    # A client may invent a name with line breaks in it.
    parts = ("".join(filter(str.isprintable, str(part))) for part in (*error["loc"][1:], *unknown))
    field = ".".join(part[:LONGEST_NAME] for part in parts)
    if error["type"] == "json_invalid" or not field:
        return RequestError("invalid_body", NOT_AN_OBJECT)
    return RequestError("invalid_field", f"{field}: {error['msg']}", parameter=field)


async def error_response(request: Request, error: Exception) -> Response:
    """An error that the client can fix, as JSON.

    What the library says about an argument is what the client is told. Its other errors are about
    files of ours, which they name: those are failures like any.
    """
    if isinstance(error, RequestValidationError):
        error = validation_error(error.errors()[0])
    if isinstance(error, RequestError):
        return error.response()
    if isinstance(error, ElmoError):
        return RequestError(error.code or "invalid_input", str(error), **error.values).response()
    assert isinstance(error, HTTPException)
    code, message = ROUTE_ERRORS.get(error.status_code, ("invalid_input", str(error.detail)))
    response = RequestError(code, message).response()
    response.status_code = error.status_code
    response.headers.update(error.headers or {})
    return response
