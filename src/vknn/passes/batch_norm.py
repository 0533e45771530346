"""Per-channel scales and shifts (batch normalization) folded into the weights beside them.

With fixed statistics a batch normalization is an affine function (Ioffe and Szegedy 2015,
algorithm 2), and so is a convolution: a (w x + b) + c = (a w) x + (a b + c).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from vknn.graph import Graph, Node, Op, Origin, Value
from vknn.ops.convolution.conv import Conv
from vknn.ops.convolution.conv_transpose import ConvTranspose
from vknn.ops.elementwise import Add, Div, Mul, Sub
from vknn.ops.matmul import MatMul
from vknn.ops.normalization import BatchNormalization
from vknn.passes.patterns import float_constant, varying_axes
from vknn.passes.rewriter import Rewriter, merged, sweep


@dataclass(frozen=True)
class _Affine:
    """y = scale * x + shift; both float64, scalars or vectors along ``axis`` of the output."""

    source: Value
    scale: np.ndarray
    shift: np.ndarray
    axis: int | None
    origin: Origin

    def along(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Scale and shift as vectors of ``size``."""
        return np.broadcast_to(self.scale, size), np.broadcast_to(self.shift, size)


def fold_batch_norm(graph: Graph) -> Graph:
    """Folding of BatchNormalization and per-channel Mul, Add, Sub, Div by constants into weights
    of the Conv, ConvTranspose, MatMul or BatchNormalization before, or the Conv or MatMul behind.

    A BatchNormalization that stays becomes Mul and Add, which can join an epilogue or take one.
    """
    graph = sweep(graph, _fold, (BatchNormalization, Mul, Add, Sub, Div))
    return sweep(graph, _split, (BatchNormalization,))


def _split(rewriter: Rewriter, node: Node) -> tuple[Value, ...] | None:
    affine = _affine(node) if isinstance(node.op, BatchNormalization) else None
    if affine is None:
        return None
    shape = (1, -1, *(1,) * (affine.source.type.rank - 2))
    scale = rewriter.constant(affine.scale.astype(np.float32).reshape(shape), f"{node.name}.scale")
    shift = rewriter.constant(affine.shift.astype(np.float32).reshape(shape), f"{node.name}.shift")
    (scaled,) = rewriter.emit(Mul(), (affine.source, scale), node.origin)
    return rewriter.emit(Add(), (scaled, shift), node.origin, node)


def _fold(rewriter: Rewriter, node: Node) -> tuple[Value, ...] | None:
    affine = _affine(node)
    if affine is None:
        return _absorb_producers(rewriter, node)
    base = rewriter.sole_producer(affine.source)
    absorb = _AFTER.get(type(base.op)) if base is not None else None
    if base is None or absorb is None:
        return None
    with np.errstate(all="ignore"):
        absorbed = absorb(rewriter, base, affine)
    if absorbed is None or not _finite(absorbed[1]):
        return None
    op, inputs = absorbed
    return rewriter.emit(op, inputs, merged(base.origin, node.origin), node)


def _absorb_producers(rewriter: Rewriter, node: Node) -> tuple[Value, ...] | None:
    """Takes in the whole chain of scales and shifts that the node reads."""
    absorb = _BEFORE.get(type(node.op))
    current = node
    while absorb is not None:
        before = rewriter.sole_producer(current.inputs[0])
        affine = _affine(before) if before is not None else None
        if affine is None:
            break
        with np.errstate(all="ignore"):
            inputs = absorb(rewriter, current, affine)
        if inputs is None or not _finite(inputs):
            break
        origin = merged(affine.origin, current.origin)
        current = Node(node.op, tuple(inputs), node.outputs, node.name, origin)
    if current is node:
        return None
    return rewriter.emit(node.op, current.inputs, current.origin, node)


def _finite(values: Sequence[Value | None]) -> bool:
    """False where folding made a constant overflow."""
    constants = [v.constant for v in values if v is not None and v.constant is not None]
    return all(np.isfinite(c).all() for c in constants)


def _affine(node: Node) -> _Affine | None:
    """The node as a scale and a shift by constants that are finite in float32, if it is that."""
    with np.errstate(all="ignore"):
        found = _normalization(node) if isinstance(node.op, BatchNormalization) else _binary(node)
    if found is None or not (_has_float32(found.scale) and _has_float32(found.shift)):
        return None
    return found


def _has_float32(values: np.ndarray) -> bool:
    with np.errstate(all="ignore"):
        return bool(np.isfinite(values.astype(np.float32)).all())


def _normalization(node: Node) -> _Affine | None:
    assert isinstance(node.op, BatchNormalization)
    source = node.inputs[0]
    arrays = [float_constant(v) for v in node.inputs[1:]]
    if source is None or any(a is None for a in arrays):
        return None
    gamma, beta, mean, variance = (a.astype(np.float64) for a in arrays if a is not None)
    scale = gamma / np.sqrt(variance + node.op.epsilon)
    return _Affine(source, scale, beta - mean * scale, 1, node.origin)


def _binary(node: Node) -> _Affine | None:
    if not isinstance(node.op, Add | Sub | Mul | Div):
        return None
    source, other = node.inputs
    constant, reverse = float_constant(other), False
    if constant is None and not isinstance(node.op, Div):
        constant, reverse, source, other = float_constant(source), True, other, source
    if constant is None or source is None or other is None or source.constant is not None:
        return None
    if source.type != node.outputs[0].type or not source.type.is_static:
        return None
    axes = varying_axes(other.type, source.type.rank)
    if len(axes) > 1:
        return None
    c = constant.reshape(-1 if axes else ()).astype(np.float64)
    scale, shift = np.ones_like(c), np.zeros_like(c)
    match node.op:
        case Add():
            shift = c
        case Sub():
            scale, shift = (-scale, c) if reverse else (scale, -c)
        case Mul():
            scale = c
        case Div():
            scale = scale / c
    return _Affine(source, scale, shift, axes[0] if axes else None, node.origin)


# Into the op before: y = scale * op(x) + shift.

_Absorbed = tuple[Op, list[Value | None]] | None


def _conv_before(rewriter: Rewriter, base: Node, affine: _Affine) -> _Absorbed:
    weight = base.inputs[1]
    array = float_constant(weight)
    bias = _bias(base)
    if array is None or bias is None or affine.axis not in (1, None):
        return None
    scale, shift = affine.along(array.shape[0])
    weights = _scaled(rewriter, weight, scale.reshape(-1, *(1,) * (array.ndim - 1)))
    return base.op, [base.inputs[0], weights, _constant(rewriter, bias * scale + shift, base)]


def _transposed_before(rewriter: Rewriter, base: Node, affine: _Affine) -> _Absorbed:
    assert isinstance(base.op, ConvTranspose)
    weight, group = base.inputs[1], base.op.group
    array, bias = float_constant(weight), _bias(base)
    if array is None or bias is None or affine.axis not in (1, None):
        return None
    inputs, per_group = array.shape[:2]
    scale, shift = affine.along(group * per_group)
    rows = np.arange(inputs) // (inputs // group)  # the group of each input channel
    factors = scale.reshape(group, per_group)[rows]
    weights = _scaled(rewriter, weight, factors.reshape(*factors.shape, *(1,) * (array.ndim - 2)))
    return base.op, [base.inputs[0], weights, _constant(rewriter, bias * scale + shift, base)]


def _matmul_before(rewriter: Rewriter, base: Node, affine: _Affine) -> _Absorbed:
    assert isinstance(base.op, MatMul)
    weight, rank = base.inputs[1], base.outputs[0].type.rank
    array, bias = float_constant(weight), _bias(base)
    if array is None or bias is None or array.ndim < 2 or rank < 2:
        return None
    if affine.axis not in (rank - 1, None):
        return None
    scale, shift = affine.along(array.shape[-2 if base.op.transpose_b else -1])
    weights = _scaled(rewriter, weight, scale[:, None] if base.op.transpose_b else scale)
    return base.op, [base.inputs[0], weights, _constant(rewriter, bias * scale + shift, base)]


def _norm_before(rewriter: Rewriter, base: Node, affine: _Affine) -> _Absorbed:
    inner = _affine(base)
    if inner is None or affine.axis not in (1, None):
        return None
    size = inner.scale.shape[0]
    scale, shift = affine.along(size)
    arrays = (inner.scale * scale, inner.shift * scale + shift, np.zeros(size), np.ones(size))
    values = [_constant(rewriter, a, base) for a in arrays]
    return BatchNormalization(epsilon=0.0), [base.inputs[0], *values]


_AFTER: dict[type[Op], Callable[[Rewriter, Node, _Affine], _Absorbed]] = {
    Conv: _conv_before,
    ConvTranspose: _transposed_before,
    MatMul: _matmul_before,
    BatchNormalization: _norm_before,
}


# Into the op behind: y = op(scale * x + shift).


def _conv_behind(rewriter: Rewriter, node: Node, affine: _Affine) -> list[Value | None] | None:
    assert isinstance(node.op, Conv)
    weight, group = node.inputs[1], node.op.group
    array, bias = float_constant(weight), _bias(node)
    if array is None or bias is None or affine.axis not in (1, None):
        return None
    if any(node.op.pads) and np.any(affine.shift):
        return None  # What is padded is zero after the shift, not before it.
    outputs, per_group = array.shape[:2]
    scale, shift = (v.reshape(group, per_group) for v in affine.along(group * per_group))
    rows = np.arange(outputs) // (outputs // group)  # the group of each output channel
    sums = array.astype(np.float64).sum(axis=tuple(range(2, array.ndim)))
    weights = _scaled(rewriter, weight, scale[rows].reshape(*sums.shape, *(1,) * (array.ndim - 2)))
    bias = bias + (sums * shift[rows]).sum(axis=1)
    return [affine.source, weights, _constant(rewriter, bias, node)]


def _matmul_behind(rewriter: Rewriter, node: Node, affine: _Affine) -> list[Value | None] | None:
    assert isinstance(node.op, MatMul)
    weight, rank = node.inputs[1], affine.source.type.rank
    array, bias = float_constant(weight), _bias(node)
    if array is None or bias is None or array.ndim != 2 or node.op.transpose_a or rank < 2:
        return None
    if affine.axis not in (rank - 1, None):
        return None
    matrix = array.T if node.op.transpose_b else array  # [K, N]
    scale, shift = affine.along(matrix.shape[0])
    weights = _scaled(rewriter, weight, scale if node.op.transpose_b else scale[:, None])
    bias = bias + shift @ matrix.astype(np.float64)
    return [affine.source, weights, _constant(rewriter, bias, node)]


_BEFORE: dict[type[Op], Callable[[Rewriter, Node, _Affine], list[Value | None] | None]] = {
    Conv: _conv_behind,
    MatMul: _matmul_behind,
}


def _bias(node: Node) -> np.ndarray | None:
    """The bias in float64 (zero where there is none), or None where it is not a constant."""
    if len(node.inputs) < 3 or node.inputs[2] is None:
        return np.zeros(1)
    array = float_constant(node.inputs[2])
    return None if array is None else array.astype(np.float64)


def _scaled(rewriter: Rewriter, weight: Value | None, factors: np.ndarray) -> Value:
    """The weight times ``factors``; the same value, and so the same packed weight, for ones."""
    assert weight is not None
    assert weight.constant is not None
    if np.all(factors == 1.0):
        return weight
    product = (weight.constant * factors).astype(np.float32)
    return rewriter.constant(product, weight.name)


def _constant(rewriter: Rewriter, array: np.ndarray, node: Node) -> Value:
    return rewriter.constant(np.ascontiguousarray(array, np.float32), f"{node.name}.bias")
