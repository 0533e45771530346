"""A model as its file states it, free of any file syntax."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vknn.graph import DType


@dataclass(frozen=True)
class Quant:
    """real = scale * (stored - zero_point); one pair, or one for each index along ``axis``."""

    scale: np.ndarray
    zero_point: np.ndarray
    axis: int = 0

    @property
    def per_channel(self) -> bool:
        return self.scale.size > 1


@dataclass(frozen=True)
class Narrow:
    """Integers of fewer than 8 bits. Files pack them into bytes; here each has a byte."""

    name: str
    dtype: DType
    bits: int

    @property
    def low(self) -> int:
        """The lowest number."""
        return -(1 << (self.bits - 1)) if self.dtype is DType.INT8 else 0

    @property
    def high(self) -> int:
        """The highest number."""
        return self.low + (1 << self.bits) - 1


@dataclass(frozen=True)
class TensorRecord:
    """One tensor of a subgraph. ``shape`` has None where the signature says -1.

    ``data`` is the constant's array, or None. ``variable`` marks state kept between runs.
    ``narrow`` says that ``dtype`` only holds numbers of fewer bits, ``unranked`` that an empty
    shape may stand for any, not only for that of a scalar, ``sparse`` how the file held ``data``,
    ``blocks`` the tensor that has a scale for each block of a row, and the size of blocks.
    """

    index: int
    name: str
    shape: tuple[int | None, ...]
    dtype: DType
    data: np.ndarray | None = None
    quant: Quant | None = None
    variable: bool = False
    narrow: Narrow | None = None
    unranked: bool = False
    sparse: bool = False
    blocks: tuple[int, int] | None = None

    @property
    def limits(self) -> tuple[int, int]:
        """The lowest and the highest number of its integers."""
        if self.narrow is not None:
            return self.narrow.low, self.narrow.high
        info = np.iinfo(self.dtype.numpy)
        return int(info.min), int(info.max)

    @property
    def type_name(self) -> str:
        """What its elements are called."""
        return self.narrow.name if self.narrow is not None else self.dtype.value

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
