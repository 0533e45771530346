"""NcnnModel: a loaded network, its inputs and outputs, and graphs for input shapes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from vknn.errors import InputError
from vknn.formats.layer_context import unfold
from vknn.formats.layer_errors import errors_of
from vknn.formats.model import Model, TensorSpec
from vknn.formats.ncnn.blobs import output_blobs
from vknn.formats.ncnn.context import Context
from vknn.formats.ncnn.layers.sources import ALIASES, INPUT
from vknn.formats.ncnn.params import Params
from vknn.formats.ncnn.records import LayerRecord, NetRecord
from vknn.formats.ncnn.registry import INT32, NcnnLayerType
from vknn.formats.ncnn.weights import FileWeight
from vknn.graph import DType, Graph, GraphBuilder, TensorType, Value
from vknn.ops.movement.shape import Concat, Slice

_MAX_RANK = 4


@dataclass(frozen=True)
class BoundLayer:
    """A layer of the file with its type, its checked parameters and its weights."""

    record: LayerRecord
    type: NcnnLayerType
    params: Params
    weights: Mapping[str, FileWeight]


class NcnnModel(Model):
    """An ncnn model (see :class:`Model`). Arrays have no batch axis, values a leading axis of 1."""

    axis_letters = MappingProxyType({1: "W", 2: "HW", 3: "CHW", 4: "CDHW"})

    def __init__(
        self,
        net: NetRecord,
        layers: Sequence[BoundLayer],
        name: str = "ncnn",
        file: str | None = None,
    ) -> None:
        self.net = net
        self.layers = tuple(layers)
        self.name, self.file = name, file
        self.layer_types = tuple(layer.type for layer in net.layers)
        demanded = _demanded_types(self.layers)
        names = [top for layer in net.layers if layer.type == INPUT for top in layer.tops]
        self._input_types = {n: demanded.get(n, DType.FLOAT32) for n in names}
        self._takes_int8 = _int8_blobs(self.layers) & set(names)
        self._may_be_empty = _may_be_empty(self.layers)
        self.shape_hints = _shape_hints(net)
        self.value_inputs = frozenset(_value_blobs(self.layers) & set(names))
        self.inputs = tuple(TensorSpec(n, None, t.numpy) for n, t in self._input_types.items())
        types = _result_types(self.layers, self._input_types)
        self.outputs = tuple(TensorSpec(n, None, types[n].numpy) for n in output_blobs(net))

    def build(
        self, types: Mapping[str, TensorType], values: Mapping[str, np.ndarray] | None = None
    ) -> Graph:
        """See :meth:`Model.build`."""
        self.check_names(types)
        builder = GraphBuilder(self.name)
        blobs: dict[str, Value] = {}
        for name in self._input_types:
            given = types[name]
            canonical = TensorType((1, *given.dims), self._graph_type(name, given.dtype))
            self._check_rank(name, given.dims)
            if name in self.value_inputs:
                if values is None or name not in values:
                    raise InputError(f"the data of input {name!r} are needed: they decide shapes")
                blobs[name] = builder.constant(self.encode(name, values[name]), name)
            else:
                blobs[name] = builder.input(name, canonical)
        reserved = frozenset(self.net.blobs())
        for layer in self.layers:
            if layer.type.name != INPUT:
                _convert(layer, builder, blobs, reserved, self.file)
        outputs = {spec.name: blobs[spec.name] for spec in self.outputs}
        return builder.finish(outputs, blobs=blobs)

    def encode(self, name: str, array: np.ndarray) -> np.ndarray:
        """``array`` with a leading axis, in the element type of the input. Raises InputError."""
        if name not in self._input_types:
            raise InputError(f"unknown input {name!r}")
        array = np.asarray(array)
        if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8:
            raise InputError(f"input {name!r}: arrays of dtype {array.dtype} are not numbers")
        self._check_rank(name, array.shape)
        dtype = self._graph_type(name, DType.find(array))
        if dtype is DType.INT32:
            return _as_int32(name, array)[None]
        if array.dtype == dtype.numpy and array.flags.c_contiguous:
            return array[None]  # the common case; entering errstate would double its time
        with np.errstate(all="ignore"):
            return np.ascontiguousarray(array, dtype=dtype.numpy)[None]

    def decode(self, name: str, array: np.ndarray) -> np.ndarray:
        """``array`` without its leading axis: of a batch, which ncnn's arrays lack, item 0."""
        return array[0]

    def decode_blob(self, array: np.ndarray) -> np.ndarray:
        """``array`` without its leading axis, as :meth:`decode`: all blobs have it."""
        return array[0]

    def _graph_type(self, name: str, given: DType | None) -> DType:
        """Element type in the graph for an array of type ``given`` (None: one that vknn lacks)."""
        if given is DType.INT8 and name in self._takes_int8:
            return DType.INT8
        wanted = self._input_types[name]
        if wanted is DType.INT32 and given is not None and not given.is_integer:
            raise InputError(f"input {name!r} takes int32, not {given.value}")
        return wanted

    def _check_rank(self, name: str, shape: tuple[int, ...]) -> None:
        if not 1 <= len(shape) <= _MAX_RANK:
            raise InputError(
                f"input {name!r} has the shape {shape}: ncnn blobs have 1 to {_MAX_RANK} axes "
                "(w), (h, w), (c, h, w) or (c, d, h, w) and no batch axis"
            )
        if 0 in shape and name not in self._may_be_empty:
            raise InputError(f"input {name!r} has the shape {shape}: it is empty")


def _shape_hints(net: NetRecord) -> dict[str, tuple[int, ...]]:
    """Shapes that Input layers declare by parameters 2, 11, 1, 0 (c, d, h, w)."""
    hints = {}
    for layer in net.layers:
        sizes = [layer.params.get(id_, 0) for id_ in (2, 11, 1, 0)]
        known = tuple(s for s in sizes if isinstance(s, int) and s > 0)
        if layer.type == INPUT and known:
            hints.update(dict.fromkeys(layer.tops, known))
    return hints


def _as_int32(name: str, array: np.ndarray) -> np.ndarray:
    if array.dtype.kind not in "iu":
        raise InputError(f"input {name!r} takes int32, not {array.dtype}")
    info = np.iinfo(np.int32)
    if array.min() < info.min or array.max() > info.max:
        raise InputError(f"input {name!r} has values beyond int32")
    return np.ascontiguousarray(array, dtype=np.int32)


def _convert(
    layer: BoundLayer,
    builder: GraphBuilder,
    blobs: dict[str, Value],
    reserved: frozenset[str],
    file: str | None,
) -> None:
    """Adds a layer to the graph; values that it computes get the names of its output blobs."""
    record = layer.record
    inputs = [blobs[name] for name in record.bottoms]
    context = Context(builder, record, layer.params, layer.weights, inputs, reserved)
    with errors_of(f"layer {record.name!r} ({record.type})", file, record.name):
        if inputs and inputs[0].type.dtype not in layer.type.accepts:
            accepted = " or ".join(sorted(d.value for d in layer.type.accepts))
            context.fail(f"takes {accepted}, its input is {inputs[0].type}")
        values = _converted(layer, context)
    # A new value has the name of the first blob it is; one that is passed through keeps its name.
    named = set(inputs)
    for name, value in zip(record.tops, values, strict=True):
        blobs[name] = value
        if value.constant is None and value not in named:
            value.name = name
            named.add(value)


def _converted(layer: BoundLayer, context: Context[Params]) -> Sequence[Value]:
    """Results of a layer; of blobs with a batch, item by item, as in ncnn."""
    batches = {v.type.shape[0] or 1 for v in context.inputs} - {1}
    if not batches or layer.type.batched(layer.params):
        return unfold(layer.type.convert(context))
    context.require(len(batches) == 1, f"its inputs have batches of {sorted(batches)}")
    items: list[Sequence[Value]] = []
    for i in range(batches.pop()):
        part = Slice(starts=(i,), ends=(i + 1,), axes=(0,))
        inputs = [v if v.type.shape[0] == 1 else context.add(part, v) for v in context.inputs]
        items.append(unfold(layer.type.convert(dataclasses.replace(context, inputs=inputs))))
    return [context.add(Concat(axis=0), *tops) for tops in zip(*items, strict=True)]


def _demanded_types(layers: Iterable[BoundLayer]) -> dict[str, DType]:
    """Blobs that must hold int32, found backwards from the layers that read them."""
    demanded: dict[str, DType] = {}
    for layer in reversed(list(layers)):
        bottoms, tops = layer.record.bottoms, layer.record.tops
        if layer.type.accepts == INT32:
            demanded[bottoms[0]] = DType.INT32
        for slot in layer.type.value_slots(layer.params):
            if slot < len(bottoms):
                demanded[bottoms[slot]] = DType.INT32
        if bottoms and layer.type.result(layer.params, DType.INT32) is DType.INT32:
            passed = zip(bottoms, tops, strict=False) if layer.type.name == "Noop" else ()
            pairs = list(passed) or [(bottoms[0], top) for top in tops]
            demanded.update({b: DType.INT32 for b, top in pairs if top in demanded})
    return demanded


def _value_blobs(layers: Iterable[BoundLayer]) -> set[str]:
    """Blobs whose data decide shapes, also those that Split and the like pass on to such a blob."""
    found: set[str] = set()
    for layer in reversed(list(layers)):
        bottoms = layer.record.bottoms
        found |= {bottoms[i] for i in layer.type.value_slots(layer.params) if i < len(bottoms)}
        found |= {b for b, top in _aliases(layer) if top in found}
    return found


def _int8_blobs(layers: Iterable[BoundLayer]) -> set[str]:
    """Blobs that an int8 layer reads, directly or through Split and the like."""
    found: set[str] = set()
    for layer in reversed(list(layers)):
        if layer.type.quantized(layer.params):
            found.add(layer.record.bottoms[0])
        found |= {b for b, top in _aliases(layer) if top in found}
    return found


def _may_be_empty(layers: Iterable[BoundLayer]) -> set[str]:
    """Blobs that a layer reads which takes empty blobs."""
    found: set[str] = set()
    for layer in layers:
        bottoms = layer.record.bottoms
        found |= {bottoms[i] for i in layer.type.may_be_empty(layer.params, len(bottoms))}
    return found


def _aliases(layer: BoundLayer) -> list[tuple[str, str]]:
    """Pairs of input and output blob of a layer that passes its inputs on."""
    if layer.type.name not in ALIASES:
        return []
    bottoms, tops = layer.record.bottoms, layer.record.tops
    if layer.type.name == "Split":
        return [(bottoms[0], top) for top in tops]
    return list(zip(bottoms, tops, strict=False))


def _stored_type(layer: BoundLayer) -> DType:
    """Element type of the output of a layer without inputs: that of its weights in the file."""
    return DType.INT8 if any(w.is_int8 for w in layer.weights.values()) else DType.FLOAT32


def _result_types(layers: Iterable[BoundLayer], inputs: Mapping[str, DType]) -> dict[str, DType]:
    """Element type of each blob by name."""
    types = dict(inputs)
    for layer in layers:
        if layer.type.name == INPUT:
            continue
        aliases = {top: b for b, top in _aliases(layer)}
        first = types[layer.record.bottoms[0]] if layer.record.bottoms else _stored_type(layer)
        for top in layer.record.tops:
            source = types[aliases[top]] if top in aliases else first
            types[top] = layer.type.result(layer.params, source)
    return types
