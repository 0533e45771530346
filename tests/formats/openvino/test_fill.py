"""Range, Fill and Broadcast."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats.openvino.many import BACKENDS, Fixed, Many, fixed, refuse, scalar

DTYPES = (np.float32, np.int32, np.int64, np.uint8)

RANGES: list[tuple[Any, Any, Any, Any]] = [
    (5, 15, 1, np.int32), (3, 18, 4, np.int32), (10, 0, -3, np.int32), (-4, 5, 2, np.int64),
    (0, 1, 1, np.int32), (2, -5, -7, np.int32), (3.0, 18.0, 4.0, np.float32),
    (0.5, 2.25, 0.25, np.float32), (1.0, -1.1, -0.5, np.float32), (0.0, 1.0, 0.1, np.float32),
    (-3.5, 3.4, 1.7, np.float32),
]  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
def test_range(backend: str, tmp_path: Path) -> None:
    """Each bound once as a constant and once as an input, without axes or with one."""
    many = Many(1e-6)
    for start, limit, step, dtype in RANGES:
        count = int(np.ceil((limit - start) / step))
        expected = (start + np.arange(count) * step).astype(dtype)
        for axes in ((), (1,)):
            bounds = [np.full(axes, v, dtype) for v in (start, limit, step)]
            for which in (0b000, 0b001, 0b010, 0b100, 0b111):
                inputs = [b if which >> i & 1 else Fixed(b) for i, b in enumerate(bounds)]
                many.add("Range", inputs, expected)
    mixed = [scalar(1), scalar(3.5, np.float32), scalar(0.5, np.float32)]
    many.add("Range", mixed, np.arange(1, 3.5, 0.5, dtype=np.float32))
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_fill(backend: str, tmp_path: Path) -> None:
    many = Many()
    for shape, dtype in itertools.product(((5,), (3, 4), (2, 1, 3), (2, 3, 1, 2, 2)), DTYPES):
        for kind in (np.int32, np.int64):
            for axes in ((), (1,)):
                value = np.full(axes, 7, dtype)
                dims = fixed(*shape, dtype=kind)
                many.add("Fill", [dims, value], np.full(shape, 7, dtype))
                many.add("Fill", [dims, Fixed(value)], np.full(shape, 7, dtype))
        many.add("Fill", [np.array(shape, np.int32), scalar(7, dtype)], np.full(shape, 7, dtype))
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_broadcast(backend: str, tmp_path: Path) -> None:
    many = Many()
    cases = [
        ((16, 1, 1), (1, 16, 5, 7)), ((1,), (3, 4)), ((), (2, 3)), ((3, 1), (3, 4)), ((4,), (2, 4)),
        ((2, 1, 3, 1), (2, 5, 3, 4)), ((2, 3), (2, 3)), ((1, 1, 1), (2, 2, 2, 2, 2)),
        ((1, 3, 1, 2), (4, 3, 5, 2)), ((5, 1, 1, 1, 2), (5, 2, 3, 4, 2)),
    ]  # fmt: skip
    rng = np.random.default_rng(0)
    for (source, target), dtype in itertools.product(cases, DTYPES):
        x = np.asarray(rng.integers(0, 99, source)).astype(dtype)
        expected = np.broadcast_to(x, target)
        for given in (fixed(*target), fixed(*target, dtype=np.int64), np.array(target, np.int32)):
            many.add("Broadcast", [x, given], expected)
    many.check(backend, tmp_path)


def test_refused(tmp_path: Path) -> None:
    x = np.ones((2, 3), np.float32)
    refuse(tmp_path, "Broadcast", [x, fixed(2, 4)], [(2, 4)], None, "does not broadcast")
    refuse(tmp_path, "Broadcast", [x, fixed(3)], [(3,)], None, "does not broadcast")
    refuse(tmp_path, "Broadcast", [x, fixed(1, 3)], [(1, 3)], None, "does not broadcast")
    refuse(tmp_path, "Broadcast", [x, fixed(0, 3)], [(1, 3)], None, "no shape")
    refuse(tmp_path, "Broadcast", [x, fixed(-1, 3)], [(1, 3)], None, "no shape")
    refuse(tmp_path, "Fill", [fixed(2), x], [(2,)], None, "fills with 6 elements")
    huge = [fixed(2**20, 2**20), scalar(1)]
    refuse(tmp_path, "Fill", huge, [(2, 2)], None, "absurdly large")
    steps = [scalar(0), scalar(3), scalar(0)]
    refuse(tmp_path, "Range", steps, [(3,)], None, "step of 0")
    refuse(tmp_path, "Range", [scalar(0), x, scalar(1)], [(3,)], None, "limit has 6 elements")
    endless = [scalar(v, np.float32) for v in (0, np.inf, 1)]
    refuse(tmp_path, "Range", endless, [(3,)], None, "not finite")
    long = [scalar(v, np.float32) for v in (0, 2**32, 1)]
    refuse(tmp_path, "Range", long, [(3,)], None, "which no tensor has")
    wrong = [scalar(0), scalar(5), scalar(1)]
    refuse(tmp_path, "Range", wrong, [(3,)], None, "the file says")
