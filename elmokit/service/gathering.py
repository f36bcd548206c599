"""Many small requests, computed as few large batches by the one thread that owns the model."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from elmokit.service.limits import Limits
from elmokit.service.refusals import Refusal

COST_PER_TURN = 8192
"""In words: what the model computes at once, and so about how long a new request may wait."""
COST_PER_PIECE = 1024
"""What one request gets of a turn before others have their share."""
QUIET_PARTS = 4
"""Into how many the time of gathering is cut; one of them without a new request ends it."""
LONGEST_RETRY = 60


class Kind(Hashable, Protocol):
    """Something that can be computed for many requests at once; equal kinds share a turn."""

    def compute(self, items: Sequence[Any]) -> Sequence[Any]:
        """A result for each item, which depends on the item alone."""

    def cost(self, item: Any) -> int:
        """About how many words it is as much work as."""


class Observer(Protocol):
    """Who wants to know what the model does."""

    def turn(self, requests: int, items: int, cost: int, seconds: float) -> None:
        """A turn has been computed."""


class Job:
    """A request's items, and what has become of them."""

    def __init__(self, kind: Kind, items: Sequence[Any], values: int) -> None:
        self.kind = kind
        self.items = items
        self.values = values
        self.costs = [kind.cost(item) for item in items]
        self.cost = sum(self.costs)
        self.results: list[Any] = [None] * len(items)
        self.taken = 0
        self.left = len(items)
        self.done: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()

    def take(self, cost: int) -> slice:
        """The next items of about this cost; at least one."""
        start = self.taken
        while self.taken < len(self.items) and (cost > 0 or self.taken == start):
            cost -= self.costs[self.taken]
            self.taken += 1
        return slice(start, self.taken)

    @property
    def waiting(self) -> bool:
        """Whether the model has not come to all of its items."""
        return self.taken < len(self.items) and not self.done.done()

    def keep(self, part: slice, results: Sequence[Any]) -> None:
        """Take the results of some items; those of the last one answer the request."""
        self.results[part] = results
        self.left -= len(results)
        if not self.left and not self.done.done():
            self.done.set_result(self.results)

    def fail(self, error: Exception) -> None:
        """Answer the request with an error."""
        if not self.done.done():
            self.done.set_exception(error)


@dataclass
class Part:
    """Some items of a job, and what was computed for them."""

    job: Job
    part: slice
    results: Sequence[Any] | Exception = ()

    @property
    def items(self) -> Sequence[Any]:
        """The items themselves."""
        return self.job.items[self.part]


class Gatherer:
    """Gathers requests for a few milliseconds, and gives each its own results.

    Made, started and asked on one event loop; only `Kind.compute` runs elsewhere, in a thread of
    its own.

    Args:
        limits: How much may wait, and how long to gather.
        observer: Who is told of each turn.
    """

    def __init__(self, limits: Limits, observer: Observer | None = None) -> None:
        self.limits = limits
        self.observer = observer
        self.requests = 0
        self.waiting_cost = 0
        self.waiting_values = 0
        self._jobs: deque[Job] = deque()
        self._arrivals = 0
        self._arrived = asyncio.Event()
        self._cost_per_second = 0.0
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="model")
        self._turns: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to compute."""
        self._turns = asyncio.get_running_loop().create_task(self._take_turns())

    async def stop(self) -> None:
        """End after the turn that is being computed."""
        if self._turns is not None:
            self._turns.cancel()
            with suppress(asyncio.CancelledError):
                await self._turns
        self._worker.shutdown(wait=True)

    async def compute(self, kind: Kind, items: Sequence[Any], values: int = 0) -> list[Any]:
        """A result for each item, some time later; being cancelled frees its place.

        Args:
            kind: What to compute.
            items: Of what.
            values: How many numbers the results will hold.
        """
        if not items:
            return []
        job = Job(kind, items, values)
        self._admit(job)
        try:
            return await job.done
        finally:
            self._release(job)

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function where the model's own work runs."""
        return await asyncio.get_running_loop().run_in_executor(self._worker, function, *arguments)

    def _admit(self, job: Job) -> None:
        """Let a job wait, or refuse it where too much waits already."""
        too_many = self.waiting_cost + job.cost > max(
            self.limits.waiting_words, job.cost
        ) or self.waiting_values + job.values > max(self.limits.waiting_values, job.values)
        if too_many:
            raise Refusal(
                503, "too many requests are waiting; try again later", retry_after=self.retry_after
            )
        self.requests += 1
        self.waiting_cost += job.cost
        self.waiting_values += job.values
        self._jobs.append(job)
        self._arrivals += 1
        self._arrived.set()

    def _release(self, job: Job) -> None:
        """Forget a job that was answered, has failed, or whose client has gone."""
        self.requests -= 1
        self.waiting_cost -= job.cost
        self.waiting_values -= job.values
        if job.taken < len(job.items):
            with suppress(ValueError):
                self._jobs.remove(job)
        job.done.cancel()

    @property
    def retry_after(self) -> int:
        """Seconds until what waits now will probably be done."""
        if not self._cost_per_second:
            return 1
        seconds = math.ceil(self.waiting_cost / self._cost_per_second)
        return min(max(seconds, 1), LONGEST_RETRY)

    async def _take_turns(self) -> None:
        """Compute what waits, turn after turn."""
        while True:
            await self._arrived.wait()
            await self._gather()
            parts = self._next_turn()
            if parts:
                await self._compute_turn(parts)
            if not self._jobs:
                self._arrived.clear()

    async def _gather(self) -> None:
        """Wait for company: until a turn is full, nobody new comes, or the time is up."""
        for _ in range(QUIET_PARTS):
            seen = self._arrivals
            if sum(job.cost for job in self._jobs) >= COST_PER_TURN:
                return
            await asyncio.sleep(self.limits.gather_seconds / QUIET_PARTS)
            if self._arrivals == seen:
                return

    def _next_turn(self) -> list[Part]:
        """Items of the kind that has waited longest, a piece of each request in turn."""
        if not self._jobs:
            return []
        kind = self._jobs[0].kind
        turn = deque(job for job in self._jobs if job.kind == kind)
        others = [job for job in self._jobs if job.kind != kind]
        parts, room = [], COST_PER_TURN
        while turn and room > 0:
            job = turn.popleft()
            part = job.take(min(COST_PER_PIECE, room))
            room -= sum(job.costs[part])
            parts.append(Part(job, part))
            if job.waiting:
                turn.append(job)
        # What had no room goes behind the other kinds, so that none of them waits for ever.
        self._jobs = deque([*others, *turn])
        return parts

    async def _compute_turn(self, parts: list[Part]) -> None:
        """Compute a turn in the worker, then answer the requests that it completes."""
        started = time.perf_counter()
        await self.call(compute_parts, parts)
        seconds = time.perf_counter() - started
        for one in parts:
            if isinstance(one.results, Exception):
                one.job.fail(one.results)
            else:
                one.job.keep(one.part, one.results)
        self._forget_failed()
        self._note(parts, seconds)

    def _forget_failed(self) -> None:
        self._jobs = deque(job for job in self._jobs if job.waiting)

    def _note(self, parts: list[Part], seconds: float) -> None:
        """Remember how fast it went, for `retry_after`."""
        cost = sum(sum(one.job.costs[one.part]) for one in parts)
        rate = cost / max(seconds, 1e-6)
        before = self._cost_per_second or rate
        self._cost_per_second = 0.8 * before + 0.2 * rate
        if self.observer is not None:
            requests = len({id(one.job) for one in parts})
            items = sum(len(one.items) for one in parts)
            self.observer.turn(requests, items, cost, seconds)


def compute_parts(parts: list[Part]) -> None:
    """Compute parts of one kind together, or each alone where one of them spoils it."""
    try:
        compute_together(parts)
    except Exception as error:
        if len(parts) == 1:
            parts[0].results = error
            return
        for one in parts:
            compute_parts([one])


def compute_together(parts: Iterable[Part]) -> None:
    """Compute the items of all parts in one call, and give each part its own results."""
    parts = list(parts)
    items = [item for one in parts for item in one.items]
    results = parts[0].job.kind.compute(items)
    if len(results) != len(items):
        raise RuntimeError(f"{len(results)} results for {len(items)} items")
    start = 0
    for one in parts:
        count = len(one.items)
        one.results = results[start : start + count]
        start += count
