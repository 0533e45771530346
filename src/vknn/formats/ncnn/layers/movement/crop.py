"""Crop: a block of a blob, given by offsets, lists, expressions, or another blob."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vknn.formats.ncnn.axes import axis_names, with_rank
from vknn.formats.ncnn.context import Context, rank, shape
from vknn.formats.ncnn.params import Params, param, require, require_axes
from vknn.formats.ncnn.registry import ANY, layer, same_type
from vknn.formats.ncnn.shape_expression import evaluate
from vknn.graph import DType, Value, attributes
from vknn.ops.movement.shape import Slice

#: Value of sizes that are all that is left, of open starts and ends, and of woffset where the
#: second input holds offsets and sizes.
_OPEN = -233

#: Rank -> indices of (offset, size) of each axis, outermost first, in the parameter blob.
_BLOB_SLOTS = {
    1: ((0, 3),),
    2: ((1, 4), (0, 3)),
    3: ((2, 5), (1, 4), (0, 3)),
    4: ((3, 7), (2, 6), (1, 5), (0, 4)),
}


@attributes
class CropParams(Params):
    """Parameters of Crop."""

    woffset: int = param(0)
    hoffset: int = param(1)
    doffset: int = param(13)
    coffset: int = param(2)
    outw: int = param(3)
    outh: int = param(4)
    outd: int = param(14)
    outc: int = param(5)
    woffset2: int = param(6)
    hoffset2: int = param(7)
    doffset2: int = param(15)
    coffset2: int = param(8)
    starts: tuple[int, ...] = param(9, ())
    ends: tuple[int, ...] = param(10, ())
    axes: tuple[int, ...] = param(11, ())
    starts_expr: str = param(19, "")
    ends_expr: str = param(20, "")
    axes_expr: str = param(21, "")

    @property
    def by_expression(self) -> bool:
        """True where shape expressions give starts and ends."""
        return bool(self.starts_expr and self.ends_expr)

    @property
    def by_lists(self) -> bool:
        """True where lists give starts and ends."""
        return bool(self.starts and self.ends)

    @property
    def by_blob(self) -> bool:
        """True where the second input gives the block, as no parameter does."""
        sizes = (self.outw, self.outh, self.outd, self.outc)
        cuts = (self.woffset2, self.hoffset2, self.doffset2, self.coffset2)
        return not (any(sizes) or any(cuts) or self.by_lists or self.by_expression)

    def of_axis(self, stem: str, names: str) -> list[int]:
        """A parameter of each axis: of_axis("{}offset", "chw") is [coffset, hoffset, woffset]."""
        return [getattr(self, stem.format(name)) for name in names]

    def check(self) -> None:
        require(len(self.starts) == len(self.ends), "starts and ends differ in length")
        require(len(self.starts) <= 4, f"starts {list(self.starts)} are more than four")
        listed = len(self.axes) or len(self.starts)
        require(listed == len(self.starts), f"{listed} axes for {len(self.starts)} starts")
        require_axes(self.axes)


def _value_slots(p: CropParams) -> Sequence[int]:
    """The second input, where its data give the block (woffset is -233)."""
    return (1,) if p.by_blob and p.woffset == _OPEN else ()


@layer(
    "Crop",
    params=CropParams,
    inputs=(1, None),
    accepts=ANY,
    result=same_type,
    value_slots=_value_slots,
)
def crop(c: Context[CropParams]) -> Value:
    """Block of the input."""
    p, sizes = c.params, shape(c.x)
    if p.by_expression:
        shapes = [shape(x) for x in c.inputs]
        lists = [evaluate(e, shapes) for e in (p.starts_expr, p.ends_expr, p.axes_expr)]
        offsets, wanted = _from_lists(c, *lists)
    elif p.by_lists:
        offsets, wanted = _from_lists(c, p.starts, p.ends, p.axes)
    elif p.by_blob:
        c.require(len(c.inputs) == 2, "takes a second input that says what to cut")
        offsets, wanted = _from_data(c) if p.woffset == _OPEN else _from_reference(c)
    else:
        offsets, wanted = _from_offsets(c)
    ends = [offset + n for offset, n in zip(offsets, wanted, strict=True)]
    good = all(0 <= a < b <= n for a, b, n in zip(offsets, ends, sizes, strict=True))
    c.require(good, f"cannot cut {wanted} at {offsets} out of {list(sizes)}")
    cut = [i for i, n in enumerate(sizes) if wanted[i] != n]
    if not cut:
        return c.x
    op = Slice(
        starts=tuple(offsets[i] for i in cut),
        ends=tuple(ends[i] for i in cut),
        axes=tuple(i + 1 for i in cut),
        steps=(1,) * len(cut),
    )
    return c.add(op, c.x)


def _axis_names(c: Context[CropParams]) -> str:
    return axis_names(rank(c.x))


def _from_offsets(c: Context[CropParams]) -> tuple[list[int], list[int]]:
    names = _axis_names(c)
    offsets = c.params.of_axis("{}offset", names)
    asked = c.params.of_axis("out{}", names)
    cuts = c.params.of_axis("{}offset2", names)
    wanted = []
    for n, offset, out, cut in zip(shape(c.x), offsets, asked, cuts, strict=True):
        rest = n - offset - cut
        wanted.append(rest if out == _OPEN else min(out, rest))
    return offsets, wanted


def _from_lists(
    c: Context[CropParams], starts: Sequence[int], ends: Sequence[int], axes: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Offsets and sizes of slices as in NumPy, except that an end of 0 is the full size."""
    n = rank(c.x)
    listed = [a + n if a < 0 else a for a in axes] or list(range(min(n, len(starts))))
    c.require(
        len(starts) >= len(listed) and len(ends) >= len(listed) and all(0 <= a < n for a in listed),
        f"axes {list(axes)} with {len(starts)} starts do not suit {list(shape(c.x))}",
    )
    offsets, wanted = [0] * n, list(shape(c.x))
    for axis, start, end in zip(listed, starts, ends, strict=False):
        size = shape(c.x)[axis]
        first = 0 if start == _OPEN else start + size if start < 0 else start
        last = size if end == _OPEN else end + size if end <= 0 else end
        offsets[axis], wanted[axis] = first, min(size, last) - first
    return offsets, wanted


def _from_reference(c: Context[CropParams]) -> tuple[list[int], list[int]]:
    """Offsets, and sizes of the second input; its channels count only where ranks are equal."""
    names, other = _axis_names(c), shape(c.inputs[1])
    offsets = c.params.of_axis("{}offset", names)
    own = shape(c.x)
    inner = other if len(other) == len(own) else with_rank(other, len(own))
    wanted = list(inner)
    if len(own) >= 3 and len(other) != len(own):
        wanted[0] = own[0]
    return offsets, wanted


def _from_data(c: Context[CropParams]) -> tuple[list[int], list[int]]:
    data = c.inputs[1].constant
    if data is None:
        c.fail("its parameter blob must be an input of the network or MemoryData")
    # MemoryData keeps the integers' bits in a blob of floats.
    if c.inputs[1].type.dtype is DType.FLOAT32:
        data = np.ascontiguousarray(data).view(np.int32)
    numbers = [int(n) for n in data.reshape(-1)]
    slots = _BLOB_SLOTS[rank(c.x)]
    needed = max(max(pair) for pair in slots) + 1
    c.require(len(numbers) >= needed, f"its parameter blob has {len(numbers)} of {needed} numbers")
    return [numbers[a] for a, _ in slots], [numbers[b] for _, b in slots]
