"""Output features: values for the user, made of blobs."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from vknn.errors import ModelFormatError, ShapeError, UnsupportedLayerError
from vknn.formats.coreml.image_preprocessing import BGR, GRAY
from vknn.formats.model import TensorSpec


class Output(ABC):
    """An output feature that is a blob."""

    spec: TensorSpec

    @abstractmethod
    def decode(self, array: np.ndarray) -> Any:
        """The user's value for the blob's array."""


class ArrayOutput(Output):
    """A multi array: in the declared shape where the blob has as many elements, else unchanged."""

    def __init__(self, name: str, declared: tuple[int, ...]) -> None:
        self.declared = declared
        self.spec = TensorSpec(name, None, np.dtype(np.float32))

    def decode(self, array: np.ndarray) -> np.ndarray:
        if self.declared and math.prod(self.declared) == array.size:
            return array.reshape(self.declared)
        return array


class NumberOutput(Output):
    """A single number, an int if ``whole``."""

    def __init__(self, name: str, whole: bool) -> None:
        self.whole = whole
        self.spec = TensorSpec(name, (), np.dtype(np.int64 if whole else np.float64))

    def decode(self, array: np.ndarray) -> int | float:
        if array.size != 1:
            raise ShapeError(
                f"output {self.spec.name!r} is one number, the network gives {array.size}"
            )
        number = float(array.reshape(-1)[0])
        return round(number) if self.whole and math.isfinite(number) else number


class ImageOutput(Output):
    """An image: uint8 height x width, or height x width x 3 in RGB."""

    def __init__(self, name: str, color: int) -> None:
        self.color = color
        self.gray = color in GRAY
        shape = (None, None) if self.gray else (None, None, 3)
        self.spec = TensorSpec(name, shape, np.dtype(np.uint8))

    def decode(self, array: np.ndarray) -> np.ndarray:
        channels = 1 if self.gray else 3
        plane = array.shape[-2:]
        if array.ndim < 2 or math.prod((channels, *plane)) != array.size or (
            array.ndim >= 3 and array.shape[-3] != channels
        ):  # fmt: skip
            raise ShapeError(
                f"output {self.spec.name!r} is an image of {channels} channels; the network gives "
                f"the shape {list(array.shape)}"
            )
        pixels = np.nan_to_num(array.reshape(channels, *plane), nan=0.0)
        image = np.rint(np.clip(pixels, 0.0, 255.0)).astype(np.uint8)
        if self.gray:
            return image[0]
        order = image[::-1] if self.color == BGR else image
        return np.ascontiguousarray(order.transpose(1, 2, 0))


class ClassifierOutput:
    """The outputs of a classifier: the best label, and the score of each label.

    ``label`` and ``scores`` are the names of these features; either may be empty.
    """

    def __init__(self, message: Any, description: Any, file: str | None) -> None:
        kind = message.WhichOneof("ClassLabels")
        if kind is None:
            raise ModelFormatError("a classifier without class labels", file=file)
        self.labels: list[str | int] = list(getattr(message, kind).vector)
        if not self.labels:
            raise ModelFormatError("a classifier with no class label", file=file)
        self.label = description.predictedFeatureName or _first(
            description, ("stringType", "int64Type")
        )
        self.scores = description.predictedProbabilitiesName or _first(
            description, ("dictionaryType",)
        )
        #: The name of the graph's output.
        self.port = self.scores or self.label or "scores"
        self.whole = kind == "int64ClassLabels"

    def specs(self) -> list[TensorSpec]:
        """Specs of the label and of the scores."""
        dtype = np.dtype(np.int64 if self.whole else object)
        specs = [TensorSpec(self.label, (), dtype)] if self.label else []
        if self.scores:
            specs.append(TensorSpec(self.scores, (len(self.labels),), np.dtype(np.float32)))
        return specs

    def results(self, scores: np.ndarray) -> Mapping[str, Any]:
        """The features for these scores. Of equal highest scores the first decides the label."""
        scores = scores.reshape(-1)
        if scores.size != len(self.labels):
            raise ShapeError(
                f"the network gives {scores.size} scores for {len(self.labels)} class labels"
            )
        made: dict[str, Any] = {}
        if self.label:
            made[self.label] = self.labels[int(np.argmax(scores))]
        if self.scores:
            made[self.scores] = dict(zip(self.labels, scores.tolist(), strict=True))
        return made


def _first(description: Any, kinds: tuple[str, ...]) -> str:
    for feature in description.output:
        if feature.type.WhichOneof("Type") in kinds:
            return str(feature.name)
    return ""


def read_output(feature: Any, file: str | None) -> Output:
    """The output of a description, one that is a blob. Raises UnsupportedLayerError."""
    kind = feature.type.WhichOneof("Type")
    what = f"output {feature.name!r}"
    if kind == "multiArrayType" or kind is None:
        return ArrayOutput(feature.name, tuple(feature.type.multiArrayType.shape))
    if kind == "imageType":
        return ImageOutput(feature.name, feature.type.imageType.colorSpace)
    if kind in ("doubleType", "int64Type"):
        return NumberOutput(feature.name, kind == "int64Type")
    raise UnsupportedLayerError([f"{what} is of type {kind}, which no network gives"], file=file)
