"""OpenVINO net as a :class:`Model`: its graph for given input shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from vknn.errors import InputError
from vknn.formats.model import Model, TensorSpec
from vknn.formats.openvino.build import NetSource
from vknn.formats.openvino.memory import state_types
from vknn.formats.openvino.records import LayerRecord, Net, PortRef, PreProcess
from vknn.formats.openvino.stages import build_graph
from vknn.formats.openvino.weights import Weights
from vknn.graph import Graph, TensorType


class OpenvinoModel(Model):
    """See :class:`Model`. Arrays have the layout of the file (NCHW); FP16 is float32 to the user.

    Inputs may have other shapes than the file's (not another rank) as far as its layers can follow.
    """

    axis_letters = MappingProxyType({4: "NCHW", 5: "NCDHW"})

    def __init__(self, net: Net, weights: Weights, file: str | None = None) -> None:
        self.net, self.weights, self.file = net, weights, file
        self._inputs = {layer.name: layer for layer in net.layers if layer.type.lower() == "input"}
        self.layer_types = tuple(layer.type for layer in net.all_layers())
        self._outputs = output_ports(net)
        layers = net.by_id()
        self.inputs = tuple(
            TensorSpec(name, layer.outputs[0].dims, layer.outputs[0].dtype.numpy)
            for name, layer in self._inputs.items()
        )
        self.outputs = tuple(
            _spec(name, layers[id_], port) for name, (id_, port) in self._outputs.items()
        )
        self._declared = {spec.name: spec.dtype for spec in self.outputs}
        self.shape_hints = {name: x.outputs[0].dims for name, x in self._inputs.items()}
        taken = {*self._inputs, *self._outputs}
        self._state_names = {id_: _state_name(id_, taken) for id_ in state_types(net)}
        self.state = {self._state_names[id_]: t for id_, t in state_types(net).items()}

    def build(
        self, types: Mapping[str, TensorType], values: Mapping[str, np.ndarray] | None = None
    ) -> Graph:
        """See :meth:`Model.build`."""
        self.check_names(types)
        fed: dict[PortRef, TensorType] = {}
        names: dict[PortRef, str] = {}
        as_declared = True
        for name, layer in self._inputs.items():
            port = layer.outputs[0]
            dims = types[name].dims
            self._check_rank(name, dims)
            as_declared = as_declared and dims == port.dims
            fed[layer.id, port.id] = TensorType(dims, port.graph_dtype)
            names[layer.id, port.id] = name
        source = NetSource(self.net, self.weights, self._outputs, self._state_names, self.file)
        states = {id_: self.state[name] for id_, name in self._state_names.items()}
        means = self._means(fed)
        return build_graph(source, fed, states, names, as_declared, means)

    def encode(self, name: str, array: np.ndarray) -> np.ndarray:
        """The array in the input's dtype. Raises InputError for numbers that do not fit in it."""
        if name not in self._inputs:
            raise InputError(f"unknown input {name!r}")
        array = np.asarray(array)
        self._check_rank(name, array.shape)
        wanted = self._inputs[name].outputs[0].graph_dtype.numpy
        if array.dtype == wanted:
            return np.ascontiguousarray(array).reshape(array.shape)
        if array.dtype.kind not in "fiub":
            raise InputError(f"input {name!r} takes {wanted}, not {array.dtype}")
        with np.errstate(all="ignore"):
            converted = array.astype(wanted)
        if wanted.kind != "f" and not np.array_equal(converted, array):
            raise InputError(
                f"input {name!r} takes {wanted}; values of this {array.dtype} array do not fit"
            )
        return converted

    def decode(self, name: str, array: np.ndarray) -> np.ndarray:
        """The array; int64 for an output that is I64 in the file and int32 in the graph."""
        wide = self._declared[name] == np.int64 and array.dtype == np.int32
        return array.astype(np.int64) if wide else array

    def _check_rank(self, name: str, shape: Sequence[int]) -> None:
        declared = self._inputs[name].outputs[0].dims
        if len(shape) != len(declared):
            raise InputError(
                f"input {name!r} has the shape {list(shape)}, the model says {list(declared)}"
            )

    def _means(self, fed: Mapping[PortRef, TensorType]) -> dict[PortRef, np.ndarray]:
        """Input port -> mean that is subtracted from it, in a shape that broadcasts to it."""
        found = self.net.pre_process
        if found is None:
            return {}
        layer = self._inputs[found.layer]
        ref = (layer.id, layer.outputs[0].id)
        return {ref: _mean(found, self.weights, fed[ref].dims)}


def _mean(found: PreProcess, weights: Weights, dims: Sequence[int]) -> np.ndarray:
    """Means of the channels: scalars as [C, 1, ..], or images as [C, H, W]."""
    plane = tuple(dims[2:])
    if dims[1] != len(found.means):
        raise InputError(
            f"input {found.layer!r} has {dims[1]} channels, its means {len(found.means)}"
        )
    images = []
    for number, mean in enumerate(found.means):
        if mean.blob is None:
            images.append(np.full((1,) * len(plane), mean.value, np.float32))
            continue
        array = weights.array(mean.blob, "mean").astype(np.float32)
        if array.size != int(np.prod(plane)):
            raise InputError(
                f"input {found.layer!r} has planes of {list(plane)}, the mean image of channel "
                f"{number} {array.size} elements"
            )
        images.append(array.reshape(plane))
    return np.stack(np.broadcast_arrays(*images))


def output_ports(net: Net) -> dict[str, PortRef]:
    """Name in a session -> output port, for all output ports that no edge leaves."""
    used = set(net.sources.values())
    found: dict[str, PortRef] = {}
    for layer in net.layers:
        for number, port in enumerate(layer.outputs):
            if (layer.id, port.id) not in used:
                name = layer.name if len(layer.outputs) == 1 else f"{layer.name}.{number}"
                while name in found:
                    name += "'"
                found[name] = (layer.id, port.id)
    return found


def _spec(name: str, layer: LayerRecord, port_id: int) -> TensorSpec:
    port = layer.outputs[layer.output_index(port_id)]
    return TensorSpec(name, port.dims, port.dtype.numpy)


def _state_name(id_: str, taken: set[str]) -> str:
    name = f"state:{id_}"
    while name in taken:
        name += "'"
    return name
