"""The examples of tools/coreml_table.py: small networks, one or more for each kind of layer.

Together they state every parameter that a layer has, so that what nothing reads comes to light.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
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
    network,
    table_weights,
    weights,
)
from tools.coreml_example import Example, array, numbers, one, several, weight  # noqa: E402
from tools.coreml_image_examples import convolutions, normalization, pictures, pooling  # noqa: E402

from vknn.formats.coreml import coreml_pb2 as pb  # noqa: E402


def examples() -> Iterator[Example]:
    """All examples."""
    for group in _GROUPS:
        yield from group()


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
        yield one("activation", array(1, 3, 4, 5), row=f"activation {name}", **{name: params})
    for name in ("SQRT", "RSQRT", "INVERSE", "POWER", "EXP", "LOG", "ABS", "THRESHOLD"):
        yield one("unary", array(2, 3), row=f"unary {name}", type=name, alpha=2.0, epsilon=1e-3,
                   shift=0.5, scale=2.0)  # fmt: skip
    for name in _UNARY:
        yield one(name, array(2, 3))
    yield one("acosh", 1 + array(2, 3))
    for mode in ("EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION"):
        yield one("gelu", array(2, 3), mode=mode)
    yield one("clip", array(2, 3), minVal=0.2, maxVal=0.7)
    yield one("clampedReLU", array(2, 3), alpha=0.1, beta=0.5)
    for name in ("equal", "notEqual", "lessThan", "lessEqual", "greaterThan", "greaterEqual"):
        yield one(name, array(2, 3), array(3))
        yield one(name, array(2, 3), alpha=0.5)
    for name in ("logicalOr", "logicalXor", "logicalAnd"):
        yield one(name, [[0, 1], [2, 0]], [0, 1])
    for name in ("mod", "min", "max", "add", "pow", "divide", "floorDiv", "multiply", "subtract"):
        yield one(f"{name}Broadcastable", array(2, 1, 3), array(4, 1))
    for name in ("add", "multiply"):
        yield one(name, array(2, 3, 4, 5), alpha=2.0)
    for name in ("add", "multiply", "average", "max", "min"):
        yield one(name, array(2, 3, 4, 5), array(2, 3, 1, 1))
    yield one("scale", array(1, 3, 4, 5), scale=weight(3), shapeScale=[3, 1, 1], hasBias=True,
               bias=weight(3), shapeBias=[3, 1, 1])  # fmt: skip
    yield one("bias", array(1, 3, 4, 5), shape=[3, 1, 1], bias=weight(3))
    for cosine in (False, True):
        yield one("dot", array(2, 6, 1, 1), array(2, 6, 1, 1), cosineSimilarity=cosine)


def _products() -> Iterator[Example]:
    yield one("innerProduct", array(2, 5), inputChannels=5, outputChannels=3, weights=weight(3, 5),
               hasBias=True, bias=weight(3))  # fmt: skip
    yield one("innerProduct", array(2, 5), inputChannels=5, outputChannels=3,
               int8DynamicQuantize=True, weights=_int8(3, 5))  # fmt: skip
    yield one("embedding", np.reshape([1, 3, 0], (3, 1, 1, 1)), inputDim=4, outputChannels=3,
               weights=weight(3, 4), hasBias=True, bias=weight(3))  # fmt: skip
    yield one("embeddingND", [[1], [3]], vocabSize=4, embeddingSize=3, weights=weight(3, 4),
               hasBias=True, bias=weight(3))  # fmt: skip
    yield one("batchedMatmul", array(2, 4, 3), array(5, 4), transposeA=True, transposeB=True)
    held = {"weightMatrixFirstDimension": 3, "weightMatrixSecondDimension": 4}
    yield one(
        "batchedMatmul", array(2, 3), weights=weight(12), hasBias=True, bias=weight(4), **held
    )
    yield one("batchedMatmul", array(2, 3), weights=_int8(12), int8DynamicQuantize=True, **held)
    for kind, message in _encodings():
        yield one("innerProduct", array(2, 5), row=kind, inputChannels=5, outputChannels=3,
                   weights=message)  # fmt: skip
    yield one("innerProduct", array(2, 5), row="int8RawValue (int8DynamicQuantize)",
               inputChannels=5, outputChannels=3, int8DynamicQuantize=True,
               weights=_int8(3, 5))  # fmt: skip


def _int8(*shape: int) -> Any:
    codes = (numbers(255, *shape) - 127).astype(np.int8)
    message = pb.WeightParams(int8RawValue=codes.tobytes())
    message.quantization.numberOfBits = 8
    message.quantization.linearQuantization.scale.append(0.01)
    return message


def _bits(count: int) -> str:
    return f"{count} bits" if count > 1 else "1 bit"


def _encodings() -> Iterator[tuple[str, Any]]:
    """The ways to store 15 weights, by their names on the page."""
    yield "floatValue", weight(15)
    yield "float16Value", half_weights(array(15))
    for bits in range(1, 9):
        codes = numbers(1 << bits, 15)
        yield f"rawValue, linear, {_bits(bits)}", linear_weights(codes, bits, 0.5, -1.0)
    yield "rawValue, linear, by channel", linear_weights(codes, 8, array(3), array(3))
    for bits in range(1, 9):
        codes = numbers(1 << bits, 15)
        yield (
            f"rawValue, look-up table, {_bits(bits)}",
            table_weights(codes, bits, array(1 << bits)),
        )


def _recurrent() -> Iterator[Example]:
    x = array(3, 2, 4, 1, 1)
    gate = {"sigmoid": {}}
    size = {"inputVectorSize": 4, "outputVectorSize": 5}
    flags = {"hasBiasVectors": True}
    for sequence in (False, True):
        yield one(
            "simpleRecurrent", x, array(1, 2, 5, 1, 1), outputs=2, activation={"tanh": {}},
            sequenceOutput=sequence, hasBiasVector=True, weightMatrix=weight(5, 4),
            recursionMatrix=weight(5, 5), biasVector=weight(5), reverseInput=True, **size,
        )  # fmt: skip
        gru = {f"{g}Gate{kind}": weight(*shape) for g in ("update", "reset", "output")
               for kind, shape in (("WeightMatrix", (5, 4)), ("RecursionMatrix", (5, 5)),
                                   ("BiasVector", (5,)))}  # fmt: skip
        yield one("gru", x, array(1, 2, 5, 1, 1), outputs=2, activations=[gate, {"tanh": {}}],
                   sequenceOutput=sequence, reverseInput=True, **flags, **size, **gru)  # fmt: skip
        params = {
            "sequenceOutput": sequence, "hasPeepholeVectors": True, "forgetBias": True,
            "cellClipThreshold": 3.0, "coupledInputAndForgetGate": sequence, **flags,
        }  # fmt: skip
        states = [array(1, 2, 5, 1, 1) for _ in range(4)]
        tanh = [gate, {"tanh": {}}, {"tanh": {}}]
        yield one("uniDirectionalLSTM", x, *states[:2], outputs=3, activations=tanh,
                   params=params, weightParams=_lstm(), reverseInput=True, **size)  # fmt: skip
        yield one("biDirectionalLSTM", x, *states, outputs=5, activationsForwardLSTM=tanh,
                   activationsBackwardLSTM=tanh, params=params, weightParams=[_lstm(), _lstm()],
                   **size)  # fmt: skip


def _lstm() -> dict[str, Any]:
    shapes = (("WeightMatrix", (5, 4)), ("RecursionMatrix", (5, 5)), ("BiasVector", (5,)))
    gates = ("inputGate", "forgetGate", "blockInput", "outputGate")
    found = {f"{gate}{kind}": weight(*shape) for gate in gates for kind, shape in shapes}
    peepholes = ("inputGate", "forgetGate", "outputGate")
    return found | {f"{gate}PeepholeVector": weight(5) for gate in peepholes}


def _reductions() -> Iterator[Example]:
    x = array(2, 3, 4, 5)
    for mode in pb.ReduceLayerParams.ReduceOperation.keys():  # noqa: SIM118
        axes = ("C", "H", "W") if mode == "ARGMAX" else ("CHW", "HW", "C", "H", "W")
        for axis in axes:
            yield one("reduce", x, mode=mode, axis=axis, epsilon=1e-3)
    for name in ("L1", "L2", "Max", "Min", "Sum", "Prod", "Mean", "LogSum", "SumSquare",
                 "LogSumExp"):  # fmt: skip
        yield one(f"reduce{name}", x, axes=[-1, 1], keepDims=True)
        yield one(f"reduce{name}", x, reduceAll=True)
    for name in ("argMin", "argMax"):
        yield one(name, x, axis=-1, removeDim=True)
    yield one("topK", x, axis=-1, K=2, useBottomK=True, outputs=2)
    yield one("topK", x, [3], axis=1, outputs=2)
    yield one("argSort", x, axis=1, descending=True)
    yield one("cumSum", x, axis=1, excludeFinalSum=True, reverse=True)
    yield one("cumSum", x, [2])
    yield one("NonMaximumSuppression", array(1, 6, 4), array(1, 6, 3), outputs=4, iouThreshold=0.3,
               scoreThreshold=0.2, maxBoxes=4, perClassSuppression=True)  # fmt: skip
    yield one("NonMaximumSuppression", array(1, 6, 4), array(1, 6, 3), [0.3], [0.2], [4], outputs=4)


def _selection() -> Iterator[Example]:
    x = array(4, 3)
    for mode in pb.ScatterMode.keys():  # noqa: SIM118
        yield one("scatter", x, [1, 3], array(2, 3), axis=0, mode=mode)
        yield one("scatterND", x, [[1], [3]], array(2, 3), mode=mode)
        yield one("scatterAlongAxis", x, np.ones((2, 3)), array(2, 3), axis=0, mode=mode)
    yield one("gather", x, [1, -1], axis=0)
    yield one("gatherND", x, [[1, 2], [0, 0]])
    yield one("gatherAlongAxis", x, np.ones((2, 3)), axis=0)
    yield one("whereNonZero", [[0, 1], [2, 0]])
    yield one("whereBroadcastable", [[1, 0, 1]], x, array(4, 1))
    yield one("matrixBandPart", x, numLower=1, numUpper=-1)
    yield one("lowerTriangular", x, k=1)
    yield one("upperTriangular", x, k=-1)
    yield one("oneHot", [1, 2, 9], oneHotVectorSize=4, axis=-1, onValue=2.0, offValue=-1.0)
    yield one("oneHot", [1, 2], [4], onValue=1.0)
    yield one("reverse", x, reverseDim=[True, False])
    yield one("reverseSeq", x, [1, 2, 3, 3], batchAxis=0, sequenceAxis=1)


def _joining() -> Iterator[Example]:
    x = array(2, 3, 4, 5)
    yield one("concat", x, x)
    yield one("concat", array(2, 1, 3, 4, 5), array(1, 1, 3, 4, 5), sequenceConcat=True)
    yield one("concatND", x, x, axis=1)
    yield one("concatND", x, x, axis=-3, interleave=True)
    yield one("split", array(2, 6, 3, 2), outputs=3, nOutputs=3)
    yield one("splitND", x, outputs=2, axis=2, numSplits=2)
    yield one("splitND", x, outputs=2, axis=1, splitSizes=[1, 2])
    yield one("stack", x, x, axis=-1)
    yield one("sequenceRepeat", array(2, 1, 3, 1, 1), nRepetitions=3)
    yield one("tile", x, reps=[1, 2, 1, 3])
    yield one("tile", x, [1, 2, 1, 3])
    yield one("slidingWindows", array(2, 7, 3), axis=1, windowSize=3, step=2)
    for axis in ("CHANNEL_AXIS", "HEIGHT_AXIS", "WIDTH_AXIS"):
        yield one("slice", x, startIndex=1, endIndex=-1, stride=2, axis=axis)
    masks = {"beginMasks": [True, False], "endMasks": [False, True]}
    flat = array(5, 6)
    squeezed = {"squeezeMasks": [False, False]}
    yield one("sliceStatic", flat, beginIds=[0, 1], endIds=[-1, 5], strides=[1, 2], **masks,
               **squeezed)  # fmt: skip
    yield one("sliceDynamic", flat, [0, 1], endIds=[-1, 5], strides=[1, 2], **masks, **squeezed)
    yield one("sliceDynamic", flat, [0, 1], [4, 5], [1, 2], [0, 0], [0, 1], [0, 0])
    yield one("sliceBySize", flat, [2], size=3, axis=1)


def _shapes() -> Iterator[Example]:
    x = array(2, 3, 4, 5)
    for mode in ("CHANNEL_FIRST", "CHANNEL_LAST"):
        yield one("reshape", x[None], targetShape=[1, 6, 5, 2], mode=mode)
        yield one("flatten", x, mode=mode)
    yield one("permute", x[None], axis=[0, 3, 1, 2])
    yield one("transpose", x, axes=[3, 0, 2, 1])
    yield one("squeeze", array(1, 3, 1), axes=[0, -1])
    yield one("squeeze", array(1, 3, 1), squeezeAll=True)
    yield one("expandDims", x[0], axes=[0, -1])
    yield one("flattenTo2D", x, axis=2)
    yield one("reshapeLike", x, array(6, 20))
    yield one("reshapeStatic", x, targetShape=[6, -1])
    yield one("reshapeDynamic", x, [6, -1])
    yield one("rankPreservingReshape", x, targetShape=[0, -1, 0, 15])
    yield one("getShape", x)
    yield one("broadcastToLike", array(3, 1), x[0, :, :, 0])
    yield one("broadcastToStatic", array(3, 1), targetShape=[2, 3, 4])
    yield one("broadcastToDynamic", array(3, 1), [2, 3, 4])
    yield one("fillLike", x, value=2.0)
    yield one("fillStatic", value=2.0, targetShape=[2, 3])
    yield one("fillDynamic", [2, 3], value=2.0)
    yield one("loadConstant", shape=[1, 2, 3], data=weight(1, 2, 3))
    yield one("loadConstantND", shape=[2, 3], data=weight(2, 3))
    yield one("rangeStatic", startValue=1.0, endValue=9.0, stepSizeValue=2.0)
    yield one("rangeDynamic", [9], startValue=1.0, stepSizeValue=2.0)
    yield one("rangeDynamic", [9], [1], [2])


def _random() -> Iterator[Example]:
    kinds = {"Normal": {"mean": 1.0, "stdDev": 2.0}, "Uniform": {"minVal": 1.0, "maxVal": 2.0},
             "Bernoulli": {"prob": 0.3}}  # fmt: skip
    for name, params in kinds.items():
        for seed in (-1, 3):
            yield one(f"random{name}Like", array(2, 3), seed=seed, **params)
            yield one(f"random{name}Static", seed=seed, outputShape=[2, 3], **params)
            yield one(f"random{name}Dynamic", [2, 3], seed=seed, **params)
    for seed, logits in ((-1, True), (3, False)):
        yield one("categoricalDistribution", array(2, 4), seed=seed, numSamples=5, isLogits=logits,
                   eps=1e-3, temperature=2.0)  # fmt: skip


def _control() -> Iterator[Example]:
    x = array(2, 3)
    yield one("copy", x)
    twice = [layer("addBroadcastable", ["y", "y"], ["t"]), layer("copy", ["t"], ["y"])]
    start, flag = layer("copy", ["x"], ["y"], name="start"), [1]
    halves = {"ifBranch": network(twice), "elseBranch": network([])}
    yield several("branch", [start, layer("branch", ["flag"], [], **halves)], x=x, flag=flag)
    yield several("loop", [start, layer("loop", [], [], maxLoopIterations=3,
                                         bodyNetwork=network(twice))], x=x)  # fmt: skip
    sums = layer("reduceSum", ["y"], ["s"], reduceAll=True)
    test = [sums, layer("lessThan", ["s"], ["go"], alpha=99.0)]
    whiles = {"conditionNetwork": network(test), "conditionVar": "go",
              "bodyNetwork": network(twice)}  # fmt: skip
    yield several("loop", [start, layer("loop", ["n"], [], **whiles)], x=x, n=[5])
    for kind in ("loopBreak", "loopContinue"):
        inner = layer("branch", ["flag"], [], ifBranch=network([layer(kind, [], [])]))
        body = {"bodyNetwork": network([*twice, inner]), "maxLoopIterations": 3}
        yield several(kind, [start, layer("loop", [], [], **body)], x=x, flag=flag)


_GROUPS = (
    convolutions, pooling, _functions, _products, normalization, pictures, _recurrent,
    _reductions, _selection, _joining, _shapes, _random, _control,
)  # fmt: skip
