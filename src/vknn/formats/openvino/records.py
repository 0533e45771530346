"""Records of a net, its layers, ports and blobs, as the file states them but free of XML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from vknn.graph import DType

#: A port of a net: (layer id, port id).
PortRef = tuple[int, int]

#: Precision -> dtype for the user. FP16 is a storage format only: it is computed as float32.
DTYPES: dict[str, DType] = {
    "FP32": DType.FLOAT32, "FP16": DType.FLOAT32, "I64": DType.INT64, "I32": DType.INT32,
    "I16": DType.INT16, "U8": DType.UINT8, "I8": DType.INT8, "BOOL": DType.BOOL,
    "BIN": DType.UINT8,
}  # fmt: skip
#: Precision -> NumPy dtype of a blob in the file; BIN is packed eight to a byte.
STORED: dict[str, str] = {
    "FP32": "<f4", "FP16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "U8": "u1", "I8": "i1",
    "BOOL": "u1", "BIN": "u1",
}  # fmt: skip


@dataclass(frozen=True)
class LayerPort:
    """A port. ``precision``: its own or, where it states none, that of its layer or net."""

    id: int
    dims: tuple[int, ...]
    precision: str

    @property
    def dtype(self) -> DType:
        """The dtype for the user."""
        return DTYPES[self.precision]

    @property
    def graph_dtype(self) -> DType:
        """The dtype in graphs: int32 in place of int64."""
        return DType.INT32 if self.dtype is DType.INT64 else self.dtype


@dataclass(frozen=True)
class Blob:
    """A range of bytes of the weights file, in bytes. ``precision``: as that of a Port."""

    offset: int
    size: int
    precision: str


@dataclass(frozen=True)
class PortMapping:
    """An entry of a port map: a port of a TensorIterator and one of its body.

    ``axis`` None: the whole tensor goes through; the other numbers are as in the file.
    """

    external: int
    inner: PortRef
    axis: int | None = None
    start: int | None = None
    end: int | None = None
    stride: int = 1
    part_size: int | None = None


@dataclass(frozen=True)
class Iteration:
    """A TensorIterator.

    ``inputs``, ``outputs``: its port map. ``back_edges``: pairs of a body output and a body input.
    """

    inputs: tuple[PortMapping, ...]
    outputs: tuple[PortMapping, ...]
    back_edges: tuple[tuple[PortRef, PortRef], ...]
    body: Net


@dataclass(frozen=True)
class LayerRecord:
    """A layer; ports are in the order of their ids."""

    id: int
    name: str
    type: str
    precision: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    inputs: tuple[LayerPort, ...] = ()
    outputs: tuple[LayerPort, ...] = ()
    blobs: Mapping[str, Blob] = field(default_factory=dict)
    iteration: Iteration | None = None

    def output_index(self, port: int) -> int:
        """The index of an output port."""
        return next(i for i, p in enumerate(self.outputs) if p.id == port)


@dataclass(frozen=True)
class Mean:
    """The mean of a channel, to be subtracted: ``value``, or the image in ``blob``."""

    value: float = 0.0
    blob: Blob | None = None


@dataclass(frozen=True)
class PreProcess:
    """Means of the channels of the Input layer named ``layer``."""

    layer: str
    means: tuple[Mean, ...]


@dataclass(frozen=True)
class Net:
    """A net or the body of a TensorIterator. ``layers`` are in topological order.

    ``sources``: input port -> the output port that feeds it.
    """

    name: str
    version: int
    layers: tuple[LayerRecord, ...]
    sources: Mapping[PortRef, PortRef]
    pre_process: PreProcess | None = None

    def all_layers(self) -> Iterator[LayerRecord]:
        """All layers, those of bodies included."""
        for layer in self.layers:
            yield layer
            if layer.iteration is not None:
                yield from layer.iteration.body.all_layers()

    def by_id(self) -> dict[int, LayerRecord]:
        """The layers by id."""
        return {layer.id: layer for layer in self.layers}
