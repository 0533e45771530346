"""Complex numbers: which operators take them, by ONNX's schemas."""

from __future__ import annotations

from collections.abc import Iterator

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.steps import TensorList
from vknn.graph import Value

#: Operators of ONNX's own domain that move elements of any type, or say something of a tensor.
COMPLEX_OPERATORS = frozenset((
    "BitCast", "CenterCropPad", "Col2Im", "Compress", "Concat", "ConcatFromSequence", "Constant",
    "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "GridSample",
    "Identity", "If",
    "Loop", "NonZero", "OneHot", "Optional", "OptionalGetElement", "OptionalHasElement", "Pad",
    "RandomNormalLike", "RandomUniformLike", "Reshape", "Resize", "ReverseSequence",
    "Scan", "Scatter",
    "ScatterElements", "ScatterND", "SequenceAt", "SequenceConstruct", "SequenceErase",
    "SequenceInsert", "SequenceLength", "SequenceMap", "Shape", "Size", "Slice", "SpaceToDepth",
    "Split", "SplitToSequence", "Squeeze", "TensorScatter", "Tile", "Transpose", "Trilu", "Unique",
    "Unsqueeze", "Upsample", "Where",
))  # fmt: skip


def refuse_complex(c: Context) -> None:
    """Check that no input is complex; raises Malformed."""
    for value in _values(c):
        c.require(not value.type.dtype.is_complex, f"takes no complex numbers, as {value.type}")


def _values(c: Context) -> Iterator[Value]:
    for item in c.items:
        if isinstance(item, TensorList):
            yield from item.values
        elif item is not None:
            yield item
