"""STABLEHLO_GATHER and STABLEHLO_SCATTER with dimension numbers of all kinds, against the formulas
of StableHLO's specification, element by element."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats.tflite.stablehlo.dimension_numbers import (
    Numbers,
    drawn,
    gather_options,
    scatter_options,
)
from tests.formats.tflite.stablehlo.nets import Body, Fixed, numbers, one, run, single
from tests.tflite_writer import Net

from vknn.errors import ShapeError, UnsupportedLayerError, VknnError

Check = Callable[..., None]


def gathered(n: Numbers, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    y = np.empty(n.whole, x.dtype)
    vectors = n.vectors(indices)
    for place in np.ndindex(*n.whole):
        batch, at = n.split(place)
        for axis, start in zip(n.named, vectors[batch], strict=True):
            at[axis] += min(max(int(start), 0), n.dims[axis] - n.windows[axis])
        y[place] = x[tuple(at)]
    return y


def scattered(
    n: Numbers, x: np.ndarray, indices: np.ndarray, updates: np.ndarray, join: Callable[..., Any]
) -> np.ndarray:
    y, vectors = x.copy(), n.vectors(indices)
    for place in np.ndindex(*n.whole):
        batch, at = n.split(place)
        for axis, start in zip(n.named, vectors[batch], strict=True):
            at[axis] += int(start)
        if all(0 <= i < d for i, d in zip(at, n.dims, strict=True)):
            with np.errstate(over="ignore"):
                y[tuple(at)] = join(y[tuple(at)], updates[place])
    return y


@pytest.mark.parametrize("seed", range(24))
def test_gathers(seed: int, check: Check) -> None:
    rng = np.random.default_rng(seed)
    n = drawn(rng)
    dtype = str(rng.choice(["float32", "int32", "int64", "bool", "int8"]))
    kind = str(rng.choice(["int32", "int64", "int8"]))
    x = numbers(n.dims, dtype, seed)
    indices = rng.integers(-3, 9, n.index_shape).astype(kind)
    wanted = gathered(n, x, indices)
    on_device = dtype in ("float32", "int32") and kind == "int32"
    check("STABLEHLO_GATHER", [x, indices], [wanted], gather_options(n), on_device=on_device)
    check("STABLEHLO_GATHER", [x, Fixed(indices)], [wanted], gather_options(n))


def test_a_vector_axis_behind_the_last(check: Check) -> None:
    x, indices = numbers((5, 3), "float32"), np.int32([[4, 0], [9, -1]])
    n = Numbers((5, 3), (1, 3), (0,), (0,), (2, 2), 2, (2,))
    wanted = x[np.clip(indices, 0, 4)]
    check("STABLEHLO_GATHER", [x, indices], [wanted], gather_options(n), on_device=True)
    wanted = np.stack([x[0], x[0], x[2], x[3], x[4]])
    regions = {"update_computation_subgraph_index": (["float32"] * 2, second)}
    n = Numbers((5, 3), (1, 3), (0,), (0,), (2,), 1, (1,))
    inputs = [x, np.int32([1, 7]), x[:2]]
    check("STABLEHLO_SCATTER", inputs, [wanted], scatter_options(n), regions, on_device=True)


def test_far_indices(check: Check) -> None:
    x = numbers((300,), "float32")
    for dtype in ("int64", "uint64", "uint32", "uint8", "int8", "int32"):
        info = np.iinfo(dtype)
        indices = np.array([[info.min], [info.max], [5]], dtype)
        n = Numbers((300,), (1,), (0,), (0,), (3,), 1, ())
        wanted = gathered(n, x, indices)
        check("STABLEHLO_GATHER", [x, indices], [wanted], gather_options(n))
        updates = np.float32([1, 2, 3])  # the last of them is the only one inside
        regions = {"update_computation_subgraph_index": (["float32"] * 2, one("STABLEHLO_ADD"))}
        wanted = scattered(n, x, indices, updates, np.add)
        check("STABLEHLO_SCATTER", [x, indices, updates], [wanted], scatter_options(n), regions)


def second(net: Net, arguments: list[int]) -> list[int]:
    return [arguments[1]]


def difference_of_squares(net: Net, arguments: list[int]) -> list[int]:
    """a * 3 - b: neither known nor commutative."""
    dtype = net.tensors[arguments[0]].fields["type"]
    by = {0: "float32", 2: "int32", 4: "int64"}[dtype]
    three, made, result = net.tensor("t", (), by, data=np.array(3, by)), 0, 0
    made, result = net.tensor("m", (), by), net.tensor("r", (), by)
    net.add("STABLEHLO_MULTIPLY", [arguments[0], three], [made])
    net.add("STABLEHLO_SUBTRACT", [made, arguments[1]], [result])
    return [result]


REGIONS: dict[str, tuple[Body, Callable[..., Any]]] = {
    "add": (one("STABLEHLO_ADD"), np.add),
    "multiply": (one("STABLEHLO_MULTIPLY"), np.multiply),
    "maximum": (one("STABLEHLO_MAXIMUM"), np.maximum),
    "minimum": (one("MINIMUM"), np.minimum),
    "replace": (second, lambda a, b: b),
    "own": (difference_of_squares, lambda a, b: a * 3 - b),
}


@pytest.mark.parametrize("name", REGIONS)
@pytest.mark.parametrize("seed", range(8))
def test_scatters(seed: int, name: str, check: Check) -> None:
    rng = np.random.default_rng([seed, len(name)])
    n = drawn(rng)
    dtype = str(rng.choice(["float32", "int32", "int64"]))
    x, updates = numbers(n.dims, dtype, seed), numbers(n.whole, dtype, seed + 1)
    kind = str(rng.choice(["int32", "int64"]))
    indices = rng.integers(-1, 6, n.index_shape).astype(kind)
    body, join = REGIONS[name]
    wanted = scattered(n, x, indices, updates, join)
    regions = {"update_computation_subgraph_index": ([dtype] * 2, body)}
    on_device = dtype != "int64" and kind == "int32" and name != "own"
    options = scatter_options(n)
    check("STABLEHLO_SCATTER", [x, indices, updates], [wanted], options, regions,
          on_device=on_device)  # fmt: skip
    check("STABLEHLO_SCATTER", [Fixed(x), Fixed(indices), updates], [wanted], options, regions)


def test_only_what_is_outside_of_a_window_is_dropped(check: Check) -> None:
    n = Numbers((5, 7), (2, 3), (), (0, 1), (5,), 1, (1, 2))
    indices = np.int32([[4, 0], [0, 5], [3, 4], [-1, 2], [-2, -3]])
    x, updates = np.zeros((5, 7), np.float32), np.ones((5, 2, 3), np.float32)
    wanted = np.zeros((5, 7), np.float32)
    wanted[4, :3] = wanted[:2, 5:] = wanted[3:, 4:] = wanted[0, 2:5] = 1
    regions = {"update_computation_subgraph_index": (["float32"] * 2, one("STABLEHLO_ADD"))}
    check("STABLEHLO_SCATTER", [x, indices, updates], [wanted], scatter_options(n), regions,
          on_device=True)  # fmt: skip


def test_the_last_in_the_order_of_the_updates_counts(check: Check) -> None:
    n = Numbers((4, 2), (3, 1), (1,), (0, 1), (2, 2), 2, (1,))
    indices = np.int32([[[0, 0], [1, 0]], [[0, 1], [1, 1]]])
    x, updates = numbers(n.dims, "float32"), numbers(n.whole, "float32", 1)
    wanted = scattered(n, x, indices, updates, lambda a, b: b)
    regions = {"update_computation_subgraph_index": (["float32"] * 2, second)}
    for given in (indices, Fixed(indices)):
        check("STABLEHLO_SCATTER", [x, given, updates], [wanted], scatter_options(n), regions,
              on_device=True)  # fmt: skip


def test_logic_of_bool(check: Check) -> None:
    x, updates = np.array([True, False, True]), np.array([False, True, True, False])
    indices = np.int32([[0], [1], [5], [2]])
    n = Numbers((3,), (1,), (0,), (0,), (4,), 1, ())
    for code, join in (("STABLEHLO_AND", np.logical_and), ("LOGICAL_OR", np.logical_or)):
        regions = {"update_computation_subgraph_index": (["bool"] * 2, one(code))}
        wanted = scattered(n, x, indices, updates, join)
        check("STABLEHLO_SCATTER", [x, indices, updates], [wanted], scatter_options(n), regions)


def test_regions_that_are_not_elementwise(tmp_path: Path) -> None:
    def body(net: Net, arguments: list[int]) -> list[int]:
        result = net.tensor("r")
        net.add("STABLEHLO_RESHAPE", arguments[:1], [made := net.tensor("m")])
        net.add("STABLEHLO_TRANSPOSE", [made], [result])
        return [result]

    n = Numbers((3,), (1,), (0,), (0,), (2,), 1, ())
    net, feeds = single(
        "STABLEHLO_SCATTER", [np.ones(3, np.float32), np.int32([[0], [1]]), np.ones(2, np.float32)],
        [((3,), "float32")], scatter_options(n),
        {"update_computation_subgraph_index": (["float32"] * 2, body)},
    )  # fmt: skip
    with pytest.raises(UnsupportedLayerError, match="region.*STABLEHLO_RESHAPE, STABLEHLO_TRANSP"):
        run(tmp_path / "m.tflite", "numpy", net.file(), feeds)


X, INDICES = np.ones((3, 5), np.float32), np.zeros((2, 1), np.int32)
GATHERS: list[dict[str, Any]] = [
    {"slice_sizes": [1]}, {"slice_sizes": [4, 5]}, {"slice_sizes": [-1, 5]},
    {"start_index_map": [2]}, {"start_index_map": [0, 0]}, {"start_index_map": []},
    {"collapsed_slice_dims": [1]}, {"collapsed_slice_dims": [2]}, {"offset_dims": [0, 1]},
    {"offset_dims": [5]}, {"index_vector_dim": 3}, {"index_vector_dim": -1},
    {"index_vector_dim": 0},
]  # fmt: skip


@pytest.mark.parametrize("wrong", GATHERS, ids=str)
def test_gathers_that_cannot_be(wrong: dict[str, Any], tmp_path: Path) -> None:
    good = {"offset_dims": [1], "collapsed_slice_dims": [0], "start_index_map": [0],
            "index_vector_dim": 1, "slice_sizes": [1, 5]}  # fmt: skip
    net, feeds = single("STABLEHLO_GATHER", [X, INDICES], [((2, 5), "float32")], good | wrong)
    with pytest.raises(ShapeError, match=r"operator 0 \(STABLEHLO_GATHER\)"):
        run(tmp_path / "m.tflite", "numpy", net.file(), feeds)


def test_a_gather_whose_output_has_no_shape(tmp_path: Path) -> None:
    options = {"offset_dims": [1], "collapsed_slice_dims": [0], "start_index_map": [0],
               "index_vector_dim": 1, "slice_sizes": [1, 5]}  # fmt: skip
    net, feeds = single("STABLEHLO_GATHER", [X, INDICES], [((), "float32")], options)
    with pytest.raises(ShapeError, match=r"STABLEHLO_GATHER.*output of shape \[\], not of 2 axes"):
        run(tmp_path / "m.tflite", "numpy", net.file(), feeds)


def test_regions_with_long_constants(tmp_path: Path) -> None:
    def body(net: Net, arguments: list[int]) -> list[int]:
        both, made = net.tensor("c", data=np.float32([1, 2])), net.tensor("r")
        net.add("ADD", [arguments[0], both], [made], {})
        return [made]

    n = Numbers((3,), (1,), (0,), (0,), (2,), 1, ())
    net, feeds = single(
        "STABLEHLO_SCATTER", [np.ones(3, np.float32), INDICES, np.ones(2, np.float32)],
        [((3,), "float32")], scatter_options(n),
        {"update_computation_subgraph_index": (["float32"] * 2, body)},
    )  # fmt: skip
    with pytest.raises(UnsupportedLayerError, match=r"with a constant float32\[2\]"):
        run(tmp_path / "m.tflite", "numpy", net.file(), feeds)


SCATTERS: list[dict[str, Any]] = [
    {"update_window_dims": [0]}, {"update_window_dims": [1, 1]}, {"update_window_dims": [7]},
    {"inserted_window_dims": []}, {"inserted_window_dims": [2]}, {"inserted_window_dims": [1]},
    {"scatter_dims_to_operand_dims": [2]}, {"scatter_dims_to_operand_dims": [0, 0]},
    {"scatter_dims_to_operand_dims": []}, {"index_vector_dim": 3}, {"index_vector_dim": -1},
]  # fmt: skip


@pytest.mark.parametrize("own", [False, True], ids=["known", "interpreted"])
@pytest.mark.parametrize("wrong", SCATTERS, ids=str)
def test_scatters_that_cannot_be(wrong: dict[str, Any], own: bool, tmp_path: Path) -> None:
    good = {"update_window_dims": [1], "inserted_window_dims": [0],
            "scatter_dims_to_operand_dims": [0], "index_vector_dim": 1}  # fmt: skip
    body = difference_of_squares if own else one("STABLEHLO_ADD")
    net, feeds = single(
        "STABLEHLO_SCATTER", [X, INDICES, X[:2]], [((3, 5), "float32")], good | wrong,
        {"update_computation_subgraph_index": (["float32"] * 2, body)},
    )  # fmt: skip
    with pytest.raises(VknnError, match=r"operator 0 \(STABLEHLO_SCATTER\)"):
        run(tmp_path / "m.tflite", "numpy", net.file(), feeds)
