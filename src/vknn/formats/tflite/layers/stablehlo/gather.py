"""STABLEHLO_GATHER: windows at starts that are data, which are clamped so that windows fit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.layers.stablehlo.indices import bounded, grid, index_vectors
from vknn.formats.tflite.layers.stablehlo.shape import hold_to_declared
from vknn.formats.tflite.registry import operator
from vknn.formats.tflite.scatter_numbers import strictly_rising
from vknn.graph import Value
from vknn.ops import elementwise as ew
from vknn.ops.indexing.gather import Gather, GatherND
from vknn.ops.movement.shape import Expand, Slice


@operator("STABLEHLO_GATHER", inputs=2, takes_quantized=True)
def gather(c: Context) -> Value:
    """A window of the operand for each vector of starts; ``collapsed_slice_dims`` are left out,
    the window's other axes are the ``offset_dims`` of the output."""
    dims, sizes = c.x.type.dims, tuple(c.options["slice_sizes"])
    named = tuple(c.options["start_index_map"])
    _check(c, sizes, named)
    starts = index_vectors(c, 1, c.options["index_vector_dim"], len(named))
    batch = starts.type.dims[:-1]
    axes_out = _output_axes(c, batch, sizes)
    # A window as large as its axis begins at 0 whatever its start is.
    moving = [i for i, a in enumerate(named) if sizes[a] != dims[a]]
    rest = [a for a in range(len(dims)) if a not in {named[i] for i in moving}]
    order = [*(named[i] for i in moving), *rest]
    x = _cut(c, c.transpose(c.x, order), len(moving), [sizes[a] for a in order])
    if moving:
        if len(moving) < len(named):
            columns = c.constant(np.array(moving, np.int32), "columns")
            starts = c.add(Gather(len(batch)), starts, columns)
        axes = [named[i] for i in moving]
        tuples = _tuples(c, starts, [dims[a] for a in axes], [sizes[a] for a in axes])
        y = c.add(GatherND(from_end=False), x, tuples)
    else:
        y = c.add(Expand((*batch, *x.type.dims)), x)
    return _arranged(c, y, axes_out, order)


def _check(c: Context, sizes: Sequence[int], named: Sequence[int]) -> None:
    dims, rank = c.x.type.dims, c.x.type.rank
    inside = len(sizes) == rank and all(0 <= s <= d for s, d in zip(sizes, dims, strict=True))
    c.require(inside, f"takes windows {list(sizes)} of {c.x.type}")
    good = strictly_rising(sorted(named), rank)
    c.require(good, f"has starts along the axes {list(named)} of {c.x.type}")
    left_out = c.options["collapsed_slice_dims"]
    good = strictly_rising(left_out, rank) and all(sizes[a] <= 1 for a in left_out)
    c.require(good, f"leaves out the axes {list(left_out)} of windows {list(sizes)}")


def _cut(c: Context, x: Value, first: int, sizes: Sequence[int]) -> Value:
    """``x`` with the windows of the axes from ``first`` on, which begin at 0."""
    axes = [a for a in range(first, len(sizes)) if sizes[a] < x.type.dims[a]]
    if not axes:
        return x
    return c.add(Slice((0,) * len(axes), tuple(sizes[a] for a in axes), tuple(axes)), x)


def _tuples(c: Context, starts: Value, dims: Sequence[int], sizes: Sequence[int]) -> Value:
    """Indices of all elements of all windows: [batch..., window..., axes]."""
    last = [d - s for d, s in zip(dims, sizes, strict=True)]
    found = bounded(c, starts, [0] * len(last), last)
    batch, count = found.type.dims[:-1], len(last)
    found = c.reshape(found, (*batch, *[1] * count, count))
    return found if set(sizes) == {1} else c.add(ew.Add(), found, grid(c, sizes))


def _output_axes(c: Context, batch: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """For each axis of the output the operand's axis; -1 for those of ``batch``, in order."""
    left_out, offsets = c.options["collapsed_slice_dims"], tuple(c.options["offset_dims"])
    kept = [a for a in range(len(sizes)) if a not in left_out]
    rank = len(batch) + len(kept)
    declared = c.target().shape  # TensorFlow Lite's kernel relies on its rank
    c.require(len(declared) == rank, f"has an output of shape {list(declared)}, not of {rank} axes")
    good = strictly_rising(offsets, rank) and len(offsets) == len(kept)
    c.require(good, f"puts the axes {kept} of windows at {list(offsets)} of {rank}")
    own = dict(zip(offsets, kept, strict=True))
    axes, free = [own.get(at, -1) for at in range(rank)], iter(batch)
    hold_to_declared(c, [sizes[a] if a != -1 else next(free) for a in axes])
    return axes


def _arranged(c: Context, y: Value, axes: Sequence[int], order: Sequence[int]) -> Value:
    """Windows [batch..., axes in ``order``] with their axes where the output has them.

    ``axes`` are those of :func:`_output_axes`; what they leave out has the size 1, or 0.
    """
    batches, rank = axes.count(-1), len(axes)
    free = iter(range(batches))
    perm = [batches + order.index(a) if a != -1 else next(free) for a in axes]
    y = c.transpose(y, [*perm, *(i for i in range(y.type.rank) if i not in perm)])
    if 0 in y.type.dims[rank:]:
        zero = c.constant(np.zeros((), y.type.dtype.numpy), "zero")
        return c.add(Expand(y.type.dims[:rank]), zero)
    return c.reshape(y, y.type.dims[:rank])
