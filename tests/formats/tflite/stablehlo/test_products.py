"""STABLEHLO_DOT_GENERAL and STABLEHLO_CONVOLUTION against their formulas, element by element."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats.tflite.stablehlo.nets import Fixed, numbers, run, single

from vknn.errors import VknnError

Check = Callable[..., None]
#: Shapes of both sides, batching axes of both, contracting axes of both.
DOTS: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...],
                 tuple[int, ...], tuple[int, ...]]] = [
    ((3, 5), (5, 7), (), (), (1,), (0,)),
    ((5, 3), (7, 5), (), (), (0,), (1,)),
    ((2, 3, 5), (2, 5, 7), (0,), (0,), (2,), (1,)),
    ((3, 2, 5), (5, 7, 2), (1,), (2,), (2,), (0,)),
    ((2, 3, 5), (5, 3, 2), (0, 1), (2, 1), (2,), (0,)),
    ((2, 3, 5), (3, 5), (), (), (1, 2), (0, 1)),
    ((5, 3), (3, 5), (), (), (0, 1), (1, 0)),
    ((3,), (5,), (), (), (), ()),
    ((), (2, 3), (), (), (), ()),
    ((3, 5), (3, 5), (0, 1), (0, 1), (), ()),
]  # fmt: skip
NAMES = ("lhs_batching_dimensions", "rhs_batching_dimensions", "lhs_contracting_dimensions",
         "rhs_contracting_dimensions")  # fmt: skip


@pytest.mark.parametrize("number", range(len(DOTS)))
@pytest.mark.parametrize("dtype", ["float32", "int32", "int64"])
def test_dot_general(dtype: str, number: int, check: Check) -> None:
    left, right, *axes = DOTS[number]
    a, b = numbers(left, dtype), numbers(right, dtype, 1)
    (ab, bb, ac, bc) = axes
    letters = [chr(ord("a") + i) for i in range(len(left))]
    others = [chr(ord("n") + i) for i in range(len(right))]
    for i, j in zip((*ab, *ac), (*bb, *bc), strict=True):
        others[j] = letters[i]
    gone = [letters[i] for i in (*ab, *ac)]
    result = [letters[i] for i in ab] + [x for x in (*letters, *others) if x not in gone]
    text = f"{''.join(letters)},{''.join(others)}->{''.join(result)}"
    wanted = np.asarray(np.einsum(text, a, b), dtype)
    options = dict(zip(NAMES, axes, strict=True))
    check("STABLEHLO_DOT_GENERAL", [a, b], [wanted], options, on_device=dtype == "float32")


def test_a_wider_result(check: Check) -> None:
    a, b = numbers((3, 5), "int8"), numbers((5, 7), "int8", 1)
    options = {NAMES[2]: [1], NAMES[3]: [0]}
    wide = (a.astype(np.int32) * 13) @ b.astype(np.int32)
    check("STABLEHLO_DOT_GENERAL", [(a * 13).astype(np.int8), b], [wide], options)
    half = a.astype(np.float16)
    wanted = half.astype(np.float32) @ b.astype(np.float32)
    check("STABLEHLO_DOT_GENERAL", [half, b.astype(np.float16)], [wanted], options)


def convolved(x: np.ndarray, w: np.ndarray, o: dict[str, Any]) -> np.ndarray:
    """By a loop over results and taps; x as [N, C, ...], w as [O, I, ...]."""
    axes = x.ndim - 2
    strides, base, dilations, turned = (
        o[n] for n in ("window_strides", "lhs_dilation", "rhs_dilation", "window_reversal")
    )
    pads, groups, batches = o["padding"], o["feature_group_count"], o["batch_group_count"]
    full = [(x.shape[2 + a] - 1) * base[a] + 1 + pads[2 * a] + pads[2 * a + 1] for a in range(axes)]
    extents = [(w.shape[2 + a] - 1) * dilations[a] + 1 for a in range(axes)]
    sizes = [(full[a] - extents[a]) // strides[a] + 1 for a in range(axes)]
    images, maps, depth = x.shape[0] // batches, w.shape[0], w.shape[1]
    y = np.zeros((images, maps, *sizes), x.dtype)
    for n, m, *place in np.ndindex(*y.shape):
        image = n + m // (maps // batches) * images
        first = m // (maps // groups) * depth
        for tap in itertools.product(*map(range, w.shape[2:])):
            at = [place[a] * strides[a] + tap[a] * dilations[a] - pads[2 * a] for a in range(axes)]
            if all(at[a] % base[a] == 0 and 0 <= at[a] // base[a] < x.shape[2 + a]
                   for a in range(axes)):  # fmt: skip
                source = tuple(at[a] // base[a] for a in range(axes))
                kernel = tuple(w.shape[2 + a] - 1 - tap[a] if turned[a] else tap[a]
                               for a in range(axes))  # fmt: skip
                rows = x[(image, slice(first, first + depth), *source)]
                y[(n, m, *place)] += (rows * w[(m, slice(None), *kernel)]).sum(dtype=x.dtype)
    return y


PLAIN: dict[str, Any] = {
    "window_strides": [1, 1], "lhs_dilation": [1, 1], "rhs_dilation": [1, 1],
    "window_reversal": [False, False], "padding": [0, 0, 0, 0], "feature_group_count": 1,
    "batch_group_count": 1,
}  # fmt: skip
CONVOLUTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "strides and pads": {"window_strides": [2, 1], "padding": [1, 2, 0, 1]},
    "dilations of both": {"lhs_dilation": [2, 3], "rhs_dilation": [2, 1], "padding": [2, 1, 1, 0]},
    "negative pads": {"padding": [-1, 2, 1, -2]},
    "dilated and cut": {"padding": [-2, 1, 3, -1], "lhs_dilation": [3, 2]},
    "reversed": {"window_reversal": [True, False], "padding": [1, 1, 1, 1]},
    "groups": {"feature_group_count": 2},
    "groups of batches": {"batch_group_count": 2, "padding": [0, 1, 1, 0]},
    "everything": {"window_strides": [2, 3], "lhs_dilation": [2, 2], "rhs_dilation": [1, 2],
                   "window_reversal": [True, True], "padding": [3, -1, 2, 2],
                   "feature_group_count": 2},
}  # fmt: skip
#: Orders of axes of input, kernel and output: batch or output feature, feature or input feature,
#: spatial ones.
ORDERS = [((0, 1, 2, 3), (0, 1, 2, 3), (0, 1, 2, 3)), ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2)),
          ((2, 0, 3, 1), (1, 3, 2, 0), (3, 1, 0, 2))]  # fmt: skip


def ordered(array: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """An array whose axis i goes to the place ``axes[i]``."""
    return np.ascontiguousarray(array.transpose(np.argsort(axes)))


def dimension_numbers(axes: int, orders: Any) -> dict[str, Any]:
    x, w, y = orders
    return {
        "input_batch_dimension": x[0], "input_feature_dimension": x[1],
        "input_spatial_dimensions": x[2:], "kernel_output_feature_dimension": w[0],
        "kernel_input_feature_dimension": w[1], "kernel_spatial_dimensions": w[2:],
        "output_batch_dimension": y[0], "output_feature_dimension": y[1],
        "output_spatial_dimensions": y[2:],
    }  # fmt: skip


@pytest.mark.parametrize("order", range(3))
@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_convolution(dtype: str, name: str, order: int, check: Check) -> None:
    o = PLAIN | CONVOLUTIONS[name]
    x, w = numbers((2, 4, 5, 7), dtype), numbers((6, 4 // o["feature_group_count"], 2, 3), dtype, 1)
    wanted = ordered(convolved(x, w, o), ORDERS[order][2])
    options = o | dimension_numbers(2, ORDERS[order])
    given = [ordered(x, ORDERS[order][0]), ordered(w, ORDERS[order][1])]
    on_device = dtype == "float32"
    check("STABLEHLO_CONVOLUTION", given, [wanted], options, on_device=on_device)
    check("STABLEHLO_CONVOLUTION", [given[0], Fixed(given[1])], [wanted], options)


@pytest.mark.parametrize("axes", [0, 1, 3])
def test_other_numbers_of_axes(axes: int, check: Check) -> None:
    shape = (5, 7, 3)[:axes]
    o = {key: value[: len(value) // 2 * axes] if isinstance(value, list) else value
         for key, value in PLAIN.items()}  # fmt: skip
    for name, each in (("window_strides", 2), ("lhs_dilation", 1), ("rhs_dilation", 1)):
        o[name] = [each] * axes
    o["window_reversal"], o["padding"] = [False] * axes, [1] * (2 * axes)
    x, w = numbers((2, 3, *shape), "float32"), numbers((5, 3, *(2,) * axes), "float32", 1)
    plain = tuple(range(axes + 2))
    wanted = convolved(x, w, o)
    options = o | dimension_numbers(axes, (plain, plain, plain))
    check("STABLEHLO_CONVOLUTION", [x, w], [wanted], options, on_device=True)
    kinds = [x.astype(np.int32), w.astype(np.int32)]
    check("STABLEHLO_CONVOLUTION", kinds, [convolved(kinds[0], kinds[1], o)], options)


X, W = np.ones((2, 4, 5, 7), np.float32), np.ones((6, 4, 2, 3), np.float32)
WRONG: list[dict[str, Any]] = [
    {"input_batch_dimension": 1}, {"kernel_spatial_dimensions": [2, 4]},
    {"output_feature_dimension": 2}, {"input_spatial_dimensions": [2]},
    {"window_strides": [0, 1]}, {"window_strides": [1]}, {"padding": [1, 1]},
    {"lhs_dilation": [1 << 40, 1]}, {"rhs_dilation": [1 << 40, 1]}, {"padding": [1 << 40, 0, 0, 0]},
    {"feature_group_count": 0}, {"feature_group_count": 4},
    {"batch_group_count": 5}, {"batch_group_count": 2, "feature_group_count": 2},
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_convolutions_that_cannot_be(wrong: dict[str, Any], dtype: str, tmp_path: Path) -> None:
    options = PLAIN | dimension_numbers(2, ORDERS[0]) | wrong
    inputs = [X.astype(dtype), W.astype(dtype)]
    net, feeds = single("STABLEHLO_CONVOLUTION", inputs, [((2, 6, 4, 5), dtype)], options)
    with pytest.raises(VknnError, match="STABLEHLO_CONVOLUTION"):
        run(tmp_path / "m.tflite", "numpy", net.file(), feeds)


def test_a_kernel_that_fits_nowhere(check: Check) -> None:
    options = PLAIN | dimension_numbers(2, ORDERS[1]) | {"rhs_dilation": [1, 9]}
    for dtype in ("float32", "int32"):
        x, w = ordered(X, ORDERS[1][0]).astype(dtype), ordered(W, ORDERS[1][1]).astype(dtype)
        check("STABLEHLO_CONVOLUTION", [x, w], [np.zeros((2, 4, 0, 6), dtype)], options)


def test_four_axes_of_floats_are_refused(tmp_path: Path) -> None:
    x, plain = np.ones((1, 1, 2, 2, 2, 2), np.float32), tuple(range(6))
    options = dimension_numbers(4, (plain, plain, plain))
    options |= {"feature_group_count": 1, "batch_group_count": 1}
    net, feeds = single("STABLEHLO_CONVOLUTION", [x, x], [((1, 1, 1, 1, 1, 1), "float32")], options)
    with pytest.raises(VknnError, match="a convolution over 4 axes"):
        run(tmp_path / "m.tflite", "numpy", net.file(), feeds)


@pytest.mark.parametrize("wrong", [{NAMES[0]: [0]}, {NAMES[2]: [2]}, {NAMES[2]: [0], NAMES[3]: [0]},
                                   {NAMES[0]: [1], NAMES[1]: [0]}, {NAMES[3]: [0, 0]}],
                         ids=str)  # fmt: skip
def test_dots_that_cannot_be(wrong: dict[str, Any], tmp_path: Path) -> None:
    a, b = np.ones((3, 5), np.float32), np.ones((5, 7), np.float32)
    options = {NAMES[2]: [1], NAMES[3]: [0]} | wrong
    net, feeds = single("STABLEHLO_DOT_GENERAL", [a, b], [((3, 7), "float32")], options)
    with pytest.raises(VknnError, match="STABLEHLO_DOT_GENERAL.*axes"):
        run(tmp_path / "m.tflite", "numpy", net.file(), feeds)
