"""Context of an OpenVINO layer's conversion: inputs, attributes, blobs and state."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from vknn.formats.layer_context import LayerContext, NeedsData
from vknn.formats.openvino.attributes import AttributeReader
from vknn.formats.openvino.build import GraphBuild
from vknn.formats.openvino.records import LayerPort, LayerRecord
from vknn.graph import DType, Origin, Value
from vknn.ops.elementwise.activation import Clip
from vknn.ops.elementwise.unary import Round

#: Integer dtypes whose range float32 and int32 exceed.
SMALL_INTEGERS = (DType.INT8, DType.UINT8, DType.INT16)


class Context(LayerContext, AttributeReader):
    """One layer that is being converted. Values have the layout of the file (NCHW).

    ``scope``: the names of the TensorIterators around the layer, as a prefix of its name.
    """

    inputs: Sequence[Value]

    def __init__(
        self, build: GraphBuild, layer: LayerRecord, inputs: Sequence[Value], scope: str = ""
    ) -> None:
        super().__init__(layer.attributes)
        self.build, self.scope = build, scope
        self.builder = build.builder
        self.layer, self.inputs = layer, tuple(inputs)
        self._origin = Origin(f"{scope}{layer.name}", layer.type)

    @property
    def origin(self) -> Origin:
        return self._origin

    # --- inputs -----------------------------------------------------------------------------------

    def float_input(self, number: int = 0) -> Value:
        """An input as float32."""
        return self.cast(self.value(number), DType.FLOAT32)

    def int_input(self, number: int = 0) -> Value:
        """An input as int32; fractions are cut off."""
        return self.cast(self.value(number), DType.INT32)

    def rounded(self, x: Value, dtype: DType = DType.INT32) -> Value:
        """``x`` rounded to integers, halves to even, clipped to the range of ``dtype``."""
        if x.type.dtype.is_float and dtype is not DType.BOOL:
            x = self.add(Round(), x)
        if dtype in SMALL_INTEGERS and x.type.dtype in (DType.FLOAT32, DType.INT32):
            info = np.iinfo(dtype.numpy)
            x = self.add(Clip(float(info.min), float(info.max)), x)
        return self.cast(x, dtype)

    def data(self, number: int) -> np.ndarray:
        """The data of an input that must be known while the graph is built.

        Raises NeedsData where they are computed at run time: the graph ends before this layer then
        (see ``stages``).
        """
        value = self.value(number)
        if value.constant is not None:
            return value.constant
        key = (self.scope, self.layer.id, number)
        if key not in self.build.given:
            raise NeedsData(value, key)
        return self.build.given[key]

    def input_ints(self, number: int, what: str) -> list[int]:
        """The data of an input as integers, flattened. Raises Malformed for fractions."""
        array = self.data(number).reshape(-1)
        if array.dtype.kind not in "iub":
            with np.errstate(all="ignore"):
                whole = np.isfinite(array) & (array == np.rint(array)) & (np.abs(array) < 2**31)
            self.require(bool(whole.all()), f"{what} must be integers")
        return [int(v) for v in array]

    def input_scalar(self, number: int, what: str) -> float:
        """The data of an input with one element."""
        array = self.data(number)
        self.require(array.size == 1, f"{what} has {array.size} elements, not 1")
        return float(array.reshape(-1)[0])

    # --- attributes of the file -------------------------------------------------------------------

    @property
    def rank(self) -> int:
        """The rank of the first input."""
        return self.x.type.rank

    def declared(self, number: int = 0) -> tuple[int, ...]:
        """The shape that the file states for an output.

        It holds only for inputs of the shapes that the file states too; raises Unsupported for
        others.
        """
        if not self.is_as_declared:
            self.refuse("its output's shape stands only in the file, for inputs of other shapes")
        return self.port(number).dims

    @property
    def is_as_declared(self) -> bool:
        """Whether the inputs have the shapes that the file states for them."""
        same = (v.type.shape == p.dims for v, p in zip(self.inputs, self.layer.inputs, strict=True))
        return all(same) and (bool(self.inputs) or self.build.as_declared)

    def port(self, number: int = 0) -> LayerPort:
        """The file's record of an output port."""
        ports = self.layer.outputs
        return ports[number] if number < len(ports) else self.fail(f"has no output {number}")

    def dtype(self, number: int = 0) -> DType:
        """The dtype that the file states for an output; int32 in place of int64."""
        return self.port(number).graph_dtype

    def has_blob(self, name: str) -> bool:
        """Whether the layer has a blob of this name."""
        return name in self.layer.blobs

    def blob(
        self,
        name: str,
        shape: int | Sequence[int] | None = None,
        dtype: Any = None,
    ) -> np.ndarray:
        """A blob that must be there: float16 as float32, int64 as int32, BIN as its bytes.

        ``shape`` (or a number of elements) is checked, and is the result's; ``dtype``: the
        result's.
        """
        record = self.layer.blobs.get(name)
        if record is None:
            self.fail(f"has no {name}")
        array = _computed(self.build.weights.array(record, name))
        if dtype is not None:
            array = array.astype(dtype, copy=False)
        if shape is None:
            return array
        wanted = (shape,) if isinstance(shape, int) else tuple(shape)
        if array.size != math.prod(wanted):
            said = "x".join(map(str, wanted))
            self.fail(f"{name} holds {array.size} elements, not {said}")
        return array.reshape(wanted)

    # --- state ------------------------------------------------------------------------------------

    def read_state(self, id_: str) -> Value:
        """The state of this Memory id, as the previous run wrote it; zeros in the first run."""
        return self.build.states[id_]

    def write_state(self, id_: str, value: Value) -> None:
        """Assignment of ``value`` to the state of this Memory id, which the next run reads."""
        held = self.build.states[id_]
        if value.type.shape != held.type.shape:
            self.fail(f"writes {value.type} where {held.type} is read")
        self.build.written[id_] = self.cast(value, held.type.dtype)


def _computed(array: np.ndarray) -> np.ndarray:
    """An array of the file in a dtype that graphs compute in.

    64-bit integers that do not fit in 32 bits saturate, as in OpenVINO: ends of slices are often so
    large.
    """
    if array.dtype == np.float16:
        return array.astype(np.float32)
    if array.dtype == np.int64:
        return np.clip(array, -(1 << 31), (1 << 31) - 1).astype(np.int32)
    return array.astype(array.dtype.newbyteorder("="), copy=False)
