"""Cases for the versions of operators that no test vector has, with results by their formulas.

A version means what was new with it: legacy attributes of version 1, bfloat16 and 2-bit integers in
those that only took further types.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
from tests.onnx_writer import graph, node, value

from vknn.graph import DType

F, BF16 = np.float32, ml_dtypes.bfloat16
_RNG = np.random.default_rng(7)


@dataclass(frozen=True)
class Case:
    """An operator of a version: arrays in (None: left out), arrays out, attributes.

    ``fixed``: inputs that are initializers. ``share``: allowed difference, of the largest result.
    ``check``: says of results that no formula gives whether they are right.
    """

    name: str
    version: int
    inputs: Sequence[Any]
    wanted: Sequence[Any] = ()
    fixed: Sequence[int] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    share: float = 1e-5
    check: Callable[[np.ndarray], bool] | None = None


CASES: list[Case] = []


def case(
    name: str, versions: int | Sequence[int], inputs: Sequence[Any], *wanted: Any,
    fixed: Sequence[int] = (), share: float = 1e-5,
    check: Callable[[np.ndarray], bool] | None = None, **attributes: Any,
) -> None:  # fmt: skip
    """Addition of a case for each of the versions."""
    CASES.extend(
        Case(name, version, inputs, wanted, fixed, attributes, share, check)
        for version in ((versions,) if isinstance(versions, int) else versions)
    )


def floats(*shape: int, low: float = -3, high: float = 3) -> np.ndarray:
    return (_RNG.random(shape) * (high - low) + low).astype(F)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-x.astype(float))))


X, UP = floats(5, 7), floats(5, 7, low=0.1)
IMAGE = floats(2, 3, 5, 7)
TRUTHS = X > 0


def _unary() -> None:
    """Version 1 says in consumed_inputs which inputs may be overwritten; that means nothing."""
    one = {"consumed_inputs": [0]}
    for name, wanted in (("Abs", abs(X)), ("Ceil", np.ceil(X)), ("Exp", np.exp(X)),
                         ("Floor", np.floor(X)), ("Neg", -X), ("Reciprocal", 1 / X),
                         ("Relu", X.clip(0)), ("Sigmoid", sigmoid(X)), ("Tanh", np.tanh(X)),
                         ("LeakyRelu", np.where(X < 0, X * 0.01, X)),
                         ("Elu", np.where(X < 0, np.expm1(X), X)),
                         ("HardSigmoid", (0.2 * X + 0.5).clip(0, 1)),
                         ("Selu", 1.0507 * np.where(X < 0, 1.6732 * np.expm1(X), X))):  # fmt: skip
        case(name, 1, [X], wanted, **one)
    case("Log", 1, [UP], np.log(UP), **one)
    case("Sqrt", 1, [UP], np.sqrt(UP), **one)
    case("Ceil", 6, [X], np.ceil(X))
    case("Reciprocal", 6, [X], 1 / X)
    case("Relu", 6, [X], X.clip(0))
    case("Atanh", 9, [X / 3.1], np.arctanh(X / 3.1))
    case("Sign", 9, [X * TRUTHS], np.sign(X * TRUTHS))
    holes = np.where(TRUTHS, np.nan, X)
    case("IsNaN", 9, [holes.astype(F)], TRUTHS)
    half = X.astype(BF16)
    wide = half.astype(float)
    case("Floor", 13, [half], np.floor(wide).astype(BF16))
    small = (X / 3.1).astype(BF16)
    for name, x, wanted in (
        ("Asin", small, np.arcsin(small.astype(float))), ("Atan", half, np.arctan(wide)),
        ("Cos", half, np.cos(wide)), ("Sinh", half, np.sinh(wide)),
        ("Mish", half, wide * np.tanh(np.log1p(np.exp(wide)))),
        ("HardSwish", half, wide * (wide / 6 + 0.5).clip(0, 1)),
        ("ThresholdedRelu", half, np.where(wide > 1, wide, 0)),
    ):  # fmt: skip
        case(name, 22, [x], wanted.astype(BF16), share=1e-2)
    case("Clip", 1, [X], X.clip(-1, 2), min=-1.0, max=2.0, **one)
    case("Cast", 1, [X], X.astype(np.int32), to="INT32")


def _of_two() -> None:
    y = floats(5, low=0.5)
    other, both = y[:, None], {"broadcast": 1, "axis": 0}
    for name, wanted in (("Div", X / other), ("Mul", X * other), ("Sub", X - other),
                         ("Greater", np.greater(X, other)),
                         ("Less", np.less(X, other))):  # fmt: skip
        more = {"consumed_inputs": [0, 0]} if name in ("Div", "Mul", "Sub") else {}
        case(name, 1, [X, y], wanted, **both, **more)
    case("Equal", 1, [np.int32([[1, 2], [3, 4]]), np.int32([1, 4])],
         np.array([[True, False], [False, True]]), broadcast=1, axis=1)  # fmt: skip
    row = X[0] > 1
    for name, found in (("And", TRUTHS & row), ("Or", TRUTHS | row), ("Xor", TRUTHS ^ row)):
        case(name, 1, [TRUTHS, row], found, broadcast=1)
    slope = floats(3, low=0)
    wanted = np.where(IMAGE < 0, IMAGE * slope[:, None, None], IMAGE)
    case("PRelu", 1, [IMAGE, slope], wanted, consumed_inputs=[0, 0])
    case("PRelu", 7, [IMAGE, slope.reshape(3, 1, 1)], wanted)
    half, steep = IMAGE.astype(BF16), slope.reshape(3, 1, 1).astype(BF16)
    wide = half.astype(F)
    case("PRelu", 16, [half, steep], np.where(wide < 0, wide * steep.astype(F), wide).astype(BF16),
         share=1e-2)  # fmt: skip
    case("MatMul", 1, [X, UP.T.copy()], X @ UP.T)
    for name, wanted in (("Max", np.maximum(X, UP)), ("Min", np.minimum(X, UP)),
                         ("Mean", (X + UP) / 2), ("Sum", X + UP)):  # fmt: skip
        case(name, 1, [X, UP], wanted, consumed_inputs=[0, 0])
    case("Sum", 8, [X, UP[:1], UP[:, :1]], X + UP[:1] + UP[:, :1])
    weights, bias = floats(7, 3), floats(3)
    case("Gemm", 1, [X, weights, bias], 0.5 * X @ weights + 2 * bias, alpha=0.5, beta=2.0,
         broadcast=1)  # fmt: skip


def _normalizations() -> None:
    scale, shift, mean = floats(3), floats(3), floats(3)
    spread = floats(3, low=0.5)
    columns = (slice(None), None, None)
    wanted = (IMAGE - mean[columns]) / np.sqrt(spread[columns] + 1e-5) * scale[columns]
    wanted = wanted + shift[columns]
    given = [IMAGE, scale, shift, mean, spread]
    case("BatchNormalization", 1, given, wanted, is_test=1, consumed_inputs=[0, 0, 0, 1, 1])
    case("BatchNormalization", 7, given, wanted)
    own = (IMAGE - IMAGE.mean((2, 3), keepdims=True)) / np.sqrt(
        IMAGE.var((2, 3), keepdims=True) + 1e-5
    )
    case("InstanceNormalization", 1, given[:3], own * scale[columns] + shift[columns],
         consumed_inputs=[0, 0, 0])  # fmt: skip
    case("Dropout", 1, [X], X, is_test=1, consumed_inputs=[0], ratio=0.3)
    case("Dropout", 6, [X], X, is_test=1, ratio=0.3)
    case("Dropout", 7, [X], X, ratio=0.3)
    half = IMAGE.astype(BF16)
    wide = half.astype(float)
    squares = np.pad(wide**2, ((0, 0), (1, 1), (0, 0), (0, 0)))
    sums = squares[:, :-2] + squares[:, 1:-1] + squares[:, 2:]
    case("LRN", 13, [half], (wide / (1 + 1e-1 / 3 * sums) ** 0.75).astype(BF16), share=1e-2,
         size=3, alpha=0.1)  # fmt: skip
    axes = (0, 2, 3)
    own = (wide - wide.mean(axes, keepdims=True)) / wide.std(axes, keepdims=True)
    case("MeanVarianceNormalization", 13, [half], own.astype(BF16), share=2e-2)
    case("LpNormalization", 1, [X], X / abs(X).sum(0), axis=0, p=1)
    powers = np.exp(IMAGE.astype(float))
    case("LogSoftmax", 11, [IMAGE], IMAGE - np.log(powers.sum((2, 3), keepdims=True)), axis=2)


def _windows() -> None:
    half = IMAGE.astype(BF16)
    means = half.astype(float).mean((2, 3), keepdims=True)
    case("GlobalAveragePool", 22, [half], means.astype(BF16), share=1e-2)
    case("GlobalLpPool", 1, [IMAGE], np.sqrt((IMAGE**2).sum((2, 3), keepdims=True)), p=2.0)
    taps = np.lib.stride_tricks.sliding_window_view(abs(IMAGE), (2, 3), (2, 3))
    for version, power in ((1, 3.0), (11, 3)):
        case("LpPool", version, [IMAGE], np.cbrt((taps**3).sum((-1, -2))), kernel_shape=[2, 3],
             p=power)  # fmt: skip
    taps = np.lib.stride_tricks.sliding_window_view(IMAGE, (2, 3), (2, 3))[:, :, ::3, ::2]
    case("MaxPool", 11, [IMAGE], taps.max((-1, -2)), kernel_shape=[2, 3], strides=[3, 2])
    pooled, places = floats(1, 1, 1, 2), np.array([[[[1, 6]]]], np.int64)
    spread = np.zeros((1, 1, 2, 4), F)
    spread.reshape(-1)[places] = pooled
    case("MaxUnpool", 9, [pooled, places], spread, kernel_shape=[2, 2], strides=[2, 2])
    doubled = IMAGE.repeat(2, 2).repeat(3, 3)
    case("Upsample", 1, [IMAGE], doubled, height_scale=2.0, width_scale=3.0, mode="nearest")
    case("Upsample", 10, [IMAGE, F([1, 1, 2, 3])], doubled, fixed=(1,), mode="nearest")


def _shapes() -> None:
    case("Concat", 1, [X, UP], np.concatenate([X, UP], 1))
    case("Pad", 1, [X], np.pad(X, ((1, 0), (0, 2)), constant_values=0.5), paddings=[1, 0, 0, 2],
         value=0.5)  # fmt: skip
    case("Reshape", 1, [X], X.reshape(7, 5), shape=[-1, 5], consumed_inputs=[0])
    case("Split", 1, [X], X[:, :3], X[:, 3:], axis=1, split=[3, 4])
    case("Split", 1, [X, F([2, 3])], X[:2], X[2:], axis=0, fixed=(1,))
    case("Squeeze", 1, [X[None, :, None]], X, axes=[0, 2])
    case("Unsqueeze", 1, [X], X[None, :, None], axes=[0, 2])
    case("Tile", 1, [X, F([2]), F([1])], np.tile(X, (1, 2)), fixed=(1, 2))
    order = np.argsort(-X, 1)[:, :3]
    best = np.take_along_axis(X, order, 1)
    case("TopK", 1, [X], best, order.astype(np.int64), k=3)
    case("TopK", 10, [X, np.array([3], np.int64)], best, order.astype(np.int64), fixed=(1,))
    case("Size", 24, [X.astype(ml_dtypes.float8_e8m0fnu)], np.array(35, np.int64))
    case("Size", 25, [TRUTHS.astype(np.int8).astype(ml_dtypes.int2)], np.array(35, np.int64))
    numbers = [np.array(n, BF16) for n in (1, 4, 0.5)]
    case("Range", 27, numbers, np.arange(1, 4, 0.5).astype(BF16))
    turned = X.copy()
    turned[:, 0], turned[:3, 1] = X[::-1, 0], X[2::-1, 1]
    lengths = np.array([5, 3, 1, 1, 1, 1, 1], np.int64)
    case("ReverseSequence", 28, [X.astype(BF16), lengths], turned.astype(BF16))
    rows = np.array([[2], [0]], np.int64)
    moved = X.copy()
    moved[[2, 0]] = UP[:2]
    case("ScatterND", 11, [X, rows, UP[:2]], moved)
    put = X.astype(BF16)
    put[2, :2], put[0, 1] = UP[0, :2].astype(BF16), UP[1, 1].astype(BF16)
    put[4, 0] = UP[1, 0].astype(BF16)
    case("ScatterElements", 13, [X.astype(BF16), np.array([[2, 2], [4, 0]], np.int64),
                                 UP[:2, :2].astype(BF16)], put)  # fmt: skip


def _reductions() -> None:
    case("ReduceL2", 11, [X], np.sqrt((X**2).sum(-1, keepdims=True)), axes=[-1])
    case("ReduceLogSum", 11, [UP], np.log(UP.sum(-2)), axes=[-2], keepdims=0)
    bytes_ = (X * 40).astype(np.int8)
    case("ReduceMin", 12, [bytes_], bytes_.min(1), axes=[1], keepdims=0)
    case("ReduceSumSquare", 1, [X], (X**2).sum(1), axes=[1], keepdims=0)
    case("ReduceSumSquare", 11, [X], (X**2).sum(-1), axes=[-1], keepdims=0)
    square = X[:, :5].copy()
    case("Det", 22, [square.astype(float)], np.linalg.det(square.astype(float)))
    case("Det", 22, [np.eye(3, dtype=BF16) * BF16(2)], np.array(8, BF16))


def _quantized() -> None:
    bytes_ = (X * 40).astype(np.int8)
    wanted = ((bytes_.astype(F) - 3) * F(0.25)).astype(F)
    case("DequantizeLinear", 10, [bytes_, F(0.25), np.int8(3)], wanted, fixed=(1, 2))
    pairs = np.array([[-2, -1, 0], [1, 0, 1]]).astype(ml_dtypes.int2)
    real = np.array([[-1, -0.5, 0], [0.5, 0, 0.5]], F)
    case("DequantizeLinear", 25, [pairs, F(0.5)], real, fixed=(1,))
    case("QuantizeLinear", 25, [real * 4, F(0.5), np.array(0).astype(ml_dtypes.int2)],
         np.array([[-2, -2, 0], [1, 0, 1]]).astype(ml_dtypes.int2), fixed=(1, 2))  # fmt: skip


def _recurrent() -> None:
    x, size = floats(4, 2, 3, low=-1, high=1), 5
    for name, versions, gates in (("RNN", (1,), 1), ("GRU", (1, 3), 3), ("LSTM", (1,), 4)):
        w, r = (floats(1, gates * size, n, low=-0.5, high=0.5) for n in (3, size))
        h, c, states = np.zeros((2, size)), np.zeros((2, size)), []
        for step in x.astype(float):
            a, b = np.split(step @ w[0].T, gates, 1), np.split(h @ r[0].T, gates, 1)
            if name == "RNN":
                h = np.tanh(a[0] + b[0])
            elif name == "GRU":
                z, reset = sigmoid(a[0] + b[0]), sigmoid(a[1] + b[1])
                new = np.tanh(a[2] + (reset * h) @ r[0, 2 * size :].T)
                h = (1 - z) * new + z * h
            else:
                i, o, f = (sigmoid(a[k] + b[k]) for k in range(3))
                c = f * c + i * np.tanh(a[3] + b[3])
                h = o * np.tanh(c)
            states.append(h[None])
        more = {"output_sequence": 1} if versions[0] < 3 else {}
        case(name, 1, [x, w, r], np.stack(states), h[None], hidden_size=size, **more)
        for version in versions[1:]:
            case(name, version, [x, w, r], np.stack(states), h[None], hidden_size=size)


def _control() -> None:
    two = [graph([node("Neg", "x0", "a")], [], [value("a", None)]),
           graph([node("Abs", "x0", "b")], [], [value("b", None)])]  # fmt: skip
    for version in (1, 11, 13, 25):
        # The condition is the second input of the test's model, which the branches see around them.
        case("If", version, [X, np.array(version == 11)], -X if version == 11 else abs(X),
             then_branch=two[0], else_branch=two[1])  # fmt: skip
    body = graph([node("Add", "v v", "w"), node("Identity", "w", "s"), node("Identity", "c", "d")],
                 [value("i", (), DType.INT64), value("c", (), DType.BOOL), value("v", None)],
                 [value("d", (), DType.BOOL), value("w", None), value("s", None)])  # fmt: skip
    rounds = np.stack([X * 2, X * 4, X * 8])
    given = [np.array(3, np.int64), np.array(True), X]
    case("Loop", (1, 19, 21), given, X * 8, rounds, fixed=(0, 1), body=body)
    body = graph([node("Add", "v p", "w"), node("Identity", "w", "s")],
                 [value("v", None), value("p", None)],
                 [value("w", None), value("s", None)])  # fmt: skip
    case("Scan", (19, 23), [np.zeros(7, F), X], X.sum(0), X.cumsum(0), body=body,
         num_scan_inputs=1)  # fmt: skip


def _random() -> None:
    shape = (71, 53)

    def uniform(y: np.ndarray) -> bool:
        y = y.astype(float)
        even = abs(y.mean()) < 0.06 and abs(y.std() - 2 / math.sqrt(12)) < 0.03
        return y.shape == shape and abs(y).max() <= 1 and bool(even)

    def normal(y: np.ndarray) -> bool:
        y = y.astype(float)
        return y.shape == shape and abs(y.mean() - 2) < 0.25 and abs(y.std() - 3) < 0.2

    like = np.zeros(shape, F)
    for version in (1, 22):
        case("RandomUniform", version, [], shape=list(shape), low=-1.0, check=uniform)
        case("RandomNormal", version, [], shape=list(shape), mean=2.0, scale=3.0, check=normal)
    case("RandomUniformLike", 1, [like], low=-1.0, check=uniform)
    case("RandomNormalLike", 1, [like], mean=2.0, scale=3.0, check=normal)


for _family in (
    _unary, _of_two, _normalizations, _windows, _shapes, _reductions, _quantized, _recurrent,
    _control, _random,
):  # fmt: skip
    _family()
