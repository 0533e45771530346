"""Task of Core ML's updatable networks: training inputs, the graph up to the losses, weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from vknn import reference
from vknn.errors import InputError, ModelFormatError, UnsupportedLayerError, VknnError
from vknn.formats.coreml import executor
from vknn.formats.coreml import weights as decoder
from vknn.formats.coreml.model import CoremlModel
from vknn.formats.coreml.records import LayerRecord, NetworkRecord, blobs_read, blobs_written
from vknn.formats.coreml.stages import NetworkSource
from vknn.formats.layer_errors import Malformed
from vknn.graph import DType, Graph, GraphBuilder, TensorType
from vknn.training.coreml_settings import read_losses, read_settings
from vknn.training.coreml_targets import Targets
from vknn.training.step import check_whole
from vknn.training.task import Arrays, Example, Task

_TRAINED = ("convolution", "innerProduct")
Features = Mapping[str, Any]


class CoremlTask(Task):
    """An updatable network. Raises VknnError, naming the reason, for one that is not."""

    def __init__(self, model: CoremlModel) -> None:
        self._model, file = model, model.file
        if not model.message.isUpdatable or not model.part.HasField("updateParams"):
            raise VknnError(f"{file or 'the model'} is not updatable: it cannot be trained")
        update = model.part.updateParams
        self.settings = read_settings(update, file)
        classes = len(model.classes.labels) if model.classes is not None else None
        self.losses, names = read_losses(update, classes, file)
        self._targets = Targets(model, self.losses, names)
        self._trained = list(_trained(model))
        self._network = _before(model.network, {loss.input for loss in self.losses})
        self._check_blobs()

    def examples(self, batches: Iterable[Features] | Features) -> list[Example]:
        return [self.example(features, place) for features, place in each_example(batches)]

    def example(self, features: Features, place: str) -> Example:
        """An example of the features that a user gives."""
        return Example(self._inputs(features, place), self._targets.of(features, place))

    def stacked(self, inputs: Arrays) -> Arrays | None:
        found = {}
        for name, array in inputs.items():
            axis = self.axis(name)
            if axis == 0 and (array.ndim < 2 or array.shape[0] != 1):
                array = array[None]
            if array.shape[axis] != 1:
                return None
            found[name] = array
        return found

    def axis(self, name: str) -> int:
        """The second of [Seq, Batch, C, H, W], else the first."""
        feature = self._model.features[name]
        return int(getattr(feature, "rank5", False) or getattr(feature, "rank", 0) == 5)

    def graph(self, types: Mapping[str, TensorType]) -> Graph:
        model = self._model
        builder = GraphBuilder("coreml")
        blobs = {name: builder.input(name, type_) for name, type_ in types.items()}
        wanted = {loss.input: loss.input for loss in self.losses}
        source = NetworkSource(self._network, tuple(wanted), model.rank5, model.file)
        graph = executor.first_graph(source, builder, blobs, wanted)
        check_whole(graph)
        return graph

    def weights(self, graph: Graph) -> Arrays:
        constants = {v.name: v.constant for n in graph.nodes for v in n.inputs if v is not None}
        found = {}
        for layer, field in self._trained:
            name = _constant_name(layer, field)
            array = constants.get(name)
            if array is None:
                continue  # the losses do not depend on it
            found[name] = self._own(layer, field, array)
        if not found:
            raise VknnError("no updatable layer lies before a loss: there is nothing to train")
        return found

    def _own(self, layer: LayerRecord, field: str, array: np.ndarray) -> np.ndarray:
        """The constant's numbers, which must be those of the file in the same order."""
        try:
            own = decoder.decode(getattr(layer.params, field), array.shape, field)
        except Malformed:
            own = np.empty(0, np.float32)
        if not np.array_equal(own, array):
            what = f"{layer.place}: its {field} are not used as the file has them: no training"
            raise UnsupportedLayerError([what], file=self._model.file)
        return array.copy()

    def write(self, weights: Mapping[str, np.ndarray]) -> None:
        for layer, field in self._trained:
            array = weights.get(_constant_name(layer, field))
            if array is not None:
                _store(getattr(layer.params, field), array)

    def _inputs(self, features: Features, place: str) -> Arrays:
        """The arrays of an example as the layers see them: images are preprocessed."""
        model = self._model
        try:
            given = model.complete({n: v for n, v in features.items() if n in model.features})
            model.check_names(given)
            return {name: self._blob(name, np.asarray(given[name])) for name in model.features}
        except InputError as error:
            raise InputError(f"{place}: {error}") from error

    def _blob(self, name: str, array: np.ndarray) -> np.ndarray:
        encoded = self._model.encode(name, array)
        builder = GraphBuilder(name)
        type_ = TensorType(array.shape, DType.of(encoded))
        value = self._model.features[name].blob(builder, type_)
        return reference.run(builder.finish({name: value}), {name: encoded})[name]

    def _check_blobs(self) -> None:
        made = {blob for layer in self._network.all_layers() for blob in layer.outputs}
        for loss in self.losses:
            if loss.input not in made:
                raise ModelFormatError(
                    f"loss {loss.name!r} reads {loss.input!r}, which no layer makes",
                    file=self._model.file,
                )
        drawing = [layer.place for layer in self._network.all_layers() if layer.draws]
        if drawing:
            what = [f"{place} draws random numbers and cannot be trained with" for place in drawing]
            raise UnsupportedLayerError(what, file=self._model.file)


def _trained(model: CoremlModel) -> Iterator[tuple[LayerRecord, str]]:
    """The layers to train, and the fields of their weights. Raises ModelFormatError."""
    names = [layer.name for layer in model.network.layers]
    found = False
    for layer in model.network.layers:
        if not layer.message.isUpdatable:
            continue
        found = True
        if layer.type not in _TRAINED:
            what = f"{layer.place} is marked as updatable; only {' and '.join(_TRAINED)} can be"
            raise UnsupportedLayerError([what], file=model.file)
        if names.count(layer.name) > 1:
            raise ModelFormatError("there are two layers of this name", layer=layer.name)
        for field in ("weights", "bias") if layer.params.hasBias else ("weights",):
            if not getattr(layer.params, field).isUpdatable:
                what = f"the layer is marked as updatable, its {field} are not"
                raise ModelFormatError(what, file=model.file, layer=layer.name)
            yield layer, field
    if not found:
        raise ModelFormatError("the model is updatable, but none of its layers is", file=model.file)


def _before(network: NetworkRecord, blobs: set[str]) -> NetworkRecord:
    """The layers that these blobs depend on."""
    wanted, kept = set(blobs), list[LayerRecord]()
    for layer in reversed(network.layers):
        if not wanted.isdisjoint(blobs_written(layer)):
            kept.append(layer)
            wanted |= blobs_read(layer)
    return NetworkRecord(tuple(reversed(kept)))


def _store(message: Any, array: np.ndarray) -> None:
    """Makes a WeightParams hold these numbers, as float32."""
    for field in ("floatValue", "float16Value", "rawValue", "int8RawValue", "quantization"):
        message.ClearField(field)
    message.floatValue.extend(array.reshape(-1).tolist())


def _constant_name(layer: LayerRecord, field: str) -> str:
    """Name that the layer's converter gives the constant."""
    return f"{layer.name or layer.type}/{field}"


def each_example(batches: Iterable[Features] | Features) -> Iterator[tuple[Features, str]]:
    """Single examples, and what errors call them."""
    if isinstance(batches, Mapping):
        batches = _unstacked(batches)
    for number, features in enumerate(batches):
        if not isinstance(features, Mapping):
            raise InputError(f"example {number} is a {type(features).__name__}, not a dict")
        yield features, f"example {number}"


def _unstacked(arrays: Features) -> Sequence[Features]:
    """Examples from arrays whose first axis counts them."""
    sizes = {name: len(values) for name, values in arrays.items()}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name!r} has {size}" for name, size in sizes.items())
        raise InputError(f"the features have different numbers of examples: {listed}")
    count = next(iter(sizes.values()), 0)
    return [{name: values[i] for name, values in arrays.items()} for i in range(count)]
