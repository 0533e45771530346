"""Elementwise operators with unusual quantization, against TensorFlow Lite's own kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.peers.tflite.test_operators import check, one

from vknn.errors import ShapeError
from vknn.session import Session

Quantization = tuple[float, int]


def codes(dtype: str) -> np.ndarray:
    """Every number of 8 bits, every seventh of 16."""
    info = np.iinfo(dtype)
    return np.arange(info.min, info.max + 1, 7 if dtype == "int16" else 1).astype(dtype)


def tensor(shape: tuple[int, ...], dtype: str, quant: Quantization) -> tuple[Any, ...]:
    return shape, dtype, {"scale": quant[0], "zero_point": quant[1]}


@pytest.mark.parametrize(
    ("name", "dtype", "given", "wanted"),
    [
        ("NEG", "int8", (0.1, 5), (0.2, -7)),
        ("EXP", "int8", (2.0, -64), (0.55, 0)),  # overflows
        ("EXP", "int16", (1 / 64, 0), (0.3054, 0)),  # steps that overflow int16
        ("HARD_SWISH", "uint8", (0.001953, 127), (8.0, 0)),  # shifts by 16 and more
        ("ABS", "int16", (0.03125, 0), (0.01943, 0)),  # a multiplier rounded to float32
        ("RELU", "int16", (0.03125, 0), (0.01943, 0)),
        ("LEAKY_RELU", "int16", (0.0173, 0), (0.01943, 0)),
        ("RSQRT", "int8", (0.0173, -128), (0.01943, -100)),
        ("LOGISTIC", "int16", (0.0002441, 0), (1 / 32768, 0)),  # almost a power of two
        ("LOGISTIC", "int16", (6.216, 0), (1 / 32768, 0)),
        ("TANH", "int16", (0.0002442, 0), (1 / 32768, 0)),
    ],
)
def test_functions_of_integers(
    name: str, dtype: str, given: Quantization, wanted: Quantization, tmp_path: Path, backend: str
) -> None:
    x = codes(dtype)
    options = {"alpha": -0.3} if name == "LEAKY_RELU" else None
    tensors = [tensor(x.shape, dtype, q) for q in (given, wanted)]
    check(one(name, tensors[:1], tensors[1:], options), {"x0": x}, tmp_path, backend)


@pytest.mark.parametrize(
    ("name", "dtype", "quants"),
    [
        ("FLOOR_DIV", "int8", ((0.1, 3), (0.3, 7), (0.2, 1))),
        ("FLOOR_MOD", "int16", ((0.1, 0), (0.3, 0), (0.2, 0))),
        ("LESS", "int16", ((0.02, 0), (0.5, 0))),  # compared as they are
        ("EQUAL", "int16", ((0.25, 0), (0.5, 0))),  # compared by what they mean
        ("ADD", "int16", ((0.0002441, 0), (0.0002441, 0), (0.0002442, 0))),  # as powers of two
        ("MUL", "int16", ((0.0173, 0), (0.0031, 0), (0.00943, 0))),
        ("DIV", "int16", ((0.0173, 0), (0.0031, 0), (0.00943, 0))),
        ("PRELU", "int16", ((0.0173, 0), (0.0031, 9), (0.01, 0))),  # with slopes of int8
    ],
)
def test_pairs_of_integers(
    name: str, dtype: str, quants: tuple[Quantization, ...], tmp_path: Path, backend: str
) -> None:
    rng, x = np.random.default_rng(1), codes(dtype)
    second = "int8" if name == "PRELU" else dtype
    y = rng.choice(codes(second), x.size)
    y = np.where(y == quants[1][1], y.dtype.type(11), y)
    y = np.where(y == 0, y.dtype.type(11), y)
    inputs = [tensor(x.shape, d, q) for d, q in zip((dtype, second), quants[:2], strict=True)]
    output = tensor(x.shape, dtype, quants[2]) if len(quants) > 2 else (x.shape, "bool", {})
    options = {} if name in ("ADD", "MUL", "DIV") else None
    check(one(name, inputs, [output], options), {"x0": x, "x1": y}, tmp_path, backend)


@pytest.mark.parametrize(
    ("name", "dtype", "quants"),
    [
        ("RELU", "int16", ((0.1, 3), (0.1, 0))),
        ("RELU_N1_TO_1", "int16", ((0.1, 0), (0.1, 0))),
        ("HARD_SWISH", "int32", ((0.1, 0), (0.1, 0))),
        ("L2_NORMALIZATION", "int8", ((0.1, 0), (1 / 128, 3))),
        ("CONCATENATION", "int8", ((0.1, 0), (0.1, 3))),
        ("DEQUANTIZE", "int16", ((0.1, 3), (0.1, 0))),
        ("LOGISTIC", "int8", ((0.1, 3), (1 / 255, -128))),
        ("TANH", "int16", ((0.1, 0), (1 / 128, 0))),
        ("HARD_SWISH", "int8", ((0.1, 0), (0.0001, 0))),
    ],
)
def test_what_the_kernels_refuse(
    name: str, dtype: str, quants: tuple[Quantization, ...], tmp_path: Path
) -> None:
    given, wanted = (tensor((4,), dtype, q) for q in quants)
    wanted = ((4,), "float32", {}) if name == "DEQUANTIZE" else wanted
    (tmp_path / "net.tflite").write_bytes(one(name, [given], [wanted]).file())
    session = Session(tmp_path / "net.tflite", device="numpy")
    with session, pytest.raises(ShapeError, match=name):
        session.run({"x0": np.zeros(4, dtype)})


def test_what_is_no_number(tmp_path: Path, backend: str) -> None:
    nan, inf = np.nan, np.inf
    x = np.float32([[nan, 7, nan, -inf], [nan, nan, nan, nan], [3e9, -inf, nan, inf]])
    for dtype in ("int8", "uint8", "int16", "int32", "int64"):
        net = one("CAST", [(x.shape, "float32", {})], [(x.shape, dtype, {})])
        check(net, {"x0": x}, tmp_path, backend)
    for name in ("ARG_MAX", "ARG_MIN"):
        axis = ((), "int32", {"data": np.array(1)})
        three = [((3, 3), "float32", {}), axis]
        net = one(name, three, [((3,), "int32", {})], {"output_type": 2})
        check(net, {"x0": x[:, 1:]}, tmp_path, backend)


def test_lengths_next_to_nothing(tmp_path: Path, backend: str) -> None:
    x = np.float32([[1e-4, 0, 0], [1e-7, 3e-7, 0], [0, 0, 0], [1e-3, 2e-3, 0]])
    net = one("L2_NORMALIZATION", [(x.shape, "float32", {})], [(x.shape, "float32", {})], {})
    check(net, {"x0": x}, tmp_path, backend)


def test_real_quotients_by_nothing(tmp_path: Path, backend: str) -> None:
    pair, given = [((6,), "float32", {})] * 2, {"fused_activation_function": 0}
    feeds = {"x0": np.float32([1, -2, 4, 3, 5, 1e38]), "x1": np.float32([0, 0, 0, -0.0, 2, 1e-3])}
    check(one("DIV", pair, pair[:1], given), feeds, tmp_path, backend)


@pytest.mark.parametrize("name", ["DIV", "FLOOR_DIV", "FLOOR_MOD"])
def test_whole_quotients_by_nothing(name: str, tmp_path: Path) -> None:
    divisor = ((3,), "int32", {"data": np.array([1, 0, 2])})
    net = one(name, [((3,), "int32", {}), divisor], [((3,), "int32", {})])
    (tmp_path / "net.tflite").write_bytes(net.file())
    session = Session(tmp_path / "net.tflite", device="numpy")
    with session, pytest.raises(ShapeError, match="divides by 0"):
        session.run({"x0": np.zeros(3, np.int32)})


def test_later_operators(tmp_path: Path, backend: str) -> None:
    values = np.float32([0, -0.0, 1, -1, 0.5, 3e8, 7, -2.5])
    a, b = (grid.reshape(-1) for grid in np.meshgrid(values, values))
    plain = (a.shape, "float32", {})
    check(one("ATAN2", [plain] * 2, [plain]), {"x0": a, "x1": b}, tmp_path, backend)
    for name in ("SIGN", "RELU_0_TO_1"):
        check(one(name, [plain], [plain]), {"x0": a}, tmp_path, backend)
    x = codes("int8")
    ends = [tensor(x.shape, "int8", q) for q in ((0.1, 3), (0.004, -7))]
    check(one("RELU_0_TO_1", ends[:1], ends[1:]), {"x0": x}, tmp_path, backend)


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_running_sums(exclusive: bool, reverse: bool, tmp_path: Path, backend: str) -> None:
    given = {"exclusive": exclusive, "reverse": reverse}
    for axis, dtype in ((0, "float32"), (-1, "int32"), (1, "int64")):
        place = ((), "int32", {"data": np.array(axis)})
        net = one("CUMSUM", [((3, 5, 7), dtype, {}), place], [((3, 5, 7), dtype, {})], given)
        x = np.arange(105).reshape(3, 5, 7).astype(dtype) - 50
        check(net, {"x0": x}, tmp_path, backend)


def test_broadcasting_to_a_shape(tmp_path: Path, backend: str) -> None:
    for dims, wanted in (((2, 1), (3, 2, 4)), ((), (2, 2)), ((1, 2, 1, 2), (3, 2, 2, 2))):
        shape = ((len(wanted),), "int32", {"data": np.array(wanted)})
        net = one("BROADCAST_TO", [(dims, "int16", {}), shape], [(wanted, "int16", {})])
        net.codes[0].fields["version"] = 3
        x = np.arange(np.prod(dims, dtype=int), dtype=np.int16).reshape(dims)
        check(net, {"x0": x}, tmp_path, backend)
    for a, b in (([2, 1, 3], [4, 1]), ([1], [0]), ([2, 3], [2, 3])):
        inputs = [((len(d),), "int64", {}) for d in (a, b)]
        net = one("BROADCAST_ARGS", inputs, [((len(a),), "int64", {})])
        check(net, {"x0": np.int64(a), "x1": np.int64(b)}, tmp_path, backend)


def test_slopes_wider_than_the_input(tmp_path: Path) -> None:
    net = one(
        "PRELU", [((1, 3), "float32", {}), ((2, 3), "float32", {})], [((2, 3), "float32", {})]
    )
    (tmp_path / "net.tflite").write_bytes(net.file())
    session = Session(tmp_path / "net.tflite", device="numpy")
    with session, pytest.raises(ShapeError, match="slopes"):
        session.run({"x0": np.zeros((1, 3)), "x1": np.zeros((2, 3))})
