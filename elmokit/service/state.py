"""What the routes share: the model, who gathers work for it, and what is counted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from fastapi import Request

from elmokit.errors import ElmoError
from elmokit.service.gathering import Gatherer
from elmokit.service.limits import Limits
from elmokit.service.logs import log_failure
from elmokit.service.metrics import Metrics
from elmokit.service.refusals import Refusal
from elmokit.service.served_model import ServedModel

T = TypeVar("T")
SHORT_TEXT = 4000
"""Characters of a request that are read at once; more of them in a thread, while others go on."""


class Service:
    """A model that is being loaded, then answers.

    Args:
        load: Gives the model; called in a thread when the service starts.
        limits: What requests may cost.
        on_loaded: Called on the event loop when the model is there.
        on_failure: Called on the event loop when it cannot be loaded.
    """

    def __init__(
        self,
        load: Callable[[], ServedModel],
        limits: Limits,
        on_loaded: Callable[[ServedModel], None] | None = None,
        on_failure: Callable[[Exception], None] | None = None,
    ) -> None:
        self.limits = limits
        self.metrics = Metrics()
        self._load = load
        self._on_loaded = on_loaded
        self._on_failure = on_failure
        self._model: ServedModel | None = None
        self._gatherer: Gatherer | None = None
        self._splitter = ThreadPoolExecutor(1, thread_name_prefix="splitter")
        self._searcher = ThreadPoolExecutor(1, thread_name_prefix="searcher")
        self._searches = 0
        self._loading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to load the model; until it is there, every question is refused."""
        self._gatherer = Gatherer(self.limits, self.metrics)
        self._loading = asyncio.create_task(self._load_model(self._gatherer))

    async def loaded(self) -> None:
        """Wait until the model is there, or cannot be."""
        assert self._loading is not None
        await self._loading

    async def stop(self) -> None:
        """End after the turn that is being computed."""
        if self._loading is not None:
            self._loading.cancel()
        if self._gatherer is not None:
            await self._gatherer.stop()
        for executor in (self._splitter, self._searcher):
            executor.shutdown(wait=True, cancel_futures=True)

    @property
    def ready(self) -> bool:
        """Whether the model is there."""
        return self._model is not None

    @property
    def model(self) -> ServedModel:
        """The model."""
        if self._model is None:
            raise Refusal(503, "the model is still being loaded; try again soon", retry_after=1)
        return self._model

    @property
    def gatherer(self) -> Gatherer:
        """Who has the model compute."""
        assert self._gatherer is not None  # the service has started before it is asked
        return self._gatherer

    async def split(self, texts: Sequence[str]) -> list[list[list[str]]]:
        """The sentences of each raw text, as the model's own text was split."""
        split = self.model.embedder.split
        return await self.read(sum(map(len, texts)), lambda: [split(text) for text in texts])

    async def read(self, characters: int, function: Callable[[], T]) -> T:
        """Run what reads so many characters: in a thread, unless they are few."""
        if characters <= SHORT_TEXT:
            return function()
        return await asyncio.get_running_loop().run_in_executor(self._splitter, function)

    async def search(self, question: Callable[..., Any], *arguments: Any) -> Any:
        """Ask the index, in a thread of its own: the model goes on meanwhile."""
        if self._searches >= self.limits.searches:
            raise Refusal(503, "too many searches are waiting; try again later", retry_after=1)
        self._searches += 1
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._searcher, question, *arguments)
        finally:
            self._searches -= 1

    async def _load_model(self, gatherer: Gatherer) -> None:
        try:
            model = await gatherer.call(self._load)
        except Exception as error:
            if not isinstance(error, ElmoError):  # which says all in its message
                log_failure("the model cannot be loaded", error)
            if self._on_failure is not None:
                self._on_failure(error)
            return
        self._model = model
        gatherer.start()
        if self._on_loaded is not None:
            self._on_loaded(model)


def service_of(request: Request) -> Service:
    """The service that a request is for."""
    service = request.app.state.service
    assert isinstance(service, Service)
    return service
