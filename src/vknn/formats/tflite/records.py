"""Records: the subgraphs, tensors and operators of a model as its file states them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vknn.formats.tflite.sub_byte import PackedIntegers, SubByte
from vknn.graph import DType


@dataclass(frozen=True)
class Quant:
    """Quantization: real = scale * (stored - zero_point), for a tensor or each index of ``axis``.

    ``scale`` (float32) and ``zero_point`` (int64) are vectors of one length: 1 for a whole tensor.
    """

    scale: np.ndarray
    zero_point: np.ndarray
    axis: int = 0

    @property
    def per_channel(self) -> bool:
        """True where each index along ``axis`` has its own scale."""
        return self.scale.size > 1


@dataclass(frozen=True)
class BlockQuant:
    """Blockwise quantization of a tensor: the index of the tensor of scales, that of zero points
    (None where there are none), and how many integers along the last axis share a scale."""

    scales: int
    zero_points: int | None
    size: int


@dataclass(frozen=True)
class TensorRecord:
    """One tensor of a subgraph. ``shape`` has None where the signature says -1.

    ``stored`` is the constant as the file has it, or None. ``variable`` marks state kept between
    runs. ``sub_byte`` is the type of integers that have fewer bits than ``dtype``. ``unranked``: an
    empty shape stands for any shape, not for a scalar. ``sparse``: the file stores it sparsely.
    ``blocks``: blockwise quantization. ``resource``: the number of a variable or table (see
    ``resources``), of no shape and no data. ``stated``: the shape as the file has it, with some
    size for each axis that is open.
    """

    index: int
    name: str
    shape: tuple[int | None, ...]
    dtype: DType
    stored: np.ndarray | PackedIntegers | None = None
    quant: Quant | None = None
    variable: bool = False
    sub_byte: SubByte | None = None
    unranked: bool = False
    sparse: bool = False
    blocks: BlockQuant | None = None
    resource: bool = False
    stated: tuple[int, ...] = ()

    @property
    def data(self) -> np.ndarray | None:
        """The constant's array, or None."""
        if isinstance(self.stored, PackedIntegers):
            return self.stored.numbers()
        return self.stored

    @property
    def packed(self) -> PackedIntegers | None:
        """The constant of a sub-byte type; None for other tensors."""
        return self.stored if isinstance(self.stored, PackedIntegers) else None

    @property
    def limits(self) -> tuple[int, int]:
        """Lowest and highest integer of the element type."""
        if self.sub_byte is not None:
            return self.sub_byte.low, self.sub_byte.high
        info = np.iinfo(self.dtype.numpy)
        return int(info.min), int(info.max)

    @property
    def type_name(self) -> str:
        """Name of the element type, sub-byte types included."""
        if self.resource:
            return "resource"
        return self.sub_byte.name if self.sub_byte is not None else self.dtype.value

    @property
    def initial_value(self) -> int:
        """Initial value of a variable tensor's elements: 0, or the zero point of an int8 tensor."""
        if self.dtype is not DType.INT8 or self.quant is None:
            return 0
        return int(self.quant.zero_point.reshape(-1)[0])

    @property
    def is_quantized(self) -> bool:
        """True for integers of 8 or 16 bits that stand for real numbers."""
        return self.quant is not None and self.dtype in (DType.INT8, DType.UINT8, DType.INT16)


@dataclass(frozen=True)
class OperatorRecord:
    """One operator. ``code`` is the builtin's name, or CUSTOM; absent inputs are -1.

    ``options`` has every field of the options table, with the schema's defaults where the file has
    none; for custom operators it is what their FlexBuffer decodes to.
    """

    index: int
    code: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    custom_code: str = ""
    intermediates: tuple[int, ...] = ()

    @property
    def type(self) -> str:
        """The builtin's name, or the custom operator's own."""
        return self.custom_code or self.code


@dataclass(frozen=True)
class SubgraphRecord:
    """Tensors, and operators in the order in which they run."""

    index: int
    name: str
    tensors: tuple[TensorRecord, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[OperatorRecord, ...]


@dataclass(frozen=True)
class SignatureRecord:
    """Names that a caller may use for the inputs and outputs of a subgraph."""

    key: str
    subgraph: int
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]


@dataclass(frozen=True)
class ModelRecord:
    """A whole file; subgraph 0 is the model."""

    subgraphs: tuple[SubgraphRecord, ...]
    description: str = ""
    signatures: tuple[SignatureRecord, ...] = ()
    metadata: Mapping[str, bytes] = field(default_factory=dict)
