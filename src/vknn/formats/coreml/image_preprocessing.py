"""Preprocessing of image inputs: channels first, in the model's order, scaled, less the mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vknn.errors import ModelFormatError, ShapeError
from vknn.formats.coreml.input_shapes import InputShapes
from vknn.formats.coreml.weights import float_array
from vknn.graph import DType, GraphBuilder, Op, Origin, Value
from vknn.ops.elementwise.binary import Add, Cast, Mul, Sub
from vknn.ops.movement.shape import Reshape, Slice, Transpose

#: A step from pixels to the blob.
Preprocess = Callable[[GraphBuilder, Value], Value]
#: Colour spaces of the file: GRAYSCALE and GRAYSCALE_FLOAT16, RGB, BGR.
GRAY, RGB, BGR = (10, 40), 20, 30
COLORS = (*GRAY, RGB, BGR)


def preprocessing(
    name: str,
    color: int,
    rank: int,
    shapes: InputShapes,
    network: Any,
    images: int,
    file: str | None,
) -> list[Preprocess]:
    """The steps for the image input ``name``; none without a network: pixels stay pixels."""
    if network is None:
        return []
    steps: list[Preprocess] = [_channels_first(name, color)]
    for entry in network.preprocessing:
        if entry.featureName != name and (entry.featureName or images > 1):
            continue
        kind = entry.WhichOneof("preprocessor")
        if kind == "scaler":
            steps.append(_scaler(name, color, entry.scaler))
        elif kind == "meanImage":
            mean = float_array(entry.meanImage, "meanImage")
            steps.append(_mean(name, color, shapes, mean, file))
    steps.append(_ranked(name, rank))
    return steps


def _add(builder: GraphBuilder, name: str, op: Op, *inputs: Value) -> Value:
    origin = Origin(name, "image")
    return builder.add(op, *inputs, origin=origin, name=f"{name}/{op.type_name}")


def _channels_first(name: str, color: int) -> Preprocess:
    def step(builder: GraphBuilder, x: Value) -> Value:
        if x.type.dtype is not DType.FLOAT32:
            x = _add(builder, name, Cast(DType.FLOAT32), x)
        if color in GRAY:
            return _add(builder, name, Reshape((1, *x.type.dims)), x)
        if color == BGR:
            x = _add(builder, name, Slice((-1,), (-4,), (2,), (-1,)), x)
        return _add(builder, name, Transpose((2, 0, 1)), x)

    return step


def _scaler(name: str, color: int, scaler: Any) -> Preprocess:
    scale = scaler.channelScale or 1.0  # writers always set it; 0 would make all images equal
    if color in GRAY:
        bias = [scaler.grayBias]
    else:
        bias = [scaler.redBias, scaler.greenBias, scaler.blueBias]
        bias = bias[::-1] if color == BGR else bias

    def step(builder: GraphBuilder, x: Value) -> Value:
        if scale != 1.0:
            factor = builder.constant(np.asarray(scale, np.float32), f"{name}/scale")
            x = _add(builder, name, Mul(), x, factor)
        if any(bias):
            column = np.asarray(bias, np.float32).reshape(-1, 1, 1)
            x = _add(builder, name, Add(), x, builder.constant(column, f"{name}/bias"))
        return x

    return step


def _mean(
    name: str, color: int, shapes: InputShapes, mean: np.ndarray, file: str | None
) -> Preprocess:
    channels = 1 if color in GRAY else 3
    if shapes.declared and mean.size != channels * shapes.declared[0] * shapes.declared[1]:
        raise ModelFormatError(
            f"the mean image of {name!r} has {mean.size} values, not {channels} x "
            f"{shapes.declared[0]} x {shapes.declared[1]}", file=file,
        )  # fmt: skip

    def step(builder: GraphBuilder, x: Value) -> Value:
        if mean.size != x.type.size:
            raise ShapeError(
                f"the mean image of {name!r} has {mean.size} values, not {x.type.size}"
            )
        constant = builder.constant(mean.reshape(x.type.dims), f"{name}/mean")
        return _add(builder, name, Sub(), x, constant)

    return step


def _ranked(name: str, rank: int) -> Preprocess:
    def step(builder: GraphBuilder, x: Value) -> Value:
        ones: Sequence[int] = (1,) * (rank - x.type.rank)
        return _add(builder, name, Reshape((*ones, *x.type.dims)), x)

    return step
