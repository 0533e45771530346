"""Eltwise, Power, Select, PReLU, Clamp, and functions of single elements, against NumPy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats.openvino.many import BACKENDS, Many, fixed, refuse

#: Shapes that broadcast, either operand the smaller one.
PAIRS = (
    ((2, 3, 4, 5), (2, 3, 4, 5)), ((2, 3, 4, 5), (1, 3, 1, 1)), ((5,), (2, 3, 4, 5)),
    ((2, 3, 4, 5), ()), ((2, 1, 4), (3, 1)), ((4, 1), (1, 5)), ((2, 3, 4, 5, 2), (3, 1, 1, 2)),
    ((7,), (7,)), ((1,), (3, 2)),
)  # fmt: skip
FLOATS: dict[str, Callable[..., Any]] = {
    "sum": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "max": np.maximum,
    "min": np.minimum, "squared_diff": lambda a, b: (a - b) ** 2,
    "floor_mod": lambda a, b: a - b * np.floor(a / b), "pow": lambda a, b: np.power(np.abs(a), b),
}  # fmt: skip
TRUTHS: dict[str, Callable[..., Any]] = {
    "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor,
    "less": np.less, "less_equal": np.less_equal, "greater": np.greater,
    "greater_equal": np.greater_equal, "equal": np.equal, "not_equal": np.not_equal,
}  # fmt: skip


def made(*shape: int, seed: int = 0) -> np.ndarray:
    values = np.random.default_rng((seed, *shape)).standard_normal(shape)
    return np.asarray(values, np.float32)


def coarse(*shape: int, seed: int = 0, dtype: type = np.float32) -> np.ndarray:
    """Few values, so that many are equal or 0."""
    return np.asarray(np.random.default_rng((seed, *shape)).integers(-2, 3, shape), dtype)


@pytest.mark.parametrize("backend", BACKENDS)
def test_eltwise(backend: str, tmp_path: Path) -> None:
    many = Many(1e-5)
    for number, (name, function) in enumerate(FLOATS.items()):
        for first, second in PAIRS if number < 2 else PAIRS[number % 3 :: 3]:
            a, b = made(*first), made(*second, seed=1)
            if name == "pow":
                a = np.abs(a)
            if name in ("div", "floor_mod"):
                b = b + np.copysign(0.5, b)
            y = np.asarray(function(a.astype(np.float64), b.astype(np.float64)), np.float32)
            many.add("Eltwise", [a, b], y, {"operation": name})
    for number, (name, function) in enumerate(TRUTHS.items()):
        for first, second in PAIRS[number % 3 :: 3]:
            a, b = coarse(*first), coarse(*second, seed=1)
            y = np.asarray(function(a, b), np.float32)
            many.add("Eltwise", [a, b], y, {"operation": name})
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_eltwise_of_integers(backend: str, tmp_path: Path) -> None:
    many = Many()
    for dtype in (np.int32, np.int64):
        a, b = 7 * coarse(3, 5, dtype=dtype) + 1, 3 * coarse(5, seed=1, dtype=dtype) - 1
        for name, y in (
            ("sum", a + b), ("sub", a - b), ("mul", a * b), ("max", np.maximum(a, b)),
            ("min", np.minimum(a, b)), ("squared_diff", (a - b) ** 2), ("floor_mod", a % b),
            ("div", np.rint(a / b)), ("less", a < b), ("equal", a == b),
            ("logical_xor", (a != 0) ^ (b != 0)), ("pow", a ** np.abs(b)),
        ):  # fmt: skip
            second = np.abs(b) if name == "pow" else b
            many.add("Eltwise", [a, second], np.asarray(y, dtype), {"operation": name})
        many.add("Eltwise", [a, b], (a < b).astype(np.uint8), {"operation": "less"})
        y = a.astype(np.float32) / b.astype(np.float32)
        many.add("Eltwise", [a, b], y, {"operation": "div"})
    for dtype in (np.uint8, np.int8, np.int16):
        info = np.iinfo(dtype)
        a = np.array([info.min, info.max, info.max, 3, 100], dtype)
        b = np.array([1, 1, info.max, 5, 100], dtype)
        wide = a.astype(np.int64), b.astype(np.int64)
        for name, full in (("sum", wide[0] + wide[1]), ("sub", wide[0] - wide[1])):
            y = np.clip(full, info.min, info.max).astype(dtype)
            many.add("Eltwise", [a, b], y, {"operation": name})
        many.add("Eltwise", [a, b], (wide[0] * wide[1]).astype(np.float32), {"operation": "mul"})
    a, b = coarse(2, 3), coarse(3, dtype=np.int32)
    many.add("Eltwise", [a, b], a + b.astype(np.float32), {"operation": "sum"})
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_eltwise_of_old(backend: str, tmp_path: Path) -> None:
    """Several inputs, coefficients, older names, no name."""
    many = Many(1e-5)
    a, b, c, d = (made(2, 3, 4, seed=s) for s in range(4))
    many.add("Eltwise", [a, b], a + b)
    many.add("eltwise", [a, b], a + b, {"operation": ""})
    many.add("Eltwise", [a, b], a * b, {"operation": "prod"})
    many.add("Eltwise", [a, b], a - b, {"operation": "SUB"})
    many.add("Eltwise", [a, b, c], a + b + c, {"operation": "sum"})
    many.add("Eltwise", [a, b, c, d], a * b * c * d, {"operation": "mul"})
    many.add("Eltwise", [a, b, c], np.maximum(np.maximum(a, b), c), {"operation": "max"})
    many.add("Eltwise", [a, b, c], np.minimum(np.minimum(a, b), c), {"operation": "min"})
    many.add("Eltwise", [a, b, c], a - b - c, {"operation": "sub"})
    many.add("Eltwise", [a, b, c], (a + b + c) / 3, {"operation": "mean"})
    many.add("Eltwise", [a], a, {"operation": "sum"})
    weights = np.float32([0.5, -2.0, 1.0])
    y = weights[0] * a + weights[1] * b + weights[2] * c
    many.add("Eltwise", [a, b, c], y, {"operation": "sum", "coeff": "0.5, -2, 1"})
    many.add("Eltwise", [a, b], a - b, {"operation": "sum", "coeff": "1,-1"})
    many.add("Eltwise", [a, b], a + b, {"operation": "sum", "coeff": ""})
    many.add("Eltwise", [a, b], a * b, {"operation": "mul", "coeff": "3,4"})
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_power(backend: str, tmp_path: Path) -> None:
    many = Many(1e-5)
    for rank, (power, scale, shift) in itertools.product(
        (1, 2, 4, 5),
        ((1, 2, 3), (2, 0.1, 5), (2, 1, -0.5), (0.5, 1, 6), (-1, 1, 6), (-1, -1, -6), (0, 2, 1),
         (2.5, 0.7, 6), (-2, 1.5, 0.5), (3, 1, 0), (-0.5, 1, 7), (4, -1, 0), (1, -1, 0), (0, 0, 0)),
    ):  # fmt: skip
        x = np.clip(made(*(2, 3, 4, 5, 2)[:rank]), -4, 4)
        base = np.float32(shift) + np.float32(scale) * x  # what is left near 0 has few digits
        y = np.power(base.astype(np.float64), power).astype(np.float32)
        many.add("Power", [x], y, {"power": power, "scale": scale, "shift": shift})
    x = made(3, 2)
    many.add("Power", [x], x, {})
    many.add("Power", [x], x + 2, {"shift": "2.0"})
    whole = coarse(3, 4, dtype=np.int32)
    many.add("Power", [whole], whole * -3 + 5, {"power": 1, "scale": "-3.0", "shift": 5})
    many.add("Power", [whole], whole**2, {"power": 2})
    y = whole.astype(np.float32) * np.float32(0.5)
    many.add("Power", [whole], y, {"scale": 0.5})
    many.add("Power", [whole], np.rint(y).astype(np.int32), {"scale": 0.5})
    root = np.rint(np.sqrt(np.abs(whole) + 3)).astype(np.int32)
    many.add("Power", [np.abs(whole)], root, {"power": 0.5, "shift": 3})
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_select(backend: str, tmp_path: Path) -> None:
    many = Many()
    shapes = (
        ((3, 2), (3, 2), (3, 2)), ((), (3, 2), (3, 2)), ((2,), (3, 2), (1,)), ((4, 1), (5,), ()),
        ((2, 3, 4, 5), (1, 3, 1, 1), (4, 5)), ((1,), (2, 2, 2, 2, 2), (2, 1)),
    )  # fmt: skip
    for dtypes in itertools.product((np.int32, np.uint8, np.float32), (np.float32, np.int32)):
        for condition, first, second in shapes:
            picked = np.abs(coarse(*condition)).astype(dtypes[0])
            a, b = coarse(*first, dtype=dtypes[1]), 9 + coarse(*second, seed=1, dtype=dtypes[1])
            many.add("Select", [picked, a, b], np.where(picked != 0, a, b))
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_slopes_and_bounds(backend: str, tmp_path: Path) -> None:
    many = Many(1e-6)
    slope = made(3)
    for rank in range(2, 6):
        x = made(*(2, 3, 4, 5, 2)[:rank])
        wide = slope.reshape(-1, *(1,) * (rank - 2))
        many.add("PReLU", [x], np.where(x < 0, x * wide, x), None, {"weights": slope})
        y = np.where(x < 0, x * slope[0], x)
        many.add("PReLU", [x], y, {"channel_shared": 1}, {"weights": slope[:1]})
        many.add("Clamp", [x], np.clip(x, -0.5, 0.25), {"min": "-0.5", "max": 0.25})
    x = 5 * made(2, 3)
    many.add("PReLU", [x, slope], np.where(x < 0, x * slope, x))
    many.add("Clamp", [x], np.clip(x, 0, 6), {"min": 0, "max": 6})
    many.add("Clamp", [x], np.clip(x, -3, -1), {"min": "-3", "max": "-1.0"})
    whole = 5 * coarse(3, 3, dtype=np.int32)
    many.add("Clamp", [whole], np.clip(whole, -6, 8), {"min": -5.5, "max": 7.9})
    many.add("ReLU", [whole], np.maximum(whole, np.rint(whole / 2)).astype(np.int32),
             {"negative_slope": 0.5})  # fmt: skip
    many.add("TanH", [whole], np.rint(np.tanh(whole)).astype(np.int32))
    many.add("Power", [np.arange(-3, 5, dtype=np.int8)],
             np.array([0, 0, 0, 2, 102, 202, 255, 255], np.uint8),
             {"scale": 100, "shift": 2})  # fmt: skip
    many.check(backend, tmp_path)


def _erf(x: np.ndarray) -> np.ndarray:
    return np.vectorize(math.erf)(x)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-x)))


#: name -> (function, what is added to the input and multiplied with it)
FUNCTIONS: dict[str, tuple[Callable[[np.ndarray], Any], float, float]] = {
    "Abs": (np.abs, 0, 1), "Acos": (np.arccos, 0, 0.2), "Acosh": (np.arccosh, 6, 1),
    "Asin": (np.arcsin, 0, 0.2), "Asinh": (np.arcsinh, 0, 2), "Atan": (np.arctan, 0, 2),
    "Atanh": (np.arctanh, 0, 0.2), "Ceiling": (np.ceil, 0, 4), "Ceil": (np.ceil, 0, 4),
    "Cos": (np.cos, 0, 3), "Cosh": (np.cosh, 0, 1), "Erf": (_erf, 0, 1), "Exp": (np.exp, 0, 1),
    "Floor": (np.floor, 0, 4), "Log": (np.log, 6, 1), "Neg": (np.negative, 0, 1),
    "Reciprocal": (np.reciprocal, 6, 1), "Sign": (np.sign, 0, 1), "Sin": (np.sin, 0, 3),
    "Sinh": (np.sinh, 0, 1), "Sqrt": (np.sqrt, 6, 1), "Tan": (np.tan, 0, 0.3),
    "SoftPlus": (lambda x: np.log1p(np.exp(x)), 0, 3),
    "SoftSign": (lambda x: x / (1 + abs(x)), 0, 1),
    "Mish": (lambda x: x * np.tanh(np.log1p(np.exp(x))), 0, 2), "Square": (np.square, 0, 1),
    "Gelu": (lambda x: x * (1 + _erf(x / np.sqrt(2))) / 2, 0, 2),
    "Swish": (lambda x: x * sigmoid(x), 0, 2), "Round": (np.rint, 0, 4),
    "HSwish": (lambda x: x * np.clip(x + 3, 0, 6) / 6, 0, 3),
    "HardSigmoid": (lambda x: np.clip(0.2 * x + 0.5, 0, 1), 0, 3),
    "Selu": (lambda x: 1.0507009873554805 * np.where(
        x > 0, x, 1.6732632423543772 * np.expm1(x)), 0, 1),
}  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
def test_functions(backend: str, tmp_path: Path) -> None:
    many = Many(1e-5)
    for (name, (function, shift, scale)), shape in itertools.product(
        FUNCTIONS.items(), ((2, 3, 4, 5),)
    ):
        x = np.clip(made(*shape), -4, 4) * np.float32(scale) + np.float32(shift)
        y = np.asarray(function(x.astype(np.float64)), np.float32)
        many.add(name, [x], y)
    x = made(3, 4)
    y = np.clip(0.5 * x - 0.25, 0, 1)
    many.add("HardSigmoid", [x], y.astype(np.float32), {"alpha": 0.5, "beta": "-0.25"})
    y = 2 * np.where(x > 0, x, 0.5 * np.expm1(x))
    many.add("Selu", [x], y.astype(np.float32), {"alpha": 0.5, "gamma": 2})
    many.add("Swish", [x], x * sigmoid(3 * x), {"alpha": 3})
    y = x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    many.add("Gelu", [x], y.astype(np.float32), {"approximation_mode": "tanh"})
    whole = coarse(2, 5, dtype=np.int32)
    for name, result in (
        ("Abs", np.abs(whole)), ("Neg", -whole), ("Sign", np.sign(whole)), ("Floor", whole),
        ("Ceiling", whole), ("ReLU", np.maximum(whole, 0)),
    ):  # fmt: skip
        many.add(name, [whole], result)
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_softmax(backend: str, tmp_path: Path) -> None:
    many = Many(1e-6)
    shape = (3, 4, 5, 2, 3)
    for rank in range(1, 6):
        x = 30 * made(*shape[:rank])
        for axis in (None, *range(-rank, rank)):
            along = min(1, rank - 1) if axis is None else axis
            e = np.exp(x.astype(np.float64) - x.max(along, keepdims=True))
            y = e / e.sum(along, keepdims=True)
            attributes = {} if axis is None else {"axis": axis}
            many.add("SoftMax", [x], y.astype(np.float32), attributes)
            if axis is None or axis >= 0:
                along = -1 if axis is None else axis
                e = np.exp(x.astype(np.float64) - x.max(along, keepdims=True))
                y = x - x.max(along, keepdims=True) - np.log(e.sum(along, keepdims=True))
                many.add("LogSoftmax", [x], y.astype(np.float32), attributes)
    many.check(backend, tmp_path)


REDUCTIONS: dict[str, Callable[..., Any]] = {
    "ReduceSum": np.sum, "ReduceMean": np.mean, "ReduceMax": np.max, "ReduceMin": np.min,
    "ReduceProd": np.prod, "ReduceL1": lambda x, **k: np.abs(x).sum(**k),
    "ReduceL2": lambda x, **k: np.sqrt((x * x).sum(**k)),
    "ReduceLogSum": lambda x, **k: np.log(x.sum(**k)),
    "ReduceLogSumExp": lambda x, **k: np.log(np.exp(x).sum(**k)),
    "ReduceSumSquare": lambda x, **k: (x * x).sum(**k),
    "ReduceAnd": lambda x, **k: (x != 0).all(**k), "ReduceOr": lambda x, **k: (x != 0).any(**k),
}  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
def test_reductions(backend: str, tmp_path: Path) -> None:
    many = Many(1e-5)
    axes = ((0,), (-1,), (1, 2), (0, -2, 1), (3, 2, 1, 0), (2, 2), (-1, -2))
    for (name, function), (number, along), keep in itertools.product(
        REDUCTIONS.items(), enumerate(axes), (None, True, False)
    ):
        if (number + len(name)) % 2 and number > 1:
            continue
        shape = (2, 3, 4, 2)
        x = coarse(*shape) if name in ("ReduceAnd", "ReduceOr") else made(*shape)
        if name == "ReduceLogSum":
            x = np.abs(x) + np.float32(0.1)
        normal = tuple({a % 4 for a in along})
        y = function(x.astype(np.float64), axis=normal, keepdims=keep is not False)
        attributes = {} if keep is None else {"keep_dims": keep}
        many.add(name, [x, fixed(*along)], np.asarray(y, np.float32), attributes)
    for name in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceSumSquare",
                 "ReduceAnd", "ReduceOr"):  # fmt: skip
        whole = coarse(3, 4, dtype=np.int32)
        y = np.asarray(REDUCTIONS[name](whole, axis=1, keepdims=False), np.int32)
        many.add(name, [whole, fixed(1, dtype=np.int64)], y, {"keep_dims": "False"})
    whole = 3 * coarse(3, 4, dtype=np.int32) + 20
    y = np.rint(whole.mean(1, keepdims=True)).astype(np.int32)
    many.add("ReduceMean", [whole, fixed(1)], y)
    many.check(backend, tmp_path)


def test_contradictions(tmp_path: Path) -> None:
    a, b = made(2, 3), made(2, 2)
    shape = [(2, 3)]
    refuse(tmp_path, "Eltwise", [a, b], shape, {"operation": "sum"}, "broadcast")
    refuse(tmp_path, "Eltwise", [a, a], shape, {"operation": "plus"}, "operation")
    refuse(tmp_path, "Eltwise", [a, a], shape, {"coeff": "1"}, "coeff")
    refuse(tmp_path, "Eltwise", [a, a, a], shape, {"operation": "less"}, "3")
    refuse(tmp_path, "Eltwise", [a, a], [(3, 3)], {"operation": "sum"}, "shape")
    refuse(tmp_path, "Clamp", [a], shape, {"min": 2, "max": 1}, "above")
    refuse(tmp_path, "Power", [a], shape, {"power": "two"}, "power")
    refuse(tmp_path, "PReLU", [a], shape, {}, "slopes", blobs={"weights": made(2)})
    refuse(tmp_path, "PReLU", [a], shape, {}, "weights")
    refuse(tmp_path, "SoftMax", [a], shape, {"axis": 2}, "axis")
    refuse(tmp_path, "Select", [a, a, b], shape, {}, "broadcast")
    refuse(tmp_path, "ReduceSum", [a, fixed(2)], [(2, 1)], {}, "axis")
    half = fixed(0.5, dtype=np.float32)
    refuse(tmp_path, "ReduceSum", [a, half], [(2, 1)], {}, "integers")
