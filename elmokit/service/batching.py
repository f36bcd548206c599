"""Request batching: many small requests become few large batches for the model's one thread."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple, Protocol

from elmokit.errors import InputError
from elmokit.inference.embedder import Embedder, Vectors
from elmokit.inference.language_model import LanguageModel
from elmokit.inference.layers import LayerChoice, Pool
from elmokit.inference.predictions import Gap, RankedWord, SentenceScore, WordProbability
from elmokit.service.errors import RequestError
from elmokit.service.middleware import Limits
from elmokit.service.monitoring import ServiceMetrics
from elmokit.service.schemas import MixWeights, PredictBody
from elmokit.text.characters import Sentence

COST_PER_BATCH = 8192
"""In words: what the model computes at once, and so about how long a new request may wait."""
COST_PER_PIECE = 1024  # what one request gets of a batch before others have their share
QUIET_PARTS = 4
"""Into how many the time of gathering is cut; one of them without a new request ends it."""
LONGEST_RETRY = 60


class Computation(Protocol):
    """Something that can be computed for many requests at once; equal kinds share a batch."""

    def compute(self, items: Sequence[Any]) -> Sequence[Any]:
        """A result for each item, which depends on the item alone."""

    def cost(self, item: Any) -> int:
        """About how many words it is as much work as."""


class Job:
    """A request's items, and what has become of them."""

    def __init__(self, kind: Computation, items: Sequence[Any], values: int) -> None:
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

    def store(self, part: slice, results: Sequence[Any]) -> None:
        """Take the results of some items; those of the last one complete the request."""
        self.results[part] = results
        self.left -= len(results)
        if not self.left and not self.done.done():
            self.done.set_result(self.results)

    def fail(self, error: Exception) -> None:
        """End the request with an error."""
        if not self.done.done():
            self.done.set_exception(error)


class JobPart(NamedTuple):
    """Some items of a job."""

    job: Job
    part: slice

    @property
    def items(self) -> Sequence[Any]:
        """The items themselves."""
        return self.job.items[self.part]


class Gatherer:
    """Gathers requests for a few milliseconds, and gives each its own results.

    Started and asked on one event loop; only `Computation.compute` runs elsewhere, in a thread of
    its own.
    """

    def __init__(self, limits: Limits, metrics: ServiceMetrics) -> None:
        self.limits = limits
        self.metrics = metrics
        self.requests = 0
        self.waiting_cost = 0
        self.waiting_values = 0
        self.ending = False  # what is begun cannot be stopped: then batches are small
        self._jobs: deque[Job] = deque()
        self._arrivals = 0
        self._arrived = asyncio.Event()
        self._cost_per_second = 0.0
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="model")
        self._batches: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to compute."""
        self._batches = asyncio.get_running_loop().create_task(self._compute_batches())

    async def stop(self) -> None:
        """End after the batch that is being computed."""
        if self._batches is not None:
            self._batches.cancel()
            with suppress(asyncio.CancelledError):
                await self._batches
        self._worker.shutdown(wait=True)

    async def compute(self, kind: Computation, items: Sequence[Any], values: int = 0) -> list[Any]:
        """A result for each item, some time later, `values` numbers in all; it can be cancelled."""
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
        """Let a job wait, or raise HTTP error 503 where too much waits already."""
        fits = self.limits.allow("waiting_words", job.cost, self.waiting_cost)
        if not (fits and self.limits.allow("waiting_values", job.values, self.waiting_values)):
            problem = "too many requests are waiting; try again later"
            raise RequestError("overloaded", problem, retry_after=self.retry_after)
        self.requests += 1
        self.waiting_cost += job.cost
        self.waiting_values += job.values
        self._jobs.append(job)
        self._arrivals += 1
        self._arrived.set()

    def _release(self, job: Job) -> None:
        """Forget a job that is done, has failed, or whose client has gone."""
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

    async def _compute_batches(self) -> None:
        """Compute what waits, batch after batch."""
        while True:
            await self._arrived.wait()
            await self._gather()
            parts = self._next_batch()
            if parts:
                await self._compute_batch(parts)
            if not self._jobs:
                self._arrived.clear()

    async def _gather(self) -> None:
        """Wait for company: until a batch is full, nobody new comes, or the time is up."""
        for _ in range(QUIET_PARTS):
            seen = self._arrivals
            if sum(job.cost for job in self._jobs) >= COST_PER_BATCH:
                return
            await asyncio.sleep(self.limits.gather_seconds / QUIET_PARTS)
            if self._arrivals == seen:
                return

    def _next_batch(self) -> list[JobPart]:
        """Items of the kind that has waited longest, a piece of each request in turn."""
        if not self._jobs:
            return []
        kind = self._jobs[0].kind
        same = deque(job for job in self._jobs if job.kind == kind)
        others = [job for job in self._jobs if job.kind != kind]
        parts, room = [], COST_PER_PIECE if self.ending else COST_PER_BATCH
        while same and room > 0:
            job = same.popleft()
            part = job.take(min(COST_PER_PIECE, room))
            room -= sum(job.costs[part])
            parts.append(JobPart(job, part))
            if job.waiting:
                same.append(job)
        # What had no room goes behind the other kinds, so that none of them waits for ever.
        self._jobs = deque([*others, *same])
        return parts

    async def _compute_batch(self, parts: list[JobPart]) -> None:
        """Compute a batch in the worker, then end the requests that it completes."""
        started = time.perf_counter()
        computed = await self.call(compute_parts, parts)
        seconds = time.perf_counter() - started
        for one, results in zip(parts, computed, strict=True):
            if isinstance(results, Exception):
                one.job.fail(results)
            else:
                one.job.store(one.part, results)
        self._jobs = deque(job for job in self._jobs if job.waiting)  # those that failed are not
        self._note(parts, seconds)

    def _note(self, parts: list[JobPart], seconds: float) -> None:
        """Remember how fast it went, for `retry_after`."""
        cost = sum(sum(one.job.costs[one.part]) for one in parts)
        rate = cost / max(seconds, 1e-6)
        before = self._cost_per_second or rate
        self._cost_per_second = 0.8 * before + 0.2 * rate
        requests = len({id(one.job) for one in parts})
        items = sum(len(one.items) for one in parts)
        self.metrics.batch(requests, items, cost, seconds)


def compute_parts(parts: list[JobPart]) -> list[Sequence[Any] | Exception]:
    """The results of parts of one kind, or each one's own where one of them spoils it."""
    try:
        results = iter(parts[0].job.kind.compute([item for one in parts for item in one.items]))
    except Exception as error:
        return [error] if len(parts) == 1 else [compute_parts([one])[0] for one in parts]
    return [list(islice(results, len(one.items))) for one in parts]


COST_OF_SOFTMAX = 64  # in words read: the probabilities of a complete vocabulary at one place


@dataclass(frozen=True)
class Embedding:
    """Sentences of words to vectors."""

    embedder: Embedder
    layers: str | int | MixWeights = "average"
    pool: Pool = None

    def compute(self, items: Sequence[Sentence]) -> Sequence[Vectors]:
        """An array for each sentence: (…, words, size), or (…, size) where it is pooled."""
        return self.embedder.embed_as(items, self.choice)

    def cost(self, item: Sentence) -> int:
        """Its words and their two markers."""
        return len(item) + 2

    def values(self, sentences: Sequence[Sentence]) -> int:
        """How many numbers the vectors of some sentences are."""
        choice = self.choice
        vectors = sum(map(len, sentences)) if choice.pool is None else len(sentences)
        return vectors * choice.values(self.embedder.config)

    @cached_property
    def choice(self) -> LayerChoice:
        """Which layers are wanted; raises an `InputError` for those that the model has not."""
        layers = self.layers
        if isinstance(layers, MixWeights):
            return self.embedder.choose(layers.mix(self.embedder.config.layer_count), self.pool)
        return self.embedder.choose(layers, self.pool)


@dataclass(frozen=True)
class Scoring:
    """Sentences of words to their log probabilities."""

    language_model: LanguageModel

    def compute(self, items: Sequence[Sentence]) -> Sequence[SentenceScore]:
        """A score for each sentence."""
        return self.language_model.score(items)

    def cost(self, item: Sentence) -> int:
        """Every word is read, and looked up in the softmax of both directions."""
        return 4 * (len(item) + 2)


class WordQuestion(NamedTuple):
    """A place that lacks a word, and what is wanted there."""

    place: Gap
    wanted: PredictBody


Predicted = list[WordProbability] | list[RankedWord] | list[str]


@dataclass(frozen=True)
class Predicting:
    """Places that lack a word to the words that fit."""

    language_model: LanguageModel

    def compute(self, items: Sequence[WordQuestion]) -> Sequence[Predicted]:
        """Words for each question."""
        return [self.predict(question) for question in items]

    def cost(self, item: WordQuestion) -> int:
        """The words that are read, and the softmax of each word that is drawn."""
        read = len(item.place.before or ()) + len(item.place.after or ())
        return read + COST_OF_SOFTMAX * (2 + (item.wanted.sample or 0))

    def predict(self, question: WordQuestion) -> Predicted:
        """As `elmo predict` does."""
        (before, after), wanted = question
        if wanted.sample is not None:
            if before is not None and after is not None:
                raise InputError("a sample continues from one end of the text; leave out the ___")
            chosen = wanted.sample, wanted.temperature, wanted.seed, wanted.among
            return self.language_model.sample(before or (), *chosen, after=after)
        if wanted.candidates is not None:
            return self.language_model.rank(before, wanted.candidates, after)
        if before is not None and after is not None:
            return self.language_model.missing_words(before, after, wanted.top)
        if after is None:
            return self.language_model.next_words(before or [], wanted.top)
        return self.language_model.previous_words(after, wanted.top)
