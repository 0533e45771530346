"""The examples of tools/coreml_table.py: small networks, one or more for each kind of layer.

Together they state every parameter that a layer has, so that what nothing reads comes to light.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
for path in (ROOT / "src", ROOT):
    if str(path) not in sys.path:
        sys.path.insert(0, str(path))

from tests.coreml_writer import (  # noqa: E402
    half_weights,
    layer,
    linear_weights,
    model,
    network,
    table_weights,
    weights,
)

from vknn.formats.coreml import coreml_pb2 as pb  # noqa: E402


@dataclass(frozen=True)
class Example:
    """A network around one layer, and arrays for its inputs. ``row``: where it stands."""

    row: str
    message: Any
    feeds: Mapping[str, np.ndarray]


def examples() -> Iterator[Example]:
    """All examples."""
    for group in _GROUPS:
        yield from group()


def _x(*shape: int) -> np.ndarray:
    return np.random.default_rng([7, *shape]).uniform(0.1, 0.9, shape).astype(np.float32)


def _codes(most: int, *shape: int) -> np.ndarray:
    return np.random.default_rng([5, *shape]).integers(0, most, shape)


def _w(*shape: int) -> Any:
    return weights(_x(*shape))


def _one(
    kind: str,
    *arrays: Any,
    outputs: int = 1,
    rank5: bool = False,
    row: str | None = None,
    **params: Any,
) -> Example:
    """One layer; arrays are its inputs, in order."""
    feeds = {f"x{i}": np.asarray(a, np.float32) for i, a in enumerate(arrays)}
    names = [f"y{i}" for i in range(outputs)]
    made = layer(kind, list(feeds), names, **params)
    shapes = {name: array.shape for name, array in feeds.items()}
    return Example(row or kind, model([made], shapes, names, rank5=rank5), feeds)


def _several(row: str, layers: Sequence[Any], **arrays: Any) -> Example:
    """Layers that make "y" of named inputs."""
    feeds = {name: np.asarray(a, np.float32) for name, a in arrays.items()}
    shapes = {name: array.shape for name, array in feeds.items()}
    return Example(row, model(layers, shapes), feeds)


def _edges(*sizes: tuple[int, int]) -> dict[str, Any]:
    return {"borderAmounts": [{"startEdgeSize": a, "endEdgeSize": b} for a, b in sizes]}


def _convolutions() -> Iterator[Example]:
    plain = {"outputChannels": 4, "kernelChannels": 3, "weights": _w(4, 3, 3, 3)}
    x = _x(1, 3, 6, 7)
    amounts = _edges((1, 2), (0, 1))
    for padding in ({}, {"same": {"asymmetryMode": 1}}, {"valid": {"paddingAmounts": amounts}}):
        yield _one("convolution", x, hasBias=True, bias=_w(4), **plain, **padding)
    yield _one(
        "convolution", _x(1, 4, 9, 9), outputChannels=4, kernelChannels=2, nGroups=2,
        kernelSize=[2, 3], stride=[2, 1], dilationFactor=[2, 2], weights=_w(4, 2, 2, 3),
    )  # fmt: skip
    yield _one("convolution", x, _x(4, 3, 3, 3), outputChannels=4, kernelChannels=3)
    turned = {"outputChannels": 4, "kernelChannels": 3, "weights": _w(3, 4, 3, 3)}
    for more in ({}, {"stride": [2, 2], "same": {}}, {"outputShape": [12, 14], "stride": [2, 2]}):
        yield _one("convolution", x, isDeconvolution=True, **turned, **more)
    sizes = dict(zip(_axes("kernel"), (2, 3, 3), strict=True))
    sizes |= dict(zip(_axes("stride"), (1, 2, 1), strict=True))
    pads = {f"customPadding{side}": 1 for side in _SIDES}
    deep = _x(1, 4, 5, 6, 7)
    for kind in ("VALID", "SAME", "CUSTOM"):
        more = pads if kind == "CUSTOM" else {}
        yield _one("pooling3d", deep, type="AVERAGE", paddingType=kind, countExcludePadding=True,
                   **sizes, **more)  # fmt: skip
        dilated = dict(zip(_axes("dilation"), (1, 1, 2), strict=True))
        yield _one(
            "convolution3d", deep, outputChannels=4, inputChannels=4, nGroups=2, hasBias=True,
            weights=_w(4, 2, 2, 3, 3), bias=_w(4), paddingType=kind, **sizes, **more, **dilated,
        )  # fmt: skip
    yield _one(
        "convolution3d", deep, outputChannels=3, inputChannels=4, weights=_w(4, 3, 2, 3, 3),
        isDeconvolution=True, outputShape=[6, 13, 9], **sizes,
    )  # fmt: skip
    yield _one("globalPooling3d", deep, type="AVERAGE")


_SIDES = ("Front", "Back", "Top", "Bottom", "Left", "Right")


def _axes(what: str) -> list[str]:
    return [f"{what}{axis}" for axis in ("Depth", "Height", "Width")]


def _pooling() -> Iterator[Example]:
    x = _x(1, 3, 7, 8)
    for kind in ("MAX", "AVERAGE", "L2"):
        yield _one("pooling", x, type=kind, kernelSize=[2, 3], stride=[2, 2])
        yield _one("pooling", x, type=kind, kernelSize=[3, 3], same={})
        yield _one("pooling", x, type=kind, includeLastPixel={"paddingAmounts": [1, 1]},
                   stride=[2, 2])  # fmt: skip
        yield _one("pooling", x, type=kind, globalPooling=True)
    yield _one("pooling", x, type="AVERAGE", avgPoolExcludePadding=True,
               valid={"paddingAmounts": _edges((1, 1), (1, 0))})  # fmt: skip


_ACTIVATIONS: dict[str, dict[str, Any]] = {
    "linear": {"alpha": 2.0, "beta": 1.0}, "ReLU": {}, "leakyReLU": {"alpha": 0.3},
    "thresholdedReLU": {"alpha": 0.5}, "PReLU": {"alpha": weights([0.1, 0.2, 0.3])}, "tanh": {},
    "scaledTanh": {"alpha": 1.5, "beta": 0.5}, "sigmoid": {},
    "sigmoidHard": {"alpha": 0.2, "beta": 0.5}, "ELU": {"alpha": 1.0}, "softsign": {},
    "softplus": {},
    "parametricSoftplus": {"alpha": weights([1, 2, 3]), "beta": weights([1, 0.5, 2])},
}  # fmt: skip


_UNARY = (
    "ceil", "floor", "sign", "round", "exp2", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
    "cosh", "tanh", "asinh", "atanh", "erf", "logicalNot",
)  # fmt: skip


def _functions() -> Iterator[Example]:
    for name, params in _ACTIVATIONS.items():
        yield _one("activation", _x(1, 3, 4, 5), row=f"activation {name}", **{name: params})
    for name in ("SQRT", "RSQRT", "INVERSE", "POWER", "EXP", "LOG", "ABS", "THRESHOLD"):
        yield _one("unary", _x(2, 3), row=f"unary {name}", type=name, alpha=2.0, epsilon=1e-3,
                   shift=0.5, scale=2.0)  # fmt: skip
    for name in _UNARY:
        yield _one(name, _x(2, 3))
    yield _one("acosh", 1 + _x(2, 3))
    for mode in ("EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION"):
        yield _one("gelu", _x(2, 3), mode=mode)
    yield _one("clip", _x(2, 3), minVal=0.2, maxVal=0.7)
    yield _one("clampedReLU", _x(2, 3), alpha=0.1, beta=0.5)
    for name in ("equal", "notEqual", "lessThan", "lessEqual", "greaterThan", "greaterEqual"):
        yield _one(name, _x(2, 3), _x(3))
        yield _one(name, _x(2, 3), alpha=0.5)
    for name in ("logicalOr", "logicalXor", "logicalAnd"):
        yield _one(name, [[0, 1], [2, 0]], [0, 1])
    for name in ("mod", "min", "max", "add", "pow", "divide", "floorDiv", "multiply", "subtract"):
        yield _one(f"{name}Broadcastable", _x(2, 1, 3), _x(4, 1))
    for name in ("add", "multiply"):
        yield _one(name, _x(2, 3, 4, 5), alpha=2.0)
    for name in ("add", "multiply", "average", "max", "min"):
        yield _one(name, _x(2, 3, 4, 5), _x(2, 3, 1, 1))
    yield _one("scale", _x(1, 3, 4, 5), scale=_w(3), shapeScale=[3, 1, 1], hasBias=True,
               bias=_w(3), shapeBias=[3, 1, 1])  # fmt: skip
    yield _one("bias", _x(1, 3, 4, 5), shape=[3, 1, 1], bias=_w(3))
    for cosine in (False, True):
        yield _one("dot", _x(2, 6, 1, 1), _x(2, 6, 1, 1), cosineSimilarity=cosine)


def _products() -> Iterator[Example]:
    yield _one("innerProduct", _x(2, 5), inputChannels=5, outputChannels=3, weights=_w(3, 5),
               hasBias=True, bias=_w(3))  # fmt: skip
    yield _one("innerProduct", _x(2, 5), inputChannels=5, outputChannels=3,
               int8DynamicQuantize=True, weights=_int8(3, 5))  # fmt: skip
    yield _one("embedding", np.reshape([1, 3, 0], (3, 1, 1, 1)), inputDim=4, outputChannels=3,
               weights=_w(3, 4), hasBias=True, bias=_w(3))  # fmt: skip
    yield _one("embeddingND", [[1], [3]], vocabSize=4, embeddingSize=3, weights=_w(3, 4),
               hasBias=True, bias=_w(3))  # fmt: skip
    yield _one("batchedMatmul", _x(2, 4, 3), _x(5, 4), transposeA=True, transposeB=True)
    held = {"weightMatrixFirstDimension": 3, "weightMatrixSecondDimension": 4}
    yield _one("batchedMatmul", _x(2, 3), weights=_w(12), hasBias=True, bias=_w(4), **held)
    yield _one("batchedMatmul", _x(2, 3), weights=_int8(12), int8DynamicQuantize=True, **held)
    for kind, message in _encodings():
        yield _one("innerProduct", _x(2, 5), row=kind, inputChannels=5, outputChannels=3,
                   weights=message)  # fmt: skip
    yield _one("innerProduct", _x(2, 5), row="int8RawValue (int8DynamicQuantize)",
               inputChannels=5, outputChannels=3, int8DynamicQuantize=True,
               weights=_int8(3, 5))  # fmt: skip


def _int8(*shape: int) -> Any:
    codes = (_codes(255, *shape) - 127).astype(np.int8)
    message = pb.WeightParams(int8RawValue=codes.tobytes())
    message.quantization.numberOfBits = 8
    message.quantization.linearQuantization.scale.append(0.01)
    return message


def _bits(count: int) -> str:
    return f"{count} bits" if count > 1 else "1 bit"


def _encodings() -> Iterator[tuple[str, Any]]:
    """The ways to store 15 weights, by their names on the page."""
    yield "floatValue", _w(15)
    yield "float16Value", half_weights(_x(15))
    for bits in range(1, 9):
        codes = _codes(1 << bits, 15)
        yield f"rawValue, linear, {_bits(bits)}", linear_weights(codes, bits, 0.5, -1.0)
    yield "rawValue, linear, by channel", linear_weights(codes, 8, _x(3), _x(3))
    for bits in range(1, 9):
        codes = _codes(1 << bits, 15)
        yield f"rawValue, look-up table, {_bits(bits)}", table_weights(codes, bits, _x(1 << bits))


def _normalization() -> Iterator[Example]:
    x = _x(2, 3, 4, 5)
    fixed = {"gamma": _w(3), "beta": _w(3), "mean": _w(3), "variance": _w(3)}
    yield _one("batchnorm", x, channels=3, epsilon=1e-3, **fixed)
    yield _one("batchnorm", x, channels=3, computeMeanVar=True, gamma=_w(3), beta=_w(3))
    yield _one("batchnorm", x, channels=3, computeMeanVar=True, instanceNormalization=True,
               gamma=_w(3), beta=_w(3))  # fmt: skip
    yield _one("mvn", x, acrossChannels=True, normalizeVariance=True, epsilon=1e-3)
    yield _one("mvn", x)
    yield _one("l2normalize", x, epsilon=1e-3)
    yield _one("softmax", x)
    yield _one("softmaxND", x, axis=-2)
    yield _one("lrn", x, alpha=1.0, beta=0.5, localSize=3, k=2.0)
    yield _one("layerNormalization", x, normalizedShape=[4, 5], eps=1e-3, gamma=_w(4, 5),
               beta=_w(4, 5))  # fmt: skip


def _pictures() -> Iterator[Example]:
    x = _x(1, 3, 6, 7)
    yield _one("crop", x, cropAmounts=_edges((1, 2), (0, 1)))
    yield _one("crop", x, _x(1, 3, 4, 4), offset=[1, 2])
    for kind in ({"constant": {"value": 2.0}}, {"reflection": {}}, {"replication": {}}):
        yield _one("padding", x, paddingAmounts=_edges((1, 2), (0, 1)), **kind)
    yield _one("constantPad", x, padAmounts=[0, 0, 0, 0, 1, 2, 0, 1], value=2.0)
    yield _one("constantPad", x, padAmounts=[0, 0, 0, 0, 9, 0, 0, 9], padToGivenOutputSizeMode=True)
    yield _one("constantPad", _x(2, 3), [1, 0, 0, 2], value=1.0)
    for mode in ("NN", "BILINEAR"):
        yield _one("upsample", x, scalingFactor=[2, 3], mode=mode)
    for mode in ("ALIGN_CORNERS_TRUE", "ALIGN_CORNERS_FALSE"):
        yield _one("upsample", x, fractionalScalingFactor=[1.5, 2.5], mode="BILINEAR",
                   linearUpsampleMode=mode)  # fmt: skip
    boxes = np.float32([[0, 0.1, 0.1, 0.8, 0.9], [0, 0.2, 0.0, 0.5, 0.6]]).reshape(2, 1, 5, 1, 1)
    for number in range(4):
        mode = {"samplingMethod": number}
        yield _one("resizeBilinear", x, targetSize=[9, 5], mode=mode)
        yield _one("cropResize", x[None], boxes, targetSize=[3, 4], normalizedCoordinates=True,
                   mode=mode, boxIndicesMode={"boxMode": number}, spatialScale=0.5)  # fmt: skip
    for mode in ("SPACE_TO_DEPTH", "DEPTH_TO_SPACE", "PIXEL_SHUFFLE"):
        yield _one("reorganizeData", _x(1, 8, 4, 4), mode=mode, blockSize=2)


def _recurrent() -> Iterator[Example]:
    x = _x(3, 2, 4, 1, 1)
    gate = {"sigmoid": {}}
    size = {"inputVectorSize": 4, "outputVectorSize": 5}
    flags = {"hasBiasVectors": True}
    for sequence in (False, True):
        yield _one(
            "simpleRecurrent", x, _x(1, 2, 5, 1, 1), outputs=2, activation={"tanh": {}},
            sequenceOutput=sequence, hasBiasVector=True, weightMatrix=_w(5, 4),
            recursionMatrix=_w(5, 5), biasVector=_w(5), reverseInput=True, **size,
        )  # fmt: skip
        gru = {f"{g}Gate{kind}": _w(*shape) for g in ("update", "reset", "output")
               for kind, shape in (("WeightMatrix", (5, 4)), ("RecursionMatrix", (5, 5)),
                                   ("BiasVector", (5,)))}  # fmt: skip
        yield _one("gru", x, _x(1, 2, 5, 1, 1), outputs=2, activations=[gate, {"tanh": {}}],
                   sequenceOutput=sequence, reverseInput=True, **flags, **size, **gru)  # fmt: skip
        params = {
            "sequenceOutput": sequence, "hasPeepholeVectors": True, "forgetBias": True,
            "cellClipThreshold": 3.0, "coupledInputAndForgetGate": sequence, **flags,
        }  # fmt: skip
        states = [_x(1, 2, 5, 1, 1) for _ in range(4)]
        tanh = [gate, {"tanh": {}}, {"tanh": {}}]
        yield _one("uniDirectionalLSTM", x, *states[:2], outputs=3, activations=tanh,
                   params=params, weightParams=_lstm(), reverseInput=True, **size)  # fmt: skip
        yield _one("biDirectionalLSTM", x, *states, outputs=5, activationsForwardLSTM=tanh,
                   activationsBackwardLSTM=tanh, params=params, weightParams=[_lstm(), _lstm()],
                   **size)  # fmt: skip


def _lstm() -> dict[str, Any]:
    shapes = (("WeightMatrix", (5, 4)), ("RecursionMatrix", (5, 5)), ("BiasVector", (5,)))
    gates = ("inputGate", "forgetGate", "blockInput", "outputGate")
    found = {f"{gate}{kind}": _w(*shape) for gate in gates for kind, shape in shapes}
    peepholes = ("inputGate", "forgetGate", "outputGate")
    return found | {f"{gate}PeepholeVector": _w(5) for gate in peepholes}


def _reductions() -> Iterator[Example]:
    x = _x(2, 3, 4, 5)
    for mode in pb.ReduceLayerParams.ReduceOperation.keys():  # noqa: SIM118
        axes = ("C", "H", "W") if mode == "ARGMAX" else ("CHW", "HW", "C", "H", "W")
        for axis in axes:
            yield _one("reduce", x, mode=mode, axis=axis, epsilon=1e-3)
    for name in ("L1", "L2", "Max", "Min", "Sum", "Prod", "Mean", "LogSum", "SumSquare",
                 "LogSumExp"):  # fmt: skip
        yield _one(f"reduce{name}", x, axes=[-1, 1], keepDims=True)
        yield _one(f"reduce{name}", x, reduceAll=True)
    for name in ("argMin", "argMax"):
        yield _one(name, x, axis=-1, removeDim=True)
    yield _one("topK", x, axis=-1, K=2, useBottomK=True, outputs=2)
    yield _one("topK", x, [3], axis=1, outputs=2)
    yield _one("argSort", x, axis=1, descending=True)
    yield _one("cumSum", x, axis=1, excludeFinalSum=True, reverse=True)
    yield _one("cumSum", x, [2])
    yield _one("NonMaximumSuppression", _x(1, 6, 4), _x(1, 6, 3), outputs=4, iouThreshold=0.3,
               scoreThreshold=0.2, maxBoxes=4, perClassSuppression=True)  # fmt: skip
    yield _one("NonMaximumSuppression", _x(1, 6, 4), _x(1, 6, 3), [0.3], [0.2], [4], outputs=4)


def _selection() -> Iterator[Example]:
    x = _x(4, 3)
    for mode in pb.ScatterMode.keys():  # noqa: SIM118
        yield _one("scatter", x, [1, 3], _x(2, 3), axis=0, mode=mode)
        yield _one("scatterND", x, [[1], [3]], _x(2, 3), mode=mode)
        yield _one("scatterAlongAxis", x, np.ones((2, 3)), _x(2, 3), axis=0, mode=mode)
    yield _one("gather", x, [1, -1], axis=0)
    yield _one("gatherND", x, [[1, 2], [0, 0]])
    yield _one("gatherAlongAxis", x, np.ones((2, 3)), axis=0)
    yield _one("whereNonZero", [[0, 1], [2, 0]])
    yield _one("whereBroadcastable", [[1, 0, 1]], x, _x(4, 1))
    yield _one("matrixBandPart", x, numLower=1, numUpper=-1)
    yield _one("lowerTriangular", x, k=1)
    yield _one("upperTriangular", x, k=-1)
    yield _one("oneHot", [1, 2, 9], oneHotVectorSize=4, axis=-1, onValue=2.0, offValue=-1.0)
    yield _one("oneHot", [1, 2], [4], onValue=1.0)
    yield _one("reverse", x, reverseDim=[True, False])
    yield _one("reverseSeq", x, [1, 2, 3, 3], batchAxis=0, sequenceAxis=1)


def _joining() -> Iterator[Example]:
    x = _x(2, 3, 4, 5)
    yield _one("concat", x, x)
    yield _one("concat", _x(2, 1, 3, 4, 5), _x(1, 1, 3, 4, 5), sequenceConcat=True)
    yield _one("concatND", x, x, axis=1)
    yield _one("concatND", x, x, axis=-3, interleave=True)
    yield _one("split", _x(2, 6, 3, 2), outputs=3, nOutputs=3)
    yield _one("splitND", x, outputs=2, axis=2, numSplits=2)
    yield _one("splitND", x, outputs=2, axis=1, splitSizes=[1, 2])
    yield _one("stack", x, x, axis=-1)
    yield _one("sequenceRepeat", _x(2, 1, 3, 1, 1), nRepetitions=3)
    yield _one("tile", x, reps=[1, 2, 1, 3])
    yield _one("tile", x, [1, 2, 1, 3])
    yield _one("slidingWindows", _x(2, 7, 3), axis=1, windowSize=3, step=2)
    for axis in ("CHANNEL_AXIS", "HEIGHT_AXIS", "WIDTH_AXIS"):
        yield _one("slice", x, startIndex=1, endIndex=-1, stride=2, axis=axis)
    masks = {"beginMasks": [True, False], "endMasks": [False, True]}
    flat = _x(5, 6)
    squeezed = {"squeezeMasks": [False, False]}
    yield _one("sliceStatic", flat, beginIds=[0, 1], endIds=[-1, 5], strides=[1, 2], **masks,
               **squeezed)  # fmt: skip
    yield _one("sliceDynamic", flat, [0, 1], endIds=[-1, 5], strides=[1, 2], **masks, **squeezed)
    yield _one("sliceDynamic", flat, [0, 1], [4, 5], [1, 2], [0, 0], [0, 1], [0, 0])
    yield _one("sliceBySize", flat, [2], size=3, axis=1)


def _shapes() -> Iterator[Example]:
    x = _x(2, 3, 4, 5)
    for mode in ("CHANNEL_FIRST", "CHANNEL_LAST"):
        yield _one("reshape", x[None], targetShape=[1, 6, 5, 2], mode=mode)
        yield _one("flatten", x, mode=mode)
    yield _one("permute", x[None], axis=[0, 3, 1, 2])
    yield _one("transpose", x, axes=[3, 0, 2, 1])
    yield _one("squeeze", _x(1, 3, 1), axes=[0, -1])
    yield _one("squeeze", _x(1, 3, 1), squeezeAll=True)
    yield _one("expandDims", x[0], axes=[0, -1])
    yield _one("flattenTo2D", x, axis=2)
    yield _one("reshapeLike", x, _x(6, 20))
    yield _one("reshapeStatic", x, targetShape=[6, -1])
    yield _one("reshapeDynamic", x, [6, -1])
    yield _one("rankPreservingReshape", x, targetShape=[0, -1, 0, 15])
    yield _one("getShape", x)
    yield _one("broadcastToLike", _x(3, 1), x[0, :, :, 0])
    yield _one("broadcastToStatic", _x(3, 1), targetShape=[2, 3, 4])
    yield _one("broadcastToDynamic", _x(3, 1), [2, 3, 4])
    yield _one("fillLike", x, value=2.0)
    yield _one("fillStatic", value=2.0, targetShape=[2, 3])
    yield _one("fillDynamic", [2, 3], value=2.0)
    yield _one("loadConstant", shape=[1, 2, 3], data=_w(1, 2, 3))
    yield _one("loadConstantND", shape=[2, 3], data=_w(2, 3))
    yield _one("rangeStatic", startValue=1.0, endValue=9.0, stepSizeValue=2.0)
    yield _one("rangeDynamic", [9], startValue=1.0, stepSizeValue=2.0)
    yield _one("rangeDynamic", [9], [1], [2])


def _random() -> Iterator[Example]:
    kinds = {"Normal": {"mean": 1.0, "stdDev": 2.0}, "Uniform": {"minVal": 1.0, "maxVal": 2.0},
             "Bernoulli": {"prob": 0.3}}  # fmt: skip
    for name, params in kinds.items():
        for seed in (-1, 3):
            yield _one(f"random{name}Like", _x(2, 3), seed=seed, **params)
            yield _one(f"random{name}Static", seed=seed, outputShape=[2, 3], **params)
            yield _one(f"random{name}Dynamic", [2, 3], seed=seed, **params)
    for seed, logits in ((-1, True), (3, False)):
        yield _one("categoricalDistribution", _x(2, 4), seed=seed, numSamples=5, isLogits=logits,
                   eps=1e-3, temperature=2.0)  # fmt: skip


def _control() -> Iterator[Example]:
    x = _x(2, 3)
    yield _one("copy", x)
    twice = [layer("addBroadcastable", ["y", "y"], ["t"]), layer("copy", ["t"], ["y"])]
    start, flag = layer("copy", ["x"], ["y"], name="start"), [1]
    halves = {"ifBranch": network(twice), "elseBranch": network([])}
    yield _several("branch", [start, layer("branch", ["flag"], [], **halves)], x=x, flag=flag)
    yield _several("loop", [start, layer("loop", [], [], maxLoopIterations=3,
                                         bodyNetwork=network(twice))], x=x)  # fmt: skip
    sums = layer("reduceSum", ["y"], ["s"], reduceAll=True)
    test = [sums, layer("lessThan", ["s"], ["go"], alpha=99.0)]
    whiles = {"conditionNetwork": network(test), "conditionVar": "go",
              "bodyNetwork": network(twice)}  # fmt: skip
    yield _several("loop", [start, layer("loop", ["n"], [], **whiles)], x=x, n=[5])
    for kind in ("loopBreak", "loopContinue"):
        inner = layer("branch", ["flag"], [], ifBranch=network([layer(kind, [], [])]))
        body = {"bodyNetwork": network([*twice, inner]), "maxLoopIterations": 3}
        yield _several(kind, [start, layer("loop", [], [], **body)], x=x, flag=flag)


_GROUPS = (
    _convolutions, _pooling, _functions, _products, _normalization, _pictures, _recurrent,
    _reductions, _selection, _joining, _shapes, _random, _control,
)  # fmt: skip
