"""Rules of operators that combine elements along some axes only, none of which holds examples."""

from __future__ import annotations

from collections.abc import Iterable

from vknn.batching.case import Case, Ruling, normal, rule
from vknn.ops.convolution.im2col import Col2Im, Im2Col
from vknn.ops.elementwise.glu import Glu
from vknn.ops.fourier import DFT
from vknn.ops.indexing.topk import ArgMax, ArgMin, TopK
from vknn.ops.linear_algebra import Det, Inverse
from vknn.ops.matmul import RoundBlocks
from vknn.ops.movement.rearrange import DepthToSpace, MatrixDiag, SpaceToDepth
from vknn.ops.movement.shape import ChannelShuffle
from vknn.ops.normalization import (
    LRN,
    BatchNormalization,
    GroupNormalization,
    InstanceNormalization,
    LayerNormalization,
    MeanVarianceNormalization,
    NormalizeL2,
    RMSNormalization,
)
from vknn.ops.pooling.pool import (
    AdaptiveAveragePool,
    AdaptiveMaxPool,
    AveragePool,
    GlobalAveragePool,
    GlobalMaxPool,
    MaxPool,
)
from vknn.ops.quantized.dynamic import DynamicRound
from vknn.ops.quantized.resize import QuantizedResize
from vknn.ops.quantized.rows import (
    FixedByteSoftmax,
    FixedSoftmax,
    QuantizedL2Normalization,
    QuantizedLayerNormalization,
    QuantizedLogSoftmax,
    QuantizedReduceProd,
)
from vknn.ops.reduction import Cumulative, LogSoftmax, Reduction, Softmax, normal_axes
from vknn.ops.sampling.resize import Resize


def _kept(case: Case, mixed: Iterable[int]) -> Ruling:
    """Ruling where axes stay where they are; the first input alone holds examples."""
    axis = case.beside(case.only(), {normal(a, case.rank()) for a in mixed})
    return Ruling(case.op, (axis,) * len(case.results))


@rule(Softmax, LogSoftmax, Cumulative, Glu, TopK)
def _along_one(case: Case) -> Ruling:
    op = case.op
    assert isinstance(op, Softmax | LogSoftmax | Cumulative | Glu | TopK)
    return _kept(case, [op.axis])


@rule(LRN, MeanVarianceNormalization, NormalizeL2)
def _along_several(case: Case) -> Ruling:
    op = case.op
    assert isinstance(op, LRN | MeanVarianceNormalization | NormalizeL2)
    return _kept(case, op.axes)


@rule(LayerNormalization, RMSNormalization, DynamicRound)
def _from_axis_on(case: Case) -> Ruling:
    op = case.op
    assert isinstance(op, LayerNormalization | RMSNormalization | DynamicRound)
    return _kept(case, range(normal(op.axis, case.rank()), case.rank()))


@rule(BatchNormalization)
def _of_channels(case: Case) -> Ruling:
    return _kept(case, [1])


@rule(
    RoundBlocks, FixedByteSoftmax, FixedSoftmax, QuantizedLogSoftmax, QuantizedL2Normalization,
    QuantizedLayerNormalization, QuantizedReduceProd, MatrixDiag,
)  # fmt: skip
def _of_rows(case: Case) -> Ruling:
    return _kept(case, [-1])


@rule(DFT, Det, Inverse)
def _of_matrices(case: Case) -> Ruling:
    return _kept(case, [-1, -2])


@rule(
    MaxPool, AveragePool, GlobalAveragePool, GlobalMaxPool, AdaptiveAveragePool, AdaptiveMaxPool,
    InstanceNormalization, GroupNormalization, Resize, QuantizedResize, Im2Col, Col2Im,
    DepthToSpace, SpaceToDepth, ChannelShuffle,
)  # fmt: skip
def _of_images(case: Case) -> Ruling:
    """x is [N, C, ...], and each of N an image by itself."""
    return _kept(case, range(1, case.rank()))


@rule(Reduction)
def _reduced(case: Case) -> Ruling:
    op = case.op
    assert isinstance(op, Reduction)
    return _without(case, normal_axes(op, op.axes, case.rank()), op.keepdims)


@rule(ArgMax, ArgMin)
def _best(case: Case) -> Ruling:
    op = case.op
    assert isinstance(op, ArgMax | ArgMin)
    return _without(case, (normal(op.axis, case.rank()),), op.keepdims)


def _without(case: Case, axes: tuple[int, ...], keepdims: bool) -> Ruling:
    """Ruling where these axes are combined, and gone unless ``keepdims``."""
    axis = case.beside(case.only(), axes)
    gone = 0 if keepdims else sum(a < axis for a in axes)
    return Ruling(case.op, (axis - gone,))
