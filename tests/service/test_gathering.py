from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from elmokit.errors import InputError
from elmokit.service.batching import COST_PER_BATCH, COST_PER_PIECE, Gatherer
from elmokit.service.errors import RequestError
from elmokit.service.middleware import Limits
from elmokit.service.monitoring import ServiceMetrics

PATIENT = Limits(gather_seconds=0.04)


class Doubling:
    """Doubles numbers, whose cost they are too; keeps what it was given, batch by batch."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.begun = 0
        self.go = threading.Event()
        self.go.set()

    def compute(self, items: Sequence[int]) -> list[int]:
        self.begun += 1
        self.go.wait(10)
        self.batches.append(list(items))
        if 13 in items:
            raise InputError("13 brings bad luck")
        return [2 * item for item in items]

    def cost(self, item: int) -> int:
        return item


async def begun(gatherer, kind: Doubling, items: list[int], **values: int) -> asyncio.Task:
    """A request whose first batch the model is computing, until `kind.go` is set."""
    kind.go.clear()
    task = asyncio.create_task(gatherer.compute(kind, items, **values))
    while not kind.begun:
        await asyncio.sleep(0.001)
    return task


def gathered(talk, limits: Limits = PATIENT):
    """What a conversation with a gatherer gives."""

    async def run():
        gatherer = Gatherer(limits, ServiceMetrics())
        gatherer.start()
        try:
            return await asyncio.wait_for(talk(gatherer), 20)
        finally:
            await gatherer.stop()

    return asyncio.run(run())


def test_requests_that_come_together_share_a_batch():
    kind = Doubling()

    async def talk(gatherer):
        return await asyncio.gather(*(gatherer.compute(kind, [n, n + 1]) for n in range(1, 9)))

    assert gathered(talk) == [[2 * n, 2 * n + 2] for n in range(1, 9)]
    assert len(kind.batches) == 1


def test_what_one_request_spoils_is_its_own():
    kind = Doubling()

    async def talk(gatherer):
        calls = [gatherer.compute(kind, items) for items in ([1, 2], [3, 13], [5])]
        return await asyncio.gather(*calls, return_exceptions=True)

    first, second, third = gathered(talk)
    assert (first, third) == ([2, 4], [10])
    assert isinstance(second, InputError)


def test_a_large_request_lets_a_small_one_pass():
    kind = Doubling()
    large = [COST_PER_BATCH // 8] * 80

    async def talk(gatherer):
        slow = await begun(gatherer, kind, large)
        small = asyncio.create_task(gatherer.compute(kind, [7]))
        await asyncio.sleep(0)
        kind.go.set()
        assert await small == [14]
        assert not slow.done()
        return await slow

    assert gathered(talk) == [2 * cost for cost in large]
    assert len(kind.batches) >= 10
    assert all(sum(batch) <= COST_PER_BATCH + 7 for batch in kind.batches)


@pytest.mark.parametrize("limit", [{"waiting_words": 100}, {"waiting_values": 100}])
def test_when_too_much_waits_the_next_is_told_when_to_come_back(limit):
    kind = Doubling()

    async def talk(gatherer):
        first = await begun(gatherer, kind, [90], values=90)
        with pytest.raises(RequestError) as error:
            await gatherer.compute(kind, [20], values=20)
        kind.go.set()
        await first
        assert await gatherer.compute(kind, []) == []
        assert await gatherer.compute(kind, [200], values=200) == [400]  # alone, above all bounds
        return error.value

    error = gathered(talk, Limits(gather_seconds=0.001, **limit))
    assert error.status == 503
    assert error.retry_after >= 1


def test_batches_are_small_when_it_ends_and_small_requests_fit_beside_large_ones():
    kind = Doubling()

    async def talk(gatherer):
        large = [await begun(gatherer, kind, [COST_PER_PIECE] * 8)]
        large += [asyncio.create_task(gatherer.compute(kind, [100], 2**20)) for _ in range(70)]
        await asyncio.sleep(0)
        small = asyncio.create_task(gatherer.compute(kind, [1], 100))
        gatherer.ending = True
        await asyncio.sleep(0)
        kind.go.set()
        found = await asyncio.gather(*large, return_exceptions=True)
        return await small, sum(isinstance(one, RequestError) for one in found)

    small, refused = gathered(talk)
    assert small == [2]
    assert 1 <= refused <= 10
    assert sum(kind.batches[0]) == COST_PER_BATCH
    assert all(sum(batch) <= COST_PER_PIECE + 100 for batch in kind.batches[1:])


def test_a_request_cancelled_between_its_batches_goes_no_further():
    kind = Doubling()

    async def talk(gatherer):
        left = await begun(gatherer, kind, [COST_PER_BATCH] * 5)
        left.cancel()
        kind.go.set()
        await gatherer.compute(kind, [1])

    gathered(talk)
    assert kind.batches == [[COST_PER_BATCH], [1]]


def test_two_large_requests_share_each_batch():
    kind = Doubling()
    cost = COST_PER_BATCH // 8

    async def talk(gatherer):
        await asyncio.gather(*(gatherer.compute(kind, [cost + n] * 16) for n in (1, 2)))

    gathered(talk)
    assert {cost + 1, cost + 2} == set(kind.batches[0])


def test_kinds_take_turns():
    one, other = Doubling(), Doubling()
    large = [COST_PER_BATCH] * 3

    async def talk(gatherer):
        slow = asyncio.create_task(gatherer.compute(one, large))
        await asyncio.sleep(0)
        await gatherer.compute(other, [1])
        assert not slow.done()
        await slow

    gathered(talk)
    assert len(one.batches) == 3
    assert other.batches == [[1]]


def test_a_cancelled_request_is_not_computed_and_frees_its_place():
    kind = Doubling()

    async def talk(gatherer):
        left = asyncio.create_task(gatherer.compute(kind, [5, 6], values=7))
        await asyncio.sleep(0)
        assert (gatherer.requests, gatherer.waiting_cost, gatherer.waiting_values) == (1, 11, 7)
        left.cancel()
        stayed = await gatherer.compute(kind, [1])
        assert (gatherer.requests, gatherer.waiting_cost, gatherer.waiting_values) == (0, 0, 0)
        return stayed

    assert gathered(talk) == [2]
    assert kind.batches == [[1]]
