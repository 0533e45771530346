"""Heap order: the order in which std::partial_sort leaves equal elements."""

from __future__ import annotations

import numpy as np

from vknn import run_limits


def heap_order(scores: np.ndarray, count: int) -> np.ndarray:
    """Indices of the ``count`` largest of ``scores`` [n], best first, as a heap gives them.

    The first ``count`` elements make a heap with the least on top; each later element that is
    larger than the top takes its place; then tops are taken off one by one. Among equal elements
    neither the first nor the last wins: which does follows from the steps taken. Results that were
    made with such a sort (C++'s ``std::partial_sort``) can only be met by taking the same steps.
    """
    count = min(count, len(scores))
    best = np.argsort(-scores, kind="stable")
    ordered = scores[best[: count + 1]]
    if (ordered[1:] != ordered[:-1]).all():  # the order is clear
        return best[:count]
    values = scores.data  # its elements become floats one by one, a list all at once
    heap = list(range(count))
    for parent in range(count // 2 - 1, -1, -1):
        _sink(heap, values, parent, count, heap[parent])
    for element in range(count, len(values)):
        run_limits.check()
        if values[element] > values[heap[0]]:
            _sink(heap, values, 0, count, element)
    for last in range(count - 1, 0, -1):
        run_limits.check()
        element, heap[last] = heap[last], heap[0]
        _sink(heap, values, 0, last, element)
    return np.asarray(heap, np.intp)


def _sink(heap: list[int], values: memoryview, top: int, size: int, element: int) -> None:
    """Sift-down of ``element`` in a heap of ``size`` whose place ``top`` is free.

    The hole goes down to a leaf, always to the smaller child (of equal ones the right), and the
    element up from there, past all that are larger.
    """
    hole = top
    while 2 * hole + 2 < size:
        child = 2 * hole + 2
        if values[heap[child]] > values[heap[child - 1]]:
            child -= 1
        heap[hole] = heap[child]
        hole = child
    if 2 * hole + 2 == size:
        heap[hole] = heap[2 * hole + 1]
        hole = 2 * hole + 1
    while hole > top and values[heap[(hole - 1) // 2]] > values[element]:
        heap[hole] = heap[(hole - 1) // 2]
        hole = (hole - 1) // 2
    heap[hole] = element
