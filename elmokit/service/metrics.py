"""Counts and times for Prometheus, in its text format."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import accumulate
from mmap import PAGESIZE
from pathlib import Path

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the classes that times are counted in."""
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
STATUS_FILE = Path("/proc/self/statm")


class Histogram:
    """How often a number fell into each class.

    >>> sizes = Histogram((1, 10))
    >>> sizes.add(1); sizes.add(7); sizes.add(70)
    >>> list(sizes.lines("size", ""))[:3]
    ['size_bucket{le="1"} 1', 'size_bucket{le="10"} 2', 'size_bucket{le="+Inf"} 3']
    """

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Count one more."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def lines(self, name: str, labels: str) -> Iterable[str]:
        """As Prometheus writes it; `labels` go before the bound."""
        separator = "," if labels else ""
        bounds = [*(f"{bound:g}" for bound in self.bounds), "+Inf"]
        for bound, count in zip(bounds, accumulate(self.counts), strict=True):
            yield f'{name}_bucket{{{labels}{separator}le="{bound}"}} {count}'
        braces = f"{{{labels}}}" if labels else ""
        yield f"{name}_sum{braces} {self.sum:.6f}"
        yield f"{name}_count{braces} {sum(self.counts)}"


class Metrics:
    """What the service has done since it started. Used on one event loop."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()
        self.seconds: dict[str, Histogram] = {}
        self.turn_requests = Histogram(SIZES)
        self.turn_seconds = Histogram(SECONDS)
        self.items = 0
        self.cost = 0

    def request(self, route: str, status: int, seconds: float) -> None:
        """A request has been answered."""
        self.requests[route, status] += 1
        if route not in self.seconds:
            self.seconds[route] = Histogram(SECONDS)
        self.seconds[route].add(seconds)

    def turn(self, requests: int, items: int, cost: int, seconds: float) -> None:
        """The model has computed a turn."""
        self.turn_requests.add(requests)
        self.turn_seconds.add(seconds)
        self.items += items
        self.cost += cost

    def text(self, gauges: Mapping[str, int]) -> str:
        """Everything, with some numbers as they are now."""
        lines = ["# TYPE elmo_requests_total counter"]
        for (route, status), count in sorted(self.requests.items()):
            lines.append(f'elmo_requests_total{{route="{route}",status="{status}"}} {count}')
        lines.append("# TYPE elmo_request_seconds histogram")
        for route, histogram in sorted(self.seconds.items()):
            lines += histogram.lines("elmo_request_seconds", f'route="{route}"')
        lines.append("# TYPE elmo_turn_requests histogram")
        lines += self.turn_requests.lines("elmo_turn_requests", "")
        lines.append("# TYPE elmo_turn_seconds histogram")
        lines += self.turn_seconds.lines("elmo_turn_seconds", "")
        for name, value in (("items", self.items), ("words", self.cost)):
            lines += [f"# TYPE elmo_{name}_total counter", f"elmo_{name}_total {value}"]
        for name, number in gauges.items():
            lines += [f"# TYPE elmo_{name} gauge", f"elmo_{name} {number}"]
        return "\n".join(lines) + "\n"


def resident_bytes() -> int:
    """Memory of this process; 0 where the system does not tell."""
    try:
        return int(STATUS_FILE.read_text().split()[1]) * PAGESIZE
    except (OSError, IndexError, ValueError):
        return 0
