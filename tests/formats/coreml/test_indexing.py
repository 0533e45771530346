"""Gather and scatter in all modes; sorting, arg-extremes and reductions."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.coreml_cases import Case, case, check, values
from tests.coreml_writer import layer, run, run_everywhere, weights

from vknn.errors import ShapeError

SHAPES = [(5,), (4, 5), (3, 4, 5), (2, 3, 4, 5), (2, 1, 3, 4, 5)]
MODES = ["UPDATE", "ADD", "SUB", "MUL", "DIV", "MAX", "MIN"]
COMBINED: dict[str, Callable[[float, float], float]] = {
    "UPDATE": lambda _, b: b,
    "ADD": lambda a, b: a + b,
    "SUB": lambda a, b: a - b,
    "MUL": lambda a, b: a * b,
    "DIV": lambda a, b: a / b,
    "MAX": max,
    "MIN": min,
}


def some_indices(size: int, *shape: int, seed: int = 0) -> np.ndarray:
    """From both ends, with repetitions."""
    rng = np.random.default_rng([seed, size, *shape])
    return rng.integers(-size, size, shape).astype(np.float32)


@pytest.mark.parametrize("shape", SHAPES)
def test_gather(shape: tuple[int, ...]) -> None:
    x, rank = values(*shape), len(shape)
    feeds, cases = {"x": x}, []
    for axis in range(-rank, rank):
        for number, own in enumerate(((1,), (7,), (2, 3), (2, 1, 2))):
            name = f"i{axis}.{number}"
            feeds[name] = some_indices(shape[axis], *own)
            wanted = np.take(x, feeds[name].astype(int), axis, mode="wrap")
            cases.append(case("gather", wanted, "x", name, axis=axis))
        along = tuple(4 if a == axis % rank else s for a, s in enumerate(shape))
        feeds[f"a{axis}"] = some_indices(shape[axis], *along)
        wanted = np.take_along_axis(x, feeds[f"a{axis}"].astype(int) % shape[axis], axis)
        cases.append(case("gatherAlongAxis", wanted, "x", f"a{axis}", axis=axis))
    for named in range(1, rank + 1):
        for number, own in enumerate(((1,), (6,), (2, 3))):
            columns = [some_indices(shape[k], *own, seed=k) for k in range(named)]
            name = f"n{named}.{number}"
            feeds[name] = np.stack(columns, -1)
            key = tuple(feeds[name][..., k].astype(int) for k in range(named))
            cases.append(case("gatherND", x[key], "x", name))
    check(feeds, cases, tolerance=0)


def written(x: np.ndarray, places: list[tuple[Any, ...]], updates: list[Any], mode: str) -> Any:
    """One update after the other."""
    y = x.astype(np.float64)
    combine = np.vectorize(COMBINED[mode])
    for place, update in zip(places, updates, strict=True):
        y[place] = combine(y[place], update)
    return y


@pytest.mark.parametrize("mode", MODES)
def test_scatter(mode: str) -> None:
    for shape in ((5,), (3, 4, 5), (2, 3, 2, 3)):
        x, feeds, cases = np.abs(values(*shape)) + 1, {}, []
        rank = len(shape)
        feeds["x"] = x
        for axis in range(-rank, rank):
            for own in ((1,), (6,), (2, 2)):
                name = f"{axis}.{len(own)}.{own[0]}"
                index = some_indices(shape[axis], *own)
                at = axis % rank
                updates = np.abs(values(*shape[:at], *own, *shape[at + 1 :], seed=5)) + 0.5
                feeds |= {f"i{name}": index, f"u{name}": updates}
                lead = (slice(None),) * at
                places = [(*lead, int(v)) for v in index.reshape(-1)]
                rows = np.moveaxis(updates.reshape(*shape[:at], -1, *shape[at + 1 :]), at, 0)
                wanted = written(x, places, list(rows), mode)
                blobs = ("x", f"i{name}", f"u{name}")
                cases.append(case("scatter", wanted, *blobs, axis=axis, mode=f"SCATTER_{mode}"))
        check(feeds, cases)


@pytest.mark.parametrize("mode", MODES)
def test_scatter_at_tuples_and_along_axes(mode: str) -> None:
    for shape in ((5,), (3, 2, 5), (2, 1, 2, 3, 2)):
        x, rank = np.abs(values(*shape)) + 1, len(shape)
        feeds, cases, given = {"x": x}, [], f"SCATTER_{mode}"
        for named in range(1, rank + 1):
            for own in ((1,), (7,), (2, 3)):
                columns = [some_indices(shape[k], *own, seed=k) for k in range(named)]
                index = np.stack(columns, -1)
                updates = np.abs(values(*own, *shape[named:], seed=5)) + 0.5
                name = f"{named}.{len(own)}.{own[0]}"
                feeds |= {f"i{name}": index, f"u{name}": updates}
                places = [tuple(map(int, row)) for row in index.reshape(-1, named)]
                rows = list(updates.reshape(len(places), *shape[named:]))
                wanted = written(x, places, rows, mode)
                cases.append(case("scatterND", wanted, "x", f"i{name}", f"u{name}", mode=given))
        for axis in range(-rank, rank):
            along = tuple(4 if a == axis % rank else s for a, s in enumerate(shape))
            index = some_indices(shape[axis], *along)
            updates = np.abs(values(*along, seed=5)) + 0.5
            feeds |= {f"i{axis}": index, f"u{axis}": updates}
            places = []
            for place in itertools.product(*map(range, along)):
                to = list(place)
                to[axis] = int(index[place])
                places.append(tuple(to))
            wanted = written(x, places, list(updates.reshape(-1)), mode)
            blobs = ("x", f"i{axis}", f"u{axis}")
            cases.append(case("scatterAlongAxis", wanted, *blobs, axis=axis, mode=given))
        check(feeds, cases)


@pytest.mark.parametrize("kind", ["gather", "gatherAlongAxis", "gatherND"])
def test_known_indices_out_of_range(kind: str) -> None:
    x = values(3)
    stored = layer("loadConstantND", (), ("i",), shape=[2, 1], data=weights([1, 3]))
    if kind == "gatherAlongAxis":
        stored = layer("loadConstantND", (), ("i",), shape=[2], data=weights([1, -4]))
    with pytest.raises(ShapeError, match=f"{kind}.*out of range"):
        run([stored, layer(kind, ("x", "i"))], {"x": x})


def test_indices_out_of_range_at_run_time() -> None:
    """Nothing beyond the blob is read or written: the nearest is read, nothing is written."""
    x, index = np.arange(6, dtype=np.float32).reshape(2, 3), np.full((2, 3), 7, np.float32)
    index[0] = -9
    feeds = {"x": x, "i": index, "n": np.array([[0, 5], [9, 0]], np.float32)}
    ones = {"u": np.ones((2, 3), np.float32), "v": np.ones(2, np.float32)}
    found = run_everywhere(
        [
            layer("gatherAlongAxis", ("x", "i"), ("a",), name="a", axis=1),
            layer("scatterAlongAxis", ("x", "i", "u"), ("b",), name="b", axis=1),
            layer("scatterND", ("x", "n", "v"), ("c",), name="c"),
        ],
        feeds | ones,
        ("a", "b", "c"),
    )
    assert found["a"].tolist() == [[0, 0, 0], [5, 5, 5]]
    np.testing.assert_array_equal(found["b"], x)
    np.testing.assert_array_equal(found["c"], x)


def test_shapes_that_do_not_suit() -> None:
    x = {"x": values(3, 4), "i": np.zeros((2,), np.float32), "u": values(2, 3)}
    x["t"] = np.zeros((2, 3), np.float32)
    wrong: list[tuple[str, tuple[str, ...], dict[str, Any]]] = [
        ("gather", ("x", "i"), {"axis": 2}),
        ("gatherND", ("x", "t"), {}),
        ("gatherAlongAxis", ("x", "i"), {}),
        ("gatherAlongAxis", ("x", "t"), {"axis": 0}),
        ("scatter", ("x", "i", "u"), {}),
        ("scatterND", ("x", "t", "u"), {}),
        ("scatterND", ("x", "i", "u"), {}),
        ("scatterAlongAxis", ("x", "t", "u"), {"axis": 1}),
        ("scatterAlongAxis", ("x", "x", "u"), {"axis": 1}),
        ("scatter", ("x", "i", "x"), {"mode": 9}),
    ]
    for kind, inputs, params in wrong:
        with pytest.raises(ShapeError, match=kind):
            run(layer(kind, inputs, **params), {name: x[name] for name in inputs})


@pytest.mark.parametrize("shape", SHAPES)
def test_order(shape: tuple[int, ...]) -> None:
    """Of equal elements the first one counts first."""
    x = np.rint(values(*shape) * 1.5)
    rank, cases = len(shape), []
    for axis in range(-rank, rank):
        order = np.argsort(x, axis, kind="stable")
        down = np.argsort(-x, axis, kind="stable")
        if axis >= 0:
            cases.append(case("argSort", order, axis=axis))
            cases.append(case("argSort", down, axis=axis, descending=True))
        for k in {1, (shape[axis] + 1) // 2, shape[axis]}:
            for bottom, whole in ((False, down), (True, order)):
                index = np.take(whole, range(k), axis)
                pair = np.take_along_axis(x, index, axis), index
                cases.append(case("topK", pair, axis=axis, K=k, useBottomK=bottom))
        for kind, find in (("argMax", np.argmax), ("argMin", np.argmin)):
            found = np.expand_dims(find(x, axis), axis)
            cases.append(case(kind, found, axis=axis))
            gone = np.squeeze(found, axis) if rank > 1 else found
            cases.append(case(kind, gone, axis=axis, removeDim=True))
    check({"x": x}, cases, tolerance=0)


def test_k_as_input() -> None:
    x = values(3, 7)
    order = np.argsort(-x, 1, kind="stable")[:, :4]
    wanted = np.take_along_axis(x, order, 1), order
    feeds = {"x": x, "k": np.array([4], np.float32)}
    check(feeds, [case("topK", wanted, "x", "k", axis=-1, K=1)], tolerance=0)
    stored = Case("loadConstantND", (), (np.float32([4]),), {"shape": [1], "data": weights([4])})
    check({"x": x}, [stored, case("topK", wanted, "x", "y0.0", axis=1)], tolerance=0)
    for k in (0, 8, -1, 1.5):
        with pytest.raises(ShapeError, match="topK"):
            run(layer("topK", ("x", "k"), axis=1), {"x": x, "k": np.float32([k])})
    for params in ({"K": 0}, {"K": 4}, {"K": 1, "axis": 2}):
        with pytest.raises(ShapeError, match="topK"):
            run(layer("topK", **params), {"x": x})
    for axis in (-1, 2):
        with pytest.raises(ShapeError, match="argSort"):
            run(layer("argSort", axis=axis), {"x": x})


def reductions(x: np.ndarray, axes: tuple[int, ...], keep: bool) -> dict[str, np.ndarray]:
    def over(f: Any, a: np.ndarray) -> np.ndarray:
        return np.atleast_1d(f(a, axis=axes, keepdims=keep))

    x = x.astype(np.float64)
    top = x.max()
    return {
        "reduceL1": over(np.sum, np.abs(x)),
        "reduceL2": np.sqrt(over(np.sum, x * x)),
        "reduceMax": over(np.max, x),
        "reduceMin": over(np.min, x),
        "reduceSum": over(np.sum, x),
        "reduceProd": over(np.prod, x),
        "reduceMean": over(np.mean, x),
        "reduceLogSum": np.log(over(np.sum, x)),
        "reduceSumSquare": over(np.sum, x * x),
        "reduceLogSumExp": np.log(over(np.sum, np.exp(x - top))) + top,
    }


@pytest.mark.parametrize(
    "shape",
    [
        (5,),
        (3, 4),
        pytest.param((2, 3, 2), marks=pytest.mark.slow),
        pytest.param((1, 3, 2, 2), marks=pytest.mark.slow),
        (2, 1, 3, 2, 2),
    ],
)
def test_reductions(shape: tuple[int, ...]) -> None:
    x, rank = np.abs(values(*shape)) + np.float32(0.25), len(shape)
    cases = []
    chosen = [c for n in range(1, rank + 1) for c in itertools.combinations(range(rank), n)]
    chosen = chosen[:: 3 if rank > 4 else 1]
    for number, axes in enumerate(chosen):
        keep = bool(number % 2)
        listed = [a - rank if (a + number) % 2 else a for a in reversed(axes)]
        cases += [case(kind, wanted, axes=listed, keepDims=keep)
                  for kind, wanted in reductions(x, axes, keep).items()]  # fmt: skip
    everything = tuple(range(rank))
    for keep in (False, True):
        for kind, wanted in reductions(x, everything, keep).items():
            cases.append(case(kind, wanted, axes=[0], reduceAll=True, keepDims=keep))
            cases.append(case(kind, wanted, keepDims=keep))
    check({"x": x}, cases)


def test_reductions_of_large_numbers_and_long_axes() -> None:
    long = values(70_000) + np.float32(0.1)
    wide = long.astype(np.float64)
    x = np.array([[800, 801, 799], [-900, -901, -1000]], np.float32)
    exact = [801 + np.log(1 + np.exp(-1) + np.exp(-2)), -900 + np.log1p(np.exp(-1) + np.exp(-100))]
    check({"x": x, "long": long}, [
        case("reduceLogSumExp", exact, axes=[1]),
        case("reduceSum", [wide.sum()], "long"),
        case("reduceMean", [wide.mean()], "long", axes=[-1]),
        case("reduceL2", [np.linalg.norm(wide)], "long", axes=[0]),
    ])  # fmt: skip
    for params in ({"axes": [2]}, {"axes": [0, 0]}, {"axes": [1, -1]}):
        with pytest.raises(ShapeError, match="reduceSum"):
            run(layer("reduceSum", **params), {"x": x})


@pytest.mark.parametrize("shape", SHAPES)
def test_running_sums(shape: tuple[int, ...]) -> None:
    x, cases = values(*shape), []
    for axis in range(-len(shape), len(shape)):
        for exclusive, reverse in itertools.product((False, True), repeat=2):
            seen = np.flip(x, axis) if reverse else x
            y = np.cumsum(seen, axis, np.float64) - (seen if exclusive else 0)
            y = np.flip(y, axis) if reverse else y
            flags = {"excludeFinalSum": exclusive, "reverse": reverse}
            cases.append(case("cumSum", y, axis=axis, **flags))
    check({"x": x}, cases)
    feeds = {"x": x, "axis": np.float32([-1])}
    check(feeds, [case("cumSum", np.cumsum(x, -1, np.float64), "x", "axis", axis=7)])


def test_running_sums_of_the_catalogue() -> None:
    x = np.array([4, 6, 7], np.float32)
    check({"x": x}, [
        case("cumSum", [0, 4, 10], axis=-1, excludeFinalSum=True),
        case("cumSum", [13, 7, 0], axis=-1, excludeFinalSum=True, reverse=True),
    ])  # fmt: skip
    for feeds in ({"x": x, "a": np.float32([1])}, {"x": x, "a": np.float32([0, 0])}):
        with pytest.raises(ShapeError, match="cumSum"):
            run(layer("cumSum", ("x", "a")), feeds)
