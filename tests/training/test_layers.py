"""Core ML's layers between what is trained and the loss: a step lowers it as the gradient says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.training import models

from vknn.formats.coreml import coreml_pb2 as pb
from vknn.session import Session

pytestmark = pytest.mark.long  # finite differences of every layer

#: Fills the parameters of a layer.
Fill = Callable[[Any], object]
RATE = 1e-3
SHAPE = (4, 6, 6)


def border(message: Any, *amounts: int) -> None:
    """Begin and end of height, then of width."""
    for first, last in zip(amounts[::2], amounts[1::2], strict=True):
        message.borderAmounts.add(startEdgeSize=first, endEdgeSize=last)


def vector(message: Any, *values: float) -> None:
    message.floatValue.extend(values)


def _activation(name: str, **numbers: float) -> tuple[str, Fill]:
    def fill(layer: Any) -> None:
        params = getattr(layer.activation, name)
        params.SetInParent()
        for field, number in numbers.items():
            setattr(params, field, number)

    return f"activation-{name}", fill


def _of_channels(name: str, **vectors: tuple[float, ...]) -> tuple[str, Fill]:
    def fill(layer: Any) -> None:
        params = getattr(layer.activation, name)
        for field, values in vectors.items():
            vector(getattr(params, field), *values)

    return f"activation-{name}", fill


def _pooling(name: str, kind: str, padding: str, **options: bool) -> tuple[str, Fill]:
    def fill(layer: Any) -> None:
        params = layer.pooling
        params.type = getattr(params, kind)
        if not options.get("globalPooling"):
            params.kernelSize.extend([3, 2])
            params.stride.extend([2, 1])
        if padding == "valid":
            border(params.valid.paddingAmounts, 1, 0, 0, 1)
        elif padding == "same":
            params.same.SetInParent()
        else:
            params.includeLastPixel.paddingAmounts.extend([1, 0])
        for option, value in options.items():
            setattr(params, option, value)

    return f"pooling-{name}", fill


def _norm(name: str, computed: bool, instance: bool) -> tuple[str, Fill]:
    def fill(layer: Any) -> None:
        params = layer.batchnorm
        params.channels, params.epsilon = 4, 1e-2
        params.computeMeanVar, params.instanceNormalization = computed, instance
        vector(params.gamma, 0.5, 1.0, -1.5, 2.0)
        vector(params.beta, 0.1, 0.2, 0.3, 0.4)
        if not computed:
            vector(params.mean, 0.5, 0.0, -0.5, 0.2)
            vector(params.variance, 0.5, 1.0, 1.5, 2.0)

    return f"batchnorm-{name}", fill


def _simple(name: str, field: str, change: Fill | None = None) -> tuple[str, Fill]:
    def fill(layer: Any) -> None:
        params = getattr(layer, field)
        params.SetInParent()
        if change is not None:
            change(params)

    return name, fill


def _set(**values: Any) -> Fill:
    """Sets fields; tuples extend repeated ones."""

    def change(params: Any) -> None:
        for name, value in values.items():
            if isinstance(value, tuple):
                getattr(params, name).extend(value)
            else:
                setattr(params, name, value)

    return change


def _padding(kind: str) -> tuple[str, Fill]:
    def fill(layer: Any) -> None:
        getattr(layer.padding, kind).SetInParent()
        border(layer.padding.paddingAmounts, 1, 2, 0, 3)

    return f"padding-{kind}", fill


def _crop(layer: Any) -> None:
    border(layer.crop.cropAmounts, 1, 2, 0, 1)


def _scale(layer: Any) -> None:
    layer.scale.shapeScale.extend([4])
    vector(layer.scale.scale, 0.5, -1.0, 1.5, 2.0)
    layer.scale.hasBias = True
    layer.scale.shapeBias.extend([1])
    vector(layer.scale.bias, 0.3)


def _bias(layer: Any) -> None:
    layer.bias.shape.extend([4, 1, 1])
    vector(layer.bias.bias, 0.5, -1.0, 1.5, 2.0)


UNARY = ("SQRT", "RSQRT", "INVERSE", "POWER", "EXP", "LOG", "ABS", "THRESHOLD")


def _unary(number: int, name: str) -> tuple[str, Fill]:
    # x * 0.05 + 2 is positive.
    values = _set(type=number, alpha=1.7, epsilon=1e-3, shift=2.0, scale=0.05)
    return _simple(f"unary-{name}", "unary", values)


def _reduce(number: int, name: str, axis: int) -> tuple[str, Fill]:
    return _simple(f"reduce-{name}-{axis}", "reduce", _set(mode=number, axis=axis, epsilon=1e-3))


#: What Core ML itself lets stand there: flatten, pooling, batchnorm, reshape, ReLU, sigmoid, tanh.
LAYERS: list[tuple[str, Fill]] = [
    _activation("ReLU"),
    _activation("sigmoid"),
    _activation("tanh"),
    _pooling("max", "MAX", "valid"),
    _pooling("max-same", "MAX", "same"),
    _pooling("max-last", "MAX", "last"),
    _pooling("average", "AVERAGE", "valid"),
    _pooling("average-excluding", "AVERAGE", "valid", avgPoolExcludePadding=True),
    _pooling("average-last", "AVERAGE", "last", avgPoolExcludePadding=True),
    _pooling("l2", "L2", "valid"),
    _pooling("global-max", "MAX", "valid", globalPooling=True),
    _pooling("global-average", "AVERAGE", "valid", globalPooling=True),
    _pooling("global-l2", "L2", "valid", globalPooling=True),
    _norm("given", False, False),
    _norm("instance", True, True),
    _simple("flatten", "flatten"),
    _simple("flatten-last", "flatten", _set(mode=1)),
    _simple("reshape", "reshape", _set(targetShape=(2, 8, 9))),
    _simple("reshape-last", "reshape", _set(targetShape=(2, 8, 9), mode=1)),
    # And what else has gradients.
    _activation("linear", alpha=0.7, beta=0.1),
    _activation("leakyReLU", alpha=0.2),
    _activation("thresholdedReLU", alpha=0.3),
    _of_channels("PReLU", alpha=(0.1, 0.2, 0.3, 0.4)),
    _activation("scaledTanh", alpha=1.5, beta=0.6),
    _activation("sigmoidHard", alpha=0.2, beta=0.5),
    _activation("ELU", alpha=0.8),
    _activation("softsign"),
    _activation("softplus"),
    _of_channels("parametricSoftplus", alpha=(0.5, 1.0, 1.5, 2.0), beta=(1.0, 0.5, 0.3, 0.2)),
    _simple("mvn", "mvn", _set(normalizeVariance=True, epsilon=1e-3)),
    _simple("mvn-across", "mvn", _set(acrossChannels=True, normalizeVariance=True, epsilon=1e-3)),
    _simple("l2normalize", "l2normalize", _set(epsilon=1e-3)),
    _simple("lrn", "lrn", _set(alpha=0.5, beta=0.75, localSize=3, k=1.0)),
    _simple("softmax", "softmax"),
    ("crop", _crop),
    *(_padding(kind) for kind in ("constant", "reflection", "replication")),
    _simple("upsample", "upsample", _set(scalingFactor=(2, 3))),
    _simple("upsample-bilinear", "upsample", _set(scalingFactor=(2, 2), mode=1)),
    _simple("resize", "resizeBilinear", _set(targetSize=(9, 4))),
    *(_unary(number, name) for number, name in enumerate(UNARY)),
    _simple("add", "add", _set(alpha=0.5)),
    _simple("multiply", "multiply", _set(alpha=0.5)),
    ("scale", _scale),
    ("bias", _bias),
    *(_reduce(number, name, 1) for number, name in enumerate(("SUM", "AVG"))),
    _reduce(4, "SUMSQUARE", 2),
    _reduce(6, "L2", 3),
    _reduce(7, "MAX", 0),
    _simple("permute", "permute", _set(axis=(0, 2, 3, 1))),
    _simple("space-to-depth", "reorganizeData", _set(blockSize=2)),
    _simple("slice", "slice", _set(startIndex=1, endIndex=4, stride=2, axis=1)),
    _simple("clip", "clip", _set(minVal=-0.5, maxVal=0.8)),
    _simple("gelu", "gelu"),
    _simple("sin", "sin"),
    _simple("reduceMean", "reduceMean", _set(axes=(-1,), keepDims=True)),
    _simple("cumSum", "cumSum", _set(axis=2)),
]


def network(fill: Fill, folder: Path) -> Path:
    """A trained convolution, the layer, and the mean of its squares as the loss."""
    models._random = np.random.default_rng(3)
    made = models.model()
    models.array_feature(made.description.input, "x", 3, 6, 6)
    models.array_feature(made.description.output, "y")
    models.array_feature(made.description.trainingInput, "x", 3, 6, 6)
    models.array_feature(made.description.trainingInput, "target", 1)
    params = models.convolution(made, "conv", "x", "conv", 3, 4).convolution
    params.stride[:] = [1, 1]
    fill(models.layer(made, "layer", "conv", "y"))
    models.training(made, "square", "y", "target", learningRate=RATE, miniBatchSize=2, epochs=1)
    return models.written(made, folder)


def mean_square(session: Session, x: np.ndarray, target: np.ndarray) -> float:
    """The loss, from predictions."""
    found = [np.ravel(session.run({"x": a})["y"]).astype(np.float64) for a in x]
    return float(np.mean([(f - t) ** 2 for f, t in zip(found, target, strict=True)]))


def check_step(path: Path, device: Any) -> None:
    """The loss before and behind a small step: what it fell by is rate * |gradient|^2."""
    x = np.random.default_rng(1).standard_normal((2, 3, 6, 6)).astype(np.float32)
    with Session(path, device=device) as session:
        size = session.run({"x": x[0]})["y"].size
        target = np.random.default_rng(2).standard_normal((2, size)).astype(np.float32)
        scale = max(1.0, float(np.abs(session.run({"x": x[0]})["y"]).max()))
        rate = RATE / scale**2
        before, start = mean_square(session, x, target), weights_of(session)
        result = session.update({"x": x, "target": target}, learning_rate=rate)
        after, end = mean_square(session, x, target), weights_of(session)
    assert result.losses[0] == pytest.approx(before, rel=1e-5)
    expected = float((((end - start) / rate) ** 2).sum()) * rate
    assert expected > 0
    assert before - after == pytest.approx(expected, rel=0.1, abs=3e-7 * before)


def weights_of(session: Session) -> np.ndarray:
    params = session.model.part.layers[0].convolution  # type: ignore[attr-defined]
    return np.array([*params.weights.floatValue, *params.bias.floatValue])


@pytest.mark.parametrize("name, fill", LAYERS, ids=[name for name, _ in LAYERS])
def test_layers_let_gradients_through(tmp_path: Path, name: str, fill: Fill) -> None:
    check_step(network(fill, tmp_path), "numpy")


@pytest.mark.slow
@pytest.mark.device
@pytest.mark.parametrize("name, fill", LAYERS, ids=[name for name, _ in LAYERS])
def test_layers_let_gradients_through_on_the_device(tmp_path: Path, name: str, fill: Fill) -> None:
    check_step(network(fill, tmp_path), "auto")


#: Groups, strides, dilations, "valid" or "same", transposed.
CONVOLUTIONS = [
    (1, (1, 1), (1, 1), "valid", False),
    (1, (2, 2), (1, 1), "same", False),
    (1, (1, 1), (2, 1), "same", False),
    (3, (2, 1), (1, 2), "valid", False),
    (1, (1, 1), (1, 1), "valid", True),
    (1, (2, 2), (1, 1), "same", True),
    (3, (3, 2), (1, 1), "valid", True),
]


@pytest.mark.parametrize("groups, strides, dilations, padding, transposed", CONVOLUTIONS)
def test_convolutions_are_trained_in_every_form(
    tmp_path: Path,
    groups: int,
    strides: tuple[int, int],
    dilations: tuple[int, int],
    padding: str,
    transposed: bool,
) -> None:
    models._random = np.random.default_rng(3)
    made = pb.Model.FromString(network(LAYERS[1][1], tmp_path).read_bytes())
    layer = made.neuralNetwork.layers[0]
    layer.ClearField("convolution")
    params = layer.convolution
    params.outputChannels, params.nGroups, params.hasBias = 6, groups, True
    params.kernelChannels = 3 if transposed else 3 // groups
    params.kernelSize.extend([3, 2])
    params.stride.extend(strides)
    params.dilationFactor.extend(dilations)
    params.isDeconvolution = transposed
    if padding == "same":
        params.same.SetInParent()
    else:
        border(params.valid.paddingAmounts, 1, 0, 1, 1)
    shape = (3, 6 // groups, 3, 2) if transposed else (6, 3 // groups, 3, 2)
    models.weights(params.weights, *shape)
    models.weights(params.bias, 6)
    layer.isUpdatable = params.weights.isUpdatable = params.bias.isUpdatable = True
    check_step(models.written(made, tmp_path), "numpy")
