"""Forms of inputs and outputs as the user has them: shape, element type, order of elements.

A model says them only by what its ``encode`` and ``decode`` make of arrays; so these are asked with
arrays of zeros, and outputs once more with numbers that tell elements apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vknn.bundle.conversions import AxisOrder
from vknn.bundle.schema import MOST_AXES, PortElement
from vknn.errors import ExportError, VknnError
from vknn.formats import Model
from vknn.graph import DType, TensorType
from vknn.ops.elementwise.binary import Cast

#: Numbers that a probe counts up to: exact in float16, and a prime, in step with no axis.
_COUNT = 97


@dataclass(frozen=True)
class ArrayForm:
    """An array as the user has it.

    ``order``: of its elements in the graph's; None: the same. ``rounds``: its integers are the
    nearest ones to the graph's floats. ``nan_to_most``: NaN is the largest of them, else 0.
    ``open_axis``: the axis whose size depends on data.
    """

    dims: tuple[int, ...]
    dtype: np.dtype
    order: AxisOrder | None = None
    rounds: bool = False
    nan_to_most: bool = False
    open_axis: int = 0

    @property
    def element(self) -> PortElement:
        """The element type as a bundle has it."""
        return PortElement[self.dtype.name.upper()]

    @property
    def type(self) -> TensorType:
        """The type as a graph has it."""
        return TensorType(self.dims, DType.of(np.empty(0, self.dtype)))


def input_form(
    model: Model, name: str, type_: TensorType, given: Mapping[str, TensorType]
) -> ArrayForm:
    """Form of an input that the graph takes in this type; ``given``: the user's own types.

    Raises ExportError.
    """
    spec = next((s for s in model.inputs if s.name == name), None)
    dtype = type_.dtype.numpy if spec is None else spec.dtype
    _check(name, "input", dtype)
    for dims in _likely_shapes(model, name, type_, given):
        for wanted in (dtype, type_.dtype.numpy):
            if _encoded(model, name, dims, wanted) == (type_.dims, type_.dtype.numpy):
                return _ranked(name, ArrayForm(dims, wanted))
        if _encoded(model, name, dims, dtype) == (type_.dims, dtype):
            return _ranked(name, ArrayForm(dims, dtype))  # a cast from int64 that the port does
    raise ExportError(
        [f"input {name!r}: what the model makes of an array for {type_} is no plain conversion"],
        file=model.file,
    )


def _likely_shapes(
    model: Model, name: str, type_: TensorType, given: Mapping[str, TensorType]
) -> list[tuple[int, ...]]:
    """Shapes that the user's array may have, of as many elements as the graph's."""
    shapes = [given[name].dims] if name in given else []
    hint = model.shape_hints.get(name)
    shapes += [hint] if hint is not None else []
    dims = type_.dims
    shapes += [dims, dims[1:], dims[2:], dims[2:3]]
    return [s for s in shapes if int(np.prod(s)) == type_.size]


def _encoded(
    model: Model, name: str, dims: tuple[int, ...], dtype: np.dtype
) -> tuple[tuple[int, ...], np.dtype] | None:
    """Shape and dtype of what the graph takes for zeros; None where the model refuses them."""
    try:
        made = model.encode(name, np.zeros(dims, dtype))
    except VknnError:
        return None
    return made.shape, made.dtype


def output_form(
    model: Model, name: str, type_: TensorType, open_axis: int | None, own: DType | None = None
) -> ArrayForm:
    """Form of an output of this type; ``open_axis``: the one whose size depends on data.

    ``own``: element type that the model's graph has there, before any is narrowed (``ends``).

    Raises ExportError.
    """
    if name in model.output_images:
        return _picture(model, name, type_)
    zeros = np.zeros(type_.dims, type_.dtype.numpy)
    made = decoded(model, name, zeros)
    if isinstance(made, int | float) and not isinstance(made, np.generic):
        whole = isinstance(made, int)
        return ArrayForm((), np.dtype(np.int64 if whole else np.float64), rounds=whole)
    made = np.asarray(made)
    dtype = _declared(model, name, made.dtype)
    if own not in (None, type_.dtype) and dtype == made.dtype:
        assert own is not None
        dtype = np.asarray(decoded(model, name, np.zeros(type_.dims, own.numpy))).dtype
    _check(name, "output", dtype)
    counted = (np.arange(type_.size) % _COUNT).astype(zeros.dtype).reshape(type_.dims)
    seen = np.asarray(decoded(model, name, counted))
    if seen.size != counted.size or not np.array_equal(seen.reshape(-1), counted.reshape(-1)):
        raise ExportError(
            [f"output {name!r} is made by the host of what the network gives; ask for the blob"],
            file=model.file,
        )
    if name in model.class_labels:  # however many axes the blob has
        return ArrayForm((type_.size,), dtype)
    axis = 0 if open_axis is None else _open_axis(model, name, type_, open_axis)
    most = model.nan_to_most
    return _ranked(name, ArrayForm(made.shape, dtype, nan_to_most=most, open_axis=axis))


def _declared(model: Model, name: str, found: np.dtype) -> np.dtype:
    """The dtype that the model declares, where the graph has none of it (``ends``), else found."""
    spec = next((s for s in model.outputs if s.name == name), None)
    if spec is None or spec.dtype.kind == "O" or spec.dtype == found:
        return found
    return found if DType.of(np.empty(0, spec.dtype)).on_device else spec.dtype


def _open_axis(model: Model, name: str, type_: TensorType, axis: int) -> int:
    """The axis of the user's array that is as long as the graph's open one. Raises ExportError."""
    shapes = []
    for size in (1, 2):
        dims = (*type_.dims[:axis], size, *type_.dims[axis + 1 :])
        shapes.append(np.shape(decoded(model, name, np.zeros(dims, type_.dtype.numpy))))
    one, two = shapes
    apart = [i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b]
    if len(one) != len(two) or len(apart) != 1 or set(one[: apart[0]]) > {1}:
        raise ExportError([f"output {name!r}: its shape depends on data in more than one axis"])
    return apart[0]


def _picture(model: Model, name: str, type_: TensorType) -> ArrayForm:
    """Form of a picture, height x width x 3 or height x width, of planes of floats."""
    height, width = type_.dims[-2:]
    planes = type_.size // (height * width)
    numbered = np.repeat(np.arange(planes), height * width).astype(type_.dtype.numpy)
    made = decoded(model, name, numbered.reshape(type_.dims))
    if made.ndim == 2:
        return ArrayForm((height, width), made.dtype, rounds=True)
    colours = [int(c) for c in made[0, 0]]
    plane = height * width
    order = AxisOrder((height, width, planes), (width, 1, plane))
    if colours != list(range(planes)):
        order = AxisOrder((height, width, planes), (width, 1, -plane), plane * (planes - 1))
    return ArrayForm((height, width, planes), made.dtype, order, rounds=True)


def _check(name: str, what: str, dtype: np.dtype) -> None:
    """Check of an element type. Raises ExportError."""
    if dtype.name.upper() not in PortElement.__members__:
        kind = "strings" if dtype.kind == "O" else f"{dtype.name} elements"
        raise ExportError([f"{what} {name!r} has {kind}, which no bundle has: cut it off"])


def _ranked(name: str, form: ArrayForm) -> ArrayForm:
    """Check of the rank. Raises ExportError."""
    if len(form.dims) > MOST_AXES:
        raise ExportError(
            [f"{name!r} has {len(form.dims)} axes, a port at most {MOST_AXES}: reshape it"]
        )
    return form


def decoded(model: Model, name: str, array: np.ndarray) -> Any:
    """The user's value for an output of the graph: one of the model's, or a blob."""
    if any(spec.name == name for spec in model.outputs):
        return model.decode(name, array)
    return model.decode_blob(array)


def user_array(form: ArrayForm, made: Any) -> np.ndarray:
    """Array of a form, of what a session gives or takes; element types change as by a Cast."""
    array = np.asarray(made)
    if array.dtype != form.dtype:
        (array,) = Cast(form.type.dtype, form.nan_to_most).reference(array)
    dims = array.shape if array.ndim == len(form.dims) else form.dims
    return np.ascontiguousarray(array).reshape(dims)
