"""Type indices: the numbers of layer types in a .param.bin."""

from __future__ import annotations

from vknn.formats.ncnn.custom import known_types

#: ncnn's layer types in the order of their indices.
BUILTIN = tuple(
    """
    AbsVal ArgMax BatchNorm Bias BNLL Concat Convolution Crop Deconvolution Dropout Eltwise
    ELU Embed Exp Flatten InnerProduct Input Log LRN MemoryData MVN Pooling Power PReLU
    Proposal Reduction ReLU Reshape ROIPooling Scale Sigmoid Slice Softmax Split SPP TanH
    Threshold Tile RNN LSTM BinaryOp UnaryOp ConvolutionDepthWise Padding Squeeze ExpandDims
    Normalize Permute PriorBox DetectionOutput Interp DeconvolutionDepthWise ShuffleChannel
    InstanceNorm Clip Reorg YoloDetectionOutput Quantize Dequantize Yolov3DetectionOutput
    PSROIPooling ROIAlign Packing Requantize Cast HardSigmoid SELU HardSwish Noop PixelShuffle
    DeepCopy Mish StatisticsPooling Swish Gemm GroupNorm LayerNorm Softplus GRU
    MultiHeadAttention GELU Convolution1D Pooling1D ConvolutionDepthWise1D Convolution3D
    ConvolutionDepthWise3D Pooling3D MatMul Deconvolution1D DeconvolutionDepthWise1D
    Deconvolution3D DeconvolutionDepthWise3D Einsum DeformableConv2D GLU Fold Unfold
    GridSample CumulativeSum CopyTo Erf Diag CELU Shrink RMSNorm Spectrogram
    InverseSpectrogram Flip SDPA RotaryEmbed
    """.split()  # noqa: SIM905 (a hundred names)
)
#: Set in the indices of custom types, which count from 0.
CUSTOM_BIT = 1 << 8
_NUMBERS = {name: number for number, name in enumerate(BUILTIN)}


def type_named(number: int) -> str | None:
    """Name of the type with this index; None for an index outside both ranges.

    A custom type that is not registered is named by its number ("Custom0").
    """
    if 0 <= number < len(BUILTIN):
        return BUILTIN[number]
    if not CUSTOM_BIT <= number < 2 * CUSTOM_BIT:
        return None
    own = number - CUSTOM_BIT
    return next((n for n, t in known_types().items() if t.index == own), f"Custom{own}")


def type_index(name: str) -> int | None:
    """Index of a type; None where it has none."""
    if name in _NUMBERS:
        return _NUMBERS[name]
    found = known_types().get(name)
    if found is None or found.index is None:
        return None
    return CUSTOM_BIT | found.index
