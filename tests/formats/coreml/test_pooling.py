"""Pooling, against windows taken one by one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tests.coreml_writer import layer, near, run, run_everywhere

from vknn.errors import VknnError

RNG = np.random.default_rng(12)
KINDS = ("MAX", "AVERAGE", "L2")


def normal(*shape: int) -> np.ndarray:
    """Numbers most of which are below 0, so that padding shows."""
    return (RNG.standard_normal(shape) - 1).astype(np.float32)


def window(part: np.ndarray, axes: Any, kind: str, area: float) -> np.ndarray:
    """A window (what of it lies in the data) pooled."""
    if kind == "MAX":
        return part.max(axis=axes, initial=-np.inf)
    if kind == "AVERAGE":
        return part.sum(axis=axes) / (area or np.nan)
    return np.sqrt((part * part).sum(axis=axes))


def pooled(
    x: np.ndarray,
    kind: str,
    kernel: Sequence[int],
    strides: Sequence[int],
    begins: Sequence[int],
    counts: Sequence[int],
    only_real: bool,
) -> np.ndarray:
    """``counts`` windows an axis, the first of which begin ``begins`` before the data."""
    axes = tuple(range(x.ndim - len(kernel), x.ndim))
    wide = x.astype(np.float64)
    y = np.empty((*x.shape[: axes[0]], *counts))
    for place in itertools.product(*map(range, counts)):
        parts, real = [], 1
        for axis, i, k, s, b in zip(axes, place, kernel, strides, begins, strict=True):
            low, high = max(0, i * s - b), min(x.shape[axis], i * s - b + k)
            parts.append(slice(low, max(low, high)))
            real *= max(0, high - low)
        part = wide[(..., *parts)]
        y[(..., *place)] = window(part, axes, kind, real if only_real else math.prod(kernel))
    return y


def edges(top: int, bottom: int, left: int, right: int) -> Any:
    return {
        "paddingAmounts": {
            "borderAmounts": [
                {"startEdgeSize": top, "endEdgeSize": bottom},
                {"startEdgeSize": left, "endEdgeSize": right},
            ]
        }
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("only_real", [False, True])
def test_explicit_padding(kind: str, only_real: bool) -> None:
    x = normal(2, 3, 7, 8)
    for strides, around in itertools.product([(1, 1), (2, 3)], [(0, 0, 0, 0), (1, 0, 1, 2)]):
        top, bottom, left, right = around
        counts = (
            (7 + top + bottom - 3) // strides[0] + 1,
            (8 + left + right - 4) // strides[1] + 1,
        )
        net = layer(
            "pooling",
            type=kind,
            kernelSize=[3, 4],
            stride=strides,
            valid=edges(*around),
            avgPoolExcludePadding=only_real,
        )
        y = run(net, {"x": x})["y"]
        near(y, pooled(x, kind, (3, 4), strides, (top, left), counts, only_real))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["BOTTOM_RIGHT_HEAVY", "TOP_LEFT_HEAVY"])
def test_same(kind: str, mode: str) -> None:
    x = normal(1, 2, 7, 8)
    for strides, only_real in itertools.product([(1, 1), (2, 3)], [False, True]):
        counts = (-(-7 // strides[0]), -(-8 // strides[1]))
        begins = []
        for n, size, k, s in zip(counts, (7, 8), (4, 3), strides, strict=True):
            total = max(0, (n - 1) * s + k - size)
            begins.append(total // 2 if mode == "BOTTOM_RIGHT_HEAVY" else total - total // 2)
        net = layer(
            "pooling",
            type=kind,
            kernelSize=[4, 3],
            stride=strides,
            same={"asymmetryMode": mode},
            avgPoolExcludePadding=only_real,
        )
        y = run(net, {"x": x})["y"]
        near(y, pooled(x, kind, (4, 3), strides, begins, counts, only_real))


def complete(size: int, k: int, s: int, pad: int, any_pad: bool) -> int:
    """Windows of includeLastPixel, by the specification's formula."""
    count = math.ceil((size + 2 * pad - k) / s) + 1
    return count - 1 if any_pad and (count - 1) * s >= size + pad else count


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pads", [(0, 0), (1, 1), (0, 1), (2, 1)])
def test_the_last_pixel_is_included(kind: str, pads: tuple[int, int]) -> None:
    for size, k, s in itertools.product([(5, 6), (7, 8)], [(2, 3), (3, 3)], [(2, 2), (3, 4)]):
        if s[0] > k[0] and not any(pads):
            continue  # windows may then lie behind the data
        x = normal(1, 2, *size)
        counts = [complete(*v, any_pad=any(pads)) for v in zip(size, k, s, pads, strict=True)]
        for only_real in (False, True):
            net = layer(
                "pooling",
                type=kind,
                kernelSize=k,
                stride=s,
                includeLastPixel={"paddingAmounts": pads},
                avgPoolExcludePadding=only_real,
            )
            y = run(net, {"x": x})["y"]
            expected = pooled(x, kind, k, s, pads, counts, only_real)
            real = np.isfinite(expected)
            assert y.shape == expected.shape
            near(y[real], expected[real])


def test_defaults() -> None:
    x = normal(1, 2, 6, 5)
    y = run(layer("pooling"), {"x": x})["y"]
    near(y, pooled(x, "MAX", (3, 3), (1, 1), (0, 0), (4, 3), False))
    net = layer("pooling", type="AVERAGE", includeLastPixel={}, stride=[2, 2], kernelSize=[2, 2])
    y = run(net, {"x": x})["y"]
    near(y, pooled(x, "AVERAGE", (2, 2), (2, 2), (0, 0), (3, 3), False))


@pytest.mark.device
@pytest.mark.parametrize("kind", KINDS)
def test_on_the_device_and_in_ranks(kind: str) -> None:
    x = normal(2, 3, 2, 6, 7)
    params = {"type": kind, "kernelSize": [3, 2], "stride": [2, 2]}
    for name, padding in (
        ("valid", edges(1, 0, 0, 1)),
        ("same", {}),
        ("includeLastPixel", {"paddingAmounts": [1, 0]}),
    ):
        run_everywhere(layer("pooling", **params, **{name: padding}), {"x": x})
    y = run_everywhere(layer("pooling", **params), {"x": x}, rank5=True)["y"]
    near(y, pooled(x, kind, (3, 2), (2, 2), (0, 0), (2, 3), False))
    y = run(layer("pooling", **params), {"x": x[0, 0]}, rank5=True)["y"]
    near(y, pooled(x[:1, :1], kind, (3, 2), (2, 2), (0, 0), (2, 3), False))


@pytest.mark.device
@pytest.mark.parametrize("kind", KINDS)
def test_global(kind: str) -> None:
    for shape in ((2, 3, 5, 4), (2, 2, 3, 5, 4)):
        x = normal(*shape)
        net = layer("pooling", type=kind, globalPooling=True, kernelSize=[2, 2], stride=[2, 2])
        y = run_everywhere(net, {"x": x})["y"]
        assert y.shape == (*shape[:-2], 1, 1)
        near(y[..., 0, 0], window(x.astype(np.float64), (-2, -1), kind, 20.0))


AXES = ("Depth", "Height", "Width")
CUSTOM = {"Front": 1, "Back": 0, "Top": 1, "Bottom": 2, "Left": 0, "Right": 1}


@pytest.mark.parametrize("kind", KINDS[:2])
@pytest.mark.parametrize("padding", ["CUSTOM", "VALID", "SAME"])
@pytest.mark.parametrize("only_real", [False, True])
def test_three_axes(kind: str, padding: str, only_real: bool) -> None:
    sizes, kernel, strides = (4, 5, 6), (2, 3, 2), (2, 1, 3)
    x = normal(2, 3, *sizes)
    if padding == "SAME":
        counts = [-(-n // s) for n, s in zip(sizes, strides, strict=True)]
        begins = [
            max(0, (m - 1) * s + k - n) // 2
            for m, s, k, n in zip(counts, strides, kernel, sizes, strict=True)
        ]
    else:
        begins, ends = ([1, 1, 0], [0, 2, 1]) if padding == "CUSTOM" else ([0] * 3, [0] * 3)
        counts = [
            (n + b + e - k) // s + 1
            for n, b, e, k, s in zip(sizes, begins, ends, kernel, strides, strict=True)
        ]
    params: dict[str, Any] = {f"kernel{a}": k for a, k in zip(AXES, kernel, strict=True)}
    params |= {f"stride{a}": s for a, s in zip(AXES, strides, strict=True)}
    params |= {f"customPadding{side}": n for side, n in CUSTOM.items()}
    net = layer(
        "pooling3d", type=kind, paddingType=padding, countExcludePadding=only_real, **params
    )
    expected = pooled(x, kind, kernel, strides, begins, counts, only_real)
    near(run(net, {"x": x})["y"], expected)


@pytest.mark.device
@pytest.mark.parametrize("kind", KINDS[:2])
def test_three_axes_on_the_device(kind: str) -> None:
    x = normal(1, 3, 5, 4, 6)
    params = {f"{what}{axis}": 2 for what in ("kernel", "stride") for axis in AXES}
    run_everywhere(layer("pooling3d", type=kind, paddingType="SAME", **params), {"x": x})
    y = run_everywhere(layer("globalPooling3d", type=kind), {"x": x})["y"]
    assert y.shape == (1, 3, 1, 1, 1)
    near(y[..., 0, 0, 0], window(x.astype(np.float64), (2, 3, 4), kind, 120.0))


WRONG = {
    "rank": (layer("pooling"), (3, 5, 5)),
    "kernel": (layer("pooling", kernelSize=[2]), (1, 3, 5, 5)),
    "larger than the data": (layer("pooling"), (1, 3, 2, 5)),
    "no stride": (layer("pooling3d", kernelDepth=1, kernelHeight=1, kernelWidth=1), (1,) * 5),
    "rank of three axes": (layer("globalPooling3d"), (1, 2, 3, 4)),
    "nothing": (layer("pooling", globalPooling=True), (1, 2, 0, 4)),
}


@pytest.mark.parametrize("what", list(WRONG))
def test_contradictions(what: str) -> None:
    net, shape = WRONG[what]
    with pytest.raises(VknnError):
        run(net, {"x": np.zeros(shape, np.float32)})
