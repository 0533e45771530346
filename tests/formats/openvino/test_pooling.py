"""Pooling against windows taken one by one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats.openvino.many import BACKENDS, Many, refuse
from tests.openvino_writer import Net

from vknn.errors import ModelFormatError
from vknn.session import Session

SIZES = {1: (9,), 2: (7, 6), 3: (5, 7, 6)}


def made(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


def count(size: int, kernel: int, stride: int, begin: int, end: int, ceil: bool, some: bool) -> int:
    """The number of windows; ``some``: the last one must begin before the padding at the end."""
    room = size + begin + end - kernel
    windows = (-(-room // stride) if ceil else room // stride) + 1
    while ceil and some and (windows - 1) * stride >= size + begin:
        windows -= 1
    return windows


def pooled(
    x: np.ndarray, kernel: Sequence[int], strides: Sequence[int], pads: Any, counts: Sequence[int],
    method: str, exclude: bool,
) -> np.ndarray:  # fmt: skip
    """Windows cut off at the image's edges; means over what lies in the image, or its padding."""
    begins, ends = pads
    y = np.zeros((*x.shape[:2], *counts))
    for place in np.ndindex(*counts):
        cut, number = [], 1
        for i, k, s, b, e, size in zip(
            place, kernel, strides, begins, ends, x.shape[2:], strict=True
        ):
            first, last = i * s - b, i * s - b + k
            cut.append(slice(max(first, 0), min(last, size)))
            number *= min(last, size + e) - first
        part = x[(slice(None), slice(None), *cut)].reshape(*x.shape[:2], -1).astype(np.float64)
        if method == "max":
            value = part.max(2)
        else:
            value = part.sum(2) / (part.shape[2] if exclude else number)
        y[(slice(None), slice(None), *place)] = value
    return y.astype(np.float32)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("method", ["max", "avg"])
def test_windows(method: str, axes: int, backend: str, tmp_path: Path) -> None:
    many = Many(1e-5)
    x = made(2, 5, *SIZES[axes]) - (3 if method == "max" else 0)
    for case, (exclude, rounding) in itertools.product(
        range(5), itertools.product((True, False), ("floor", "ceil"))
    ):
        rng = np.random.default_rng((axes, case))
        kernel = tuple(map(int, rng.integers(2, 5, axes)))
        strides = tuple(map(int, rng.integers(1, 4, axes)))
        begins = tuple(int(rng.integers(0, min(k, 3))) for k in kernel)
        ends = tuple(int(rng.integers(0, min(k, 3))) for k in kernel)
        if case == 0:
            begins = ends = (0,) * axes
        some = any((*begins, *ends))
        counts = [
            count(n, k, s, b, e, rounding == "ceil", some)
            for n, k, s, b, e in zip(SIZES[axes], kernel, strides, begins, ends, strict=True)
        ]
        # Without any padding a window may begin behind the image, where there is nothing.
        if any((c - 1) * s >= n for c, s, n in zip(counts, strides, SIZES[axes], strict=True)):
            continue
        # All padding counts, whatever is excluded, when the windows are cut off at its end.
        y = pooled(x, kernel, strides, (begins, ends), counts, method, exclude or not some)
        attributes = {
            "kernel": kernel, "strides": strides, "pads_begin": begins, "pads_end": ends,
            "pool-method": method, "exclude-pad": exclude, "rounding_type": rounding,
        }  # fmt: skip
        many.add("Pooling", [x], y, attributes)
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_automatic_padding(backend: str, tmp_path: Path) -> None:
    many = Many(1e-5)
    for axes, mode, method, (kernel, stride), exclude in itertools.product(
        (2, 3), ("same_upper", "same_lower", "valid"), ("max", "avg"),
        ((2, 1), (3, 2), (2, 3), (4, 2)), (True, False),
    ):  # fmt: skip
        if axes == 3 and (kernel, stride) != (3, 2):
            continue
        sizes = SIZES[axes]
        x = made(1, 3, *sizes)
        totals = [max((-(-n // stride) - 1) * stride + kernel - n, 0) for n in sizes]
        if mode == "valid":
            totals = [0] * axes
        pads = [[t // 2 for t in totals], [t - t // 2 for t in totals]]
        if mode == "same_lower":
            pads.reverse()
        counts = [(n + t - kernel) // stride + 1 for n, t in zip(sizes, totals, strict=True)]
        y = pooled(x, (kernel,) * axes, (stride,) * axes, pads, counts, method, exclude)
        attributes = {
            "kernel": (kernel,) * axes, "strides": (stride,) * axes, "pool-method": method,
            "auto_pad": mode, "exclude-pad": str(exclude), "pads_begin": (5,) * axes,
            "pads_end": (0,) * axes, "rounding_type": "ceil",
        }  # fmt: skip
        many.add("Pooling", [x], y, attributes)
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_spellings_and_ports(backend: str, tmp_path: Path) -> None:
    many = Many(1e-5)
    x = made(2, 3, 7, 6)
    old = {"kernel-x": 2, "kernel-y": 3, "stride-x": 2, "stride-y": 2, "pool-method": "avg"}
    y = pooled(x, (3, 2), (2, 2), ((0, 0), (0, 0)), (3, 3), "avg", True)
    many.add("Pooling", [x], y, old)
    pads = {"pad-y": 1, "pad-x": 0, "rounding-type": "ceil", "exclude-pad": "false"}
    y = pooled(x, (3, 2), (2, 2), ((1, 0), (1, 0)), (4, 3), "avg", False)
    many.add("Pooling", [x], y, {**old, **pads})
    y = pooled(x, (3, 2), (2, 2), ((1, 0), (0, 2)), (4, 4), "avg", False)
    many.add("Pooling", [x], y, {**old, **pads, "pad-b": 0, "pad-r": 2})
    # No pool-method, no strides, no pads_end; then sizes as only the port rounds them.
    y = pooled(x, (2, 3), (1, 1), ((1, 0), (1, 0)), (8, 4), "max", True)
    many.add("Pooling", [x], y, {"kernel": (2, 3), "pads_begin": (1, 0)})
    for method, exclude, counts in itertools.product(
        ("max", "avg"), (True, False), ((4, 3), (3, 3), (3, 2), (2, 2))
    ):
        y = pooled(x, (2, 3), (2, 2), ((0, 0), (0, 0)), counts, method, True)
        attributes = {"kernel": (2, 3), "strides": (2, 2), "pool-method": method}
        many.add("Pooling", [x], y, {**attributes, "exclude-pad": exclude})
    mean = x.mean((2, 3), keepdims=True)
    many.add("Pooling", [x], mean, {"kernel": (7, 6), "pool-method": "avg"})
    many.add("Pooling", [x], mean, {"global_pool": "true", "pool-method": "avg"})
    y = x.max((2, 3), keepdims=True)
    many.add("Pooling", [x], y, {"kernel": (7, 6), "pool-method": "max", "global_pool": 1})
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_windows_behind_the_image(backend: str, tmp_path: Path) -> None:
    """Strides above the kernel may make one more window than there is image for."""
    many = Many(1e-5)
    for method, pad in (("max", 0), ("avg", 0), ("max", 1), ("avg", 1)):
        x = made(2, 3, 4, 4, seed=pad)
        there = pooled(x, (1, 2), (2, 2), ((0, pad), (0, pad)), (2, 2 + pad), method, True)
        y = np.concatenate([there, np.zeros_like(there[:, :, :1])], axis=2)
        attributes = {
            "kernel": (1, 2), "strides": (2, 2), "pads_begin": (0, pad), "pads_end": (0, pad),
            "rounding_type": "ceil", "pool-method": method, "exclude-pad": "true",
        }  # fmt: skip
        many.add("Pooling", [x], y, attributes)
        if pad:
            many.add("Pooling", [x], there, attributes)
    many.check(backend, tmp_path)


def test_other_inputs_than_the_file_s(tmp_path: Path) -> None:
    """The attribute rounds then, and a global window grows with the image."""
    net = Net()
    x = net.input("x", (1, 2, 6, 6))
    attributes = {"kernel": (2, 2), "strides": (2, 2), "rounding_type": "ceil"}
    net.layer("Pooling", [x], [(1, 2, 3, 3)], attributes, name="a")
    whole = {"kernel": (6, 6), "global_pool": "1", "pool-method": "avg"}
    net.layer("Pooling", [x], [(1, 2, 1, 1)], whole, name="b")
    feed = made(3, 2, 5, 8)
    with Session(net.save(tmp_path), device="numpy") as session:
        found = session.run({"x": feed})
    expected = pooled(feed, (2, 2), (2, 2), ((0, 0), (0, 0)), (3, 4), "max", True)
    assert np.array_equal(found["a"], expected)
    assert np.allclose(found["b"], feed.mean((2, 3), keepdims=True), atol=1e-6)


def test_contradictions(tmp_path: Path) -> None:
    x = made(1, 2, 6, 6)
    good: dict[str, Any] = {"kernel": (3, 3), "pool-method": "max"}
    for wrong, shape, match in (
        ({"kernel": (3,)}, (4, 4), "kernel"), ({"kernel": (0, 3)}, (4, 4), "kernel"),
        ({"pool-method": "sum"}, (4, 4), "pool-method"), ({"strides": (0, 1)}, (4, 4), "strides"),
        ({"rounding_type": "up"}, (4, 4), "rounding"), ({"kernel": (9, 9)}, (40, 4), "larger"),
        ({}, (7, 4), "7, 4"), ({"pads_begin": (-1, 0)}, (4, 4), "pads"),
        ({"exclude-pad": "perhaps"}, (4, 4), "exclude-pad"),
    ):  # fmt: skip
        attributes = {**good, **wrong}
        if "exclude-pad" in wrong:
            attributes["pool-method"] = "avg"
        refuse(tmp_path, "Pooling", [x], [(1, 2, *shape)], attributes, match)
    refuse(tmp_path, "Pooling", [x], [(1, 2, 4, 4)], {}, "has no kernel", ModelFormatError)
    refuse(tmp_path, "Pooling", [x[0, 0]], [(4, 4)], good, "rank")
