"""Resizing against each output worked out by itself."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from reference_helper import check, data, f32, i8, refuses
from vknn.graph import Op, TensorType
from vknn.ops.sampling.resize import Resize


def kernel(distance: float, mode: str, a: float) -> float:
    """The weight of a neighbour at ``distance`` (linear: a tent; cubic: Keys, piecewise)."""
    d = abs(distance)
    if mode == "linear":
        return max(0.0, 1 - d)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def weights(i: int, op: Resize, axis: int, size: int) -> dict[int, float]:
    """Which elements of an axis make output ``i``, and how much of each."""
    out = op.sizes[axis]
    step = size / out if op.steps is None else op.steps[axis]
    if op.coordinates == "align_corners":
        place = i * (size - 1) / max(out - 1, 1)
    elif op.coordinates == "half_pixel":
        place = (i + 0.5) * step - 0.5
    else:
        place = i * step
    if op.mode == "nearest":
        if op.coordinates == "half_pixel":
            place += 0.5
        elif op.coordinates == "align_corners":
            place = math.floor(place + 0.5)
        return {min(math.floor(place), size - 1): 1.0}
    result: dict[int, float] = {}
    for k in range(math.floor(place) - 2, math.floor(place) + 4):
        at = min(max(k, 0), size - 1)
        result[at] = result.get(at, 0.0) + kernel(place - k, op.mode, op.cubic_a)
    return result


def naive(x: np.ndarray, op: Resize) -> np.ndarray:
    y = np.zeros((*x.shape[:2], *op.sizes))
    for p in np.ndindex(*op.sizes):
        parts = [weights(i, op, axis, x.shape[axis + 2]).items() for axis, i in enumerate(p)]
        for chosen in itertools.product(*parts):
            at = tuple(k for k, _ in chosen)
            y[(..., *p)] += x[(..., *at)] * math.prod(w for _, w in chosen)
    return y.astype(x.dtype)


CASES = [
    ((1, 2, 5), (8,)),
    ((1, 2, 7), (3,)),
    ((2, 3, 3, 5), (7, 4)),
    ((1, 2, 1, 4), (3, 1)),
    ((1, 2, 4, 3), (4, 3)),
    ((1, 1, 3, 2, 4), (2, 5, 3)),
]


@pytest.mark.parametrize("coordinates", ["half_pixel", "align_corners", "asymmetric"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize(("shape", "sizes"), CASES)
def test_resize(shape, sizes, mode: str, coordinates: str) -> None:  # type: ignore[no-untyped-def]
    x, op = data(*shape), Resize(sizes, mode, coordinates)
    check(op, x, expected=naive(x, op))


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "asymmetric"])
def test_steps_of_its_own(mode: str, coordinates: str) -> None:
    """As where a scale of 1.3 makes 6 of 5: the step is 1/1.3, not 5/6."""
    x = data(1, 2, 5, 5)
    op = Resize((6, 9), mode, coordinates, (1 / 1.3, 0.75), cubic_a=-0.5)
    check(op, x, expected=naive(x, op))


def test_nearest_counts_in_float32() -> None:
    """100 * float32(0.07) is a little less than 7 in float64 but 7 in float32."""
    x = np.arange(60, dtype=np.float32).reshape(1, 1, 60)
    (y,) = Resize((200,), "nearest", "asymmetric", (0.07,)).reference(x)
    wanted = [min(int(np.float32(i) * np.float32(0.07)), 59) for i in range(200)]
    assert y.ravel().tolist() == wanted


def test_nearest_takes_integers() -> None:
    x = data(1, 2, 3, dtype="int8")
    check(Resize((6,)), x, expected=np.repeat(x, 2, 2))


REFUSED = [
    (Resize((2, 2)), [f32(1, 2, 3)], "should have 2 spatial axes"),
    (Resize((0,)), [f32(1, 2, 3)], "below 1"),
    (Resize((2,)), [f32(1, 2, 0)], "empty spatial axis"),
    (Resize((2,), "area"), [f32(1, 2, 3)], "no mode"),
    (Resize((2,), "linear", "corners"), [f32(1, 2, 3)], "no coordinates"),
    (Resize((2,), "linear"), [i8(1, 2, 3)], "floating point"),
    (Resize((2,), steps=(0.0,)), [f32(1, 2, 3)], "positive"),
    (Resize((2,), steps=(math.nan,)), [f32(1, 2, 3)], "positive"),
    (Resize((2,), steps=(1.0, 1.0)), [f32(1, 2, 3)], "should be 1"),
]


@pytest.mark.parametrize(("op", "types", "words"), REFUSED, ids=lambda v: str(v)[:40])
def test_infer_refuses(op: Op, types: list[TensorType], words: str) -> None:
    refuses(op, *types, match=words)
