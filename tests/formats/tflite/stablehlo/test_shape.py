"""StableHLO's operators on shapes against NumPy, and what cannot be."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats.tflite.stablehlo.nets import Fixed, numbers, run, single

from vknn.errors import VknnError

Check = Callable[..., None]
DTYPES = ["float32", "int32", "int64", "int8", "bool"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_reshape_and_transpose(dtype: str, check: Check) -> None:
    x = numbers((2, 3, 5), dtype)
    check("STABLEHLO_RESHAPE", [x], [x.reshape(5, 6)])
    check("STABLEHLO_RESHAPE", [x[:1, :1, 0]], [x[0, 0, 0].reshape(())])
    turned = np.ascontiguousarray(x.transpose(2, 0, 1))
    check("STABLEHLO_TRANSPOSE", [x], [turned], {"permutation": [2, 0, 1]})


@pytest.mark.parametrize("dtype", DTYPES)
def test_broadcast_in_dim(dtype: str, check: Check) -> None:
    x = numbers((3, 1), dtype)
    wide = np.broadcast_to(x.reshape(1, 3, 1, 1), (2, 3, 5, 7)).copy()
    check("STABLEHLO_BROADCAST_IN_DIM", [x], [wide], {"broadcast_dimensions": [1, 3]})
    turned = np.broadcast_to(x.reshape(1, 3).T.reshape(3, 1, 1).transpose(1, 2, 0), (2, 5, 3))
    check("STABLEHLO_BROADCAST_IN_DIM", [x], [turned.copy()], {"broadcast_dimensions": [2, 0]})
    scalar = x[0, 0].reshape(())
    options: dict[str, Any] = {"broadcast_dimensions": []}
    check("STABLEHLO_BROADCAST_IN_DIM", [scalar], [np.full((2, 3), scalar)], options)


@pytest.mark.parametrize("dtype", DTYPES)
def test_concatenate_and_slice(dtype: str, check: Check) -> None:
    a, b = numbers((2, 3), dtype), numbers((2, 5), dtype, 1)
    joined = np.concatenate([a, b, a], 1)
    check("STABLEHLO_CONCATENATE", [a, b, a], [joined], {"dimension": 1})
    check("STABLEHLO_CONCATENATE", [a], [a], {"dimension": 0})
    options = {"start_indices": [1, 2], "limit_indices": [2, 10], "strides": [1, 3]}
    check("STABLEHLO_SLICE", [joined], [joined[1:2, 2:10:3].copy()], options)


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64", "int8", "float16"])
@pytest.mark.parametrize("axis", [0, 1])
def test_iota(dtype: str, axis: int, check: Check) -> None:
    wanted = np.indices((3, 5))[axis].astype(dtype)
    check("STABLEHLO_IOTA", [], [wanted], {"iota_dimension": axis})


PADS: list[tuple[list[int], list[int], list[int]]] = [
    ([1, 0], [2, 3], [0, 0]),
    ([-1, 2], [0, -2], [0, 0]),
    ([0, 0], [0, 0], [2, 1]),
    ([-2, 1], [3, -3], [2, 1]),
    ([-4, -1], [-1, -5], [3, 2]),
    ([-3, 0], [0, 0], [0, 0]),
    ([-5, 1], [0, 2], [0, 0]),
    ([-2, -9], [2, -4], [1, 2]),
]


@pytest.mark.parametrize("pads", PADS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "int32", "int64", "int8", "bool"])
def test_pad(dtype: str, pads: tuple[list[int], list[int], list[int]], check: Check) -> None:
    x, value = numbers((3, 5), dtype), np.array(True if dtype == "bool" else 7, dtype)
    wanted = padded(x, *pads, value)
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    options = dict(zip(names, pads, strict=True))
    on_device = dtype in ("float32", "int32")
    check("STABLEHLO_PAD", [x, Fixed(value)], [wanted], options, on_device=on_device)
    check("STABLEHLO_PAD", [x, value], [wanted], options)


def padded(
    x: np.ndarray, low: list[int], high: list[int], interior: list[int], value: np.ndarray
) -> np.ndarray:
    """By a loop over the elements: first those between, then the edges.

    Where an axis is cut off whole all of them are, as by LiteRT.
    """
    between = [max(d + (d - 1) * i, 0) for d, i in zip(x.shape, interior, strict=True)]
    full = np.full(between, value, x.dtype)
    full[tuple(slice(None, None, i + 1) for i in interior)] = x
    wanted = [d + a + b for d, a, b in zip(between, low, high, strict=True)]
    if min(wanted) <= 0:
        return np.zeros((0,) * x.ndim, x.dtype)
    y = np.full(wanted, value, x.dtype)
    for place, element in np.ndenumerate(full):
        at = tuple(p + a for p, a in zip(place, low, strict=True))
        if all(0 <= p < d for p, d in zip(at, wanted, strict=True)):
            y[at] = element
    return y


X = np.zeros((3, 5), np.float32)
ZERO = np.float32(0)
FAR = 1 << 40
WRONG: list[tuple[str, list[Any], tuple[int, ...], dict[str, Any] | None]] = [
    ("RESHAPE", [X], (4, 4), None),
    ("TRANSPOSE", [X], (3, 5), {"permutation": [0, 0]}),
    ("TRANSPOSE", [X], (3, 5), {"permutation": [0, 2]}),
    ("CONCATENATE", [X, X], (6, 5), {"dimension": -1}),
    ("CONCATENATE", [X, X[:, :2]], (6, 5), {"dimension": 0}),
    ("SLICE", [X], (2, 2), {"start_indices": [0, 0], "limit_indices": [2, 6], "strides": [1, 1]}),
    ("SLICE", [X], (2, 2), {"start_indices": [0, 0], "limit_indices": [2, 2], "strides": [1, 0]}),
    ("SLICE", [X], (2, 2), {"start_indices": [2, 0], "limit_indices": [1, 2], "strides": [1, 1]}),
    ("SLICE", [X], (2, 2), {}),
    ("BROADCAST_IN_DIM", [X], (2, 3, 5), {"broadcast_dimensions": [1, 1]}),
    ("BROADCAST_IN_DIM", [X], (2, 3, 5), {"broadcast_dimensions": [1, 3]}),
    ("BROADCAST_IN_DIM", [X], (2, 3, 4), {"broadcast_dimensions": [1, 2]}),
    ("BROADCAST_IN_DIM", [ZERO], (1 << 20, 1 << 20), {"broadcast_dimensions": []}),
    ("IOTA", [], (1 << 20, 1 << 20), {"iota_dimension": 0}),
    ("IOTA", [], (5,), {"iota_dimension": 1}),
    ("PAD", [X, ZERO], (3, 5), {}),
    ("PAD", [X, ZERO], (3, 5), {"edge_padding_low": [0, 0], "edge_padding_high": [-FAR, 0],
                                "interior_padding": [0, 0]}),
    ("PAD", [X, ZERO], (3, 5), {"edge_padding_low": [0, 0], "edge_padding_high": [0, 0],
                                "interior_padding": [-1, 0]}),
    ("PAD", [X, ZERO], (3, 5), {"edge_padding_low": [0, 0], "edge_padding_high": [0, 0],
                                "interior_padding": [FAR, 0]}),
    ("PAD", [X, ZERO], (3, 5), {"edge_padding_low": [-FAR, 0], "edge_padding_high": [FAR, 0],
                                "interior_padding": [FAR, FAR]}),
    ("PAD", [X, X], (3, 5), {"edge_padding_low": [0, 0], "edge_padding_high": [0, 0],
                             "interior_padding": [0, 0]}),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(WRONG)), ids=lambda n: f"{WRONG[n][0]}_{n}")
def test_refused_at_once(number: int, tmp_path: Path) -> None:
    code, inputs, shape, options = WRONG[number]
    net, feeds = single(f"STABLEHLO_{code}", inputs, [(shape, "float32")], options)
    file = net.file()
    tracemalloc.start()
    begin = time.perf_counter()
    try:
        with pytest.raises(VknnError, match=rf"STABLEHLO_{code}|impossible shape"):
            run(tmp_path / "m.tflite", "numpy", file, feeds)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
    assert time.perf_counter() - begin < 5
