"""The kernel of ports by itself: every pair of element types and orders of axes, against NumPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.helpers import shared_device

from vknn import bfloat16
from vknn.bundle.conversions import AxisOrder, Kind, PortConversion, can_convert, dispatch
from vknn.graph import DType, TensorType
from vknn.lowering import check_plan
from vknn.ops.elementwise.binary import Cast
from vknn.plan import Barrier, Buffer, DeviceLimits, Fill, Plan, Port, Role
from vknn.runtime import Device, Executable

pytestmark = pytest.mark.device
SENTINEL = 0x5AC3E1B7
#: Bytes behind the end of a result that must stay.
BEHIND = 32
PAIRS = [pair for pair in itertools.product(Kind, Kind) if can_convert(*pair)]
#: A prime, so that no word of bytes is full at the end.
SIZE = 37


@pytest.fixture
def device() -> Device:
    return shared_device()


def converted(
    device: Device,
    conversion: PortConversion,
    source: np.ndarray,
    limits: DeviceLimits | None = None,
) -> np.ndarray:
    """The target's bytes; asserts that those behind them stayed as they were."""
    limits = limits or device.limits
    given = np.zeros(-(-source.nbytes // 16) * 16, np.uint8)
    given[: source.nbytes] = source.reshape(-1).view(np.uint8)
    nbytes = -(-conversion.size * conversion.target.width // 4) * 4
    whole = -(-(nbytes + BEHIND) // 16) * 16
    buffers = (
        Buffer("x", Role.INPUT, 0, len(given)),
        Buffer("y", Role.OUTPUT, 0, whole),
    )
    steps = (
        Fill(1, SENTINEL),
        Barrier((1,)),
        dispatch(conversion, 0, 1, limits, "port", "x"),
    )
    plan = Plan(
        "port",
        buffers,
        {Role.INPUT: len(given), Role.OUTPUT: whole},
        steps,
        (len(steps),),
        {"x": raw(0, len(given))},
        {"y": raw(1, whole)},
    )
    check_plan(plan)
    with Executable(device, plan) as executable:
        made = executable.run({"x": given})["y"]
    assert (made[nbytes:].view(np.uint32) == SENTINEL).all()
    return made[: conversion.size * conversion.target.width]


def raw(buffer: int, nbytes: int) -> Port:
    return Port(buffer, TensorType((nbytes,), DType.UINT8), as_typed=True)


def dtype_of(kind: Kind) -> np.dtype:
    return np.dtype("u2" if kind is Kind.BFLOAT16 else kind.name.lower())


def numbers(source: Kind, target: Kind, count: int = SIZE) -> np.ndarray:
    """Numbers that both kinds hold, in the first one's; of integers the ends of the range."""
    random = np.random.default_rng(int(source) * 16 + int(target))
    ranges = [_range(kind) for kind in (source, target)]
    low, high = max(r[0] for r in ranges), min(r[1] for r in ranges)
    if source in FLOATS:
        if target in (*FLOATS, Kind.FLOAT64):
            # Of the whole range of float16, with what is between its numbers and below them.
            found = (random.standard_normal(count) * 10.0 ** random.integers(-9, 5, count)).astype(
                "f4"
            )
            found[:10] = SPECIAL
        else:
            found = random.uniform(max(low, -3e4), min(high, 3e4), count).astype("f4")
            found[:4] = 0.0, 1.0, min(high, 100), max(low, 0.75)
        return stored(found, source)
    found = random.integers(low, high, count, np.int64, endpoint=True)
    found[:3] = low, high, 0
    return found.astype(dtype_of(source))


FLOATS = (Kind.FLOAT32, Kind.FLOAT16, Kind.BFLOAT16)
#: Infinities, NaN, the ends of float16's range and what rounds to them, a float32 below normal.
SPECIAL = [np.inf, -np.inf, np.nan, 65504, 65519.99, 65520, -1e-8, 2.0**-25, -0.0, 1e-40]


def _range(kind: Kind) -> tuple[int, int]:
    if kind is Kind.BOOL:
        return 0, 1
    if kind in (*FLOATS, Kind.FLOAT64):
        return -(1 << 62), (1 << 62) - 1
    info = np.iinfo(dtype_of(kind))
    return int(info.min), min(int(info.max), (1 << 63) - 1)


def stored(array: np.ndarray, kind: Kind) -> np.ndarray:
    with np.errstate(all="ignore"):
        return bfloat16.bits_of(array) if kind is Kind.BFLOAT16 else array.astype(dtype_of(kind))


def expected(source: Kind, target: Kind, given: np.ndarray) -> np.ndarray:
    """NumPy's conversion; by way of float32, where a kind is bfloat16."""
    seen = bfloat16.floats_of(given) if source is Kind.BFLOAT16 else given
    if target is Kind.BFLOAT16 and source not in FLOATS:
        seen = seen.astype(np.float32)
    if target is Kind.FLOAT16 and source not in FLOATS:
        seen = seen.astype(np.float32)
    return stored(seen, target)


def same(got: np.ndarray, wanted: np.ndarray, kind: Kind) -> None:
    """Asserts equal bits, but for those of a NaN."""
    if kind is Kind.BFLOAT16:
        got, wanted = bfloat16.floats_of(got), bfloat16.floats_of(wanted)
    if wanted.dtype.kind == "f":
        np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted))
        np.testing.assert_array_equal(np.signbit(got), np.signbit(wanted))
        got, wanted = (np.nan_to_num(a, nan=1.0, posinf=None, neginf=None) for a in (got, wanted))
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(("source", "target"), PAIRS, ids=lambda k: k.name.lower())
def test_every_pair_of_element_types(device: Device, source: Kind, target: Kind) -> None:
    given = numbers(source, target)
    made = converted(device, PortConversion(source, target, SIZE), given)
    same(made.view(dtype_of(target)), expected(source, target, given), target)


ORDERS = {
    "planes to pixels": ((3, 5, 7), (1, 2, 0)),
    "pixels to planes": ((5, 7, 3), (2, 0, 1)),
    "eight axes": ((2, 3, 1, 2, 5, 1, 2, 3), (7, 3, 0, 5, 1, 6, 4, 2)),
    "backwards": ((2, 3, 5, 7), (3, 2, 1, 0)),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("source", "target"),
    [(Kind.FLOAT32, Kind.FLOAT32), (Kind.INT32, Kind.UINT8), (Kind.INT32, Kind.INT64)],
    ids=lambda k: k.name.lower(),
)
def test_orders_of_axes(device: Device, source: Kind, target: Kind, order: str) -> None:
    shape, axes = ORDERS[order]
    given = numbers(source, target, int(np.prod(shape))).reshape(shape)
    view = given.transpose(axes)
    strides = tuple(given.strides[a] // given.itemsize for a in axes)
    conversion = PortConversion(source, target, given.size, AxisOrder(view.shape, strides))
    made = converted(device, conversion, given).view(dtype_of(target))
    same(made, stored(view, target).reshape(-1), target)


def test_an_axis_runs_backwards(device: Device) -> None:
    """Pixels of blue, green and red of planes in that order."""
    given = numbers(Kind.FLOAT32, Kind.UINT8, 3 * 5 * 7).reshape(3, 5, 7)
    order = AxisOrder((5, 7, 3), (7, 1, -35), 70)
    made = converted(device, PortConversion(Kind.FLOAT32, Kind.UINT8, given.size, order), given)
    np.testing.assert_array_equal(made, given[::-1].transpose(1, 2, 0).astype("u1").reshape(-1))


def test_floats_are_rounded_to_pixels(device: Device) -> None:
    given = np.array([0.5, 1.5, 2.5, 254.5, 255.5, 1e9, -0.6, -np.inf, np.inf, np.nan, 7], "f4")
    made = converted(
        device, PortConversion(Kind.FLOAT32, Kind.UINT8, given.size, rounds=True), given
    )
    assert made.tolist() == [0, 2, 2, 254, 255, 255, 0, 0, 255, 0, 7]


def test_floats_are_rounded_to_whole_numbers(device: Device) -> None:
    given = np.array([0.5, 1.5, -2.5, 8388609.0, -1e12, 3e18, 0.49999997], "f4")
    made = converted(
        device, PortConversion(Kind.FLOAT32, Kind.INT64, given.size, rounds=True), given
    )
    assert made.view(np.int64).tolist() == [round(float(v)) for v in given]


INTEGERS = [kind for kind in Kind if kind not in (*FLOATS, Kind.FLOAT64, Kind.BOOL)]


@pytest.mark.parametrize("most", [False, True])
@pytest.mark.parametrize("kind", INTEGERS, ids=lambda k: k.name.lower())
def test_floats_beyond_the_range_become_its_ends(device: Device, kind: Kind, most: bool) -> None:
    given = np.array(
        [np.inf, -np.inf, np.nan, 127.5, 300, -300, 7e4, -7e4, 5e9, -5e9, 2e19, 0], "f4"
    )
    given = np.append(given, np.float32([2.0**31, -(2.0**31), 2.0**32, 2.0**63, -(2.0**63), -0.9]))
    conversion = PortConversion(Kind.FLOAT32, kind, given.size, nan_to_most=most)
    made = converted(device, conversion, given)
    (wanted,) = Cast(DType(kind.name.lower()), nan_to_most=most).reference(given)
    np.testing.assert_array_equal(made.view(wanted.dtype), wanted)


@pytest.mark.parametrize("kind", ["cpu", "discrete"])
def test_many_elements(device: Device, kind: str) -> None:
    """More than 2^20 of them, where quotients need their corrections, in several rounds a lane."""
    given = np.arange(1031 * 1033, dtype=np.int32).reshape(1031, 1033)
    limits = DeviceLimits(kind=kind, subgroup_size=8, max_group_count=(64, 4, 1))
    order = AxisOrder((1033, 1031), (1, 1033))
    made = converted(
        device, PortConversion(Kind.INT32, Kind.INT16, given.size, order), given, limits
    )
    np.testing.assert_array_equal(made.view(np.int16), given.T.astype(np.int16).reshape(-1))


def test_axes_are_joined() -> None:
    assert AxisOrder((2, 3, 5), (15, 5, 1)).joined is None
    assert AxisOrder((4, 1, 6), (6, 99, 1)).joined is None
    assert AxisOrder((2, 3, 5), (5, 10, 1)).joined == AxisOrder((2, 3, 5), (5, 10, 1))
    assert AxisOrder((2, 3, 5), (15, 5, 1), 30).joined == AxisOrder((30,), (1,), 30)
    assert PortConversion(Kind.INT32, Kind.UINT32, 3).is_copy
    assert not PortConversion(Kind.INT32, Kind.BOOL, 3).is_copy
