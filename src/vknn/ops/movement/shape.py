"""Identity, Reshape, Transpose, Slice, Pad, Concat, Expand and ChannelShuffle."""

from __future__ import annotations

import math

import numpy as np

from vknn.errors import ShapeError
from vknn.graph import Op, TensorType, attributes
from vknn.ops.common.checks import (
    arguments,
    broadcast,
    fits,
    normal_axis,
    require,
    require_dtype,
    require_vector,
)


@attributes
class Identity(Op):
    """x"""

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        return (x,)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        return (x,)


@attributes
class Reshape(Op):
    """x in row-major order with another shape; one dimension may be -1 and is worked out."""

    shape: tuple[int, ...]

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        holes = self.shape.count(-1)
        if holes > 1 or min(self.shape, default=0) < -1:
            raise ShapeError(f"Reshape: {self.shape} is not a shape")
        if not x.is_static:
            return (x.with_shape(tuple(None if d == -1 else d for d in self.shape)),)
        known = math.prod(d for d in self.shape if d != -1)
        if (known == 0 or x.size % known) if holes else x.size != known:
            raise ShapeError(f"Reshape: {x} has {x.size} elements, which do not fill {self.shape}")
        return (x.with_shape(tuple(x.size // known if d == -1 else d for d in self.shape)),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        return (x.reshape(self.shape),)


@attributes
class Transpose(Op):
    """Axis i of the output is axis perm[i] of x."""

    perm: tuple[int, ...]

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        if sorted(self.perm) != list(range(x.rank)):
            raise ShapeError(f"Transpose: perm {self.perm} does not permute the axes of {x}")
        return (x.with_shape(tuple(x.shape[p] for p in self.perm)),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        return (np.ascontiguousarray(x.transpose(self.perm)),)


@attributes
class Slice(Op):
    """x[start:end:step] along each of ``axes``.

    Negative starts and ends count from the end and are clamped to the axis, as in Python; a
    negative step walks backwards. ``axes`` and ``steps`` left out are the first axes and 1.
    """

    starts: tuple[int, ...]
    ends: tuple[int, ...]
    axes: tuple[int, ...] | None = None
    steps: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.axes is None:
            object.__setattr__(self, "axes", tuple(range(len(self.starts))))
        if self.steps is None:
            object.__setattr__(self, "steps", (1,) * len(self.starts))

    def ranges(self, rank: int) -> dict[int, slice]:
        """The slice of each axis named; raises ShapeError for axes that are absent or repeated."""
        axes, steps = self.axes or (), self.steps or ()
        lengths = {len(self.starts), len(self.ends), len(axes), len(steps)}
        require(len(lengths) == 1, f"Slice: starts, ends, axes and steps differ in length: {self}")
        require(0 not in steps, f"Slice: a step is 0: {self}")
        normal = [normal_axis(self, a, rank) for a in axes]
        require(len(set(normal)) == len(normal), f"Slice: axes {axes} repeat")
        parts = [slice(*p) for p in zip(self.starts, self.ends, steps, strict=True)]
        return dict(zip(normal, parts, strict=True))

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        shape = list(x.shape)
        for axis, part in self.ranges(x.rank).items():
            size = x.shape[axis]
            shape[axis] = None if size is None else len(range(*part.indices(size)))
        return (x.with_shape(tuple(shape)),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        parts = [slice(None)] * x.ndim
        for axis, part in self.ranges(x.ndim).items():
            parts[axis] = part
        return (np.ascontiguousarray(x[tuple(parts)]),)


@attributes
class Pad(Op):
    """x with pads (begins of all axes, then ends) around it.

    ``mode``: "constant" (``value``, or the optional second input: a vector with a value for each
    index of axis 1 of the output), "edge" (the nearest element), "reflect" (mirrored without
    repeating the edge; a pad must be smaller than its axis) or "symmetric" (mirrored with the edge;
    a pad may be as large as its axis).
    """

    pads: tuple[int, ...]
    mode: str = "constant"
    value: float = 0.0

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        x, values = arguments(self, inputs, 1, optional=1)
        known = self.mode in ("constant", "edge", "reflect", "symmetric")
        require(known, f"Pad: no mode {self.mode!r}")
        if len(self.pads) != 2 * x.rank or min(self.pads, default=0) < 0:
            raise ShapeError(f"Pad: pads {self.pads} should be {2 * x.rank} numbers from 0 on")
        if x.dtype.is_integer:
            info = np.iinfo(x.dtype.numpy)
            held = info.min <= self.value <= info.max
            require(held, f"Pad: {self.value:g} is no {x.dtype.value}")
        shape = []
        for size, (before, after) in zip(x.shape, self._widths(x.rank), strict=True):
            self._check(size, max(before, after))
            shape.append(None if size is None else size + before + after)
        if values is not None:
            require(self.mode == "constant", f"Pad: mode {self.mode!r} takes no values")
            require(x.rank >= 2, f"Pad: {x} has no axis 1 to take values along")
            require_dtype(self, x.dtype, values)
            require_vector(self, "values", values, shape[1])
        return (x.with_shape(tuple(shape)),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        x, values = arguments(self, inputs, 1, optional=1)
        widths = self._widths(x.ndim)
        if self.mode != "constant":
            return (np.pad(x, widths, mode=self.mode),)  # type: ignore[call-overload]
        if values is None:
            return (np.pad(x, widths, constant_values=x.dtype.type(self.value)),)
        shape = [s + a + b for s, (a, b) in zip(x.shape, widths, strict=True)]
        y = np.empty(shape, x.dtype)
        y[...] = values.reshape(-1, *[1] * (x.ndim - 2))
        y[tuple(slice(a, a + s) for s, (a, _) in zip(x.shape, widths, strict=True))] = x
        return (y,)

    def _widths(self, rank: int) -> list[tuple[int, int]]:
        return list(zip(self.pads[:rank], self.pads[rank:], strict=True))

    def _check(self, size: int | None, most: int) -> None:
        if size is None or not most:
            return
        largest = {"reflect": size - 1, "symmetric": size}
        if most > largest.get(self.mode, most) or (self.mode == "edge" and size == 0):
            raise ShapeError(f"Pad: {self.mode} by {most} does not suit an axis of {size}")


@attributes
class Concat(Op):
    """The inputs (one or more) joined along ``axis``."""

    axis: int

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        require(len(inputs) > 0, "Concat: no inputs")
        first, *others = types = arguments(self, inputs, len(inputs))
        axis = normal_axis(self, self.axis, first.rank)
        require_dtype(self, first.dtype, *others)
        shape = list(first.shape)
        for type_ in others:
            require(type_.rank == first.rank, f"Concat: ranks of {first} and {type_} differ")
            for place, size in enumerate(type_.shape):
                same = place == axis or fits(shape[place], size)
                require(same, f"Concat: {first} and {type_} differ along axis {place}")
                shape[place] = size if shape[place] is None else shape[place]
        sizes = [t.shape[axis] for t in types]
        shape[axis] = None if None in sizes else sum(sizes)
        return (first.with_shape(tuple(shape)),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        return (np.concatenate(arguments(self, inputs, len(inputs)), axis=self.axis),)


@attributes
class Expand(Op):
    """x broadcast with ``shape`` by NumPy's rules (a 1 in ``shape`` keeps the dimension of x)."""

    shape: tuple[int, ...]

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        require(min(self.shape, default=0) >= 0, f"Expand: {self.shape} is not a shape")
        return (x.with_shape(broadcast(self, x.shape, self.shape)),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        shape = np.broadcast_shapes(x.shape, self.shape)
        return (np.broadcast_to(x, shape).copy(),)


@attributes
class ChannelShuffle(Op):
    """Axis 1, seen as [group, C/group], transposed to [C/group, group]."""

    group: int

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        require(x.rank >= 2, f"ChannelShuffle: {x} has no channel axis")
        channels = x.shape[1]
        if self.group < 1 or (channels is not None and channels % self.group):
            raise ShapeError(f"ChannelShuffle: {self.group} groups do not divide {x}")
        return (x,)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        n, c, *rest = x.shape
        groups = x.reshape(n, self.group, c // self.group, *rest)
        return (groups.swapaxes(1, 2).reshape(x.shape),)
