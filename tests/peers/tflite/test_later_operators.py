"""Operators with later codes in settings that the vectors do not have, against LiteRT's kernels."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.peers.tflite.test_movement import Tensor, held, numbers
from tests.peers.tflite.test_operators import check, one, results
from tests.tflite_writer import Net

BITS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
MOVED = ("float32", "float16", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32",
         "int64", "uint64", "bool", "complex64")  # fmt: skip
SOURCES = ("float32", "uint8", "int16", "int32", "float64")
TARGETS = ("float32", "float16", "int8", "int16", "int64", "uint32")
GELU_SCALES = (8.49719557986192e-05, 2.4589819718480107e-05)
NAN, INF = float("nan"), float("inf")


def typed(shape: tuple[int, ...], dtype: str) -> Tensor:
    return shape, dtype, {}


def thinned(names: Iterable[str], *kept: str) -> list[Any]:
    """Parameters of which quick runs take a few."""
    return [pytest.param(n, marks=() if n in kept else pytest.mark.long) for n in names]


def of_type(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Numbers of any type, those of the tests of movement where they know it."""
    if dtype.startswith(("float", "complex")):
        return numbers(typed(shape, "float32")).astype(dtype)
    if dtype == "uint64":
        return numbers(typed(shape, "int64")).view(dtype)
    return numbers(typed(shape, dtype))


@pytest.mark.parametrize("dtype", thinned(BITS, "uint8", "int32", "uint32"))
def test_bits(dtype: str, tmp_path: Path, backend: str) -> None:
    info = np.iinfo(dtype)
    x = of_type((3, 7), dtype)
    amounts = np.array([0, 1, 7, 8, 31, 32, info.max]).clip(info.min, info.max).astype(dtype)
    amounts[1] = info.min
    for name, second in (("BITWISE_XOR", x[0]), ("RIGHT_SHIFT", amounts)):
        net = one(name, [typed(x.shape, dtype), typed((7,), dtype)], [typed(x.shape, dtype)])
        check(net, {"x0": x, "x1": second}, tmp_path, backend)


@pytest.mark.parametrize("target", thinned(TARGETS, "float32", "int16", "uint32"))
@pytest.mark.parametrize("source", thinned(SOURCES, "float32", "uint8"))
def test_bitcast(source: str, target: str, tmp_path: Path, backend: str) -> None:
    ratio = np.dtype(target).itemsize // np.dtype(source).itemsize
    shape = (5, ratio) if ratio > 1 else (5,)
    x = of_type((5,), target).view(source).reshape(shape) if ratio > 1 else of_type((5,), source)
    net = one("BITCAST", [typed(shape, source)], [typed((), target)])
    found, wanted = results(net, {"x0": x}, tmp_path, backend)
    assert found["y0"].dtype == wanted["y0"].dtype
    assert found["y0"].shape == wanted["y0"].shape
    same = found["y0"] == wanted["y0"]
    nan = np.isnan(wanted["y0"]) if wanted["y0"].dtype.kind == "f" else np.zeros_like(same)
    assert (same | nan).all()
    assert not nan.any() or np.isnan(found["y0"][nan]).all()


def test_a_sign_turned_by_its_bit(tmp_path: Path, backend: str) -> None:
    net = Net()
    x = net.tensor("x", (3, 7))
    root, bits, turned, y = (
        net.tensor(name, (3, 7), dtype)
        for name, dtype in (("r", "float32"), ("b", "int32"), ("t", "int32"), ("y", "float32"))
    )
    mask = net.tensor("mask", data=np.int32([-(1 << 31)]), dtype="int32")
    net.inputs, net.outputs = [x], [y]
    net.add("ABS", [x], [root])
    net.add("BITCAST", [root], [bits])
    net.add("BITWISE_XOR", [bits, mask], [turned])
    net.add("BITCAST", [turned], [y])
    given = of_type((3, 7), "float32")
    found, _ = results(net, {"x": given}, tmp_path, backend)
    assert np.array_equal(found["y"], -np.abs(given))
    check(net, {"x": given}, tmp_path, backend)


@pytest.mark.parametrize("dtype", thinned(MOVED, "float32", "int8", "uint64"))
def test_dynamic_update_slice(dtype: str, tmp_path: Path, backend: str) -> None:
    x, update = of_type((5, 3, 7), dtype), of_type((2, 3, 1), dtype)
    ends = [typed(x.shape, dtype), typed(update.shape, dtype)]
    for starts in ([1, 0, 2], [9, -1, -9], [-(2**31), 2**31 - 1, 6]):
        for kind in ("int32", "int64"):
            begins = np.array(starts, kind)
            net = one("DYNAMIC_UPDATE_SLICE", [*ends, typed((3,), kind)], [ends[0]])
            check(net, {"x0": x, "x1": update, "x2": begins}, tmp_path, backend)
        net = one("DYNAMIC_UPDATE_SLICE", [*ends, held(starts)], [ends[0]])
        check(net, {"x0": x, "x1": update}, tmp_path, backend)


@pytest.mark.parametrize("starts", [[1, 2], [9, -3]])
def test_updates_of_4_bits(starts: list[int], tmp_path: Path, backend: str) -> None:
    x = np.arange(-8, 7, dtype=np.int8).reshape(3, 5)
    update = np.array([[7, -8], [-1, 3]], np.int8)
    ends = [typed((3, 5), "int4"), typed((2, 2), "int4"), typed((2,), "int32")]
    net = one("DYNAMIC_UPDATE_SLICE", ends, ends[:1])
    check(net, {"x0": x, "x1": update, "x2": np.int32(starts)}, tmp_path, backend)


def test_quantized_tensors_move_as_they_are(tmp_path: Path, backend: str) -> None:
    def scaled(*shape: int) -> Tensor:
        return shape, "int8", {"scale": 0.25, "zero_point": 3}

    x, row = of_type((3, 5), "int8"), of_type((1, 5), "int8")
    net = one("DYNAMIC_UPDATE_SLICE", [scaled(3, 5), scaled(1, 5), held([2, 0])], [scaled(3, 5)])
    check(net, {"x0": x, "x1": row}, tmp_path, backend)
    net = one("DILATE", [scaled(3, 5), held([2, 1]), scaled()], [scaled()])
    check(net, {"x0": x, "x2": np.array(-7, np.int8)}, tmp_path, backend)
    net = one("BROADCAST_TO", [scaled(1, 5), held([3, 5])], [scaled()])
    net.codes[0].fields["version"] = 2
    check(net, {"x0": row}, tmp_path, backend)
    net = one("BITCAST", [scaled(3, 5)], [typed((), "uint8")])
    check(net, {"x0": x}, tmp_path, backend)


@pytest.mark.parametrize(("shape", "part"), [((), ()), ((3, 5), (3, 5)), ((3, 5), (0, 5))])
def test_whole_updates_and_empty_ones(
    shape: tuple[int, ...], part: tuple[int, ...], tmp_path: Path, backend: str
) -> None:
    starts = np.full(len(shape), 7, np.int32)
    net = one("DYNAMIC_UPDATE_SLICE", [typed(shape, "float32"), typed(part, "float32"),
              typed(starts.shape, "int32")], [typed(shape, "float32")])  # fmt: skip
    x = {"x0": of_type(shape, "float32"), "x1": np.ones(part, np.float32), "x2": starts}
    check(net, {n: np.asarray(a) for n, a in x.items()}, tmp_path, backend)


SEGMENTS = [
    ((7,), [0, 4, -1, 4, 0, 2, 0], 5),
    ((3, 5), [1, -7, 1], 3),
    ((2, 3, 5), [[0, 1, 3], [3, -1, 0]], 7),
    ((5,), [-1] * 5, 2),
    ((), 1, 3),
    ((0, 3), [], 2),
]


@pytest.mark.parametrize("name", thinned(("SUM", "PROD", "MAX", "MIN"), "PROD", "MIN"))
@pytest.mark.parametrize("dtype", thinned(("float32", "int32"), "float32"))
@pytest.mark.parametrize(("shape", "segments", "count"), SEGMENTS)
def test_segments(
    name: str, dtype: str, shape: tuple[int, ...], segments: Any, count: int,
    tmp_path: Path, backend: str,
) -> None:  # fmt: skip
    places = np.array(segments, np.int32)
    ends = [typed(shape, dtype), typed(places.shape, "int32")]
    x = {"x0": of_type(shape, dtype), "x1": places, "x2": np.array(count, np.int32)}
    known = one(f"UNSORTED_SEGMENT_{name}", [*ends, held(count)], [typed((), dtype)])
    check(known, {n: np.asarray(x[n]) for n in ("x0", "x1")}, tmp_path, backend)
    dynamic = one(f"UNSORTED_SEGMENT_{name}", [*ends, typed((), "int32")], [typed((), dtype)])
    check(dynamic, {n: np.asarray(a) for n, a in x.items()}, tmp_path, backend)


@pytest.mark.parametrize("name", ["MAX", "MIN"])
def test_extremes_of_segments_leave_nan_out(name: str, tmp_path: Path, backend: str) -> None:
    x = np.float32([1, NAN, NAN, 3, -INF, INF, NAN])
    places = np.int32([0, 0, 1, 2, 3, 4, 4])
    net = one(f"UNSORTED_SEGMENT_{name}", [typed((7,), "float32"), typed((7,), "int32"), held(6)],
              [typed((), "float32")])  # fmt: skip
    found, wanted = results(net, {"x0": x, "x1": places}, tmp_path, backend)
    np.testing.assert_array_equal(found["y0"], wanted["y0"])


@pytest.mark.parametrize("dtype", thinned(MOVED, "float32", "int8", "uint64"))
def test_dilate(dtype: str, tmp_path: Path, backend: str) -> None:
    x = of_type((2, 3, 5), dtype)
    for apart in ([2, 1, 3], [1, 1, 1], [5, 7, 2]):
        inputs = [typed(x.shape, dtype), held(apart), typed((), dtype)]
        net = one("DILATE", inputs, [typed((), dtype)])
        fill = of_type((1,), dtype).reshape(())
        check(net, {"x0": x, "x2": fill}, tmp_path, backend)


WINDOWED = ("float32", "int8", "uint8", "int16", "int32", "int64", "bool")
WINDOWS = [
    ((7,), [3], [2], [2]),
    ((5, 7), [2, 3], [1, 2], [3, 1]),
    ((2, 3, 5), [1, 2, 2], [1, 1, 1], [1, 1, 3]),
    ((5,), [7], [1], [1]),  # no window fits
    ((5, 3), [1, 1], [2, 2], [1, 1]),
]


@pytest.mark.parametrize("function", range(1, 7))
@pytest.mark.parametrize("dtype", thinned(WINDOWED, "float32", "bool"))
def test_reduce_window(dtype: str, function: int, tmp_path: Path, backend: str) -> None:
    for shape, *steps in WINDOWS[:: 1 if dtype in ("float32", "int8") else 2]:
        first = of_type((1,), dtype).reshape(())
        vectors = [held(step, "int64") for step in steps]
        inputs = [typed(shape, dtype), typed((), dtype), *vectors]
        net = one("REDUCE_WINDOW", inputs, [typed((), dtype)], {"reduce_function": function})
        check(net, {"x0": of_type(shape, dtype), "x1": first}, tmp_path, backend)


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize(("shape", "axes"), [((3, 5), [0]), ((3, 5), [0, -2, 1]), ((0, 3), [0])])
def test_reduce_all(
    shape: tuple[int, ...], axes: list[int], keep: bool, tmp_path: Path, backend: str
) -> None:
    x = of_type(shape, "bool")
    x[..., 0] = True
    net = one("REDUCE_ALL", [typed(shape, "bool"), held(axes)], [typed((), "bool")],
              {"keep_dims": keep})  # fmt: skip
    check(net, {"x0": x}, tmp_path, backend)


def test_gelu_far_below_zero(tmp_path: Path, backend: str) -> None:
    """Scales at which what 1 + erf rounds off would show in the table."""
    x = np.arange(-32768, 32768).astype(np.int16)
    ends = [[(x.shape, "int16", {"scale": s})] for s in GELU_SCALES]
    check(one("GELU", *ends, {"approximate": False}), {"x0": x}, tmp_path, backend)


def gelu_scales(count: int) -> list[tuple[float, float]]:
    """Scales of input and output, far apart and near each other."""
    rng = np.random.default_rng(0)
    given = 10 ** rng.uniform(-5, -2.5, count)
    return [(float(a), float(a * 10 ** rng.uniform(-1, 0.3))) for a in given]


@pytest.mark.parametrize("approximate", [True, False])
@pytest.mark.parametrize("count", [7, pytest.param(100, marks=pytest.mark.slow)])
def test_gelu_at_many_scales(approximate: bool, count: int, tmp_path: Path) -> None:
    """Each of the 65,536 codes, by the C library's functions."""
    x = np.arange(-32768, 32768).astype(np.int16)
    for scales in gelu_scales(count):
        ends = [[(x.shape, "int16", {"scale": s})] for s in scales]
        check(one("GELU", *ends, {"approximate": approximate}), {"x0": x}, tmp_path, "numpy")


@pytest.mark.parametrize("name", ["REAL", "IMAG", "COMPLEX_ABS"])
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_parts(name: str, shape: tuple[int, ...], tmp_path: Path, backend: str) -> None:
    x = np.asarray(of_type((*shape, 2), "float32").copy().view(np.complex64)[..., 0])
    net = one(name, [typed(shape, "complex64")], [typed(shape, "float32")])
    check(net, {"x0": x}, tmp_path, backend)


@pytest.mark.parametrize("approximate", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8", "int16"])
def test_gelu(dtype: str, approximate: bool, tmp_path: Path, backend: str) -> None:
    scales: list[dict[str, Any]] = [{}, {}]
    if dtype == "float32":
        x = np.linspace(-7, 7, 97, dtype=np.float32)
    else:
        info = np.iinfo(dtype)
        x = np.arange(info.min, info.max + 1).astype(dtype)
        zero, scale = {"int8": (3, 0.05), "uint8": (130, 0.0317), "int16": (0, 2e-4)}[dtype]
        scales = [{"scale": s, "zero_point": zero} for s in (scale, scale * 0.7)]
    ends = [[(x.shape, dtype, extra)] for extra in scales]
    check(one("GELU", *ends, {"approximate": approximate}), {"x0": x}, tmp_path, backend)


@pytest.mark.parametrize("dtype", thinned(MOVED, "float32", "int8", "uint64"))
def test_broadcast_to(dtype: str, tmp_path: Path, backend: str) -> None:
    for shape, wanted in (((3,), (2, 3)), ((1, 1, 3), (3,)), ((), (5,)), ((1,), (0,)),
                          ((2, 1, 3, 1, 1, 1), (1, 1, 2, 5, 3, 1, 2, 1))):  # fmt: skip
        net = one("BROADCAST_TO", [typed(shape, dtype), held(list(wanted))], [typed((), dtype)])
        net.codes[0].fields["version"] = 2
        if len(wanted) >= len(shape):
            x = np.asarray(of_type((*shape, 1), dtype)[..., 0])
            check(net, {"x0": x}, tmp_path, backend)
