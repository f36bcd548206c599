from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from service.small_services import (
    running,
    small_korean_model,
    small_served_model,
    small_served_tasks,
)

from elmokit.service.middleware import Limits
from elmokit.service.server import create_application
from elmokit.service.state import ServedModel, Service
from elmokit.text import korean


@pytest.fixture(scope="session")
def model() -> ServedModel:
    return small_served_model()


@pytest.fixture(scope="session")
def answering(model: ServedModel, tmp_path_factory: pytest.TempPathFactory) -> ServedModel:
    """The same with a trained task of each kind."""
    return replace(model, tasks=small_served_tasks(tmp_path_factory.mktemp("tasks")))


@pytest.fixture
def without_kiwi(monkeypatch) -> ServedModel:
    """A model of Korean on a machine that has no Kiwi."""
    monkeypatch.setitem(sys.modules, "kiwipiepy", None)
    monkeypatch.setattr(korean, "_load_kiwi", korean._load_kiwi.__wrapped__)
    return small_korean_model()


Conversation = Callable[[httpx.AsyncClient], Awaitable[Any]]


@pytest.fixture
def converse(model: ServedModel) -> Callable[..., Any]:
    """Talk to an application in this process; gives what the conversation gives."""

    def run(talk: Conversation, limits: Limits | None = None, **settings: Any) -> Any:
        served = settings.pop("model", model)

        async def run_application() -> Any:
            service = Service(lambda: served, limits or Limits())
            application = create_application(service, **settings)
            transport = httpx.ASGITransport(application)
            async with (
                service.running() as loading,
                httpx.AsyncClient(transport=transport, base_url="http://t") as client,
            ):
                await loading
                return await talk(client)

        return asyncio.run(run_application())

    return run


@pytest.fixture
def post(converse) -> Callable[..., httpx.Response]:
    """Send one body; gives the response."""

    def send(path: str, body: Any, headers: dict[str, str] | None = None, **settings: Any) -> Any:
        return converse(lambda client: client.post(path, json=body, headers=headers), **settings)

    return send


@pytest.fixture
def refusal(post) -> Callable[..., str]:
    """Send one body that is refused; gives the one line that the response says."""

    def send(path: str, body: Any, status: int = 400, **settings: Any) -> str:
        response = post(path, body, **settings)
        assert response.status_code == status, response.text
        message = response.json()["error"]["message"]
        assert "\n" not in message
        return message

    return send


@pytest.fixture(scope="session")
def address(model: ServedModel) -> Iterator[str]:
    """A server that many tests share."""
    with running(lambda: model) as found:
        yield found
