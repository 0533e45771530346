"""STABLEHLO_REDUCE and STABLEHLO_REDUCE_WINDOW by known functions and by regions of their own."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats.tflite.stablehlo.nets import Body, Fixed, numbers, one, run, single
from tests.tflite_writer import Net

from vknn.errors import ModelFormatError, VknnError

Check = Callable[..., None]
Join = Callable[[Any, Any], Any]
REGIONS: dict[str, tuple[str, Join]] = {
    "add": ("STABLEHLO_ADD", np.add),
    "multiply": ("STABLEHLO_MULTIPLY", np.multiply),
    "maximum": ("STABLEHLO_MAXIMUM", np.maximum),
    "minimum": ("MINIMUM", np.minimum),
}
LOGIC: dict[str, tuple[str, Join]] = {
    "and": ("STABLEHLO_AND", np.bitwise_and),
    "or": ("STABLEHLO_OR", np.bitwise_or),
}


def with_constant(net: Net, arguments: list[int]) -> list[int]:
    """max(a, b) + 0, which is not one operator."""
    zero, most, result = net.tensor("z", (), data=np.float32(0)), net.tensor("m"), net.tensor("r")
    net.add("STABLEHLO_MAXIMUM", arguments, [most])
    net.add("STABLEHLO_ADD", [zero, most], [result])
    return [result]


def larger_and_place(net: Net, arguments: list[int]) -> list[int]:
    """The larger of two numbers with its place, as argmax is written."""
    a, i, b, j = arguments
    chosen, value, place = (
        net.tensor("c", (), "bool"),
        net.tensor("v"),
        net.tensor("p", (), "int32"),
    )
    options = {"comparison_direction": 2, "compare_type": 1}
    net.add("STABLEHLO_COMPARE", [a, b], [chosen], options)
    net.add("STABLEHLO_SELECT", [chosen, a, b], [value])
    net.add("STABLEHLO_SELECT", [chosen, i, j], [place])
    return [value, place]


def first_of_two(net: Net, arguments: list[int]) -> list[int]:
    return [arguments[0]]


CASES = [("float32", (0,)), ("float32", (0, 1, 2)), ("int32", (1, 2)), ("int64", (2,)),
         ("int8", (0, 2)), ("uint8", (1,))]  # fmt: skip


@pytest.mark.parametrize("name", REGIONS)
@pytest.mark.parametrize(("dtype", "axes"), CASES, ids=str)
def test_reduce(axes: tuple[int, ...], name: str, dtype: str, check: Check) -> None:
    x = numbers((3, 5, 7), dtype)
    code, join = REGIONS[name]
    for init in ({"add": 0, "multiply": 1}.get(name, 2), 3):
        first = np.array(init, dtype)
        with np.errstate(over="ignore"):
            wide = x.astype(np.float64) if dtype == "float32" else x
            wanted = functools.reduce(
                lambda y, axis: join.reduce(y, axis=axis, dtype=y.dtype, keepdims=True),  # type: ignore[attr-defined]
                axes, wide,
            )  # fmt: skip
            wanted = join(wanted.squeeze(axes), wide.dtype.type(init)).astype(dtype)
        regions = {"body_subgraph_index": ([dtype] * 2, one(code))}
        on_device = dtype in ("float32", "int32")
        options = {"dimensions": axes}
        check("STABLEHLO_REDUCE", [x, Fixed(first)], [wanted], options, regions,
              on_device=on_device)  # fmt: skip
        if init == 3:
            check("STABLEHLO_REDUCE", [x, first], [wanted], options, regions)


@pytest.mark.parametrize("name", LOGIC)
@pytest.mark.parametrize("dtype", ["bool", "int32", "int8"])
def test_logic(dtype: str, name: str, check: Check) -> None:
    code, join = LOGIC[name]
    x = numbers((3, 5), dtype) | np.array(name == "and", dtype)
    first = (
        np.array(name == "and", dtype) if dtype == "bool" else np.array(-1 * (name == "and"), dtype)
    )
    wanted = join.reduce(x, axis=1, initial=first).astype(dtype)  # type: ignore[attr-defined]
    regions = {"body_subgraph_index": ([dtype] * 2, one(code))}
    check("STABLEHLO_REDUCE", [x, first], [wanted], {"dimensions": [1]}, regions)


def test_the_largest_and_its_place(check: Check) -> None:
    x = numbers((3, 11), "float32")
    places = np.broadcast_to(np.arange(11, dtype=np.int32), x.shape).copy()
    first = np.float32(-np.inf), np.int32(0)
    regions = {"body_subgraph_index": (["float32", "int32"] * 2, larger_and_place)}
    wanted = [x.max(axis=1), x.argmax(axis=1).astype(np.int32)]
    inputs = [x, places, *first]
    check("STABLEHLO_REDUCE", inputs, wanted, {"dimensions": [1]}, regions, on_device=True)
    wanted = [np.float32(x.max()), places.reshape(-1)[x.argmax()]]
    check("STABLEHLO_REDUCE", inputs, wanted, {"dimensions": [0, 1]}, regions, on_device=True)


def test_regions_of_their_own(check: Check) -> None:
    x, first = numbers((5, 3), "float32"), np.float32(0.5)
    regions = {"body_subgraph_index": (["float32"] * 2, with_constant)}
    wanted = np.maximum(x.max(axis=0), first)
    inputs: list[Any] = [x, first]
    check("STABLEHLO_REDUCE", inputs, [wanted], {"dimensions": [0]}, regions, on_device=True)
    # Elements are joined in order: the first one is that from which the reduction starts.
    regions = {"body_subgraph_index": (["float32"] * 2, first_of_two)}
    check("STABLEHLO_REDUCE", inputs, [np.full(3, first)], {"dimensions": [0]}, regions)


def test_of_nothing(check: Check) -> None:
    x, first = np.zeros((0, 3), np.float32), np.float32(2)
    for body in (one("STABLEHLO_MAXIMUM"), one("STABLEHLO_ADD"), with_constant):
        regions = {"body_subgraph_index": (["float32"] * 2, body)}
        wanted = np.full(3, first)
        check("STABLEHLO_REDUCE", [x, first], [wanted], {"dimensions": [0]}, regions)


WINDOWS: dict[str, dict[str, Any]] = {
    "plain": {"window_dimensions": [2, 3]},
    "strides": {"window_dimensions": [2, 3], "window_strides": [2, 1]},
    "pads": {"window_dimensions": [2, 3], "padding": [1, 2, 0, 1]},
    "both dilations": {"window_dimensions": [2, 3], "base_dilations": [2, 3],
                       "window_dilations": [3, 2]},
    "everything": {"window_dimensions": [3, 2], "window_strides": [2, 3], "padding": [2, -1, -2, 3],
                   "base_dilations": [3, 2], "window_dilations": [1, 4]},
    "one axis": {"window_dimensions": [1, 5], "padding": [0, 0, 4, 0]},
    "nothing fits": {"window_dimensions": [8, 1]},
}  # fmt: skip
NAMES = ("window_dimensions", "window_strides", "base_dilations", "window_dilations", "padding")


def reduced(x: np.ndarray, options: dict[str, Any], first: Any, join: Join) -> np.ndarray:
    """By a loop over windows and their places."""
    rank = x.ndim
    size, stride, base, dilation, pads = (
        options.get(n, [0] * (2 * rank) if n == "padding" else [1] * rank) for n in NAMES
    )
    full = [(d - 1) * b + 1 + pads[2 * a] + pads[2 * a + 1]
            for a, (d, b) in enumerate(zip(x.shape, base, strict=True))]  # fmt: skip
    counts = [max(0, (full[a] - (size[a] - 1) * dilation[a] - 1) // stride[a] + 1)
              for a in range(rank)]  # fmt: skip
    y = np.empty(counts, x.dtype)
    for place in np.ndindex(*counts):
        total = first
        for tap in itertools.product(*map(range, size)):
            at = [place[a] * stride[a] + tap[a] * dilation[a] - pads[2 * a] for a in range(rank)]
            there = all(at[a] % base[a] == 0 and 0 <= at[a] // base[a] < x.shape[a]
                        for a in range(rank))  # fmt: skip
            element = x[tuple(at[a] // base[a] for a in range(rank))] if there else first
            with np.errstate(over="ignore"):
                total = join(total, element)
        y[place] = total
    return y


OF_WINDOWS = [*((name, "float32") for name in WINDOWS), ("everything", "int32"),
              ("everything", "int64"), ("pads", "int16"), ("both dilations", "int8")]  # fmt: skip


@pytest.mark.parametrize("name", REGIONS)
@pytest.mark.parametrize(("window", "dtype"), OF_WINDOWS)
def test_windows(window: str, name: str, dtype: str, check: Check) -> None:
    x, options = numbers((5, 7), dtype), WINDOWS[window]
    code, join = REGIONS[name]
    neutral = {"add": 0, "multiply": 1, "maximum": -9, "minimum": 9}[name]
    for init in (neutral, 2):
        first = np.array(init, dtype)
        wanted = reduced(x, options, first, join)
        regions = {"body_subgraph_index": ([dtype] * 2, one(code))}
        on_device = dtype in ("float32", "int32") and wanted.size > 0
        check("STABLEHLO_REDUCE_WINDOW", [x, Fixed(first)], [wanted], options, regions,
              on_device=on_device)  # fmt: skip
        check("STABLEHLO_REDUCE_WINDOW", [x, first], [wanted], options, regions)


@pytest.mark.parametrize("window", WINDOWS)
def test_windows_by_regions_of_their_own(window: str, check: Check) -> None:
    x, options = numbers((5, 7), "float32"), WINDOWS[window]
    first = np.float32(-1)
    bodies: list[tuple[Body, Join]] = [(with_constant, np.maximum), (first_of_two, lambda a, b: a)]
    for body, join in bodies:
        regions = {"body_subgraph_index": (["float32"] * 2, body)}
        wanted = reduced(x, options, first, join)
        check("STABLEHLO_REDUCE_WINDOW", [x, first], [wanted], options, regions)


def test_windows_of_several_operands(check: Check) -> None:
    x = numbers((11,), "float32")
    places = np.arange(11, dtype=np.int32)
    regions = {"body_subgraph_index": (["float32", "int32"] * 2, larger_and_place)}
    options = {"window_dimensions": [3], "window_strides": [2], "padding": [1, 0]}
    wide = np.concatenate([[-np.inf], x]).astype(np.float32)
    best = [int(wide[i : i + 3].argmax()) + i - 1 for i in range(0, 10, 2)]
    wanted = [x[best], np.int32(best)]
    check("STABLEHLO_REDUCE_WINDOW", [x, places, np.float32(-np.inf), np.int32(-1)], wanted,
          options, regions, on_device=True)  # fmt: skip


X, ZERO = np.ones((3, 5), np.float32), np.float32(0)
WRONG: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("REDUCE", [X, ZERO], {"dimensions": [2]}),
    ("REDUCE", [X, ZERO], {"dimensions": [0, 0]}),
    ("REDUCE", [X, ZERO], {"dimensions": [-1]}),
    ("REDUCE", [X, np.zeros(2, np.float32)], {"dimensions": [0]}),
    ("REDUCE", [X, np.int32(0)], {"dimensions": [0]}),
    ("REDUCE_WINDOW", [X, ZERO], {"window_dimensions": [2]}),
    ("REDUCE_WINDOW", [X, ZERO], {"window_dimensions": [2, 0]}),
    ("REDUCE_WINDOW", [X, ZERO], {"window_dimensions": [2, 2], "window_strides": [0, 1]}),
    ("REDUCE_WINDOW", [X, ZERO], {"window_dimensions": [2, 2], "padding": [1, 1]}),
    ("REDUCE_WINDOW", [X, ZERO], {"window_dimensions": [2, 2], "base_dilations": [1 << 40, 1]}),
    ("REDUCE_WINDOW", [X, ZERO], {"window_dimensions": [1 << 40, 2]}),
    ("REDUCE_WINDOW", [X, ZERO], {"window_dimensions": [2, 2], "padding": [1 << 40, 0, 0, 0]}),
    ("REDUCE_WINDOW", [X, np.float32(1)],
     {"window_dimensions": [2, 2], "padding": [1 << 30, 1 << 29, 0, 0]}),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(WRONG)), ids=lambda n: f"{WRONG[n][0]}_{n}")
def test_refused(number: int, tmp_path: Path) -> None:
    code, inputs, options = WRONG[number]
    dtypes = [str(a.dtype) for a in inputs]
    regions = {"body_subgraph_index": (dtypes, one("STABLEHLO_ADD"))}
    net, feeds = single(f"STABLEHLO_{code}", inputs, [((3, 5), "float32")], options, regions)
    with pytest.raises(VknnError, match=f"STABLEHLO_{code}"):
        run(tmp_path / "m.tflite", "numpy", net.file(), feeds)


FAR = 1 << 14
HUGE = [
    {"window_dimensions": [FAR], "padding": [FAR, FAR]},
    {"window_dimensions": [2], "window_strides": [FAR * FAR], "base_dilations": [FAR * FAR]},
]


@pytest.mark.parametrize("options", HUGE, ids=str)
def test_windows_of_gigabytes(options: dict[str, Any], tmp_path: Path) -> None:
    regions = {"body_subgraph_index": (["float32"] * 2, one("STABLEHLO_SUBTRACT"))}
    inputs, outputs = [numbers((4,), "float32"), np.zeros((), np.float32)], [((3,), "float32")]
    net, feeds = single("STABLEHLO_REDUCE_WINDOW", inputs, outputs, options, regions)
    with pytest.raises(VknnError, match=r"operator 0 \(STABLEHLO_REDUCE_WINDOW\).* elements"):
        run(tmp_path / "m.tflite", "numpy", net.file(), feeds)


def test_windows_larger_than_all(check: Check) -> None:
    options = {"window_dimensions": [(1 << 31) - 1]}
    for code in ("SUBTRACT", "ADD"):
        regions = {"body_subgraph_index": (["float32"] * 2, one(f"STABLEHLO_{code}"))}
        inputs = [numbers((4,), "float32"), np.zeros((), np.float32)]
        check("STABLEHLO_REDUCE_WINDOW", inputs, [np.zeros(0, np.float32)], options, regions)


def test_regions_of_other_types(tmp_path: Path) -> None:
    regions = {"body_subgraph_index": (["int32"] * 2, one("STABLEHLO_ADD"))}
    options = {"dimensions": [0]}
    net, feeds = single("STABLEHLO_REDUCE", [X, ZERO], [((5,), "float32")], options, regions)
    message = r"STABLEHLO_REDUCE.*has a region of int32, int32 for float32, float32"
    with pytest.raises(ModelFormatError, match=message):
        run(tmp_path / "m.tflite", "numpy", net.file(), feeds)
