"""STABLEHLO_SORT by comparators of one comparison, and by any others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats.tflite.stablehlo.nets import Body, numbers, run, single
from tests.tflite_writer import Net

from vknn.errors import ModelFormatError, VknnError

Check = Callable[..., None]
LESS, GREATER = 5, 3


def by(first: int, second: int, direction: int, kind: int = 0) -> Body:
    """A comparison of two of the arguments."""

    def body(net: Net, arguments: list[int]) -> list[int]:
        result = net.tensor("r", (), "bool")
        options = {"comparison_direction": direction, "compare_type": kind}
        net.add("STABLEHLO_COMPARE", [arguments[first], arguments[second]], [result], options)
        return [result]

    return body


def options(axis: int = -1) -> dict[str, Any]:
    return {"dimension": axis, "is_stable": True}


def comparator(dtypes: list[str], body: Body) -> dict[str, Any]:
    return {"comparator_subgraph_index": ([d for d in dtypes for _ in range(2)], body)}


@pytest.mark.parametrize("dtype", ["float32", "int32", "int8", "int64", "bool"])
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("turned", [False, True], ids=["a_b", "b_a"])
@pytest.mark.parametrize("direction", [LESS, GREATER], ids=["less", "greater"])
def test_one_operand(direction: int, turned: bool, axis: int, dtype: str, check: Check) -> None:
    x = numbers((5, 11), dtype)
    pair = (1, 0) if turned else (0, 1)
    rising = (direction == LESS) != turned
    wanted = np.sort(x, axis) if rising else np.flip(np.sort(x, axis), axis)
    regions = comparator([dtype], by(*pair, direction))
    on_device = dtype in ("float32", "int32")
    check("STABLEHLO_SORT", [x], [wanted.copy()], options(axis), regions, on_device=on_device)


@pytest.mark.parametrize("key", [0, 1, 2])
@pytest.mark.parametrize("direction", [LESS, GREATER, 2, 4])
def test_others_go_in_step_and_equal_ones_stay(direction: int, key: int, check: Check) -> None:
    rng = np.random.default_rng(key)
    values = [rng.integers(0, 4, (3, 13)).astype(np.int32), numbers((3, 13), "float32"),
              rng.integers(0, 3, (3, 13)).astype(np.int64)]  # fmt: skip
    sign = 1 if direction in (LESS, 4) else -1
    order = np.argsort(sign * values[key], axis=1, kind="stable")
    wanted = [np.take_along_axis(v, order, 1) for v in values]
    regions = comparator(["int32", "float32", "int64"], by(2 * key, 2 * key + 1, direction))
    check("STABLEHLO_SORT", values, wanted, options(1), regions)


def test_total_order(check: Check) -> None:
    row = np.float32([0.0, -0.0, np.nan, -np.inf, 1, -np.nan, np.inf, -0.0, 0.0])
    row[5] = -np.abs(np.float32(np.nan))
    places = np.arange(9, dtype=np.int32)
    wanted = [5, 3, 1, 7, 0, 8, 4, 6, 2]
    regions = comparator(["float32", "int32"], by(0, 1, LESS, 2))
    check("STABLEHLO_SORT", [row, places], [row[wanted], places[wanted]], options(0), regions)


def lexicographic(net: Net, arguments: list[int]) -> list[int]:
    """a0 < b0, or a0 == b0 and a1 > b1."""
    a0, b0, a1, b1 = arguments
    less, equal, more, both, result = (net.tensor(n, (), "bool") for n in "lembr")
    net.add("STABLEHLO_COMPARE", [a0, b0], [less], {"comparison_direction": LESS})
    net.add("STABLEHLO_COMPARE", [a0, b0], [equal], {"comparison_direction": 0})
    net.add("STABLEHLO_COMPARE", [a1, b1], [more], {"comparison_direction": GREATER})
    net.add("STABLEHLO_AND", [equal, more], [both])
    net.add("STABLEHLO_OR", [less, both], [result])
    return [result]


def by_magnitude(net: Net, arguments: list[int]) -> list[int]:
    """|a| < |b|."""
    a, b, result = net.tensor("a"), net.tensor("b"), net.tensor("r", (), "bool")
    net.add("STABLEHLO_ABS", arguments[:1], [a])
    net.add("STABLEHLO_ABS", arguments[1:2], [b])
    net.add("STABLEHLO_COMPARE", [a, b], [result], {"comparison_direction": LESS})
    return [result]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 13, 33])
def test_comparators_of_their_own(size: int, check: Check) -> None:
    rng = np.random.default_rng(size)
    first = rng.integers(0, 4, (3, size)).astype(np.int32)
    second = rng.integers(0, 4, (3, size)).astype(np.float32)
    order = np.lexsort((-second, first), axis=1)
    wanted = [np.take_along_axis(v, order, 1) for v in (first, second)]
    regions = comparator(["int32", "float32"], lexicographic)
    check("STABLEHLO_SORT", [first, second], wanted, options(1), regions)


def test_equal_ones_of_a_comparator_of_its_own_stay(check: Check) -> None:
    x = np.float32([[3, -1, 1, -3, 2, 0, -2, 1, -1], [5, 4, -4, 4, -5, 5, 0, -0.5, 0.5]]).T.copy()
    order = np.argsort(np.abs(x), axis=0, kind="stable")
    regions = comparator(["float32"], by_magnitude)
    check("STABLEHLO_SORT", [x], [np.take_along_axis(x, order, 0)], options(0), regions)


def test_a_comparator_behind_other_operators(tmp_path: Path, backend: str) -> None:
    """The graph stops at the sort and goes on behind it."""
    x = numbers((7,), "float32")
    net, _ = single("STABLEHLO_SORT", [x], [((7,), "float32")], options(0),
                    comparator(["float32"], by_magnitude))  # fmt: skip
    before, after = net.tensor("before", (7,)), net.tensor("after", (7,))
    net.operators[0].fields["inputs"] = [before]
    net.add("STABLEHLO_NEGATE", [net.inputs[0]], [before])
    net.add("STABLEHLO_NEGATE", [net.outputs[0]], [after])
    net.operators.insert(0, net.operators.pop(1))
    net.outputs = [after]
    found = run(tmp_path / "m.tflite", backend, net.file(), {"x0": x})["after"]
    assert np.array_equal(found, x[np.argsort(np.abs(x), kind="stable")])


def test_nothing_to_sort(check: Check) -> None:
    for shape in ((0, 3), (3, 0), (1, 3)):
        x = numbers(shape, "float32")
        for body in (by(0, 1, LESS), by_magnitude):
            check("STABLEHLO_SORT", [x], [x], options(0), comparator(["float32"], body))


X = np.ones((3, 5), np.float32)
WRONG: list[tuple[list[Any], dict[str, Any], Body]] = [
    ([X], options(2), by(0, 1, LESS)),
    ([X], options(-3), by(0, 1, LESS)),
    ([X, X[:2]], options(0), by(0, 1, LESS)),
    ([X], options(2), by_magnitude),
    ([X, X[:2]], options(0), by_magnitude),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_refused(number: int, tmp_path: Path) -> None:
    inputs, given, body = WRONG[number]
    regions = comparator(["float32"] * len(inputs), body)
    shapes = [((3, 5), "float32")] * len(inputs)
    net, feeds = single("STABLEHLO_SORT", inputs, shapes, given, regions)
    with pytest.raises(VknnError, match=r"operator 0 \(STABLEHLO_SORT\)"):
        run(tmp_path / "m.tflite", "numpy", net.file(), feeds)


def test_comparators_of_other_types(tmp_path: Path) -> None:
    net, feeds = single("STABLEHLO_SORT", [X], [((3, 5), "float32")], options(),
                        comparator(["int32"], by(0, 1, LESS)))  # fmt: skip
    with pytest.raises(ModelFormatError, match="has a region of int32, int32 for float32, float32"):
        run(tmp_path / "m.tflite", "numpy", net.file(), feeds)

    def sums(net: Net, arguments: list[int]) -> list[int]:
        net.add("STABLEHLO_ADD", arguments, [result := net.tensor("r")])
        return [result]

    net, feeds = single("STABLEHLO_SORT", [X], [((3, 5), "float32")], options(),
                        comparator(["float32"], sums))  # fmt: skip
    with pytest.raises(ModelFormatError, match=r"STABLEHLO_SORT.*float32, not bool"):
        run(tmp_path / "m.tflite", "numpy", net.file(), feeds)
