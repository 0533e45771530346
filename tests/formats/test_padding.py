"""Padding between elements and by negative pads, and reductions of windows, element by element."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from vknn import reference
from vknn.errors import ShapeError
from vknn.formats.layer_context import LayerContext
from vknn.formats.layer_errors import Malformed
from vknn.formats.padding import padded
from vknn.formats.window_reduction import AxisWindow, reduced_windows
from vknn.graph import GraphBuilder, Origin, TensorType, Value
from vknn.ops.pooling.reduce_window import FUNCTIONS


class Layer(LayerContext):
    """A layer of a graph in the making."""

    def __init__(self) -> None:
        self.builder = GraphBuilder("g")
        self.inputs: Sequence[Value | None] = ()

    @property
    def origin(self) -> Origin:
        return Origin("layer", "TEST")


def run(
    x: np.ndarray, value: np.ndarray, fed: bool, make: Callable[[Layer, Value, Value], Value]
) -> np.ndarray:
    """What is made of an input and of a scalar, which is ``fed`` or a constant."""
    c = Layer()
    given, feeds = c.builder.input("x", TensorType.of(x)), {"x": x}
    if fed:
        scalar, feeds["v"] = c.builder.input("v", TensorType.of(value)), value
    else:
        scalar = c.constant(value)
    graph = c.builder.finish({"y": make(c, given, scalar)})
    return reference.run(graph, feeds)["y"]


def by_hand(
    x: np.ndarray, low: Sequence[int], high: Sequence[int], interior: Sequence[int], value: int
) -> np.ndarray:
    for axis, size in enumerate(x.shape):
        step = interior[axis] + 1
        wanted = max((size - 1) * step + 1, 0) + low[axis] + high[axis]
        lead = (slice(None),) * axis
        y = np.full((*x.shape[:axis], wanted, *x.shape[axis + 1 :]), value, x.dtype)
        for i in range(size):
            if 0 <= low[axis] + i * step < wanted:
                y[(*lead, low[axis] + i * step)] = x[(*lead, i)]
        x = y
    return x


@pytest.mark.parametrize("fed", [False, True], ids=["constant", "fed"])
@pytest.mark.parametrize("size", [0, 1, 2, 3, 5])
def test_padded(size: int, fed: bool) -> None:
    x = np.arange(1, 2 * size + 1, dtype=np.int32).reshape(size, 2)
    for low, high, step in itertools.product((-7, -3, -1, 0, 2), (-4, -1, 0, 3), (0, 1, 3)):
        if max((size - 1) * (step + 1) + 1, 0) + low + high < 0:
            continue
        for value in (0, 7):
            pads = (low, 1), (high, 0), (step, 1)
            y = run(x, np.int32(value), fed, lambda c, x, v, p=pads: padded(c, x, *p, v))  # type: ignore[misc]
            assert np.array_equal(y, by_hand(x, *pads, value)), (pads, value)


def test_impossible_pads() -> None:
    x, zero = np.zeros(3, np.float32), np.float32(0)
    for low, high, interior, error in (
        (-2, -2, 0, Malformed), (0, 0, -1, Malformed), (1 << 31, 0, 0, ShapeError),
        (0, 0, 1 << 31, ShapeError), (1 << 40, -(1 << 40) - 4, 0, Malformed),
    ):  # fmt: skip
        with pytest.raises(error):
            run(x, zero, False, lambda c, x, v: padded(c, x, [low], [high], [interior], v))  # noqa: B023


@pytest.mark.parametrize("fed", [False, True], ids=["constant", "fed"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_windows_with_a_first_value(function: str, fed: bool) -> None:
    x = np.random.default_rng(1).integers(-3, 4, (5, 7)).astype(np.int32)
    windows = [AxisWindow(2, 1, (1, 2), 2, 3), AxisWindow(3, 2, (-1, 2), 1, 2)]
    for init in (0, 1, 3, -(1 << 31)):
        first = np.int32(init)
        y = run(x, first, fed, lambda c, x, v: reduced_windows(c, x, function, v, windows))
        filled = by_hand(x, (1, -1), (2, 2), (1, 0), init)
        rows, columns = range(filled.shape[0] - 3), range(0, filled.shape[1] - 4, 2)
        with np.errstate(over="ignore"):
            wanted = [
                [functools.reduce(FUNCTIONS[function], filled[r : r + 4 : 3, k : k + 5 : 2].flat,
                                  first) for k in columns] for r in rows
            ]  # fmt: skip
        assert np.array_equal(y, np.array(wanted, np.int32)), init
