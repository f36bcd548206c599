"""The application: routes, what guards them, and how it starts and stops."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from elmokit import __version__
from elmokit.errors import ConfigError, InputError
from elmokit.service import openai, predictions, status, vectors
from elmokit.service.guard import Guard
from elmokit.service.keys import Keys
from elmokit.service.mistakes import mistake_of
from elmokit.service.observation import Observation
from elmokit.service.page_routes import page_router
from elmokit.service.refusals import Refusal, refusal_body
from elmokit.service.schemas import Error
from elmokit.service.state import Service

DESCRIPTION = "Contextual word vectors and word probabilities of a bidirectional language model."
REFUSALS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": Error, "description": "What was wrong with the request."},
    "5XX": {"model": Error, "description": "Too much at once, or not ready: try again later."},
}
NO_TELEMETRY: Any = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}
"""FastAPI would otherwise tell any collector of this process about bodies that it refuses."""


def create_application(
    service: Service, *, keys: Keys | None = None, hosts: Iterable[str] | None = None
) -> FastAPI:
    """Make the application of a service.

    Args:
        service: The model and what it may cost; started and stopped with the application.
        keys: The keys that open it; None where everybody may ask.
        hosts: The names it may be asked under; None for any.
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
        responses=REFUSALS,
        telemetry=NO_TELEMETRY,
    )
    application.state.service = service
    for router in (openai.router, vectors.router, predictions.router, status.router):
        application.include_router(router)
    application.include_router(page_router())
    for kind in (Refusal, InputError, ConfigError):
        application.add_exception_handler(kind, refuse)
    application.add_exception_handler(RequestValidationError, refuse_body)
    application.add_exception_handler(HTTPException, refuse_route)
    application.add_middleware(Guard, limits=service.limits, keys=keys, hosts=hosts)
    application.add_middleware(Observation, metrics=service.metrics)
    return application


async def refuse(request: Request, error: Exception) -> Response:
    """What the library says about an argument is what the client is told.

    Its other errors are about files of ours, which they name: those are failures like any.
    """
    refusal = error if isinstance(error, Refusal) else Refusal(400, str(error))
    return JSONResponse(refusal.body(), refusal.status, refusal.headers)


async def refuse_body(request: Request, error: Exception) -> Response:
    """The first thing that is wrong with a body, and where."""
    assert isinstance(error, RequestValidationError)
    mistake = mistake_of(error.errors()[0])
    return JSONResponse(refusal_body(400, mistake.message, mistake.field), 400)


async def refuse_route(request: Request, error: Exception) -> Response:
    """No such route, or no such method of it."""
    assert isinstance(error, HTTPException)
    messages = {
        400: "the body is not JSON in UTF-8; send an object",
        404: "there is no such page; see /docs",
        405: "this method is not for this page; see /docs",
    }
    message = messages.get(error.status_code, str(error.detail))
    return JSONResponse(refusal_body(error.status_code, message), error.status_code, error.headers)
