"""Tolerances of convolutions and matrix products: magnitude and units (see tolerance).

And errors of an input carried on, through links of chains.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vknn.crosscheck.tolerance_rows import walk
from vknn.graph import Op
from vknn.ops.common.blocks import blocks
from vknn.ops.convolution.conv import Conv
from vknn.ops.convolution.conv_transpose import ConvTranspose
from vknn.ops.convolution.deform_conv import DeformConv
from vknn.ops.matmul import MatMul, Projections
from vknn.ops.normalization import LayerNormalization
from vknn.ops.quantized.blocks import MatMulNBits
from vknn.ops.reduction import LogSoftmax, Softmax, softmax

Arrays = Sequence[np.ndarray | None]
Rule = Callable[[Any, Arrays, np.ndarray], tuple[np.ndarray, float]]


def is_float(x: np.ndarray | None) -> bool:
    """True for an array of floats."""
    return x is not None and x.dtype.kind == "f"


def finite(x: np.ndarray) -> np.ndarray:
    """NaN (inf - inf, 0 * inf) as 0: such elements must agree exactly."""
    return np.where(np.isfinite(x), x, 0.0)


def absolute(op: Op, inputs: Arrays) -> np.ndarray:
    """The op on absolute values."""
    return op.reference(*(np.abs(x) if is_float(x) else x for x in inputs))[0]  # type: ignore[arg-type]


def may_be_winograd(op: Op, inputs: Arrays) -> bool:
    """True where a device may compute a convolution by Winograd's algorithm."""
    weight = inputs[1] if isinstance(op, Conv) else None
    if not isinstance(op, Conv) or weight is None:
        return False
    plain = op.strides == op.dilations == (1, 1) and op.group == 1
    return plain and weight.shape[2:] == (3, 3)


def _conv(op: Conv, inputs: Arrays, y: np.ndarray) -> tuple[np.ndarray, float]:
    x, weight = inputs[:2]
    assert x is not None
    assert weight is not None
    sums = finite(absolute(op, inputs))  # one that overflows says nothing of the others
    largest = sums.max(axis=tuple(range(2, y.ndim)), keepdims=True, initial=0.0)
    if may_be_winograd(op, inputs):
        pixels, taps = (finite(np.abs(a)).max(axis=(2, 3)) for a in (x, weight))
        largest = np.maximum(largest, finite(pixels @ taps.T)[:, :, None, None])
    return largest, walk(math.prod(weight.shape[1:]))


def _conv_transpose(op: ConvTranspose, inputs: Arrays, y: np.ndarray) -> tuple[np.ndarray, float]:
    weight = inputs[1]
    assert weight is not None
    taps = (-(-k // s) for k, s in zip(weight.shape[2:], op.strides, strict=True))
    return absolute(op, inputs), walk(weight.shape[0] // op.group * math.prod(taps))


def _deform_conv(op: DeformConv, inputs: Arrays, y: np.ndarray) -> tuple[np.ndarray, float]:
    x, weight, offset, bias, mask = (*inputs, None, None)[:5]
    assert x is not None and weight is not None and offset is not None
    sizes = [None if a is None else np.abs(a) for a in (x, weight, bias, mask)]
    sums = finite(op.reference(sizes[0], sizes[1], offset, *sizes[2:])[0])
    largest = sums.max(axis=(2, 3), keepdims=True, initial=0.0)
    # A place is right to half a unit of its own, and moves the sample by that share of a pixel.
    return largest, walk(math.prod(weight.shape[1:])) + 4.0 * max(x.shape[2:])


def _matmul(op: MatMul, inputs: Arrays, y: np.ndarray) -> tuple[np.ndarray, float]:
    first = inputs[0]
    assert first is not None
    return absolute(op, inputs), walk(first.shape[-2 if op.transpose_a else -1])


def _matmul_n_bits(op: MatMulNBits, inputs: Arrays, y: np.ndarray) -> tuple[np.ndarray, float]:
    a, codes, scales, zeros, bias = (*inputs, None, None)[:5]
    assert a is not None and codes is not None and scales is not None
    rows = np.abs(a.reshape(-1, op.size).astype(np.float64))
    sums = np.empty((len(rows), len(codes)))
    with np.errstate(all="ignore"):
        for part in blocks(len(codes), 24 * op.size):
            weights = op.weights(codes[part], scales[part], None if zeros is None else zeros[part])
            sums[:, part] = rows @ np.abs(weights).T.astype(np.float64)
        sums += 0.0 if bias is None else np.abs(bias)
    return sums.reshape(y.shape), walk(op.size)


def _projections(op: Projections, inputs: Arrays, y: np.ndarray) -> tuple[np.ndarray, float]:
    first = inputs[0]
    assert first is not None
    return absolute(op, inputs), walk(first.shape[-1])


def carried(op: Op, inputs: Arrays, allowed: np.ndarray) -> np.ndarray:
    """Error of the result that one of the first input up to ``allowed`` makes."""
    if isinstance(op, LayerNormalization):
        return finite(_through_normalization(op, inputs, allowed))
    if isinstance(op, Softmax | LogSoftmax):
        return finite(_through_softmax(op, inputs, allowed))
    return finite(absolute(op, without_bias(op, (allowed, *inputs[1:]))))


def _through_normalization(
    op: LayerNormalization, inputs: Arrays, allowed: np.ndarray
) -> np.ndarray:
    """The error itself, that of the mean, and that of the deviation by the element's place."""
    x, scale = inputs[0], (*inputs, None)[1]
    assert x is not None
    axes = tuple(range(op.axis % x.ndim, x.ndim))
    wide = x.astype(np.float64)
    deviation = np.sqrt(wide.var(axis=axes, keepdims=True) + op.epsilon)
    place = np.abs(wide - wide.mean(axis=axes, keepdims=True)) / deviation
    error = allowed / deviation
    moved = error + error.mean(axis=axes, keepdims=True)
    moved = moved + place * (place * error).mean(axis=axes, keepdims=True)
    return moved * (1.0 if scale is None else np.abs(scale))


def _through_softmax(op: Softmax | LogSoftmax, inputs: Arrays, allowed: np.ndarray) -> np.ndarray:
    """What the logarithms of the shares may move by, and the shares with them.

    The logarithm of a share is x_i - log(sum_j exp(x_j)); with errors of up to e_j the sum changes
    by a factor of at most sum_j y_j exp(e_j), and by no less than its inverse, by Jensen's
    inequality. What a share loses the others gain.
    """
    x, wide = inputs[0], allowed.astype(np.float64)
    assert x is not None
    shares = softmax(x.astype(np.float64), op.axis)
    with np.errstate(all="ignore"):
        most = wide.max(axis=op.axis, keepdims=True, initial=0.0)
        factor = (shares * np.exp(wide - most)).sum(axis=op.axis, keepdims=True)
        moved = wide + most + np.log(factor)
        if isinstance(op, LogSoftmax):
            return moved
        moved = np.fmin(shares * np.expm1(moved), 1.0)
        return np.fmin(moved, moved.sum(axis=op.axis, keepdims=True) - moved)


def without_bias(op: Op, inputs: Arrays) -> Arrays:
    """The inputs of which an error of the first is carried on: that and what it is multiplied by.

    None where a bias of Projections stands.
    """
    if isinstance(op, Projections):
        return [x if i % 2 or not i else None for i, x in enumerate(inputs)]
    return inputs[:2]


RULES: dict[type[Op], Rule] = {
    Conv: _conv,
    ConvTranspose: _conv_transpose,
    DeformConv: _deform_conv,
    MatMul: _matmul,
    MatMulNBits: _matmul_n_bits,
    Projections: _projections,
}
