"""Small updatable Core ML models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from vknn.formats.coreml import coreml_pb2 as pb

_random = np.random.default_rng(11)


def array_feature(where: Any, name: str, *shape: int) -> None:
    """A multi array of floats."""
    feature = where.add(name=name)
    feature.type.multiArrayType.shape.extend(shape)
    feature.type.multiArrayType.dataType = pb.ArrayFeatureType.FLOAT32


def weights(message: Any, *shape: int, scale: float = 0.4) -> None:
    """Random numbers."""
    message.floatValue.extend((_random.standard_normal(shape) * scale).ravel().tolist())


def model(kind: str = "neuralNetwork", exact: bool = False, updatable: bool = True) -> Any:
    """A model without layers."""
    made = pb.Model(specificationVersion=4, isUpdatable=updatable)
    network = getattr(made, kind)
    network.arrayInputShapeMapping = int(exact)
    network.SetInParent()
    return made


def network_of(made: Any) -> Any:
    """The network in a model."""
    return getattr(made, made.WhichOneof("Type"))


def layer(made: Any, name: str, inputs: str, output: str) -> Any:
    """A layer; the names of its inputs are parted by spaces."""
    added = network_of(made).layers.add(name=name)
    added.input.extend(inputs.split())
    added.output.append(output)
    return added


def dense(made: Any, name: str, x: str, y: str, inner: int, outer: int, train: bool = True) -> Any:
    """An inner product with bias."""
    added = layer(made, name, x, y)
    params = added.innerProduct
    params.inputChannels, params.outputChannels, params.hasBias = inner, outer, True
    weights(params.weights, outer, inner)
    weights(params.bias, outer)
    _mark(added, params, train)
    return added


def convolution(
    made: Any, name: str, x: str, y: str, inner: int, outer: int, train: bool = True
) -> Any:
    """A 3x3 convolution with bias, SAME padding and stride 2."""
    added = layer(made, name, x, y)
    params = added.convolution
    params.outputChannels, params.kernelChannels, params.nGroups = outer, inner, 1
    params.kernelSize.extend([3, 3])
    params.stride.extend([2, 2])
    params.valid.paddingAmounts.borderAmounts.add(startEdgeSize=1, endEdgeSize=1)
    params.valid.paddingAmounts.borderAmounts.add(startEdgeSize=1, endEdgeSize=1)
    params.hasBias = True
    weights(params.weights, outer, inner, 3, 3)
    weights(params.bias, outer)
    _mark(added, params, train)
    return added


def _mark(added: Any, params: Any, train: bool) -> None:
    added.isUpdatable = params.weights.isUpdatable = params.bias.isUpdatable = train


def training(
    made: Any, loss: str, source: str, target: str, optimizer: str = "sgd", **values: float
) -> None:
    """Update parameters; ``values``: learningRate and the like, as defaults."""
    update = network_of(made).updateParams
    kind = {"entropy": "categoricalCrossEntropyLossLayer", "square": "meanSquaredErrorLossLayer"}
    added = getattr(update.lossLayers.add(name="loss"), kind[loss])
    added.input, added.target = source, target
    params = getattr(update.optimizer, f"{optimizer}Optimizer")
    for name, value in {"learningRate": 0.05, "miniBatchSize": 4, "epochs": 2, **values}.items():
        holder = update if name in ("epochs", "seed", "shuffle") else params
        getattr(holder, name).defaultValue = value


def classifier(optimizer: str = "sgd", labels: tuple[Any, ...] = ("cat", "dog", "owl")) -> Any:
    """Convolution, relu, max and average pooling, batch norm, flatten, two dense ones, softmax."""
    made = model("neuralNetworkClassifier")
    array_feature(made.description.input, "x", 2, 9, 9)
    array_feature(made.description.trainingInput, "x", 2, 9, 9)
    for where in (made.description.output, made.description.trainingInput):
        kind = where.add(name="label").type
        (kind.stringType if isinstance(labels[0], str) else kind.int64Type).SetInParent()
    made.description.output.add(name="scores").type.dictionaryType.stringKeyType.SetInParent()
    made.description.predictedFeatureName = "label"
    made.description.predictedProbabilitiesName = "scores"
    convolution(made, "conv", "x", "conv", 2, 4)
    layer(made, "relu", "conv", "relu").activation.ReLU.SetInParent()
    norm = layer(made, "norm", "relu", "norm").batchnorm
    norm.channels, norm.epsilon = 4, 1e-3
    weights(norm.gamma, 4)
    weights(norm.beta, 4)
    weights(norm.mean, 4)
    norm.variance.floatValue.extend([0.5, 1.0, 1.5, 2.0])
    pool = layer(made, "pool", "norm", "pool").pooling
    pool.kernelSize.extend([2, 2])
    pool.stride.extend([2, 2])
    pool.valid.SetInParent()
    layer(made, "flat", "pool", "flat").flatten.SetInParent()
    dense(made, "dense1", "flat", "dense1", 16, 5)
    layer(made, "tanh", "dense1", "tanh").activation.tanh.SetInParent()
    dense(made, "dense2", "tanh", "dense2", 5, len(labels))
    layer(made, "softmax", "dense2", "probabilities").softmax.SetInParent()
    network = network_of(made)
    if isinstance(labels[0], str):
        network.stringClassLabels.vector.extend(labels)
    else:
        network.int64ClassLabels.vector.extend(labels)
    training(made, "entropy", "probabilities", "label", optimizer)
    return made


def regressor(exact: bool = False, optimizer: str = "sgd") -> Any:
    """A frozen dense layer with sigmoid, and one that is trained."""
    made = model("neuralNetworkRegressor", exact)
    array_feature(made.description.input, "x", 3)
    array_feature(made.description.output, "y", 2)
    array_feature(made.description.trainingInput, "x", 3)
    array_feature(made.description.trainingInput, "y_true", 2)
    dense(made, "frozen", "x", "frozen", 3, 4, train=False)
    layer(made, "sigmoid", "frozen", "sigmoid").activation.sigmoid.SetInParent()
    dense(made, "trained", "sigmoid", "y", 4, 2)
    training(made, "square", "y", "y_true", optimizer)
    return made


def written(made: Any, folder: Path, name: str = "model") -> Path:
    """The model as a file."""
    path = folder / f"{name}.mlmodel"
    path.write_bytes(made.SerializeToString())
    return path
