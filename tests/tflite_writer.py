"""Writes small .tflite files, right ones and wrong ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np

from vknn.formats.tflite.generated import accessors
from vknn.formats.tflite.generated.layout import TABLES, UNIONS
from vknn.formats.tflite.options import options_table
from vknn.formats.tflite.tensors import DTYPES, RESOURCE, SUB_BYTE_TYPES

_ITEMS = {1: np.uint8, 2: np.uint16, 4: np.int32, 8: np.int64}
_NUMBERS = {dtype.value: number for number, dtype in DTYPES.items()}
_NUMBERS |= {type_.name: number for number, type_ in SUB_BYTE_TYPES.items()}
_NUMBERS["resource"] = RESOURCE
_BITS = {type_.name: type_.bits for type_ in SUB_BYTE_TYPES.values()}
#: The old field of an operator's code is a byte; greater codes stand in the new one.
MOST_OLD_CODE = 127


@dataclass
class Table:
    """A table of the schema; fields that are not in ``fields`` are left out of the file."""

    kind: str
    fields: dict[str, Any] = field(default_factory=dict)

    def write(self, builder: flatbuffers.Builder) -> int:
        """Its offset, behind all that it refers to."""
        values: dict[str, Any] = {}
        slots = {slot: (kind, detail) for slot, kind, detail in TABLES[self.kind]}
        for name, value in self.fields.items():
            kind, detail = slots[name]
            values[name] = _written(builder, kind, detail, value)
            if kind == "union":
                values[f"{name}_type"] = UNIONS[str(detail)].index(value.kind) + 1
        getattr(accessors, f"{self.kind}Start")(builder)
        for name, value in values.items():
            camel = "".join(part.capitalize() for part in name.split("_"))
            getattr(accessors, f"{self.kind}Add{camel}")(builder, value)
        return int(getattr(accessors, f"{self.kind}End")(builder))


def _written(builder: flatbuffers.Builder, kind: str, detail: int | str, value: Any) -> Any:
    if kind == "scalar":
        return value
    if kind == "string":
        return builder.CreateString(value)
    if kind == "vector":
        array = np.asarray(value)
        array = array if array.dtype.kind == "f" else array.astype(_ITEMS[int(detail)])
        return builder.CreateNumpyVector(array)
    if kind == "tables":
        offsets = [entry.write(builder) for entry in value]
        builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            builder.PrependUOffsetTRelative(offset)
        return builder.EndVector()
    return value.write(builder)


@dataclass
class Net:
    """A subgraph in the making. ``parent``: the model's first subgraph, for the others."""

    parent: Net | None = None
    tensors: list[Table] = field(default_factory=list)
    operators: list[Table] = field(default_factory=list)
    inputs: Sequence[int] = ()
    outputs: Sequence[int] = ()
    buffers: list[Table] = field(default_factory=lambda: [Table("Buffer")])
    codes: list[Table] = field(default_factory=list)
    others: list[Net] = field(default_factory=list)

    def another(self) -> Net:
        """One more subgraph of the same model."""
        self.others.append(Net(self))
        return self.others[-1]

    def tensor(
        self,
        name: str,
        shape: Sequence[int] = (),
        dtype: str = "float32",
        *,
        data: Any = None,
        scale: Any = None,
        zero_point: Any = 0,
        axis: int = 0,
        **fields: Any,
    ) -> int:
        """Adds a tensor, a constant where there is ``data``; gives its index.

        One zero point serves all scales, which lie along ``axis``.
        """
        content: dict[str, Any] = {"name": name, "type": _NUMBERS[dtype]}
        if data is not None:
            array = np.asarray(data, np.int8 if dtype in _BITS else dtype)
            shape = shape or array.shape
            raw = packed(array, _BITS[dtype]) if dtype in _BITS else _bytes(array)
            content["buffer"] = self.buffer(Table("Buffer", {"data": raw}))
        content["shape"] = list(shape)
        if scale is not None:
            scales = np.atleast_1d(np.float32(scale))
            zeros = np.broadcast_to(zero_point, scales.shape)
            quantization = {"scale": scales, "zero_point": zeros, "quantized_dimension": axis}
            content["quantization"] = Table("QuantizationParameters", quantization)
        self.tensors.append(Table("Tensor", content | fields))
        return len(self.tensors) - 1

    def buffer(self, table: Table) -> int:
        """Adds a buffer; gives its index."""
        first = self.parent or self
        first.buffers.append(table)
        return len(first.buffers) - 1

    def code(self, table: Table) -> int:
        """Adds an operator's code; gives its index."""
        first = self.parent or self
        first.codes.append(table)
        return len(first.codes) - 1

    def add(
        self,
        name: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        options: dict[str, Any] | None = None,
        **fields: Any,
    ) -> None:
        """Adds an operator; one without ``options`` gets no table of them."""
        number = getattr(accessors.BuiltinOperator, name)
        old = min(number, MOST_OLD_CODE)
        code = {"deprecated_builtin_code": old, "builtin_code": number}
        if "custom_code" in fields:
            code["custom_code"] = fields.pop("custom_code")
        content = {"opcode_index": self.code(Table("OperatorCode", code)), **fields}
        content |= {"inputs": list(inputs), "outputs": list(outputs)}
        if options is not None:
            kind = str(options_table(name))
            union = "builtin_options_2" if kind in UNIONS["BuiltinOptions2"] else "builtin_options"
            content[union] = Table(kind, options)
        self.operators.append(Table("Operator", content))

    def table(self) -> Table:
        """The subgraph."""
        content = {"tensors": self.tensors, "operators": self.operators}
        ends = {"inputs": list(self.inputs), "outputs": list(self.outputs)}
        return Table("SubGraph", content | ends)

    def model(self, **fields: Any) -> Table:
        """The model, of which this is the first subgraph."""
        content = {
            "version": 3,
            "operator_codes": self.codes,
            "subgraphs": [net.table() for net in (self, *self.others)],
            "buffers": self.buffers,
        }
        return Table("Model", content | fields)

    def file(self, **fields: Any) -> bytes:
        """The bytes of the model's file."""
        return write(self.model(**fields))


def write(model: Table) -> bytes:
    """The bytes of a file."""
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.write(builder), b"TFL3")
    return bytes(builder.Output())


def packed(array: np.ndarray, bits: int) -> np.ndarray:
    """Numbers of a few bits side by side in bytes, the first in the lowest bits."""
    each = 8 // bits
    codes = array.reshape(-1).astype(np.uint8) & ((1 << bits) - 1)
    codes = np.append(codes, np.zeros(-codes.size % each, np.uint8)).reshape(-1, each)
    return np.asarray((codes << np.arange(0, 8, bits, dtype=np.uint8)).sum(axis=1), np.uint8)


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
