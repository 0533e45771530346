"""Topological order of what waits for one another: layers of a net, nodes of a graph."""

from __future__ import annotations

import heapq
from collections.abc import Sequence


def topological_sort(waits: list[int], readers: Sequence[Sequence[int]]) -> list[int]:
    """Positions, each behind all that it waits for, otherwise in their order.

    ``waits``: for how many others each waits; counted down, so that of those in a circle, or behind
    one, which are left out, something remains. ``readers``: those that wait for each. Kahn's
    algorithm (Topological sorting of large networks, CACM 5, 1962).
    """
    ready = [position for position, count in enumerate(waits) if not count]
    ordered: list[int] = []
    while ready:
        position = heapq.heappop(ready)
        ordered.append(position)
        for other in readers[position]:
            waits[other] -= 1
            if not waits[other]:
                heapq.heappush(ready, other)
    return ordered
