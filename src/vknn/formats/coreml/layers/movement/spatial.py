"""crop, padding and reorganizeData: layers that move rows and columns."""

from __future__ import annotations

from vknn.formats.coreml import coreml_pb2 as pb
from vknn.formats.coreml.context import Context
from vknn.formats.coreml.layers.common.batch import merge_batch, merges_batch_axes, restore_batch
from vknn.formats.coreml.layers.common.windows import read_border_amounts, sizes
from vknn.formats.coreml.registry import layer
from vknn.graph import Value
from vknn.ops.movement.rearrange import DepthToSpace, SpaceToDepth
from vknn.ops.movement.shape import Pad, Slice


@layer("crop", inputs=(1, 2))
@merges_batch_axes
def crop(c: Context) -> Value:
    """The last two axes cropped by amounts, or to the second input's sizes."""
    x, like = c.x, c.optional(1)
    c.require(x.type.rank >= 3, f"its input {x.type} has not rank 3 or more")
    height, width = x.type.dims[-2:]
    starts: tuple[int, ...]
    if like is None:
        (top, bottom), (left, right) = read_border_amounts(c, c.params.cropAmounts, "cropAmounts")
        starts, ends = (top, left), (height - bottom, width - right)
    else:
        same = like.type.rank == x.type.rank
        c.require(same, f"its inputs {x.type} and {like.type} differ in rank")
        starts = sizes(c, c.params.offset, (0, 0), "offset", 0)
        ends = (starts[0] + like.type.dims[-2], starts[1] + like.type.dims[-1])
    inside = all(s < e <= d for s, e, d in zip(starts, ends, (height, width), strict=True))
    c.require(inside, f"cuts {list(starts)} to {list(ends)} out of {x.type}")
    return c.add(Slice(starts, ends, axes=(-2, -1)), x)


@layer("padding")
@merges_batch_axes
def padding(c: Context) -> Value:
    """Padding of the last two axes: a number, reflection, or the edge."""
    p, x = c.params, c.x
    rank = x.type.rank
    c.require(rank >= 2, f"its input {x.type} has not rank 2 or more")
    (top, bottom), (left, right) = read_border_amounts(c, p.paddingAmounts)
    begins, ends = [0] * rank, [0] * rank
    begins[-2:], ends[-2:] = (top, left), (bottom, right)
    mode = {"reflection": "reflect", "replication": "edge"}.get(p.WhichOneof("PaddingType"))
    around = (*begins, *ends)
    if mode is None:
        return c.add(Pad(around, value=p.constant.value), x)
    return c.add(Pad(around, mode), x)


@layer("reorganizeData")
def reorganize_data(c: Context) -> Value:
    """Space to depth, depth to space, pixel shuffle."""
    p, kinds = c.params, pb.ReorganizeDataLayerParams
    x, lead = merge_batch(c, c.x, 4, least=3)
    block = int(p.blockSize)
    c.require(0 < block < 1 << 16, f"its blocks have {block} pixels a side")
    if p.mode == kinds.SPACE_TO_DEPTH:
        y = c.add(SpaceToDepth(block), x)
    elif p.mode == kinds.DEPTH_TO_SPACE:
        y = c.add(DepthToSpace(block), x)
    else:
        c.require(p.mode == kinds.PIXEL_SHUFFLE, f"there is no mode {p.mode}")
        y = c.add(DepthToSpace(block, "CRD"), x)
    return restore_batch(c, y, lead)
