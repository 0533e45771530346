"""Tile, Flip, Reorg, PixelShuffle, Diag, Packing."""

from __future__ import annotations

from vknn.formats.ncnn.axes import with_rank
from vknn.formats.ncnn.context import Context, as_image, rank, shape
from vknn.formats.ncnn.params import P, Params, param, require, require_axes
from vknn.formats.ncnn.registry import ANY, layer, same_type
from vknn.graph import Value, attributes
from vknn.ops.movement.rearrange import DepthToSpace, MatrixDiag, SpaceToDepth, Tile
from vknn.ops.movement.shape import Slice

_MODES = ("CRD", "DCR")


@attributes
class TileParams(Params):
    """Parameters of Tile."""

    axis: int = param(0)
    tiles: int = param(1, 1)
    repeats: tuple[int, ...] = param(2, ())

    def check(self) -> None:
        require(len(self.repeats) <= 4, f"repeats {list(self.repeats)} are more than four")
        require(min(self.repeats, default=1) > 0, f"repeats {list(self.repeats)} must be positive")
        require(self.tiles > 0, f"tiles {self.tiles} must be positive")
        require(0 <= self.axis < 4, f"axis {self.axis} is not one of 0 to 3")


@layer("Tile", params=TileParams, accepts=ANY, result=same_type)
def tile(c: Context[TileParams]) -> Value:
    """The input repeated: innermost axes by ``repeats``, as in NumPy, or one axis by ``tiles``.

    ncnn differs: a 1-D blob is repeated whatever axis is; an axis that a blob of rank 2 or more
    lacks repeats nothing.
    ncnn differs: four repeats of a 3-D blob are those of c, d, h and w, its d being 1: the new
    axis comes second, not first.
    """
    p, sizes = c.params, shape(c.x)
    if not p.repeats:
        axis = 0 if len(sizes) == 1 else p.axis
        repeats = tuple(p.tiles if a == axis else 1 for a in range(len(sizes)))
    else:
        count = max(len(sizes), len(p.repeats))
        sizes = with_rank(sizes, count)
        repeats = (1,) * (count - len(p.repeats)) + p.repeats
    x = c.reshape(c.x, (1, *sizes))
    return x if max(repeats) == 1 else c.add(Tile((1, *repeats)), x)


@attributes
class FlipParams(Params):
    """Parameters of Flip."""

    axes: tuple[int, ...] = param(0, ())

    def check(self) -> None:
        require_axes(self.axes)


@layer("Flip", params=FlipParams, accepts=ANY, result=same_type)
def flip(c: Context[FlipParams]) -> Value:
    """The input reversed along ``axes``, if there are any.

    ncnn differs: a 1-D blob is reversed whatever axes are, and axes that a blob lacks are ignored.
    """
    n = rank(c.x)
    axes = {a + n if a < 0 else a for a in c.params.axes}
    if n == 1 and axes:
        axes = {0}
    chosen = tuple(a + 1 for a in sorted(axes) if 0 <= a < n and shape(c.x)[a] > 1)
    if not chosen:
        return c.x
    ends = tuple(-c.x.type.dims[a] - 1 for a in chosen)
    count = len(chosen)
    op = Slice(starts=(-1,) * count, ends=ends, axes=chosen, steps=(-1,) * count)
    return c.add(op, c.x)


@attributes
class ReorgParams(Params):
    """Parameters of Reorg."""

    stride: int = param(0, 1)
    mode: int = param(1)

    def check(self) -> None:
        require(self.stride > 0, f"stride {self.stride} must be positive")
        require(0 <= self.mode < len(_MODES), f"unknown mode {self.mode}")


@layer("Reorg", params=ReorgParams, accepts=ANY, result=same_type)
def reorg(c: Context[ReorgParams]) -> Value:
    """Blocks of stride x stride pixels as channels; incomplete blocks are dropped.

    ncnn differs: of a 4-D blob ncnn reads the first d only; vknn refuses it.
    """
    stride, x = c.params.stride, as_image(c, c.x)
    _, channels, h, w = x.type.dims
    c.require(h >= stride and w >= stride, f"{list(shape(c.x))} has no block of {stride}")
    x = _cut(c, x, (channels, h - h % stride, w - w % stride))
    return x if stride == 1 else c.add(SpaceToDepth(stride, _MODES[c.params.mode]), x)


@attributes
class PixelShuffleParams(Params):
    """Parameters of PixelShuffle."""

    upscale_factor: int = param(0, 1)
    mode: int = param(1)

    def check(self) -> None:
        require(self.upscale_factor > 0, f"upscale_factor {self.upscale_factor} must be positive")
        require(0 <= self.mode < len(_MODES), f"unknown mode {self.mode}")


@layer("PixelShuffle", params=PixelShuffleParams, accepts=ANY, result=same_type)
def pixel_shuffle(c: Context[PixelShuffleParams]) -> Value:
    """Channels as blocks of factor x factor pixels.

    ncnn differs: channels that do not fill a block are dropped.
    ncnn differs: of a 4-D blob ncnn reads the first d only; vknn refuses it.
    """
    factor, x = c.params.upscale_factor, as_image(c, c.x)
    _, channels, h, w = x.type.dims
    places = factor * factor
    c.require(channels >= places, f"{channels} channels do not fill a block of {places}")
    x = _cut(c, x, (channels - channels % places, h, w))
    return x if factor == 1 else c.add(DepthToSpace(factor, _MODES[c.params.mode]), x)


def _cut(c: Context[P], x: Value, sizes: tuple[int, ...]) -> Value:
    """The first ``sizes`` elements along each axis."""
    axes = tuple(a for a, size in enumerate(sizes, 1) if x.type.dims[a] != size)
    if not axes:
        return x
    ends = tuple(sizes[a - 1] for a in axes)
    return c.add(Slice(starts=(0,) * len(axes), ends=ends, axes=axes), x)


@attributes
class DiagParams(Params):
    """Parameters of Diag."""

    diagonal: int = param(0)

    def check(self) -> None:
        require(abs(self.diagonal) < 1 << 24, f"absurd diagonal {self.diagonal}")


@layer("Diag", params=DiagParams, accepts=ANY, result=same_type)
def diag(c: Context[DiagParams]) -> Value:
    """A matrix with a vector as its diagonal, or a diagonal of a matrix.

    ncnn differs: a diagonal outside the matrix gives an empty blob; vknn refuses it.
    """
    k, n = c.params.diagonal, rank(c.x)
    c.require(n <= 2, f"takes a 1-D or 2-D blob, not {list(shape(c.x))}")
    if n == 1:
        return c.add(MatrixDiag(k), c.x)
    h, w = shape(c.x)
    count = min(h - max(-k, 0), w - max(k, 0))
    c.require(count > 0, f"diagonal {k} lies outside a matrix of {h} x {w}")
    # Neighbours on a diagonal are w + 1 elements apart.
    start = max(-k, 0) * w + max(k, 0)
    flat = c.reshape(c.x, (1, h * w))
    end = start + (count - 1) * (w + 1) + 1
    return c.add(Slice(starts=(start,), ends=(end,), axes=(1,), steps=(w + 1,)), flat)


@attributes
class PackingParams(Params):
    """Parameters of Packing; those of casts have no effect in ncnn's CPU path."""

    out_elempack: int = param(0, 1)
    use_padding: int = param(1)
    cast_type_from: int = param(2)
    cast_type_to: int = param(3)
    storage_type_from: int = param(4)
    storage_type_to: int = param(5)

    def check(self) -> None:
        require(self.out_elempack > 0, f"out_elempack {self.out_elempack} must be positive")


@layer("Packing", params=PackingParams, accepts=ANY, result=same_type)
def packing(c: Context[PackingParams]) -> Value:
    """The input itself: only the layout in ncnn's memory changes.

    ncnn differs: with use_padding it rounds up the outermost axis by undefined elements; vknn
    refuses layers that would add some.
    """
    p, outermost = c.params, shape(c.x)[0]
    c.require(
        not p.use_padding or outermost % p.out_elempack == 0,
        f"use_padding would add undefined elements to {outermost} for lanes of {p.out_elempack}",
    )
    return c.x
