"""Input features: blobs made of a user's values."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from vknn.errors import InputError, ModelFormatError, UnsupportedLayerError
from vknn.formats.coreml.image_preprocessing import (
    COLORS,
    GRAY,
    Preprocess,
    preprocessing,
)
from vknn.formats.coreml.input_shapes import InputShapes, array_shapes, image_shapes
from vknn.formats.layer_context import MAX_ELEMENTS
from vknn.formats.model import TensorSpec
from vknn.graph import DType, GraphBuilder, TensorType, Value
from vknn.run_limits import make_room


class Input(ABC):
    """An input feature.

    ``shape_hint``: a shape that the file suggests, if it is free. ``optional``: the feature has a
    default.
    """

    spec: TensorSpec
    shape_hint: tuple[int, ...] | None = None
    optional = False

    @property
    def name(self) -> str:
        return self.spec.name

    def prepare(self, given: Any) -> Any:
        """The user's value as something that ``np.asarray`` understands."""
        return given

    def default(self) -> np.ndarray:
        """The value of an optional input that was left out. Raises InputError for other inputs."""
        raise InputError(f"missing input {self.name!r}")

    @abstractmethod
    def encode(self, array: np.ndarray) -> np.ndarray:
        """The array that the graph takes. Raises InputError."""

    @abstractmethod
    def feature_type(self, type: TensorType) -> TensorType:
        """The type in which a pipeline hands on an array of this type to its models."""

    @abstractmethod
    def blob(self, builder: GraphBuilder, type: TensorType) -> Value:
        """Value that the layers see, of a new graph input for a user's array of this type."""


class ArrayInput(Input):
    """A multi array: float32, in the rank of the network's shape mapping."""

    def __init__(
        self, name: str, shapes: InputShapes, rank5: bool, default: float | None = None
    ) -> None:
        self.shapes, self.rank5, self._default = shapes, rank5, default
        self.optional = default is not None
        pattern = None if rank5 and not shapes.default else shapes.pattern
        self.spec = TensorSpec(name, pattern, np.dtype(np.float32))
        self.shape_hint = shapes.hint

    def default(self) -> np.ndarray:
        shape = self.shapes.default or (1,)
        what = f"the default of {self.name!r} has the shape {list(shape)}"
        if math.prod(shape) >= MAX_ELEMENTS:
            raise InputError(f"{what}, which no tensor has")
        make_room(4 * math.prod(shape), what)
        return np.full(shape, self._default or 0.0, np.float32)

    def encode(self, array: np.ndarray) -> np.ndarray:
        if array.dtype.kind not in "fiub":
            raise InputError(f"input {self.name!r} takes numbers, not {array.dtype}")
        shape = self.mapped(array.shape)
        with np.errstate(all="ignore"):
            return np.ascontiguousarray(array, np.float32).reshape(shape)

    def feature_type(self, type: TensorType) -> TensorType:
        return TensorType(type.dims or (1,), DType.FLOAT32)

    def blob(self, builder: GraphBuilder, type: TensorType) -> Value:
        return builder.input(self.name, TensorType(self.mapped(type.dims)))

    def mapped(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The blob's shape for an array of this shape. Raises InputError for other shapes."""
        given = tuple(shape) or (1,)
        if not self.rank5:
            if not self.shapes.allow(given):
                self._refuse(given)
            return given
        if len(given) not in (1, 3, 5):
            raise InputError(
                f"input {self.name!r} has the shape {list(given)}; this model takes rank 1, 3 or 5"
            )
        blob = rank5_shape(given)
        declared = self.shapes.default
        if not self.shapes.allow(given) and len(declared) in (1, 3):
            # In another rank than declared, and with any number of steps and batches.
            inner = blob[2:] if len(declared) == 3 else blob[2:3]
            ones = blob[3:] if len(declared) == 1 else ()
            if len(given) == len(declared) or not self.shapes.allow(inner) or set(ones) > {1}:
                self._refuse(given)
        return blob

    def _refuse(self, given: tuple[int, ...]) -> None:
        raise InputError(
            f"input {self.name!r} has the shape {list(given)}, the model takes {self.shapes}"
        )


def rank5_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """[C] and [C, H, W] as [Seq, Batch, C, H, W]."""
    if len(shape) == 1:
        return (1, 1, shape[0], 1, 1)
    return (1, 1, *shape) if len(shape) == 3 else tuple(shape)


class ImageInput(Input):
    """An image: uint8 height x width, or height x width x 3 in RGB whatever the model's own order
    is.

    ``preprocess``: the network's steps from pixels to the blob; ``rank``: of the blob, 4 or 5.
    """

    def __init__(
        self,
        name: str,
        shapes: InputShapes,
        color: int,
        rank: int,
        preprocess: Sequence[Preprocess],
    ) -> None:
        self.shapes, self.color, self.rank = shapes, color, rank
        self.steps = tuple(preprocess)
        self.gray = color in GRAY
        channels = () if self.gray else (3,)
        size = shapes.pattern or (None, None)
        self.spec = TensorSpec(name, (*size, *channels), np.dtype(np.uint8))
        self.shape_hint = (*shapes.hint, *channels) if shapes.hint else None

    def prepare(self, given: Any) -> Any:
        if hasattr(given, "convert") and hasattr(given, "mode"):  # a PIL image
            mode = "L" if self.gray else "RGB"
            floats = self.gray and given.mode == "F"
            return np.asarray(given if given.mode == mode or floats else given.convert(mode))
        return given

    def encode(self, array: np.ndarray) -> np.ndarray:
        array = self._trimmed(array)
        self.check(array.shape)
        if array.dtype.kind == "f":
            return np.ascontiguousarray(array, np.float32)
        if array.dtype.kind not in "iu" or (
            array.size and not 0 <= array.min() <= array.max() < 256
        ):
            raise InputError(
                f"input {self.name!r} takes pixels from 0 to 255; this {array.dtype} array has "
                "others"
            )
        return np.ascontiguousarray(array, np.uint8)

    def check(self, shape: Sequence[int]) -> None:
        """Check: InputError unless an image of this shape fits."""
        kind = "height x width" if self.gray else "height x width x 3"
        fits = len(shape) == (2 if self.gray else 3) and (self.gray or shape[2] == 3)
        if not fits or 0 in shape:
            raise InputError(f"input {self.name!r} is an image, {kind}, not {list(shape)}")
        if not self.shapes.allow(shape[:2]):
            raise InputError(
                f"input {self.name!r} has height and width {list(shape[:2])}, the model takes "
                f"{self.shapes}; a session resizes no image (vknn run does): resize it before"
            )

    def feature_type(self, type: TensorType) -> TensorType:
        dims = type.dims[:2] if self.gray and type.dims[2:] in ((), (1,)) else type.dims
        self.check(dims)
        return TensorType(dims, DType.UINT8 if type.dtype is DType.UINT8 else DType.FLOAT32)

    def blob(self, builder: GraphBuilder, type: TensorType) -> Value:
        value = builder.input(self.name, self.feature_type(type))
        for step in self.steps:
            value = step(builder, value)
        return value

    def _trimmed(self, array: np.ndarray) -> np.ndarray:
        """The array without the channel axis that a grayscale image may have."""
        return array[..., 0] if self.gray and array.ndim == 3 and array.shape[2] == 1 else array


def read_input(feature: Any, network: Any, images: int, file: str | None) -> Input:
    """The input of a description; ``images``: the number of image inputs of the model."""
    kind = feature.type.WhichOneof("Type")
    what = f"input {feature.name!r}"
    if kind == "multiArrayType":
        message = feature.type.multiArrayType
        rank5 = network is not None and network.arrayInputShapeMapping == 0
        shapes = array_shapes(message, what, file)
        return ArrayInput(feature.name, shapes, rank5, _default(feature))
    if kind in ("int64Type", "doubleType"):
        rank5 = network is not None and network.arrayInputShapeMapping == 0
        return ArrayInput(feature.name, InputShapes((1,)), rank5, _default(feature))
    if kind == "imageType":
        message = feature.type.imageType
        color = message.colorSpace
        if color not in COLORS:
            raise ModelFormatError(f"{what} is an image without a colour space", file=file)
        shapes = image_shapes(message, what, file)
        rank = 4 if network is not None and network.imageInputShapeMapping == 1 else 5
        steps = preprocessing(feature.name, color, rank, shapes, network, images, file)
        return ImageInput(feature.name, shapes, color, rank, steps)
    if kind is None:
        raise ModelFormatError(f"{what} has no type", file=file)
    raise UnsupportedLayerError([f"{what} is of type {kind}, which no network takes"], file=file)


def _default(feature: Any) -> float | None:
    """The default of an optional input; None for a required one."""
    if not feature.type.isOptional:
        return None
    if feature.type.WhichOneof("Type") != "multiArrayType":
        return 0.0
    message = feature.type.multiArrayType
    field = message.WhichOneof("defaultOptionalValue")
    return float(getattr(message, field)) if field else 0.0
