"""Region proposals: Proposal and SimplerNMS.

Section 3.1 of Ren et al., Faster R-CNN, arXiv:1506.01497.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vknn.formats.openvino.context import Context
from vknn.formats.openvino.registry import layer
from vknn.graph import Value
from vknn.ops.detection.image_proposals import ImageProposals
from vknn.ops.movement.shape import Slice

Anchor = tuple[float, float, float, float]


@layer("Proposal", inputs=3, outputs=(1, 2))
def proposal(c: Context) -> Sequence[Value]:
    """Boxes, and their scores where there is a second output."""
    like_tensorflow = c.text("framework", "").strip().lower() == "tensorflow"
    base = c.int("base_size")
    ratios, scales = c.floats("ratio", ()), c.floats("scale", ())
    c.require(base >= 1 and min((*ratios, *scales), default=0) > 0, "has no anchors")
    extra = 0.0 if like_tensorflow else 1.0
    scores, deltas = _maps(c, 0, 1, len(ratios) * len(scales))
    op = ImageProposals(
        _anchors(base, ratios, scales, like_tensorflow),
        float(_positive(c, "feat_stride")),
        _positive(c, "pre_nms_topn"),
        _positive(c, "post_nms_topn"),
        c.float("nms_thresh"),
        float(c.int("min_size")),
        extra=extra,
        coordinate_scale=_divisor(c, "box_coordinate_scale"),
        size_scale=_divisor(c, "box_size_scale"),
        swapped=like_tensorflow,
        clip_anchors=like_tensorflow,
        clip_before=c.bool("clip_before_nms", True),
        clip_after=c.bool("clip_after_nms", False),
        normalize=c.bool("normalize", False),
    )
    found = c.add_many(op, scores, deltas, _info(c))
    rows = scores.type.dims[0] * op.post_nms_top_n
    return [_as_port(c, k, v, rows) for k, v in enumerate(found[: len(c.layer.outputs)])]


@layer("SimplerNMS", inputs=3)
def simpler_nms(c: Context) -> Value:
    # The specification has an example without scales: these are the usual ones.
    scales = c.floats("scale", ()) or (8.0, 16.0, 32.0)
    c.require(min(scales) > 0, f"scale {scales}")
    swapped = c.value(0).type.rank == 4 == c.value(1).type.rank
    swapped = swapped and c.value(0).type.dims[1] > c.value(1).type.dims[1]
    scores, deltas = _maps(c, int(swapped), int(not swapped), 3 * len(scales))
    c.require(scores.type.dims[0] == 1, f"scores {scores.type} are of more images than one")
    op = ImageProposals(
        _anchors(16, (0.5, 1.0, 2.0), scales, False),
        float(_positive(c, "feat_stride")),
        _positive(c, "pre_nms_topn"),
        _positive(c, "post_nms_topn"),
        c.float("iou_threshold"),
        float(c.int("min_bbox_size")),
        drop_small=True,
    )
    found = c.add_many(op, scores, deltas, _info(c))
    return _as_port(c, 0, found[0], op.post_nms_top_n)


def _anchors(
    base: int, ratios: Sequence[float], scales: Sequence[float], like_tensorflow: bool
) -> tuple[Anchor, ...]:
    """Anchor boxes ratio by ratio about the centre of a box of side ``base``, in float32 as files
    expect.

    In Caffe's form sides are rounded, halves away from 0, and a side reaches to its last pixel; in
    TensorFlow's form boxes are centred at 0.
    """
    half, extra = np.float32(0.5), np.float32(0 if like_tensorflow else 1)
    centre = np.float32(0) if like_tensorflow else half * (np.float32(base) - extra)
    found = []
    for ratio in np.asarray(ratios, np.float32):
        width = np.sqrt(np.float32(base * base) / ratio)
        width = width if like_tensorflow else np.floor(width + half)
        height = width * ratio
        height = height if like_tensorflow else np.floor(height + half)
        for scale in np.asarray(scales, np.float32):
            reach = [half * (side * scale - extra) for side in (width, height)]
            box = [centre - r for r in reach] + [centre + r for r in reach]
            x1, y1, x2, y2 = (float(v) for v in box)
            found.append((x1, y1, x2, y2))
    return tuple(found)


def _positive(c: Context, name: str) -> int:
    number: int = c.int(name)
    c.require(number >= 1, f"{name} is {number}")
    return number


def _divisor(c: Context, name: str) -> float:
    number: float = c.float(name, 1.0)
    c.require(number > 0, f"{name} is {number}")
    return number


def _maps(c: Context, scores: int, deltas: int, anchors: int) -> tuple[Value, Value]:
    """The maps of scores and of deltas, with their shapes checked."""
    found = []
    for number, each in ((scores, 2), (deltas, 4)):
        dims = c.value(number).type.dims
        good = len(dims) == 4 and dims[1] == each * anchors
        c.require(good, f"input {number} {list(dims)} is not of {each} times {anchors} anchors")
        found.append(c.float_input(number))
    return found[0], found[1]


def _info(c: Context) -> Value:
    """Height, width and scale or scales of the image; those of the first image apply to all."""
    info = c.float_input(2)
    dims = info.type.dims
    each = dims[-1] if dims else 0
    good = len(dims) in (1, 2) and each >= 3
    c.require(good, f"the image's info {list(dims)} is not [1, 3] or [1, 4]")
    info = c.reshape(info, (info.type.size,))
    wanted = min(each, 4)
    return info if info.type.size == wanted else c.add(Slice((0,), (wanted,), (0,)), info)


def _as_port(c: Context, number: int, value: Value, rows: int) -> Value:
    """The boxes in the shape of the file, where that has as many rows."""
    if not c.is_as_declared:
        return value
    dims = c.declared(number)
    size = 1
    for dim in dims:
        size *= dim
    c.require(size == value.type.size, f"its output {list(dims)} does not hold {rows} boxes")
    return c.reshape(value, dims)
