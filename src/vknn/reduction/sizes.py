"""Smaller sizes: axes of inputs and constants cut together with all that has to have their size.

Which axes belong together is found by trying: the shape rules of the operators say what fits. That
takes no device, so that many guesses cost nothing.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from vknn.graph import Node, Op, Value
from vknn.reduction.cases import GraphCase
from vknn.reduction.search import Search

#: Axes and attributes that may change with one axis, at most, each by itself guessed; all together
#: are guessed, too.
_MOST_PARTNERS = 4
#: Guesses for one axis, by nodes.
_MOST_GUESSES = 600
_MOST_ROUNDS = 4


@dataclass(frozen=True, eq=False)
class _Axis:
    """An axis of an input or constant."""

    value: Value
    axis: int
    size: int


@dataclass(frozen=True, eq=False)
class _Number:
    """An integer among a node's attributes, ``index`` where it stands in a tuple."""

    node: Node
    name: str
    index: int | None
    size: int


_Place = _Axis | _Number


def smaller_sizes(search: Search) -> None:
    """Reduction of the best case to the smallest sizes that still fail, axis by axis."""
    search.step = "sizes"
    for _ in range(_MOST_ROUNDS):
        before = search.best.elements
        inputs, number = len(search.best.arrays), 0
        while number < inputs:
            value = list(search.best.arrays)[number]
            for axis in range(value.type.rank):
                _shrink(search, number, axis)
            number += 1
        if search.best.elements == before:
            return


def _shrink(search: Search, number: int, axis: int) -> None:
    """Search for the least size of an axis of the input or constant of this number."""
    low = 0  # the largest size known not to fail
    while True:
        value = list(search.best.arrays)[number]
        size = value.type.dims[axis]
        if size - low <= 1:
            return
        wanted = 1 if low == 0 else (low + size) // 2
        if not _cut(search, _Axis(value, axis, size), wanted):
            low = wanted


def _cut(search: Search, place: _Axis, size: int) -> bool:
    """Whether the best case fails with this size of an axis, in its first or last part."""
    case = search.best
    for places in _together(case, place):
        search.check_time()
        shorter = _shorter(case, places, place.size, size, first=True)
        if shorter is None:
            continue
        if search.take(shorter):
            return True
        other = _shorter(case, places, place.size, size, first=False)
        return other is not None and search.take(other)
    return False


def _together(case: GraphCase, place: _Axis) -> Iterator[tuple[_Place, ...]]:
    """Sets of places that may have to change with an axis, the smallest first."""
    axes = [
        _Axis(value, axis, place.size)
        for value in case.arrays
        for axis, n in enumerate(value.type.dims)
        if n == place.size and (value, axis) != (place.value, place.axis)
    ]
    numbers = [n for n in _numbers(case) if n.size % place.size == 0]
    partners: list[_Place] = [*axes, *numbers]
    guesses = itertools.chain.from_iterable(
        itertools.combinations(partners, count) for count in range(_MOST_PARTNERS + 1)
    )
    for guess in itertools.islice(guesses, _MOST_GUESSES // len(case.graph.nodes) + 1):
        yield (place, *guess)
    yield (place, *axes)
    yield (place, *partners)


def _numbers(case: GraphCase) -> Iterator[_Number]:
    """The integers above 1 among the attributes of all nodes."""
    for node in case.graph.nodes:
        for name, value in node.op.attributes().items():
            if type(value) is int and value > 1:
                yield _Number(node, name, None, value)
            elif isinstance(value, tuple):
                for index, item in enumerate(value):
                    if type(item) is int and item > 1:
                        yield _Number(node, name, index, item)


def _shorter(
    case: GraphCase, places: tuple[_Place, ...], before: int, after: int, *, first: bool
) -> GraphCase | None:
    """The case with sizes as ``after`` is to ``before``; None where the operators refuse them."""
    arrays: dict[Value, np.ndarray] = {}
    ops: dict[Node, Op] = {}
    part = slice(None, after) if first else slice(before - after, None)
    for place in places:
        if isinstance(place, _Axis):
            array = arrays.get(place.value, case.arrays[place.value])
            arrays[place.value] = array[(slice(None),) * place.axis + (part,)]
        else:
            ops[place.node] = _with_number(ops.get(place.node, place.node.op), place, before, after)
    return changed(case, {v: np.ascontiguousarray(a) for v, a in arrays.items()}, ops)


def _with_number(op: Op, place: _Number, before: int, after: int) -> Op:
    size = place.size // before * after
    if place.index is None:
        return replaced(op, place.name, size)
    items = list(op.attributes()[place.name])
    items[place.index] = size
    return replaced(op, place.name, tuple(items))


def replaced(op: Op, name: str, value: object) -> Op:
    """The operator with another value of an attribute."""
    return dataclasses.replace(op, **{name: value})  # type: ignore[type-var]


def changed(
    case: GraphCase, arrays: Mapping[Value, np.ndarray], ops: Mapping[Node, Op] | None = None
) -> GraphCase | None:
    """The changed case; None where an operator cannot take it."""
    try:
        return case.changed(arrays, ops)
    except Exception:  # rules are written for what files hold, not for whatever is tried here
        return None
