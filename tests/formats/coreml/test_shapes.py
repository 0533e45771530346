"""Reshaping, filling, broadcasting and tiling: static, like another blob, and dynamic."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.coreml_cases import Case, case, check, source, values
from tests.coreml_writer import half_weights, layer, linear_weights, run, table_weights, weights

from vknn.errors import ShapeError


def numbers(*given: float) -> np.ndarray:
    return np.array(given, np.float32)


def test_stored_numbers() -> None:
    data = values(2, 3, 4)
    codes = np.arange(24) % 8
    cases = [
        source("loadConstant", data[None, None], shape=[2, 3, 4], data=weights(data)),
        source("loadConstantND", data, shape=[2, 3, 4], data=weights(data)),
        source("loadConstantND", data.reshape(1, 24, 1, 1, 1), shape=[1, 24, 1, 1, 1],
               data=weights(data)),
        source("loadConstantND", data.astype(np.float16).reshape(24), shape=[24],
               data=half_weights(data)),
        source("loadConstantND", (codes * 0.5 - 1).reshape(4, 6), shape=[4, 6],
               data=linear_weights(codes, 3, 0.5, -1)),
        source("loadConstant", np.square(codes).reshape(1, 1, 6, 2, 2), shape=[6, 2, 2],
               data=table_weights(codes, 3, np.square(np.arange(8)))),
    ]  # fmt: skip
    check({"x": values(1)}, cases, tolerance=1e-7)


def test_shapes_in_both_mappings() -> None:
    data = values(2, 3, 4)
    constant = source("loadConstant", data[None, None], shape=[2, 3, 4], data=weights(data))
    check({"x": values(1, 1, 2, 3, 4)}, [constant, case("addBroadcastable", 2 * data[None, None],
          "y0.0", "y0.0")], rank5=True)  # fmt: skip


SHAPES = [(1,), (6,), (1, 6), (2, 3, 2), (1, 2, 1, 3), (2, 1, 3, 1, 2)]


def reshapes(x: np.ndarray) -> list[Case]:
    shapes: list[tuple[int, ...]] = [(x.size,), (1, x.size), (x.size, 1, 1, 1, 1)]
    if x.size % 6 == 0:
        shapes += [(2, x.size // 2), (3, 1, x.size // 3), (1, 2, x.size // 6, 1, 3)]
    cases = [case("reshapeStatic", x.reshape(s), targetShape=list(s)) for s in shapes]
    cases += [case("reshapeStatic", x.reshape(-1, *s[1:]), targetShape=[-1, *s[1:]])
              for s in shapes if x.size]  # fmt: skip
    return cases


@pytest.mark.parametrize("shape", SHAPES)
def test_static_shapes(shape: tuple[int, ...]) -> None:
    x = values(*shape)
    rank, dims = x.ndim, list(shape)
    cases = reshapes(x)
    kept = [0] * rank
    cases.append(case("rankPreservingReshape", x, targetShape=kept))
    cases.append(case("rankPreservingReshape", x, targetShape=[*kept[:-1], -1]))
    turned = dims[::-1]
    cases.append(case("rankPreservingReshape", x.reshape(turned), targetShape=turned))
    for axis in range(-rank, rank + 1):
        split = axis + rank if axis < 0 else axis
        flat = x.reshape(math.prod(dims[:split]), math.prod(dims[split:]))
        cases.append(case("flattenTo2D", flat, axis=axis))
    ones = [a for a in range(rank) if dims[a] == 1]
    everything = x.squeeze() if x.size > 1 else x.reshape(1)
    cases.append(case("squeeze", everything, squeezeAll=True))
    cases += [case("squeeze", np.squeeze(x, a) if rank > 1 else x, axes=[a]) for a in ones]
    cases += [case("squeeze", np.squeeze(x, a) if rank > 1 else x, axes=[a - rank]) for a in ones]
    cases.append(case("squeeze", everything, axes=ones))
    for axes in ([0], [-1], [rank], [-rank - 1], [0, 1], [-2, -1], [rank + 1, 0]):
        cases.append(case("expandDims", np.expand_dims(x, axes), axes=axes))
    cases.append(case("getShape", numbers(*shape)))
    cases.append(case("fillLike", np.full(shape, 2.5), value=2.5))
    check({"x": x}, cases, tolerance=0)


@pytest.mark.parametrize("shape", SHAPES)
def test_broadcast_and_tile(shape: tuple[int, ...]) -> None:
    x = values(*shape)
    wide = tuple(3 if s == 1 else s for s in shape)
    targets = [shape, wide, (1, *shape), (4, *wide)]
    cases = [case("broadcastToStatic", np.broadcast_to(x, t), targetShape=list(t)) for t in targets]
    feeds = {"x": x} | {f"like{i}": values(*t) for i, t in enumerate(targets)}
    cases += [case("broadcastToLike", np.broadcast_to(x, t), "x", f"like{i}")
              for i, t in enumerate(targets)]  # fmt: skip
    for reps in ([1] * len(shape), [2], [3, 2], list(range(1, len(shape) + 1))):
        if len(reps) <= len(shape):
            cases.append(case("tile", np.tile(x, reps), reps=reps))
    reps = list(range(len(shape), 0, -1))
    feeds["reps"] = numbers(*reps)
    turned = values(*shape[::-1], seed=3)
    feeds["turned"] = turned
    cases.append(case("reshapeLike", x.reshape(turned.shape), "x", "turned"))
    check(feeds, cases, tolerance=0)
    check(feeds, [case("tile", np.tile(x, reps), "x", "reps", reps=[7])], tolerance=0)


def test_dynamic_shapes() -> None:
    """From inputs, from stored numbers, and from the shapes of blobs."""
    x = values(2, 3, 4)
    feeds = {"x": x, "s": numbers(4, 6), "t": numbers(2, -1), "b": numbers(5, 2, 3, 4)}
    cases = [
        case("reshapeDynamic", x.reshape(4, 6), "x", "s"),
        case("reshapeDynamic", x.reshape(2, 12), "x", "t"),
        case("fillDynamic", np.full((4, 6), -1.5), "s", value=-1.5),
        case("broadcastToDynamic", np.broadcast_to(x, (5, 2, 3, 4)), "x", "b"),
        case("getShape", numbers(5, 2, 3, 4), "y3.0"),
        case("fillDynamic", np.zeros((5, 2, 3, 4)), "y4.0"),
        case("getShape", numbers(2, 12), "y1.0"),
        case("reshapeDynamic", np.full((4, 6), -1.5), "y2.0", "s"),
    ]
    check(feeds, cases, tolerance=0)
    half = source("loadConstantND", numbers(3, 8), shape=[2], data=weights([3, 8]))
    check({"x": x}, [half, case("reshapeDynamic", x.reshape(3, 8), "x", "y0.0")], tolerance=0)


def ranges() -> list[tuple[float, float, float]]:
    return [(0, 5, 1), (2, -3, -2), (0, 1, 0.1), (-1.5, 3, 0.75), (3, 3, 1), (5, 1, 1), (0, 7, 3)]


def test_static_ranges_and_fills() -> None:
    cases = [
        source("rangeStatic", np.arange(a, b, np.float32(s)), startValue=a, endValue=b,
               stepSizeValue=s)
        for a, b, s in ranges()
    ]  # fmt: skip
    cases += [
        source("fillStatic", np.full(shape, 0.25), value=0.25, targetShape=shape)
        for shape in ((1,), (2, 3), (1, 2, 3, 4, 5))
    ]
    check({"x": values(1)}, cases, tolerance=1e-6)


@pytest.mark.parametrize(("start", "end", "step"), ranges()[:4])
def test_dynamic_ranges(start: float, end: float, step: float) -> None:
    feeds = {"end": numbers(end), "start": numbers(start), "step": numbers(step)}
    wanted = np.arange(start, end, np.float32(step))
    cases = [
        case("rangeDynamic", wanted, "end", startValue=start, stepSizeValue=step),
        case("rangeDynamic", wanted, "end", "start", startValue=9, stepSizeValue=step),
        case("rangeDynamic", wanted, "end", "start", "step", startValue=9, stepSizeValue=9),
    ]
    check(feeds, cases, tolerance=1e-6)


@pytest.mark.parametrize("shape", [(3,), (2, 3), (1, 2, 3), (2, 1, 2, 3), (1, 2, 1, 2, 3)])
def test_constant_pad(shape: tuple[int, ...]) -> None:
    x, rank = values(*shape), len(shape)
    cases = []
    for amounts in (
        [0, 0] * rank,
        [1, 0] * rank,
        list(range(2 * rank)),
        [0] * (2 * rank - 1) + [4],
    ):
        pairs = list(zip(amounts[::2], amounts[1::2], strict=True))
        wanted = np.pad(x, pairs, constant_values=1.5)
        cases.append(case("constantPad", wanted, value=1.5, padAmounts=amounts))
    sizes = [4 if i % 2 == rank % 2 else 0 for i in range(2 * rank)]  # before all, or behind all
    before = rank % 2 == 0
    pairs = [(max(0, 4 - s), 0) if before else (0, max(0, 4 - s)) for s in shape]
    wanted = np.pad(x, pairs)
    cases.append(case("constantPad", wanted, padAmounts=sizes, padToGivenOutputSizeMode=True))
    shorter = [1, 0] * rank
    cases.append(case("constantPad", x, padAmounts=shorter, padToGivenOutputSizeMode=True))
    check({"x": x}, cases, tolerance=0)
    amounts = [2, 1] * rank
    wanted = np.pad(x, [(2, 1)] * rank, constant_values=-1)
    given = {"x": x, "p": numbers(*amounts)}
    dynamic = case("constantPad", wanted, "x", "p", value=-1.0, padAmounts=[9] * 2 * rank)
    check(given, [dynamic], tolerance=0)


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("reshapeStatic", {"targetShape": [5]}, "does not suit"),
    ("reshapeStatic", {"targetShape": [-1, -1]}, "no shape"),
    ("reshapeStatic", {"targetShape": [-2, 3]}, "no shape"),
    ("reshapeStatic", {"targetShape": [4, -1]}, "does not suit"),
    ("reshapeStatic", {"targetShape": [0, -1]}, "does not suit"),
    ("reshapeStatic", {"targetShape": []}, "empty"),
    ("rankPreservingReshape", {"targetShape": [6]}, "another rank"),
    ("squeeze", {"axes": [0]}, "cannot drop"),
    ("squeeze", {"axes": [5]}, "does not exist"),
    ("expandDims", {"axes": []}, "no axes"),
    ("expandDims", {"axes": [0, 0]}, "twice"),
    ("expandDims", {"axes": [4]}, "does not exist"),
    ("flattenTo2D", {"axis": 3}, "does not exist"),
    ("broadcastToStatic", {"targetShape": [2, 4]}, "does not broadcast"),
    ("broadcastToStatic", {"targetShape": [3]}, "does not broadcast"),
    ("tile", {"reps": [1, 2, 3]}, "do not suit"),
    ("tile", {"reps": []}, "do not suit"),
    ("tile", {"reps": [1 << 20, 1 << 20]}, "shape"),
    ("constantPad", {"padAmounts": [1, 1]}, "two numbers"),
    ("constantPad", {"padAmounts": [5, 5, 0, 0], "padToGivenOutputSizeMode": True}, "two sizes"),
    ("constantPad", {"padAmounts": [1 << 40, 0, 0, 0]}, "shape"),
]


@pytest.mark.parametrize(("kind", "params", "message"), REFUSED)
def test_refused(kind: str, params: dict[str, Any], message: str) -> None:
    with pytest.raises(ShapeError, match=f"(?s){kind}.*{message}"):
        run(layer(kind, **params), {"x": values(2, 3)})


def test_absurd_sizes_and_ranges_are_refused() -> None:
    wrong = [
        (layer("fillStatic", (), targetShape=[1 << 20, 1 << 20]), {}),
        (layer("fillStatic", (), targetShape=[1 << 31]), {}),
        (layer("fillStatic", (), targetShape=[]), {}),
        (layer("fillDynamic", ("x",)), {"x": numbers(1e6, 1e6)}),
        (layer("fillDynamic", ("x",)), {"x": numbers(-1, 3)}),
        (layer("fillDynamic", ("x",)), {"x": numbers(1.5)}),
        (layer("fillDynamic", ("x",)), {"x": numbers(np.nan)}),
        (layer("rangeStatic", (), endValue=1.0), {}),
        (layer("rangeStatic", (), endValue=1e30, stepSizeValue=1.0), {}),
        (layer("rangeDynamic", ("x",), stepSizeValue=1.0), {"x": numbers(1, 2)}),
        (layer("rangeDynamic", ("x",), stepSizeValue=1.0), {"x": numbers(np.inf)}),
        (layer("loadConstant", (), shape=[2, 3], data=weights(range(6))), {}),
        (layer("loadConstantND", (), shape=[], data=weights([1])), {}),
        (layer("loadConstantND", (), shape=[2], data=weights([1])), {}),
    ]
    for made, feeds in wrong:
        kind = made.WhichOneof("layer")
        with pytest.raises(ShapeError, match=kind):
            run(made, feeds or {"unused": numbers(0)})
