"""Examples of layers for images: see tools/coreml_examples.py."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from tools.coreml_example import Example, array, edges, one, weight


def convolutions() -> Iterator[Example]:
    """Convolutions of two and three axes."""
    plain = {"outputChannels": 4, "kernelChannels": 3, "weights": weight(4, 3, 3, 3)}
    x = array(1, 3, 6, 7)
    amounts = edges((1, 2), (0, 1))
    for padding in ({}, {"same": {"asymmetryMode": 1}}, {"valid": {"paddingAmounts": amounts}}):
        yield one("convolution", x, hasBias=True, bias=weight(4), **plain, **padding)
    yield one(
        "convolution", array(1, 4, 9, 9), outputChannels=4, kernelChannels=2, nGroups=2,
        kernelSize=[2, 3], stride=[2, 1], dilationFactor=[2, 2], weights=weight(4, 2, 2, 3),
    )  # fmt: skip
    yield one("convolution", x, array(4, 3, 3, 3), outputChannels=4, kernelChannels=3)
    turned = {"outputChannels": 4, "kernelChannels": 3, "weights": weight(3, 4, 3, 3)}
    for more in ({}, {"stride": [2, 2], "same": {}}, {"outputShape": [12, 14], "stride": [2, 2]}):
        yield one("convolution", x, isDeconvolution=True, **turned, **more)
    sizes = dict(zip(_axes("kernel"), (2, 3, 3), strict=True))
    sizes |= dict(zip(_axes("stride"), (1, 2, 1), strict=True))
    pads = {f"customPadding{side}": 1 for side in _SIDES}
    deep = array(1, 4, 5, 6, 7)
    for kind in ("VALID", "SAME", "CUSTOM"):
        more = pads if kind == "CUSTOM" else {}
        yield one("pooling3d", deep, type="AVERAGE", paddingType=kind, countExcludePadding=True,
                   **sizes, **more)  # fmt: skip
        dilated = dict(zip(_axes("dilation"), (1, 1, 2), strict=True))
        yield one(
            "convolution3d", deep, outputChannels=4, inputChannels=4, nGroups=2, hasBias=True,
            weights=weight(4, 2, 2, 3, 3), bias=weight(4), paddingType=kind, **sizes, **more,
            **dilated,
        )  # fmt: skip
    yield one(
        "convolution3d", deep, outputChannels=3, inputChannels=4, weights=weight(4, 3, 2, 3, 3),
        isDeconvolution=True, outputShape=[6, 13, 9], **sizes,
    )  # fmt: skip
    yield one("globalPooling3d", deep, type="AVERAGE")


_SIDES = ("Front", "Back", "Top", "Bottom", "Left", "Right")


def _axes(what: str) -> list[str]:
    return [f"{what}{axis}" for axis in ("Depth", "Height", "Width")]


def pooling() -> Iterator[Example]:
    """Pooling of two axes."""
    x = array(1, 3, 7, 8)
    for kind in ("MAX", "AVERAGE", "L2"):
        yield one("pooling", x, type=kind, kernelSize=[2, 3], stride=[2, 2])
        yield one("pooling", x, type=kind, kernelSize=[3, 3], same={})
        yield one("pooling", x, type=kind, includeLastPixel={"paddingAmounts": [1, 1]},
                   stride=[2, 2])  # fmt: skip
        yield one("pooling", x, type=kind, globalPooling=True)
    yield one("pooling", x, type="AVERAGE", avgPoolExcludePadding=True,
               valid={"paddingAmounts": edges((1, 1), (1, 0))})  # fmt: skip


def normalization() -> Iterator[Example]:
    """Normalizations."""
    x = array(2, 3, 4, 5)
    fixed = {"gamma": weight(3), "beta": weight(3), "mean": weight(3), "variance": weight(3)}
    yield one("batchnorm", x, channels=3, epsilon=1e-3, **fixed)
    yield one("batchnorm", x, channels=3, computeMeanVar=True, gamma=weight(3), beta=weight(3))
    yield one("batchnorm", x, channels=3, computeMeanVar=True, instanceNormalization=True,
               gamma=weight(3), beta=weight(3))  # fmt: skip
    yield one("mvn", x, acrossChannels=True, normalizeVariance=True, epsilon=1e-3)
    yield one("mvn", x)
    yield one("l2normalize", x, epsilon=1e-3)
    yield one("softmax", x)
    yield one("softmaxND", x, axis=-2)
    yield one("lrn", x, alpha=1.0, beta=0.5, localSize=3, k=2.0)
    yield one("layerNormalization", x, normalizedShape=[4, 5], eps=1e-3, gamma=weight(4, 5),
               beta=weight(4, 5))  # fmt: skip


def pictures() -> Iterator[Example]:
    """Cropping, padding, resizing."""
    x = array(1, 3, 6, 7)
    yield one("crop", x, cropAmounts=edges((1, 2), (0, 1)))
    yield one("crop", x, array(1, 3, 4, 4), offset=[1, 2])
    for kind in ({"constant": {"value": 2.0}}, {"reflection": {}}, {"replication": {}}):
        yield one("padding", x, paddingAmounts=edges((1, 2), (0, 1)), **kind)
    yield one("constantPad", x, padAmounts=[0, 0, 0, 0, 1, 2, 0, 1], value=2.0)
    yield one("constantPad", x, padAmounts=[0, 0, 0, 0, 9, 0, 0, 9], padToGivenOutputSizeMode=True)
    yield one("constantPad", array(2, 3), [1, 0, 0, 2], value=1.0)
    for mode in ("NN", "BILINEAR"):
        yield one("upsample", x, scalingFactor=[2, 3], mode=mode)
    for mode in ("ALIGN_CORNERS_TRUE", "ALIGN_CORNERS_FALSE"):
        yield one("upsample", x, fractionalScalingFactor=[1.5, 2.5], mode="BILINEAR",
                   linearUpsampleMode=mode)  # fmt: skip
    boxes = np.float32([[0, 0.1, 0.1, 0.8, 0.9], [0, 0.2, 0.0, 0.5, 0.6]]).reshape(2, 1, 5, 1, 1)
    for number in range(4):
        mode = {"samplingMethod": number}
        yield one("resizeBilinear", x, targetSize=[9, 5], mode=mode)
        yield one("cropResize", x[None], boxes, targetSize=[3, 4], normalizedCoordinates=True,
                   mode=mode, boxIndicesMode={"boxMode": number}, spatialScale=0.5)  # fmt: skip
    for mode in ("SPACE_TO_DEPTH", "DEPTH_TO_SPACE", "PIXEL_SHUFFLE"):
        yield one("reorganizeData", array(1, 8, 4, 4), mode=mode, blockSize=2)
