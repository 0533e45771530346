"""Tolerances of reductions and normalisations: magnitude and units (see tolerance)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vknn.graph import Op
from vknn.ops.indexing.topk import ArgMax, ArgMin, TopK
from vknn.ops.normalization import (
    GroupNormalization,
    InstanceNormalization,
    MeanVarianceNormalization,
    NormalizeL2,
    RMSNormalization,
    root_with,
)
from vknn.ops.reduction import (
    CumProd,
    CumSum,
    LogSoftmax,
    ReduceL1,
    ReduceL2,
    ReduceLogSum,
    ReduceLogSumExp,
    ReduceMax,
    ReduceMean,
    ReduceMin,
    ReduceProd,
    ReduceSum,
    ReduceSumSquare,
    Reduction,
    normal_axes,
)

Arrays = Sequence[np.ndarray | None]
Rule = Callable[[Any, Arrays, np.ndarray], tuple[np.ndarray, float]]


def walk(terms: float) -> float:
    """Units that a sum of so many terms may gather."""
    return 4.0 * (math.sqrt(terms) + 8.0)


def _input(inputs: Arrays) -> np.ndarray:
    x = inputs[0]
    assert x is not None
    return x


def _exact(op: Op, inputs: Arrays, y: np.ndarray) -> tuple[np.ndarray, float]:
    return np.abs(y.astype(np.float64)), 0.0


def _finite(x: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(x), x, 0.0)


def _sum(op: Reduction, inputs: Arrays, y: np.ndarray) -> tuple[np.ndarray, float]:
    x = _input(inputs)
    if x.dtype.kind != "f":
        return _exact(op, inputs, y)
    magnitude = op.reference(np.abs(x))[0].astype(np.float64)
    return _finite(magnitude), walk(x.size / max(1, y.size))


def _logarithm(op: ReduceLogSum, inputs: Arrays, y: np.ndarray) -> tuple[np.ndarray, float]:
    x = _input(inputs)
    total = ReduceSum(op.axes, op.keepdims)
    size, value = (total.reference(v)[0].astype(np.float64) for v in (np.abs(x), x))
    # The logarithm turns a relative error of the sum into an absolute one.
    return _finite(size / np.abs(value) + np.abs(y)), walk(x.size / max(1, y.size))


def _log_sum_exp(op: ReduceLogSumExp, inputs: Arrays, y: np.ndarray) -> tuple[np.ndarray, float]:
    x = _input(inputs)
    reach = ReduceMax(op.axes, op.keepdims).reference(np.abs(x))[0]
    return _finite(1.0 + np.abs(y) + reach), walk(x.size / max(1, y.size))


def _product(op: Reduction, inputs: Arrays, y: np.ndarray) -> tuple[np.ndarray, float]:
    x = _input(inputs)
    terms = x.size / max(1, y.size) if x.dtype.kind == "f" else 0.0
    return _finite(np.abs(y.astype(np.float64))), walk(terms) if terms else 0.0


def _running(op: CumSum, inputs: Arrays, y: np.ndarray) -> tuple[np.ndarray, float]:
    x = _input(inputs)
    if x.dtype.kind != "f":
        return _exact(op, inputs, y)
    return _finite(op.reference(np.abs(x))[0].astype(np.float64)), walk(x.shape[op.axis])


def _running_product(op: CumProd, inputs: Arrays, y: np.ndarray) -> tuple[np.ndarray, float]:
    x = _input(inputs)
    if x.dtype.kind != "f":
        return _exact(op, inputs, y)
    return _finite(np.abs(y.astype(np.float64))), walk(x.shape[op.axis])


def _log_softmax(op: LogSoftmax, inputs: Arrays, y: np.ndarray) -> tuple[np.ndarray, float]:
    x = np.asarray(inputs[0], np.float64)
    reach = np.abs(x).max(axis=op.axis, keepdims=True, initial=0.0)
    return _finite(1.0 + np.abs(y) + reach), walk(math.sqrt(x.shape[op.axis]))


def _centered(x: np.ndarray, axes: tuple[int, ...], root: np.ndarray | float) -> np.ndarray:
    """The mean errs by what the largest elements round to."""
    size = np.abs(x.astype(np.float64))
    return _finite((size + size.max(axis=axes, keepdims=True, initial=0.0)) / root)


def _grouped(
    op: GroupNormalization | InstanceNormalization, inputs: Arrays, y: np.ndarray
) -> tuple[np.ndarray, float]:
    x, scale, bias = (*inputs, None, None)[:3]
    assert x is not None
    groups = op.num_groups if isinstance(op, GroupNormalization) else x.shape[1]
    rows = x.astype(np.float64).reshape(x.shape[0], groups, -1)
    root = np.sqrt(rows.var(axis=2, keepdims=True) + op.epsilon)
    magnitude = _centered(rows, (2,), root).reshape(x.shape)
    shape = (-1, *(1,) * (x.ndim - 2))
    magnitude = magnitude if scale is None else magnitude * np.abs(scale).reshape(shape)
    magnitude = magnitude if bias is None else magnitude + np.abs(bias).reshape(shape)
    return magnitude, walk(math.sqrt(rows.shape[2]))


def _over_axes(
    op: MeanVarianceNormalization, inputs: Arrays, y: np.ndarray
) -> tuple[np.ndarray, float]:
    x = _input(inputs)
    axes = normal_axes(op, op.axes, x.ndim)
    root: np.ndarray | float = 1.0
    if op.normalize_variance:
        variance = x.var(axis=axes, keepdims=True, dtype=np.float64)
        root = root_with(op.epsilon, op.epsilon_mode, variance)
    count = math.prod(x.shape[a] for a in axes)
    return _centered(x, axes, root), walk(math.sqrt(count))


def _relative(op: Op, inputs: Arrays, y: np.ndarray) -> tuple[np.ndarray, float]:
    """Sums of squares do not cancel: what they divide errs by a share of itself."""
    return _finite(np.abs(y.astype(np.float64))), walk(math.sqrt(_input(inputs).size))


RULES: dict[type[Op], Rule] = {
    **dict.fromkeys((ReduceMax, ReduceMin, ArgMax, ArgMin, TopK), _exact),
    **dict.fromkeys((ReduceSum, ReduceMean, ReduceSumSquare, ReduceL1, ReduceL2), _sum),
    **dict.fromkeys((GroupNormalization, InstanceNormalization), _grouped),
    **dict.fromkeys((NormalizeL2, RMSNormalization), _relative),
    ReduceLogSum: _logarithm,
    ReduceLogSumExp: _log_sum_exp,
    ReduceProd: _product,
    CumProd: _running_product,
    CumSum: _running,
    LogSoftmax: _log_softmax,
    MeanVarianceNormalization: _over_axes,
}
