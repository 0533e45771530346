"""Simpler values: zeros, ones, powers of two, few that are not zero; simpler attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from vknn.graph import Op
from vknn.reduction.cases import GraphCase
from vknn.reduction.search import Search
from vknn.reduction.sizes import changed, replaced

Simpler = Callable[[np.ndarray], np.ndarray]


def simpler_values(search: Search) -> None:
    """Reduction of the best case to arrays and attributes that people can take in."""
    search.step = "values"
    for number in range(len(search.best.arrays)):
        if not any(_take(search, number, simpler) for simpler in (_zeros, _ones)):
            _few(search, number)
            for simpler in (_signs, _powers, _whole):
                if _take(search, number, simpler):
                    break
    search.step = "attributes"
    for number in range(len(search.best.graph.nodes)):
        _attributes(search, number)


def _take(search: Search, number: int, simpler: Simpler) -> bool:
    """Whether the best case has, or still fails with, a simpler array in place of one."""
    case = search.best
    value, array = list(case.arrays.items())[number]
    if array.dtype.kind not in "fiub":
        return False
    made = simpler(array).astype(array.dtype)
    if np.array_equal(made, array, equal_nan=array.dtype.kind == "f"):
        return True
    found = changed(case, {value: made})
    return found is not None and search.take(found)


def _zeros(array: np.ndarray) -> np.ndarray:
    return np.zeros_like(array)


def _ones(array: np.ndarray) -> np.ndarray:
    return np.ones_like(array)


def _signs(array: np.ndarray) -> np.ndarray:
    return np.nan_to_num(np.sign(array)) if array.dtype.kind in "fi" else array


def _powers(array: np.ndarray) -> np.ndarray:
    """Powers of two near the numbers; zeros, infinities and NaN stay."""
    if array.dtype.kind != "f":
        return array
    with np.errstate(all="ignore"):
        powers = np.sign(array) * np.exp2(np.round(np.log2(np.abs(array))))
    return np.where(np.isfinite(array) & (array != 0), powers, array)


def _whole(array: np.ndarray) -> np.ndarray:
    return np.round(array) if array.dtype.kind == "f" else array


def _few(search: Search, number: int) -> None:
    """Zeros in place of the half of an array that does not matter, again and again."""
    first, last = 0, list(search.best.arrays.values())[number].size
    while last - first > 1:
        middle = (first + last) // 2
        for start, end in ((first, middle), (middle, last)):

            def only(array: np.ndarray, start: int = start, end: int = end) -> np.ndarray:
                made = np.zeros(array.size, array.dtype)
                made[start:end] = array.reshape(-1)[start:end]
                return made.reshape(array.shape)

            if _take(search, number, only):
                first, last = start, end
                break
        else:
            return


def _attributes(search: Search, number: int) -> None:
    """The least numbers in place of each attribute that is one or several."""
    for name in search.best.graph.nodes[number].op.attributes():
        case = search.best
        for op in _simpler_ops(case, number, name):
            found = changed(case, {}, {case.graph.nodes[number]: op})
            if found is not None and found.elements <= case.elements and search.take(found):
                break


def _simpler_ops(case: GraphCase, number: int, name: str) -> Iterator[Op]:
    op = case.graph.nodes[number].op
    value = op.attributes()[name]
    if not isinstance(value, tuple) or not value or any(type(n) is not int for n in value):
        return
    for least in (0, 1):
        simpler = (least,) * len(value)
        if simpler == value:
            return
        try:
            yield replaced(op, name, simpler)
        except Exception:  # what an operator refuses
            continue
