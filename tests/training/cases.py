"""Ops to differentiate: inputs, and the same function in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vknn.graph import Op
from vknn.ops import elementwise as e
from vknn.ops import movement as m
from vknn.ops import normalization as n
from vknn.ops import pooling as p
from vknn.ops import rearrange as ra
from vknn.ops import reduction as r
from vknn.ops.columns import Col2Im, Im2Col
from vknn.ops.convolution import Conv
from vknn.ops.gating import Glu
from vknn.ops.logic import Where
from vknn.ops.lookup import Gather, GatherND
from vknn.ops.matmul import MatMul
from vknn.ops.resize import Resize
from vknn.ops.scatter import ScatterND
from vknn.ops.selection import TopK
from vknn.ops.transposed import ConvTranspose

#: Gets the torch module and the inputs as tensors.
Peer = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """``peer`` None: PyTorch has no such function."""

    name: str
    op: Op
    arrays: tuple[np.ndarray | None, ...]
    peer: Peer | None = None
    tolerance: float = 2e-5
    smooth: bool = field(default=True)

    @property
    def wanted(self) -> list[int]:
        """The inputs that have gradients."""
        return [i for i, a in enumerate(self.arrays) if a is not None and a.dtype == np.float32]


_random = np.random.default_rng(7)


def normal(*shape: int) -> np.ndarray:
    """Normal numbers."""
    return np.asarray(_random.standard_normal(shape), np.float32)


def within(low: float, high: float, *shape: int) -> np.ndarray:
    """Numbers of an interval, evenly."""
    return np.asarray(_random.uniform(low, high, shape), np.float32)


def apart(*shape: int) -> np.ndarray:
    """Numbers that differ by 0.05 at least, none of them near 0, in any order."""
    size = int(np.prod(shape))
    values = (np.arange(size) - size // 2 + 0.5) * 0.05
    return _random.permutation(values).reshape(shape).astype(np.float32)


def whole(*values: int) -> np.ndarray:
    """Indices."""
    return np.asarray(values, np.int32)


def _unary() -> list[Case]:
    x = apart(2, 3, 7)
    positive, inside = within(0.2, 3, 2, 3, 7), within(-0.9, 0.9, 2, 3, 7)
    table: list[tuple[Op, np.ndarray, Peer | None]] = [
        (e.Abs(), x, lambda t, x: t.abs(x)),
        (e.Neg(), x, lambda t, x: -x),
        (e.Sign(), x, lambda t, x: t.sign(x)),
        (e.Floor(), x, lambda t, x: t.floor(x)),
        (e.Ceil(), x, lambda t, x: t.ceil(x)),
        (e.Round(), x, lambda t, x: t.round(x)),
        (e.Trunc(), x, lambda t, x: t.trunc(x)),
        (e.Threshold(0.31), x, lambda t, x: (x > 0.31) * 1.0 + 0 * x),
        (e.Square(), x, lambda t, x: x * x),
        (e.Sqrt(), positive, lambda t, x: t.sqrt(x)),
        (e.Rsqrt(), positive, lambda t, x: t.rsqrt(x)),
        (e.Reciprocal(), positive, lambda t, x: 1 / x),
        (e.Exp(), x, lambda t, x: t.exp(x)),
        (e.Expm1(), x, lambda t, x: t.expm1(x)),
        (e.Log(), positive, lambda t, x: t.log(x)),
        (e.Log10(), positive, lambda t, x: t.log10(x)),
        (e.Log1p(), positive, lambda t, x: t.log1p(x)),
        (e.Sin(), x, lambda t, x: t.sin(x)),
        (e.Cos(), x, lambda t, x: t.cos(x)),
        (e.Tan(), inside, lambda t, x: t.tan(x)),
        (e.Asin(), inside, lambda t, x: t.asin(x)),
        (e.Acos(), inside, lambda t, x: t.acos(x)),
        (e.Atan(), x, lambda t, x: t.atan(x)),
        (e.Sinh(), x, lambda t, x: t.sinh(x)),
        (e.Cosh(), x, lambda t, x: t.cosh(x)),
        (e.Tanh(), x, lambda t, x: t.tanh(x)),
        (e.Asinh(), x, lambda t, x: t.asinh(x)),
        (e.Acosh(), positive + 1, lambda t, x: t.acosh(x)),
        (e.Atanh(), inside, lambda t, x: t.atanh(x)),
        (e.Erf(), x, lambda t, x: t.erf(x)),
        (e.Relu(), x, lambda t, x: t.relu(x)),
        (e.LeakyRelu(0.2), x, lambda t, x: t.nn.functional.leaky_relu(x, 0.2)),
        (e.Elu(1.3), x, lambda t, x: t.nn.functional.elu(x, 1.3)),
        (e.Elu(1.0), x * 90, lambda t, x: t.nn.functional.elu(x)),
        (e.Selu(), x, lambda t, x: t.selu(x)),
        (e.Celu(0.7), x, lambda t, x: t.celu(x, 0.7)),
        (e.Sigmoid(), x * 5, lambda t, x: t.sigmoid(x)),
        (e.HardSigmoid(), x * 5, lambda t, x: t.nn.functional.hardsigmoid(x)),
        (e.HardSigmoid(0.31, 0.6), x, lambda t, x: t.clamp(0.31 * x + 0.6, 0, 1)),
        (e.HardSwish(), x * 5, lambda t, x: t.nn.functional.hardswish(x)),
        (e.Softplus(), x * 10, lambda t, x: t.nn.functional.softplus(x, threshold=80)),
        (e.Softsign(), x, lambda t, x: t.nn.functional.softsign(x)),
        (e.Swish(), x, lambda t, x: t.nn.functional.silu(x)),
        (e.Mish(), x, lambda t, x: t.nn.functional.mish(x)),
        (e.Gelu(), x, lambda t, x: t.nn.functional.gelu(x)),
        (e.Gelu("tanh"), x, lambda t, x: t.nn.functional.gelu(x, approximate="tanh")),
        (e.Clip(-0.51, 0.31), x, lambda t, x: t.clamp(x, -0.51, 0.31)),
        (e.Clip(min=0.21), x, lambda t, x: t.clamp(x, min=0.21)),
        (e.Clip(max=0.21), x, lambda t, x: t.clamp(x, max=0.21)),
        (e.Shrink(0.5, 0.5), x, lambda t, x: t.nn.functional.softshrink(x, 0.5)),
        (e.Shrink(0.0, 0.4), x, lambda t, x: t.nn.functional.hardshrink(x, 0.4)),
        (e.Cast(), x, lambda t, x: x),
        (Glu(1), normal(2, 6, 3), lambda t, x: t.nn.functional.glu(x, 1)),
        (Glu(-1), normal(2, 6), lambda t, x: t.nn.functional.glu(x, -1)),
    ]
    return [Case(f"{op.type_name.lower()}-{i}", op, (a,), f) for i, (op, a, f) in enumerate(table)]


#: Where the two sides of a kink meet.
KINKS = np.array([-1.5, -0.0, 0.0, 0.5, 2.0], np.float32)


def _kinks() -> list[Case]:
    table: list[tuple[Op, Peer]] = [
        (e.Relu(), lambda t, x: t.relu(x)),
        (e.LeakyRelu(0.2), lambda t, x: t.nn.functional.leaky_relu(x, 0.2)),
        (e.Elu(0.3), lambda t, x: t.nn.functional.elu(x, 0.3)),
        (e.Abs(), lambda t, x: t.abs(x)),
        (e.Clip(-1.5, 0.5), lambda t, x: t.clamp(x, -1.5, 0.5)),
        (e.Clip(0.0, 2.0), lambda t, x: t.clamp(x, 0.0, 2.0)),
    ]
    return [
        Case(f"kink-{op.type_name.lower()}-{i}", op, (KINKS,), f, smooth=False)
        for i, (op, f) in enumerate(table)
    ]


def _binary() -> list[Case]:
    table: list[tuple[Op, Peer]] = [
        (e.Add(), lambda t, a, b: a + b),
        (e.Sub(), lambda t, a, b: a - b),
        (e.Mul(), lambda t, a, b: a * b),
        (e.Div(), lambda t, a, b: a / b),
        (e.Max(), lambda t, a, b: t.maximum(a, b)),
        (e.Min(), lambda t, a, b: t.minimum(a, b)),
        (e.Pow(), lambda t, a, b: a**b),
        (e.Atan2(), lambda t, a, b: t.atan2(a, b)),
        (e.LogAddExp(), lambda t, a, b: t.logaddexp(a, b)),
        (e.Fmod(), lambda t, a, b: t.fmod(a, b)),
        (e.Mod(), lambda t, a, b: t.remainder(a, b)),
        (e.FloorDiv(), lambda t, a, b: t.floor(a / b).detach() + 0 * a + 0 * b),
    ]
    shapes = [
        ((2, 3, 4), (2, 3, 4)),
        ((2, 3, 4), (3, 1)),
        ((4,), (2, 1, 4)),
        ((1, 3, 1), (2, 1, 5)),
    ]
    cases = []
    for i, (op, f) in enumerate(table):
        a, b = shapes[i % len(shapes)]
        arrays = within(0.3, 2, *a), within(0.4, 2, *b)
        if isinstance(op, e.Max | e.Min):
            arrays = apart(*a), apart(*b) + np.float32(0.02)
        cases.append(Case(op.type_name.lower(), op, arrays, f))
    for a, b in shapes:
        cases.append(Case(f"mul-{a}-{b}", e.Mul(), (normal(*a), normal(*b)), lambda t, a, b: a * b))
    same = np.array([1.0, 2.0, -3.0], np.float32)
    other = np.array([1.0, 1.0, 5.0], np.float32)
    zeros = np.array([0.0, 1.0, 0.0, 2.0], np.float32)
    powers = np.array([2.0, 0.0, 3.0, 0.0], np.float32)
    slope = within(0.1, 0.4, 3, 1)
    condition = _random.random((2, 1, 4)) > 0.5
    cases += [
        Case("max-ties", e.Max(), (same, other), lambda t, a, b: t.maximum(a, b), smooth=False),
        Case("min-ties", e.Min(), (same, other), lambda t, a, b: t.minimum(a, b), smooth=False),
        Case("pow-zeros", e.Pow(), (zeros, powers), lambda t, a, b: a**b, smooth=False),
        Case("remainder", e.Remainder(), (within(1, 9, 5), within(0.9, 1.1, 5)), None),
        Case(
            "prelu", e.PRelu(), (apart(2, 3, 5), slope),
            lambda t, x, s: t.where(x > 0, x, s * x),
        ),
        Case(
            "where", Where(), (condition, normal(2, 3, 4), normal(3, 1)),
            lambda t, c, a, b: t.where(c, a, b),
        ),
    ]  # fmt: skip
    return cases


def _matmul() -> list[Case]:
    cases = []
    shapes = [((5, 3), (3, 4)), ((2, 5, 3), (3, 4)), ((2, 1, 5, 3), (3, 3, 4)), ((5, 3), (2, 3, 4))]
    for number, (a, b) in enumerate(shapes):
        for ta in (False, True):
            for tb in (False, True):
                left = normal(*(a if not ta else (*a[:-2], a[-1], a[-2])))
                right = normal(*(b if not tb else (*b[:-2], b[-1], b[-2])))
                bias = normal(4) if number % 2 else None

                def peer(t: Any, x: Any, y: Any, c: Any = None, ta=ta, tb=tb) -> Any:
                    x = x.transpose(-1, -2) if ta else x
                    y = y.transpose(-1, -2) if tb else y
                    product = t.matmul(x, y)
                    return product if c is None else product + c

                op = MatMul(ta, tb)
                cases.append(Case(f"matmul-{number}-{ta:d}{tb:d}", op, (left, right, bias), peer))
    return cases


#: Axes, strides, pads, dilations, groups, kernel.
CONVOLUTIONS = [
    ((9,), (1,), (0, 0), (1,), 1, (3,)),
    ((10,), (3,), (2, 1), (2,), 2, (2,)),
    ((6, 7), (1, 1), (0, 0, 0, 0), (1, 1), 1, (1, 1)),
    ((6, 7), (2, 3), (0, 0, 0, 0), (1, 1), 1, (1, 1)),
    ((6, 7), (1, 1), (1, 1, 1, 1), (1, 1), 1, (3, 3)),
    ((9, 8), (2, 3), (1, 0, 2, 1), (2, 1), 2, (3, 2)),
    ((7, 7), (2, 2), (0, 1, 0, 1), (1, 2), 4, (2, 3)),
    ((4, 5, 4), (1, 2, 1), (1, 0, 0, 0, 1, 1), (1, 1, 2), 2, (2, 3, 2)),
]


def _pads(t: Any, x: Any, pads: tuple[int, ...]) -> Any:
    axes = len(pads) // 2
    widths = [w for i in reversed(range(axes)) for w in (pads[i], pads[i + axes])]
    return t.nn.functional.pad(x, widths)


def _convolutions() -> list[Case]:
    cases = []
    for number, (image, strides, pads, dilations, group, kernel) in enumerate(CONVOLUTIONS):
        x, w = normal(2, 4, *image), normal(8, 4 // group, *kernel)
        bias = normal(8) if number % 2 else None

        def peer(t, x, w, b=None, s=strides, p=pads, d=dilations, g=group):
            function = getattr(t.nn.functional, f"conv{len(s)}d")
            return function(_pads(t, x, p), w, b, s, 0, d, g)

        op = Conv(strides, pads, dilations, group)
        cases.append(Case(f"conv-{number}", op, (x, w, bias), peer))
    return cases


def _transposed() -> list[Case]:
    cases = []
    extras = [(0,), (2,), (0, 0), (3, 1), (0, 0), (1, 2), (0, 1), (0, 0, 1)]
    for number, (image, strides, pads, dilations, group, kernel) in enumerate(CONVOLUTIONS):
        small = tuple((i + 1) // 2 + 1 for i in image)
        x, w = normal(2, 4, *small), normal(4, 6 // (2 if group > 1 else 1), *kernel)
        group = 2 if group > 1 else 1
        bias = normal(6) if number % 2 else None
        extra = extras[number]

        def peer(t, x, w, b=None, s=strides, p=pads, d=dilations, g=group, e=extra):
            axes = len(s)
            function = getattr(t.nn.functional, f"conv_transpose{axes}d")
            y = function(x, w, None, s, 0, 0, g, d)
            y = t.nn.functional.pad(y, [v for i in reversed(range(axes)) for v in (0, e[i])])
            cut = [slice(p[i], y.shape[2 + i] - p[i + axes]) for i in range(axes)]
            y = y[(..., *cut)]
            return y if b is None else y + b.reshape(1, -1, *[1] * axes)

        op = ConvTranspose(strides, pads, dilations, group, extra)
        cases.append(Case(f"transposed-{number}", op, (x, w, bias), peer))
    return cases


def _columns() -> list[Case]:
    window = ((2, 3), (2, 1), (1, 0, 0, 1), (1, 2))

    def peer(t: Any, x: Any) -> Any:
        return t.nn.functional.unfold(_pads(t, x, (1, 0, 0, 1)), (2, 3), (1, 2), 0, (2, 1))

    def back(t: Any, x: Any) -> Any:
        image = t.nn.functional.fold(x, (7, 8), (2, 3), (1, 2), 0, (2, 1))
        return image[:, :, 1:, :7]

    return [
        Case("im2col", Im2Col(*window), (normal(2, 3, 6, 7),), peer),
        Case("col2im", Col2Im(*window, (6, 7)), (normal(2, 18, 12),), back),
    ]


def _pooling() -> list[Case]:
    def largest(kernel, strides, pads, dilations=None):
        def peer(t: Any, x: Any) -> Any:
            axes = len(kernel)
            widths = [w for i in reversed(range(axes)) for w in (pads[i], pads[i + axes])]
            x = t.nn.functional.pad(x, widths, value=-1e30)
            function = getattr(t.nn.functional, f"max_pool{axes}d")
            return function(x, kernel, strides, 0, dilations or 1)

        return peer

    def mean(kernel, strides, pads, include):
        def peer(t: Any, x: Any) -> Any:
            axes = len(kernel)
            w = t.ones(x.shape[1], 1, *kernel)
            function = getattr(t.nn.functional, f"conv{axes}d")

            def sums(x):
                return function(_pads(t, x, pads), w, None, strides, 0, 1, x.shape[1])

            count = sums(t.ones_like(x)) if not include else float(np.prod(kernel))
            return sums(x) / count

        return peer

    windows = [
        ((7,), (2,), (2,), (0, 0)),
        ((8,), (3,), (2,), (1, 1)),
        ((6, 7), (2, 2), (2, 2), (0, 0, 0, 0)),
        ((7, 6), (3, 2), (2, 1), (1, 0, 1, 1)),
        ((5, 5), (2, 3), (3, 3), (0, 1, 1, 1)),
        ((4, 5, 6), (2, 2, 3), (2, 1, 2), (1, 0, 0, 0, 1, 1)),
    ]
    cases = []
    for i, (image, kernel, strides, pads) in enumerate(windows):
        x = apart(2, 3, *image)
        cases.append(Case(f"max-pool-{i}", p.MaxPool(kernel, strides, pads), (x,),
                          largest(kernel, strides, pads)))  # fmt: skip
        for include in (False, True):
            op = p.AveragePool(kernel, strides, pads, include)
            peer = mean(kernel, strides, pads, include)
            cases.append(Case(f"average-pool-{i}-{include:d}", op, (x,), peer))
    dilated = p.MaxPool((2, 3), (1, 2), (1, 1, 0, 0), (2, 2))
    ties = np.asarray(_random.integers(0, 3, (2, 2, 6, 6)), np.float32)
    cases += [
        Case("max-pool-dilated", dilated, (apart(1, 2, 7, 8),),
             largest((2, 3), (1, 2), (1, 1, 0, 0), (2, 2))),
        Case("max-pool-ties", p.MaxPool((3, 3), (2, 2), (1, 1, 1, 1)), (ties,),
             lambda t, x: t.nn.functional.max_pool2d(x, 3, 2, 1), smooth=False),
        Case("global-max", p.GlobalMaxPool(), (apart(2, 3, 4, 5),),
             lambda t, x: t.nn.functional.adaptive_max_pool2d(x, 1)),
        Case("global-average", p.GlobalAveragePool(), (normal(2, 3, 4, 5),),
             lambda t, x: x.mean((2, 3), keepdim=True)),
        Case("global-average-3d", p.GlobalAveragePool(), (normal(2, 3, 2, 4, 5),),
             lambda t, x: x.mean((2, 3, 4), keepdim=True)),
    ]  # fmt: skip
    return cases


def _normalization() -> list[Case]:
    x = normal(2, 4, 3, 5)
    scale, bias, mean = normal(4), normal(4), normal(4)
    variance = within(0.5, 2, 4)

    def spread(x: Any, v: Any) -> Any:
        return v.reshape(1, -1, *[1] * (x.ndim - 2))

    def batch(t: Any, x: Any, s: Any, b: Any, m: Any, v: Any) -> Any:
        return (x - spread(x, m)) * spread(x, s) / t.sqrt(spread(x, v) + 1e-3) + spread(x, b)

    def variance_of(t: Any, x: Any, axes: tuple[int, ...]) -> Any:
        return ((x - x.mean(axes, keepdim=True)) ** 2).mean(axes, keepdim=True)

    roots = {
        "add": lambda t, s, e: t.sqrt(s + e),
        "add_root": lambda t, s, e: t.sqrt(s) + e,
        "max": lambda t, s, e: t.sqrt(t.clamp(s, min=e)),
        "max_root": lambda t, s, e: t.clamp(t.sqrt(s), min=e),
    }
    cases = [
        Case("batch-norm", n.BatchNormalization(1e-3), (x, scale, bias, mean, variance), batch),
        Case("batch-norm-2d", n.BatchNormalization(1e-3),
             (normal(5, 4), scale, bias, mean, variance), batch),
        Case("layer-norm", n.LayerNormalization(2, 1e-3), (x, normal(3, 5), normal(3, 5)),
             lambda t, x, s, b: t.nn.functional.layer_norm(x, (3, 5), s, b, 1e-3)),
        Case("layer-norm-bare", n.LayerNormalization(-1), (x, None, None),
             lambda t, x, *_: t.nn.functional.layer_norm(x, (5,))),
        Case("group-norm", n.GroupNormalization(2), (x, scale, bias),
             lambda t, x, s, b: t.nn.functional.group_norm(x, 2, s, b)),
        Case("instance-norm", n.InstanceNormalization(), (x, scale, bias),
             lambda t, x, s, b: t.nn.functional.instance_norm(x, None, None, s, b)),
        Case("rms-norm", n.RMSNormalization(-1), (x, normal(5)),
             lambda t, x, s: x / t.sqrt((x * x).mean(-1, keepdim=True) + 1e-5) * s),
        Case("lrn", n.LRN((1,), (1,), (2,), 0.1, 0.75, 1.5), (x,),
             lambda t, x: x * (1.5 + 0.1 * _windows(t, x * x, 1, 1, 2)) ** -0.75),
        Case("lrn-within", n.LRN((2, 3), (1, 1), (1, 1), 0.1, 0.5, 1.0), (x,),
             lambda t, x: x / t.sqrt(1 + 0.1 * _windows(t, _windows(t, x * x, 2, 1, 1), 3, 1, 1))),
        Case("centred", n.MeanVarianceNormalization((2, 3), False), (x,),
             lambda t, x: x - x.mean((2, 3), keepdim=True)),
    ]  # fmt: skip
    for mode, root in roots.items():
        epsilon = 0.01 if mode.startswith("add") else 0.9

        def mvn(t, x, root=root, e=epsilon):
            centred = x - x.mean((1, 2, 3), keepdim=True)
            return centred / root(t, variance_of(t, x, (1, 2, 3)), e)

        def l2(t, x, root=root, e=epsilon):
            return x / root(t, (x * x).sum(1, keepdim=True), e)

        op = n.MeanVarianceNormalization((-3, 2, 3), True, epsilon, mode)
        cases.append(Case(f"mvn-{mode}", op, (x,), mvn))
        cases.append(Case(f"l2-{mode}", n.NormalizeL2((1,), epsilon, mode), (x,), l2))
    return cases


def _windows(t: Any, x: Any, axis: int, before: int, after: int) -> Any:
    size = x.shape[axis]
    shifted = []
    for shift in range(-before, after + 1):
        rolled = t.roll(x, -shift, axis)
        place = t.arange(size) + shift
        inside = ((place >= 0) & (place < size)).reshape(-1, *[1] * (x.ndim - axis - 1))
        shifted.append(rolled * inside)
    return sum(shifted)


def _reductions() -> list[Case]:
    x, positive = normal(2, 3, 4, 5), within(0.3, 2, 2, 3, 4, 5)
    zeros = positive.copy()
    zeros[0, 0, 0, 0] = zeros[1, 1, 2, 3] = zeros[1, 1, 2, 2] = 0
    ties = np.asarray(_random.integers(0, 3, (2, 3, 4, 5)), np.float32)
    dims = {"axes": (1, 3), "keepdims": True}
    flat = {"axes": (-1, 1), "keepdims": False}
    both = (1, 3)
    return [
        Case("sum", r.ReduceSum(**dims), (x,), lambda t, x: x.sum(both, keepdim=True)),
        Case("sum-flat", r.ReduceSum(**flat), (x,), lambda t, x: x.sum(both)),
        Case("sum-all", r.ReduceSum(), (x,), lambda t, x: x.sum()),
        Case("mean", r.ReduceMean(**flat), (x,), lambda t, x: x.mean(both)),
        Case("max", r.ReduceMax(**flat), (x,), lambda t, x: x.amax(both)),
        Case("max-ties", r.ReduceMax(**flat), (ties,), lambda t, x: x.amax(both), smooth=False),
        Case("min-ties", r.ReduceMin(**dims), (ties,),
             lambda t, x: x.amin(both, keepdim=True), smooth=False),
        Case("prod", r.ReduceProd(axes=(2,)), (positive,), lambda t, x: x.prod(2, keepdim=True)),
        Case("prod-zeros", r.ReduceProd(axes=(3,)), (zeros,), lambda t, x: x.prod(3, keepdim=True)),
        Case("sum-square", r.ReduceSumSquare(**flat), (x,), lambda t, x: (x * x).sum(both)),
        Case("l1", r.ReduceL1(**flat), (x,), lambda t, x: x.abs().sum(both)),
        Case("l2", r.ReduceL2(**flat), (x,), lambda t, x: (x * x).sum(both).sqrt()),
        Case("log-sum", r.ReduceLogSum(**flat), (positive,), lambda t, x: x.sum(both).log()),
        Case("log-sum-exp", r.ReduceLogSumExp(**flat), (x,), lambda t, x: x.logsumexp(both)),
        Case("softmax", r.Softmax(1), (x,), lambda t, x: x.softmax(1)),
        Case("softmax-last", r.Softmax(-1), (x,), lambda t, x: x.softmax(-1)),
        Case("log-softmax", r.LogSoftmax(2), (x,), lambda t, x: x.log_softmax(2)),
        Case("cumsum", r.CumSum(2), (x,), lambda t, x: x.cumsum(2)),
        Case("cumsum-exclusive", r.CumSum(2, True, True), (x,),
             lambda t, x: x.flip(2).cumsum(2).flip(2) - x),
    ]  # fmt: skip


def _movement() -> list[Case]:
    x = normal(2, 3, 4, 5)

    def padded(mode: str) -> Peer:
        return lambda t, x: t.nn.functional.pad(x, (2, 1, 1, 2), mode=mode)

    space = normal(2, 8, 4, 6)
    lengths = whole(3, 1)
    return [
        Case("identity", m.Identity(), (x,), lambda t, x: x),
        Case("reshape", m.Reshape((3, -1, 2)), (x,), lambda t, x: x.reshape(3, -1, 2)),
        Case("transpose", m.Transpose((2, 0, 3, 1)), (x,), lambda t, x: x.permute(2, 0, 3, 1)),
        Case("expand", m.Expand((4, 2, 3, 4, 1)), (normal(3, 1, 5),),
             lambda t, x: x.expand(4, 2, 3, 4, 5)),
        Case("tile", ra.Tile((2, 1, 3, 2)), (x,), lambda t, x: x.repeat(2, 1, 3, 2)),
        Case("concat", m.Concat(-2), (x, normal(2, 3, 1, 5), x[:, :, :2]),
             lambda t, *xs: t.cat(xs, -2)),
        Case("slice", m.Slice((1, -4), (3, 4), (2, 3)), (x,), lambda t, x: x[:, :, 1:3, 1:4]),
        Case("slice-steps", m.Slice((0, 1), (4, 5), (2, 3), (2, 3)), (x,),
             lambda t, x: x[:, :, ::2, 1::3]),
        Case("slice-back", m.Slice((3, -1), (-9, 0), (2, 3), (-2, -1)), (x,),
             lambda t, x: x.flip(2)[:, :, ::2].flip(3)[:, :, :, :4]),
        Case("pad", m.Pad((0, 1, 0, 2, 0, 1, 3, 1), value=2.5), (x,),
             lambda t, x: t.nn.functional.pad(x, (2, 1, 0, 3, 1, 1), value=2.5)),
        Case("pad-reflect", m.Pad((0, 0, 1, 2, 0, 0, 2, 1), "reflect"), (x,), padded("reflect")),
        Case("pad-edge", m.Pad((0, 0, 1, 2, 0, 0, 2, 1), "edge"), (x,), padded("replicate")),
        Case("pad-symmetric", m.Pad((0, 0, 0, 3, 0, 0, 0, 2), "symmetric"), (x,),
             lambda t, x: t.cat([x[..., :3].flip(3), x, x[..., -2:].flip(3)], 3)),
        Case("pad-values", m.Pad((0, 1, 1, 0, 0, 0, 0, 2)), (x, normal(4)), None),
        Case("shuffle", m.ChannelShuffle(2), (space,),
             lambda t, x: t.nn.functional.channel_shuffle(x, 2)),
        Case("depth-to-space", ra.DepthToSpace(2, "CRD"), (space,),
             lambda t, x: t.nn.functional.pixel_shuffle(x, 2)),
        Case("depth-to-space-dcr", ra.DepthToSpace(2), (space,), None),
        Case("space-to-depth", ra.SpaceToDepth(2, "CRD"), (space,),
             lambda t, x: t.nn.functional.pixel_unshuffle(x, 2)),
        Case("slice-update", ra.SliceUpdate((0, 1, 1, 2)), (x, normal(2, 1, 2, 3)),
             lambda t, x, u: _updated(x, u)),
        Case("reverse", ra.ReverseSequence(0, 2), (x, lengths), None),
        Case("diagonal", ra.MatrixDiag(-1), (normal(2, 3),),
             lambda t, x: t.diag_embed(x, -1)),
        Case("diagonal-up", ra.MatrixDiag(2), (normal(2, 3),), lambda t, x: t.diag_embed(x, 2)),
        Case("nearest", Resize((8, 9), "nearest", "asymmetric"), (x,), None),
        Case("linear", Resize((8, 3), "linear", "half_pixel"), (x,),
             lambda t, x: t.nn.functional.interpolate(x, (8, 3), mode="bilinear")),
        Case("linear-corners", Resize((7, 9), "linear", "align_corners"), (x,),
             lambda t, x: t.nn.functional.interpolate(x, (7, 9), mode="bilinear",
                                                      align_corners=True)),
        Case("cubic", Resize((7, 9), "cubic"), (x,),
             lambda t, x: t.nn.functional.interpolate(x, (7, 9), mode="bicubic")),
    ]  # fmt: skip


def _updated(x: Any, update: Any) -> Any:
    y = x.clone()
    y[:, 1:2, 1:3, 2:5] = update
    return y


def _lookup() -> list[Case]:
    x = normal(4, 3, 5)
    pairs = whole(0, 1, 3, 2, -1, 0, 0, 1).reshape(4, 2)
    batched = whole(1, 0, 4, 4, 2, 1, 0, 3).reshape(4, 2, 1)
    places = whole(2, 0).reshape(2, 1)
    return [
        Case("gather", Gather(0), (x, whole(2, 0, 2, -1, 2)),
             lambda t, x, i: x[[2, 0, 2, 3, 2]]),
        Case("gather-axis", Gather(-1), (x, whole(4, 1, 1, 9).reshape(2, 2)),
             lambda t, x, i: x[:, :, [4, 1, 1, 4]].reshape(4, 3, 2, 2)),
        Case("gather-middle", Gather(1), (x, whole(1, 1)), lambda t, x, i: x[:, [1, 1]]),
        Case("gather-nd", GatherND(), (x, pairs),
             lambda t, x, i: x[[0, 3, 3, 0], [1, 2, 0, 1]]),
        Case("gather-nd-batch", GatherND(2), (normal(4, 2, 5), batched), None),
        Case("scatter", ScatterND(), (x, places, normal(2, 3, 5)),
             lambda t, x, i, u: t.cat([u[1:], x[1:2], u[:1], x[3:]])),
        Case("scatter-add", ScatterND("add"), (x, whole(2, 2).reshape(2, 1), normal(2, 3, 5)),
             lambda t, x, i, u: t.cat([x[:2], x[2:3] + u.sum(0), x[3:]])),
        Case("top-k", TopK(-1, 2), (apart(3, 6),), lambda t, x: t.topk(x, 2).values),
        Case("top-k-first", TopK(0, 2, largest=False), (apart(5, 3),),
             lambda t, x: t.topk(x, 2, 0, largest=False).values),
    ]  # fmt: skip


CASES = [
    *_unary(), *_kinks(), *_binary(), *_matmul(), *_convolutions(), *_transposed(), *_columns(),
    *_pooling(), *_normalization(), *_reductions(), *_movement(), *_lookup(),
]  # fmt: skip
