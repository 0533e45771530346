"""StableHLO's elementwise operators against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats.tflite.stablehlo.nets import Fixed, numbers, run, single
from tests.tflite_writer import Table

from vknn.errors import ShapeError, UnsupportedLayerError

Check = Callable[..., None]
SHAPE = (3, 7)
UNARY: dict[str, tuple[Callable[[Any], Any], str]] = {
    "ABS": (np.abs, "float32 float16 int32 int8 int64"),
    "CBRT": (np.cbrt, "float32 float16 float64"),
    "COSINE": (np.cos, "float32"),
    "EXPONENTIAL": (np.exp, "float32 float16"),
    "FLOOR": (np.floor, "float32 float16"),
    "LOG": (np.log, "float32"),
    "LOGISTIC": (lambda x: 1 / (1 + np.exp(-x)), "float32 float64"),
    "NEGATE": (np.negative, "float32 int8 int16 int32 int64"),
    "RSQRT": (lambda x: 1 / np.sqrt(x), "float32"),
    "TANH": (np.tanh, "float32 float16"),
}
_INTEGERS = "int8 int16 int32 int64 uint8 uint32"
BINARY: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "ADD": (np.add, f"float32 float16 bool {_INTEGERS}"),
    "AND": (np.bitwise_and, f"bool {_INTEGERS}"),
    "DIVIDE": (lambda a, b: a / b if a.dtype.kind == "f" else np.trunc(a / b),
               "float32 int32 int8 uint8 int64"),
    "MAXIMUM": (np.maximum, f"float32 float16 bool {_INTEGERS}"),
    "MINIMUM": (np.minimum, f"float32 bool {_INTEGERS}"),
    "MULTIPLY": (np.multiply, f"float32 bool {_INTEGERS}"),
    "OR": (np.bitwise_or, f"bool {_INTEGERS}"),
    "POWER": (np.power, "float32"),
    "REMAINDER": (np.fmod, "float32 int32 int64 int8 uint8"),
    "SUBTRACT": (np.subtract, f"float32 {_INTEGERS}"),
}  # fmt: skip


def _cases(table: dict[str, tuple[Any, str]]) -> list[tuple[str, str]]:
    return [(code, dtype) for code, (_, dtypes) in table.items() for dtype in dtypes.split()]


@pytest.mark.parametrize(("code", "dtype"), _cases(UNARY))
def test_unary(code: str, dtype: str, check: Check) -> None:
    x = numbers(SHAPE, dtype)
    x = np.abs(x) + np.float32(0.1) if code in ("LOG", "RSQRT") else x
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64) if x.dtype.kind == "f" else x
        wanted = UNARY[code][0](wide).astype(x.dtype)
    check(f"STABLEHLO_{code}", [x], [wanted], on_device=dtype in ("float32", "int32"))


@pytest.mark.parametrize(("code", "dtype"), _cases(BINARY))
def test_binary(code: str, dtype: str, check: Check) -> None:
    a, b = numbers(SHAPE, dtype), numbers(SHAPE, dtype, 1)
    a = np.abs(a) if code == "POWER" else a
    b = np.where(b == 0, 3, b).astype(dtype) if code in ("DIVIDE", "REMAINDER") else b
    wanted = BINARY[code][0](a, b).astype(dtype)
    check(f"STABLEHLO_{code}", [a, b], [wanted], on_device=dtype in ("float32", "int32", "bool"))
    check(f"STABLEHLO_{code}", [a, Fixed(b)], [wanted])


def test_integers_wrap_around(check: Check) -> None:
    most, one = np.int32([2**31 - 1, -(2**31)]), np.int32([1, -1])
    with np.errstate(over="ignore"):
        check("STABLEHLO_ADD", [most, one], [most + one])
        check("STABLEHLO_MULTIPLY", [most, most], [most * most])


def test_nan_of_either_operand(check: Check) -> None:
    a, b = np.float32([np.nan, 1, np.inf]), np.float32([1, np.nan, -np.inf])
    check("STABLEHLO_MAXIMUM", [a, b], [np.maximum(a, b)])
    check("STABLEHLO_MINIMUM", [a, b], [np.minimum(a, b)])


def test_cube_roots_of_special_numbers(check: Check) -> None:
    x = np.float32([0, -0.0, 27, -8, np.inf, -np.inf, np.nan, 1e-30, -1e30])
    check("STABLEHLO_CBRT", [x], [np.cbrt(x)])


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_shift_left(dtype: str, check: Check) -> None:
    width = 8 * np.dtype(dtype).itemsize
    x, places = np.array([1, -3, 5, 7, 9, 11], dtype), np.array([0, 1, 3, 40, width, -1], dtype)
    inside = (places >= 0) & (places < width)
    moved = np.where(inside, np.left_shift(x, np.where(inside, places, 0)), 0)
    check("STABLEHLO_SHIFT_LEFT", [x, places], [moved.astype(dtype)])


COMPARISONS = [np.equal, np.not_equal, np.greater_equal, np.greater, np.less_equal, np.less]


@pytest.mark.parametrize("direction", range(6))
@pytest.mark.parametrize("dtype", ["float32", "int32", "int8", "int64", "bool", "uint8"])
def test_compare(dtype: str, direction: int, check: Check) -> None:
    a, b = numbers(SHAPE, dtype), numbers(SHAPE, dtype, 1)
    options = {"comparison_direction": direction, "compare_type": 0}
    wanted = COMPARISONS[direction](a, b)
    on_device = dtype in ("float32", "int32", "bool")
    check("STABLEHLO_COMPARE", [a, b], [wanted], options, on_device=on_device)


@pytest.mark.parametrize("direction", range(6))
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_total_order(dtype: str, direction: int, check: Check) -> None:
    nan = np.array([np.nan], dtype)
    row = [-np.inf, -1.5, -0.0, 0.0, 1e-7, 2, np.inf]
    ordered = np.concatenate([-np.abs(nan), np.array(row, dtype), np.abs(nan)])
    a, b = (np.ascontiguousarray(m) for m in np.meshgrid(ordered, ordered))
    ranks = np.meshgrid(np.arange(9), np.arange(9))
    options = {"comparison_direction": direction, "compare_type": 2}
    check("STABLEHLO_COMPARE", [a, b], [COMPARISONS[direction](*ranks)], options)


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64", "uint8"])
def test_clamp(dtype: str, check: Check) -> None:
    x, low, high = numbers(SHAPE, dtype), np.array(2, dtype), np.array(5, dtype)
    check("STABLEHLO_CLAMP", [low, x, high], [np.clip(x, low, high)])
    bound = np.maximum(numbers(SHAPE, dtype, 1), low)
    check("STABLEHLO_CLAMP", [Fixed(low), x, bound], [np.minimum(np.maximum(x, low), bound)])


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64", "bool"])
def test_select(dtype: str, check: Check) -> None:
    a, b, chosen = numbers(SHAPE, dtype), numbers(SHAPE, dtype, 1), numbers(SHAPE, "bool")
    check("STABLEHLO_SELECT", [chosen, a, b], [np.where(chosen, a, b)])
    for each in (True, False):
        check("STABLEHLO_SELECT", [np.array(each), a, b], [a if each else b])


PAIRS = [
    ("float32", "int32"), ("float32", "bool"), ("int32", "float32"), ("bool", "float32"),
    ("int64", "int32"), ("int32", "int8"), ("float32", "float16"), ("uint8", "float32"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_convert(source: str, target: str, check: Check) -> None:
    x = numbers(SHAPE, source) * (np.array(100, source) if source == "int32" else 1)
    x = x.astype(source)
    check("STABLEHLO_CONVERT", [x], [x.astype(target)])


@pytest.mark.parametrize("code", [*BINARY, "COMPARE", "SELECT", "CLAMP", "SHIFT_LEFT"])
def test_nothing_broadcasts(code: str, tmp_path: Path) -> None:
    dtype = "int32" if code in ("AND", "OR", "SHIFT_LEFT") else "float32"
    a, b = numbers((3, 7), dtype), numbers((1, 7), dtype)
    inputs = [a, b]
    if code == "SELECT":
        inputs = [numbers((3, 1), "bool"), a, a]
    elif code == "CLAMP":
        inputs = [b, a, a]
    options = {"comparison_direction": 0} if code == "COMPARE" else None
    wanted = "bool" if code == "COMPARE" else dtype
    net, feeds = single(f"STABLEHLO_{code}", inputs, [((3, 7), wanted)], options)
    message = "nothing broadcasts here|chooses between|holds"
    with pytest.raises(ShapeError, match=rf"operator 0 \(STABLEHLO_{code}\).*({message})"):
        run(tmp_path / "m.tflite", "numpy", net.file(), feeds)


def test_types_are_told_apart(tmp_path: Path) -> None:
    net, feeds = single("STABLEHLO_COSINE", [np.int32([1, 2])], [((2,), "int32")])
    with pytest.raises(ShapeError, match=r"STABLEHLO_COSINE.*floating point"):
        run(tmp_path / "m.tflite", "numpy", net.file(), feeds)


def test_quantized_arithmetic_is_refused(tmp_path: Path) -> None:
    x = numbers((3,), "int8")
    net, feeds = single("STABLEHLO_ADD", [x, x], [((3,), "int8")])
    scale = {"scale": np.float32([0.5]), "zero_point": [3]}
    net.tensors[0].fields["quantization"] = Table("QuantizationParameters", scale)
    with pytest.raises(UnsupportedLayerError, match=r"STABLEHLO_ADD.*quantized tensors"):
        run(tmp_path / "m.tflite", "numpy", net.file(), feeds)
