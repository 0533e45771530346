"""ReduceWindow: sums, products and extremes of windows along one axis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from vknn import run_limits
from vknn.graph import DType, Op, TensorType, attributes
from vknn.ops.common.blocks import index_of
from vknn.ops.common.checks import arguments, normal_axis, require, wide

#: Name -> how two elements are joined.
FUNCTIONS: dict[str, np.ufunc] = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}
#: Places along an axis, holes and pads included, that there may be.
_MOST_PLACES = (1 << 31) - 1


@attributes
class ReduceWindow(Op):
    """Windows of x along ``axis``, each joined to one element by ``function``.

    ``function``: "add", "mul" (integers wrap around), "max", "min" (NaN where one is NaN; of bool:
    or, and). Elements lie ``base_dilation`` places apart, with ``pads`` places before and behind
    (below 0: places are cut off). A window is ``size`` places that are ``dilation`` apart; windows
    begin ``stride`` places apart. Places without an element count nothing; a window of such alone
    gives 0, 1, or the lowest or the highest of the type (floats: an infinity).
    """

    function: str
    axis: int
    size: int
    stride: int = 1
    pads: tuple[int, int] = (0, 0)
    base_dilation: int = 1
    dilation: int = 1

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        require(self.function in FUNCTIONS, f"ReduceWindow: no function {self.function!r}")
        number = x.dtype.is_float or x.dtype.is_integer
        known = number or (x.dtype is DType.BOOL and self.function in ("max", "min"))
        require(known, f"ReduceWindow: no {self.function} of {x}")
        steps = (self.size, self.stride, self.base_dilation, self.dilation)
        require(min(steps) >= 1, f"ReduceWindow: {self} has steps or sizes below 1")
        require(len(self.pads) == 2, f"ReduceWindow: pads {self.pads} are not two")
        axis = normal_axis(self, self.axis, x.rank)
        size = x.shape[axis]
        count = None if size is None else self.count(size)
        return (x.with_shape((*x.shape[:axis], count, *x.shape[axis + 1 :])),)

    def places(self, size: int) -> int:
        """Places along an axis of ``size`` elements. Raises ShapeError where they are absurd."""
        found = max((size - 1) * self.base_dilation + 1, 0) + sum(self.pads)
        most = max(found, self.extent, self.stride, *map(abs, self.pads))
        require(most <= _MOST_PLACES, f"ReduceWindow: {self} needs {most} places along an axis")
        return found

    @property
    def extent(self) -> int:
        """Places from the first to the last of a window."""
        return (self.size - 1) * self.dilation + 1

    def count(self, size: int) -> int:
        """Windows along an axis of ``size`` elements."""
        places = self.places(size)
        return 0 if places < self.extent else (places - self.extent) // self.stride + 1

    def neutral(self, dtype: DType) -> Any:
        """The element that changes nothing, as a scalar of ``dtype``."""
        return neutral(self.function, dtype)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        axis, dtype = self.axis % x.ndim, DType.of(x)
        size = x.shape[axis]
        count = self.count(size)
        first = np.arange(count) * self.stride - self.pads[0]
        total = np.full((*x.shape[:axis], count, *x.shape[axis + 1 :]), self.neutral(dtype))
        total, source, lead = wide(total), wide(x), (slice(None),) * axis
        function = FUNCTIONS[self.function]
        if count < self.size <= size:  # few long windows: one at a time
            steps = self._windows(size, first)
        else:
            steps = self._taps(size, first) if self.size <= size else self._elements(size, first)
        with np.errstate(all="ignore"):
            for windows, elements in steps:
                run_limits.check()
                at, taken = index_of(*lead, windows), source[index_of(*lead, elements)]
                if len(elements) != len(windows):
                    taken = function.reduce(taken, axis=axis, dtype=total.dtype, keepdims=True)
                total[at] = function(total[at], taken)
            return (total.astype(x.dtype),)

    def _windows(self, size: int, first: np.ndarray) -> Iterator[tuple[Any, Any]]:
        """For each window that has elements: the window, and these."""
        for number, begin in enumerate(first):
            places = begin + np.arange(self.size) * self.dilation
            element, hole = np.divmod(places, self.base_dilation)
            found = element[(hole == 0) & (element >= 0) & (element < size)]
            if found.size:
                yield np.array([number]), found

    def _taps(self, size: int, first: np.ndarray) -> Iterator[tuple[Any, Any]]:
        """For each place of a window: the windows that have an element there, and which."""
        for tap in range(self.size):
            element, hole = np.divmod(first + tap * self.dilation, self.base_dilation)
            windows = np.flatnonzero((hole == 0) & (element >= 0) & (element < size))
            yield windows, element[windows]

    def _elements(self, size: int, first: np.ndarray) -> Iterator[tuple[Any, Any]]:
        """For each element: the windows that have it, and the element."""
        for element in range(size):
            tap, between = np.divmod(element * self.base_dilation - first, self.dilation)
            windows = np.flatnonzero((between == 0) & (tap >= 0) & (tap < self.size))
            yield windows, np.array([element])


def neutral(function: str, dtype: DType) -> Any:
    """The element that ``function`` joins to others without a change, as a scalar of ``dtype``."""
    if function in ("add", "mul"):
        return dtype.numpy.type(function == "mul")
    if dtype is DType.BOOL:
        return np.bool_(function == "min")
    if dtype.is_float:
        return dtype.numpy.type(-np.inf if function == "max" else np.inf)
    info = np.iinfo(dtype.numpy)
    return dtype.numpy.type(info.min if function == "max" else info.max)
