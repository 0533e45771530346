"""Core ML neural network as a :class:`Model`: its graph for given input shapes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vknn.errors import InputError, ModelFormatError
from vknn.formats.coreml import executor
from vknn.formats.coreml.constant_cache import ConstantCache
from vknn.formats.coreml.inputs import ImageInput, Input, read_input
from vknn.formats.coreml.outputs import (
    ArrayOutput,
    ClassifierOutput,
    ImageOutput,
    Output,
    read_output,
)
from vknn.formats.coreml.reader import read_network
from vknn.formats.coreml.records import COUNTER, NetworkRecord
from vknn.formats.coreml.stages import COUNTER_TYPE, NetworkSource
from vknn.formats.coreml.validation import check_blobs, check_layers
from vknn.formats.model import Model
from vknn.graph import Graph, GraphBuilder, TensorType
from vknn.named_files import replacing


class FeatureModel(Model):
    """Base of networks and pipelines: a model whose inputs are features of a description."""

    features: Mapping[str, Input]
    #: The Model message of the file.
    message: Any

    def set_inputs(self, features: Iterable[Input]) -> None:
        """Assignment of the inputs of the model."""
        self.features = {feature.name: feature for feature in features}
        self.inputs = tuple(feature.spec for feature in self.features.values())
        self.shape_hints = {
            n: f.shape_hint for n, f in self.features.items() if f.shape_hint is not None
        }
        pictures = (n for n, f in self.features.items() if isinstance(f, ImageInput))
        self.images = frozenset(pictures)

    def complete(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """The feeds with images as arrays, and with the defaults of optional inputs left out."""
        given = {
            name: self.features[name].prepare(value) if name in self.features else value
            for name, value in feeds.items()
        }
        for name, feature in self.features.items():
            if name not in given and feature.optional:
                given[name] = feature.default()
        return given

    def encode(self, name: str, array: np.ndarray) -> np.ndarray:
        """Multi arrays as float32 in the rank that the layers see; images stay pixels."""
        feature = self.features.get(name)
        if feature is None:
            raise InputError(f"unknown input {name!r}")
        return feature.encode(np.asarray(array))

    def save(self, path: Path) -> None:
        """Writing of a .mlmodel with the present weights."""
        with replacing(path) as file:
            file.write(self.message.SerializeToString())


class CoremlModel(FeatureModel):
    """A NeuralNetwork, NeuralNetworkClassifier or NeuralNetworkRegressor.

    ``message``: the file's Model; ``part``: the network's message in it; ``network``: its layers as
    records. ``rank5``: multi arrays become [Seq, Batch, C, H, W].
    """

    def __init__(self, message: Any, file: str | None = None) -> None:
        self.message, self.file = message, file
        self.part = getattr(message, message.WhichOneof("Type"))
        self.rank5 = self.part.arrayInputShapeMapping == 0
        self.axis_letters = {3: "CHW"} if self.rank5 else {}
        self.network = read_network(self.part, file)
        self.layer_types = tuple(layer.type for layer in self.network.all_layers())
        description = message.description
        check_features(description, file)
        images = sum(f.type.WhichOneof("Type") == "imageType" for f in description.input)
        self.set_inputs(read_input(f, self.part, images, file) for f in description.input)
        self.classes: ClassifierOutput | None = None
        if message.WhichOneof("Type") == "neuralNetworkClassifier":
            self.classes = ClassifierOutput(self.part, description, file)
        own = {self.classes.label, self.classes.scores} if self.classes else set()
        self.blob_outputs: dict[str, Output] = {
            f.name: read_output(f, file) for f in description.output if f.name not in own
        }
        self.output_images = frozenset(
            name for name, output in self.blob_outputs.items() if isinstance(output, ImageOutput)
        )
        if self.classes is not None:
            self.class_labels = {self.classes.port: tuple(map(str, self.classes.labels))}
        if self.classes is not None and self.classes.scores:
            self.class_scores = frozenset({self.classes.scores})
        specs = [output.spec for output in self.blob_outputs.values()]
        made = {n for n, o in self.blob_outputs.items() if not isinstance(o, ArrayOutput)}
        self.host_outputs = frozenset(made | ({self.classes.port} if self.classes else set()))
        self.outputs = (*(self.classes.specs() if self.classes else ()), *specs)
        #: Name of a graph output -> blob.
        self.blobs = {name: name for name in self.blob_outputs}
        if self.classes is not None:
            self.blobs[self.classes.port] = score_blob(self.part, self.network, file)
        predicted = description.predictedFeatureName
        if message.WhichOneof("Type") == "neuralNetworkRegressor" and predicted in self.blobs:
            self.blobs[predicted] = predicted_blob(predicted, self.network)
        self._check()
        self._constants = ConstantCache()
        if any(layer.draws for layer in self.network.all_layers()):
            self.blobs[COUNTER] = COUNTER
            self.state = {COUNTER: COUNTER_TYPE}
            self.first_state = {COUNTER: int.from_bytes(os.urandom(4), "little") >> 2}

    def build(
        self, types: Mapping[str, TensorType], values: Mapping[str, np.ndarray] | None = None
    ) -> Graph:
        """See :meth:`Model.build`."""
        self.check_names(types)
        builder = GraphBuilder("coreml")
        blobs = {name: f.blob(builder, types[name]) for name, f in self.features.items()}
        if self.state:
            blobs[COUNTER] = builder.input(COUNTER, COUNTER_TYPE)
        wanted = tuple(self.blobs.values())
        source = NetworkSource(self.network, wanted, self.rank5, self.file, self._constants)
        return executor.first_graph(source, builder, blobs, self.blobs)

    def decode(self, name: str, array: np.ndarray) -> Any:
        """The value of an output feature for its blob; the scores of a classifier as they are."""
        output = self.blob_outputs.get(name)
        return array if output is None else output.decode(array)

    def results(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """The output features; a classifier's scores become its label and its probabilities."""
        made = dict(arrays)
        if self.classes is None:
            return made
        return {**self.classes.results(made.pop(self.classes.port)), **made}

    def _check(self) -> None:
        check_layers(self.network, self.file)
        wanted = {blob: f"an output ({name!r})" for name, blob in self.blobs.items()}
        check_blobs(self.network, set(self.features), wanted, self.file)


def check_features(description: Any, file: str | None) -> None:
    """Check: ModelFormatError unless all inputs and outputs have names, each a different one."""
    for features, what in ((description.input, "input"), (description.output, "output")):
        names = [feature.name for feature in features]
        if not all(names) or any("\0" in name for name in names):
            raise ModelFormatError(f"an {what} of the model has no name", file=file)
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ModelFormatError(f"there are two {what}s called {min(twice)!r}", file=file)
    if not description.output:
        raise ModelFormatError("the model has no outputs", file=file)


def score_blob(part: Any, network: NetworkRecord, file: str | None) -> str:
    """The blob with a classifier's scores: the one it names, else its last layer's output."""
    named = part.labelProbabilityLayerName
    made = {blob for layer in network.layers for blob in layer.outputs}
    if named and named not in made:
        found = [layer for layer in network.layers if layer.name == named and layer.outputs]
        return found[-1].outputs[0] if found else str(named)
    if named:
        return str(named)
    last = network.layers[-1] if network.layers else None
    if last is None or not last.outputs:
        raise ModelFormatError("nothing says which blob holds the scores of the classes", file=file)
    return last.outputs[0]


def predicted_blob(name: str, network: NetworkRecord) -> str:
    """The blob that a regressor predicts: the one of the feature's name, else the last output."""
    last = network.layers[-1].outputs if network.layers else ()
    return name if name in network.writes or len(last) != 1 else last[0]
