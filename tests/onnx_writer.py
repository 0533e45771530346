"""Writer of small ONNX models for tests, with vknn's own messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vknn.formats.onnx import onnx_pb2 as pb
from vknn.formats.onnx.element_types import BY_DTYPE, ELEMENT_TYPES
from vknn.graph import DType

Dims = Sequence[int | str | None] | None


def tensor(name: str, array: Any) -> Any:
    """A tensor with raw_data."""
    array = np.asarray(array)
    found = pb.Tensor(name=name, dims=array.shape, data_type=BY_DTYPE[DType.of(array)].number)
    if array.dtype == object:
        found.string_data.extend(array.reshape(-1).tolist())
    else:
        found.raw_data = _raw(array)
    return found


def _raw(array: np.ndarray) -> bytes:
    """The bytes of a tensor; elements of less than a byte packed, the first in the lowest bits."""
    bits = BY_DTYPE[DType.of(array)].bits
    if bits >= 8:
        return array.tobytes()
    codes = array.view(np.uint8).reshape(-1)
    single = (codes[:, None] >> np.arange(bits) & 1).astype(np.uint8)
    return np.packbits(single.reshape(-1), bitorder="little").tobytes()


def value(name: str, dims: Dims = (2, 3), dtype: DType = DType.FLOAT32) -> Any:
    """An input or output; None among its sizes: unknown, None as a whole: of any shape."""
    found = pb.ValueInfo(name=name)
    found.type.tensor_type.elem_type = BY_DTYPE[dtype].number
    if dims is not None:
        found.type.tensor_type.shape.SetInParent()
        for size in dims:
            dim = found.type.tensor_type.shape.dim.add()
            if isinstance(size, str):
                dim.dim_param = size
            elif size is not None:
                dim.dim_value = size
    return found


def sequence(name: str, dtype: DType = DType.FLOAT32) -> Any:
    """An input or output that is a sequence of tensors of any shape."""
    found = pb.ValueInfo(name=name)
    found.type.sequence_type.elem_type.tensor_type.elem_type = BY_DTYPE[dtype].number
    return found


def node(
    op_type: str, inputs: str = "", outputs: str = "y", domain: str = "", **attributes: Any
) -> Any:
    """A node; inputs and outputs are names with spaces between, "-" for one that is left out."""

    def names(text: str) -> list[str]:
        return ["" if name == "-" else name for name in text.split()]

    found = pb.Node(op_type=op_type, input=names(inputs), output=names(outputs), domain=domain)
    for name, given in attributes.items():
        found.attribute.append(attribute(name, given))
    return found


def attribute(name: str, given: Any) -> Any:
    """An attribute of the kind that the Python value suggests."""
    if isinstance(given, float):
        return pb.Attribute(name=name, type=1, f=given)
    if isinstance(given, int):
        return pb.Attribute(name=name, type=2, i=int(given))
    if isinstance(given, str):
        return pb.Attribute(name=name, type=3, s=given.encode(errors="surrogateescape"))
    if isinstance(given, np.ndarray):
        return pb.Attribute(name=name, type=4, t=tensor("", given))
    if isinstance(given, pb.Graph):
        return pb.Attribute(name=name, type=5, g=given)
    if all(isinstance(number, int) for number in given):
        return pb.Attribute(name=name, type=7, ints=given)
    return pb.Attribute(name=name, type=6, floats=given)


def graph(
    nodes: Sequence[Any],
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    tensors: Mapping[str, Any] | None = None,
) -> Any:
    """A graph; ``tensors``: its initializers. Outputs of any shape state no type either."""
    made = [tensor(name, array) for name, array in (tensors or {}).items()]
    outputs = [pb.ValueInfo(name=v.name) if v.type == value("", None).type else v for v in outputs]
    return pb.Graph(name="net", node=nodes, input=inputs, output=outputs, initializer=made)


def model(body: Any, opset: int = 21, ir: int = 10, functions: Sequence[Any] = ()) -> Any:
    """A model of a graph."""
    found = pb.Model(ir_version=ir, producer_name=b"tests", graph=body, functions=functions)
    found.opset_import.add(domain="", version=opset)
    for domain in sorted({f.domain for f in functions}):
        found.opset_import.add(domain=domain, version=1)
    return found


def simple(*nodes: Any, opset: int = 21, **tensors: Any) -> Any:
    """A model from x [2, 3] to y."""
    return model(graph(nodes, [value("x")], [value("y", None)], tensors), opset)


def save(message: Any, folder: Path) -> Path:
    """The model as a file."""
    path = folder / "model.onnx"
    path.write_bytes(message.SerializeToString())
    return path


NUMBERS = {found.dtype: number for number, found in ELEMENT_TYPES.items()}
