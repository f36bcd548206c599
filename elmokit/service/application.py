"""The FastAPI application: routes, middleware and HTTP errors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from elmokit import __version__
from elmokit.errors import ConfigError, InputError
from elmokit.service.middleware import Guard, Keys, Observation, RequestError, validation_error
from elmokit.service.routes import page_router, routers
from elmokit.service.schemas import Error
from elmokit.service.state import Service

DESCRIPTION = "Contextual word vectors and word probabilities of a bidirectional language model."
ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": Error, "description": "What was wrong with the request."},
    "5XX": {"model": Error, "description": "Too much at once, or not ready: try again later."},
}
ROUTE_ERRORS = {
    400: "the body is not JSON in UTF-8; send an object",
    404: "there is no such page; see /docs",
    405: "this method is not for this page; see /docs",
}
NO_TELEMETRY: Any = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}
"""FastAPI would otherwise tell any collector of this process about invalid bodies."""


def create_application(
    service: Service, *, keys: Keys | None = None, hosts: Iterable[str] | None = None
) -> FastAPI:
    """Make the application of a service.

    Args:
        service: The model and what it may cost; started and stopped with the application.
        keys: The keys that open it; None where everybody may ask.
        hosts: The host names it responds to; None for any.
    """

    @asynccontextmanager
    async def lifespan(application: FastAPI) -> AsyncIterator[None]:
        await service.start()
        try:
            yield
        finally:
            await service.stop()

    application = FastAPI(
        title="elmokit",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,  # FastAPI's page loads its scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
        responses=ERRORS,
        telemetry=NO_TELEMETRY,
    )
    application.state.service = service
    for router in (*routers, page_router()):
        application.include_router(router)
    for kind in (RequestError, InputError, ConfigError, RequestValidationError, HTTPException):
        application.add_exception_handler(kind, error_response)
    application.add_middleware(Guard, limits=service.limits, keys=keys, hosts=hosts)
    application.add_middleware(Observation, metrics=service.metrics)
    return application


async def error_response(request: Request, error: Exception) -> Response:
    """An error that the client can fix, as JSON.

    What the library says about an argument is what the client is told. Its other errors are about
    files of ours, which they name: those are failures like any.
    """
    if isinstance(error, RequestValidationError):
        error = validation_error(error.errors()[0])
    if isinstance(error, RequestError):
        return error.response()
    if not isinstance(error, HTTPException):
        return RequestError(400, str(error)).response()
    message = ROUTE_ERRORS.get(error.status_code, str(error.detail))
    response = RequestError(error.status_code, message).response()
    response.headers.update(error.headers or {})
    return response
