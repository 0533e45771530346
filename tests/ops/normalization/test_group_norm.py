"""Normalisation of groups of channels and over axes on the device, against NumPy."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from tests.helpers import check_op

from vknn.graph import Op
from vknn.ops.normalization import (
    EPSILON_MODES,
    GroupNormalization,
    InstanceNormalization,
    MeanVarianceNormalization,
    NormalizeL2,
    RMSNormalization,
)

RNG = np.random.default_rng(43)


def floats(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) * 2 + 3).astype(np.float32)


@pytest.mark.parametrize(
    ("shape", "groups"),
    [
        ((1, 6), 2),
        ((2, 8, 7), 2),
        ((2, 6, 5, 3), 3),
        ((1, 8, 2, 6), 1),
        ((1, 5, 3, 3), 1),
        ((1, 5, 2, 2), 5),
        ((2, 16, 3, 2, 2), 4),
    ],
)
@pytest.mark.parametrize("given", [(True, True), (True, False), (False, True), (False, False)])
def test_group_normalization(shape: tuple[int, ...], groups: int, given: tuple[bool, bool]) -> None:
    vectors = [floats(shape[1]) if g else None for g in given]
    op = GroupNormalization(groups, 1e-3)
    constants = [i + 1 for i in (0, 1) if vectors[i] is not None]
    check_op(op, floats(*shape), *vectors, constants=constants, access=("image",))
    check_op(op, floats(*shape), *vectors, access=("storage",), kind="discrete")
    check_op(op, floats(*shape), *vectors, constants=constants[:1], access=("storage",))


@pytest.mark.parametrize("shape", [(1, 6, 1), (2, 5, 7), (2, 8, 3, 5), (1, 3, 2, 3, 4)])
@pytest.mark.parametrize("affine", [True, False])
def test_instance_normalization(shape: tuple[int, ...], affine: bool) -> None:
    vectors = [floats(shape[1]), floats(shape[1])] if affine else []
    constants = [1, 2] if affine else []
    op = InstanceNormalization(1e-2)
    check_op(op, floats(*shape), *vectors, constants=constants)


@pytest.mark.parametrize("axes", [(1,), (2, 3), (1, 2, 3), (-1,), (0, 2), (1, 3)], ids=str)
@pytest.mark.parametrize("mode", EPSILON_MODES)
def test_over_axes(axes: tuple[int, ...], mode: str) -> None:
    x = floats(2, 5, 3, 7) * 0.3
    x[0, :, 1, 1] = 0
    for op in (
        MeanVarianceNormalization(axes, True, 0.3, mode),
        NormalizeL2(axes, 0.3, mode),
    ):
        check_op(op, x, access=("storage",))


@pytest.mark.parametrize("shape", [(3, 8), (1, 7), (2, 3, 5, 4)])
def test_only_the_mean(shape: tuple[int, ...]) -> None:
    for axis in range(len(shape)):
        check_op(MeanVarianceNormalization((axis,), normalize_variance=False), floats(*shape))


@pytest.mark.parametrize(
    "shape, axis", [((5, 7), -1), ((2, 3, 8), -1), ((2, 3, 4, 5), 2), ((4, 1), 1)]
)
def test_rms_normalization(shape: tuple[int, ...], axis: int) -> None:
    op, scale = RMSNormalization(axis, 1e-3), floats(*shape[axis:])
    check_op(op, floats(*shape), scale, constants=(1,))
    check_op(op, floats(*shape), scale, access=("storage",))
    check_op(op, floats(*shape), access=("storage",), kind="discrete")


LARGE: list[tuple[Op, tuple[int, ...], int]] = [
    (GroupNormalization(1, 1e-3), (1, 5, 61, 67), 2),
    (GroupNormalization(2, 1e-3), (1, 8, 40, 44), 2),
    (InstanceNormalization(1e-3), (1, 5, 61, 67), 2),
    (MeanVarianceNormalization((1, 2)), (1, 700, 7), 0),
    (NormalizeL2((2, 3)), (1, 6, 61, 67), 0),
    (RMSNormalization(-1, 1e-3), (2, 4097), 1),
    (RMSNormalization(-1, 1e-3), (2, 4096), 1),
]


@pytest.mark.parametrize("number", range(len(LARGE)))
def test_long_rows(number: int) -> None:
    """Rows that are cut into parts, too."""
    op, shape, vectors = LARGE[number]
    size = shape[-1] if isinstance(op, RMSNormalization) else shape[1]
    given = [floats(size) for _ in range(vectors)]
    constants = range(1, vectors + 1)
    check_op(op, floats(*shape), *given, constants=constants, access=("image",))
    check_op(op, floats(*shape), *given, access=("storage",), kind="discrete")


def test_mean_far_from_zero() -> None:
    """The variance is that of the differences, in parts too."""
    x = (1000 + RNG.standard_normal((1, 4, 64, 64))).astype(np.float32)
    x[:, :, 0] = 0
    check_op(InstanceNormalization(1e-6), x, tolerance=1e-4, access=("storage",))


def test_in_fp16() -> None:
    vectors = floats(8), floats(8)
    for op in (GroupNormalization(4), GroupNormalization(2), InstanceNormalization()):
        check_op(op, floats(1, 8, 3, 5), *vectors, precision="fp16")
    check = functools.partial(check_op, constants=(1, 2), precision="fp16", access=("storage",))
    check(GroupNormalization(2), floats(1, 8, 61, 67), *vectors)
    check_op(MeanVarianceNormalization((2, 3)), floats(1, 5, 3, 7), precision="fp16")
    check_op(NormalizeL2((1,), 1e-3, "max"), floats(1, 5, 3, 7), precision="fp16")
    check_op(RMSNormalization(), floats(3, 7), floats(7), precision="fp16")
    check_op(RMSNormalization(), floats(3, 8), floats(8), constants=(1,), precision="fp16")
