"""Interp and Resample pixel by pixel; DepthToSpace and SpaceToDepth."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats.openvino.many import BACKENDS, Fixed, Many, fixed, refuse
from tests.openvino_writer import Net

from vknn.errors import ShapeError, UnsupportedLayerError
from vknn.session import Session

NEAREST, LINEAR = "caffe.ResampleParameter.NEAREST", "caffe.ResampleParameter.LINEAR"


def made(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


def weighted(x: np.ndarray, axis: int, rows: Sequence[dict[int, float]]) -> np.ndarray:
    """For each output along an axis the sum of these elements times their weights."""
    parts = [sum(w * x.take(i, axis) for i, w in row.items()) for row in rows]
    return np.stack([p if np.ndim(p) else np.zeros_like(x.take(0, axis)) for p in parts], axis)


def bilinear(x: np.ndarray, sizes: Sequence[int], corners: bool) -> np.ndarray:
    y = x.astype(np.float64)
    for axis, out in enumerate(sizes, start=2):
        size = x.shape[axis]
        step = ((size - 1) / (out - 1) if out > 1 else 0) if corners else size / out
        rows: list[dict[int, float]] = []
        for o in range(out):
            low = min(int(o * step + 1e-9), size - 1)
            share = o * step - low
            row = {low: 1 - share}
            high = min(low + 1, size - 1)
            row[high] = row.get(high, 0) + share
            rows.append(row)
        y = weighted(y, axis, rows)
    return y.astype(np.float32)


def triangles(x: np.ndarray, sizes: Sequence[int], antialias: bool) -> np.ndarray:
    """A triangle filter about (o + 0.5) * in / out - 0.5, weights over their sum."""
    y = x.astype(np.float64)
    wide = antialias and any(o < i for i, o in zip(x.shape[2:], sizes, strict=True))
    for axis, out in enumerate(sizes, start=2):
        size = x.shape[axis]
        radius = size / out if wide else 1.0
        rows = []
        for o in range(out):
            centre = (o + 0.5) * size / out - 0.5
            row = {i: max(0.0, 1 - abs(i - centre) / radius) for i in range(size)}
            total = sum(row.values())
            rows.append({i: w / total for i, w in row.items() if w > 0})
        y = weighted(y, axis, rows)
    return y.astype(np.float32)


def nearest(x: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    for axis, out in enumerate(sizes, start=2):
        x = x.take([o * x.shape[axis] // out for o in range(out)], axis)
    return x


@pytest.mark.parametrize("backend", BACKENDS)
def test_interp(backend: str, tmp_path: Path) -> None:
    many = Many(1e-5)
    for (size, out), corners in itertools.product(
        (((4, 5), (8, 10)), ((4, 5), (7, 9)), ((6, 7), (3, 4)), ((5, 5), (5, 5)), ((4, 4), (1, 1)),
         ((1, 1), (3, 4)), ((3, 5), (13, 2)), ((1, 6), (1, 3))),
        (None, 1, 0),
    ):  # fmt: skip
        x = made(2, 3, *size)
        y = bilinear(x, out, corners != 0)
        attributes: dict[str, Any] = {"pad_beg": 0, "pad_end": 0}
        if corners is not None:
            attributes["align_corners"] = corners
        stated = {**attributes, "height": out[0], "width": out[1]}
        many.add("Interp", [x], y, attributes if size[0] % 2 else stated)
        many.add("Interp", [x, fixed(*out)], y, attributes)
        if corners:
            many.add("Interp", [x, fixed(2, 3, *out, dtype=np.int64)], y, stated)
    x = made(1, 2, 4, 5)
    zeros = np.pad(x, ((0, 0), (0, 0), (1, 2), (1, 2)))
    pads = {"pad_beg": 1, "pad_end": 2}
    many.add("Interp", [x], bilinear(zeros, (9, 9), True), pads)
    cut = bilinear(x[:, :, 1:-1, 1:-1], (6, 7), False)
    many.add("Interp", [x], cut, {"pad_beg": -1, "pad_end": -1, "align_corners": 0})
    x = made(1, 2, 3, 4, 5)
    many.add("Interp", [x], bilinear(x, (5, 2, 7), True), {"align_corners": 1})
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_resample(backend: str, tmp_path: Path) -> None:
    many = Many(1e-5)
    cases = (
        ((4, 5), (8, 10), 2), ((4, 6), (2, 3), 0.5), ((5, 7), (15, 21), 3), ((7, 5), (3, 2), 0.45),
        ((4, 6), (4, 6), 1), ((6, 4), (3, 8), 1), ((9, 9), (2, 4), 1), ((3, 3, 4), (6, 6, 8), 2),
        ((5, 6, 4), (2, 3, 2), 0.5), ((5,), (9,), 1), ((1, 2), (5, 7), 1),
    )  # fmt: skip
    for number, ((size, out, factor), antialias) in enumerate(itertools.product(cases, (0, 1))):
        x = made(2, 3, *size)
        plain = {"type": NEAREST, "antialias": antialias, "factor": factor}
        many.add("Resample", [x], nearest(x, out), plain)
        linear = {**plain, "type": LINEAR if number % 3 else "linear"}
        y = triangles(x, out, bool(antialias))
        many.add("Resample", [x], y, linear)
        whole = Fixed(np.array((2, 3, *out), np.int64 if number % 2 else np.int32))
        many.add("Resample", [x, whole], y, linear)
        many.add("Resample", [x, fixed(*out)], nearest(x, out), plain)
    whole = np.arange(12, dtype=np.int32).reshape(1, 1, 3, 4)
    many.add("Resample", [whole], nearest(whole, (7, 5)), {"type": NEAREST, "factor": 2})
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_nearest_places_are_exact(backend: str, tmp_path: Path) -> None:
    many = Many()
    for size, out in itertools.product((1, 3, 7, 11, 41, 49, 107), (6, 14, 33, 82, 123, 147, 321)):
        x = np.arange(size, dtype=np.float32).reshape(1, 1, 1, size)
        many.add("Resample", [x], nearest(x, (1, out)), {"type": NEAREST, "factor": 1})
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_cubic(backend: str, tmp_path: Path) -> None:
    """Four neighbours by Keys' kernel of parameter -0.5, weights over their sum."""

    def kernel(d: float) -> float:
        d = abs(d)
        if d <= 1:
            return (1.5 * d - 2.5) * d * d + 1
        return ((-0.5 * d + 2.5) * d - 4) * d + 2 if d < 2 else 0.0

    many = Many(1e-5)
    for size, out in ((5, 11), (6, 4), (4, 4)):
        x, rows = made(1, 2, size, size), []
        for o in range(out):
            centre = (o + 0.5) * size / out - 0.5
            row = {i: kernel(i - centre) for i in range(size)}
            rows.append({i: w / sum(row.values()) for i, w in row.items() if w})
        y = weighted(weighted(x.astype(np.float64), 2, rows), 3, rows).astype(np.float32)
        many.add("Resample", [x], y, {"type": "caffe.ResampleParameter.CUBIC", "factor": 1})
    many.check(backend, tmp_path)


def test_other_inputs_than_the_file_s(tmp_path: Path) -> None:
    """Factors decide for images of other sizes."""
    net = Net()
    x = net.input("x", (1, 2, 4, 4))
    shape = [(1, 2, 8, 8)]
    net.layer("Resample", [x], shape, {"type": NEAREST, "factor": "2.0"}, name="a")
    net.layer("Interp", [x], shape, {"factor": 2, "align_corners": 0}, name="b")
    net.layer("Interp", [x], [(1, 2, 7, 7)], {"zoom_factor": 2}, name="c")
    net.layer("Interp", [x], [(1, 2, 2, 2)], {"shrink_factor": 2}, name="d")
    net.layer("Interp", [x], shape, {"height": 8, "width": 8}, name="e")
    feed = made(1, 2, 5, 3)
    with Session(net.save(tmp_path), device="numpy") as session:
        found = session.run({"x": feed})
    assert np.array_equal(found["a"], nearest(feed, (10, 6)))
    for name, sizes, corners in (
        ("b", (10, 6), False), ("c", (9, 5), True), ("d", (3, 2), True), ("e", (8, 8), True),
    ):  # fmt: skip
        assert np.allclose(found[name], bilinear(feed, sizes, corners), atol=1e-5), name
    net = Net()
    net.layer("Interp", [net.input("x", (1, 2, 4, 4))], shape, {}, name="y")
    path = net.save(tmp_path, "unknown")
    with Session(path, device="numpy") as session, pytest.raises(UnsupportedLayerError, match="y"):
        session.run({"x": feed})


@pytest.mark.parametrize("backend", BACKENDS)
def test_blocks(backend: str, tmp_path: Path) -> None:
    many = Many()
    for axes, b, dtype in itertools.product((1, 2, 3), (1, 2, 3), (np.float32, np.int32)):
        space, count = (2, 3, 2)[:axes], math.prod((b,) * axes)
        x = (made(2, 2 * count, *space) * 9).astype(dtype)
        y = np.zeros((2, 2, *(s * b for s in space)), dtype)
        for number, place in enumerate(itertools.product(range(b), repeat=axes)):
            cut = (slice(None), slice(None), *(slice(p, None, b) for p in place))
            y[cut] = x[:, 2 * number : 2 * number + 2]
        attributes = {} if b == 1 else {"block_size": b}
        many.add("DepthToSpace", [x], y, attributes)
        many.add("SpaceToDepth", [y], x, attributes)
        if dtype is np.int32:
            continue
        first = {**attributes, "mode": "depth_first"}
        x = x.reshape(2, count, 2, -1).swapaxes(1, 2).reshape(x.shape)
        many.add("DepthToSpace", [x], y, first)
        many.add("SpaceToDepth", [y], x, first)
    many.check(backend, tmp_path)


def test_contradictions(tmp_path: Path) -> None:
    x = made(1, 2, 4, 4)
    shape = [(1, 2, 8, 8)]
    good = {"type": NEAREST, "factor": 2}
    odd = {"type": "caffe.ResampleParameter.AREA", "factor": 2}
    refuse(tmp_path, "Resample", [x], shape, odd, "AREA", UnsupportedLayerError)
    refuse(tmp_path, "Resample", [x, fixed(8)], shape, good, "sizes")
    refuse(tmp_path, "Resample", [x, fixed(1, 3, 8, 8)], shape, good, "axes 0 and 1")
    refuse(tmp_path, "Resample", [x, fixed(0, 8)], shape, good, "no sizes")
    refuse(tmp_path, "Resample", [x, fixed(8, 9)], shape, good, "shape")
    refuse(tmp_path, "Resample", [x[0, 0]], [(8, 8)], good, "rank")
    refuse(tmp_path, "Interp", [x], shape, {"height": 8, "width": 9}, "shape")
    refuse(tmp_path, "Interp", [x], shape, {"pad_beg": -2, "pad_end": -2}, "cut off")
    refuse(tmp_path, "DepthToSpace", [x], [(1, 2, 8, 8)], {"block_size": 2}, "channels")
    refuse(tmp_path, "DepthToSpace", [x], [(1, 2, 4, 4)], {"block_size": 0}, "block_size")
    refuse(tmp_path, "SpaceToDepth", [x], [(1, 18, 2, 2)], {"block_size": 3}, "blocks", ShapeError)
