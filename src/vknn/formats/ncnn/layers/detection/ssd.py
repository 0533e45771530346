"""PriorBox, DetectionOutput (SSD) and Proposal (Faster R-CNN)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from vknn.formats.ncnn.context import Context, as_image, rank, shape
from vknn.formats.ncnn.params import Params, param, require
from vknn.formats.ncnn.registry import layer
from vknn.graph import Value, attributes
from vknn.ops.detection.proposal import Proposal
from vknn.ops.detection.ssd import DetectionOutput, PriorBox
from vknn.ops.movement.shape import Slice

#: Value of image sizes that are those of the second input, of steps that follow from the sizes, and
#: of num_class for the form of MXNet.
_AUTO = -233

_RATIOS, _SCALES = (0.5, 1.0, 2.0), (8.0, 16.0, 32.0)

Pair = tuple[float, float]


@attributes
class PriorBoxParams(Params):
    """Parameters of PriorBox."""

    min_sizes: tuple[float, ...] = param(0, ())
    max_sizes: tuple[float, ...] = param(1, ())
    aspect_ratios: tuple[float, ...] = param(2, ())
    variance_0: float = param(3, 0.1)
    variance_1: float = param(4, 0.1)
    variance_2: float = param(5, 0.2)
    variance_3: float = param(6, 0.2)
    flip: int = param(7, 1)
    clip: int = param(8)
    image_width: int = param(9)
    image_height: int = param(10)
    step_width: float = param(11, float(_AUTO))
    step_height: float = param(12, float(_AUTO))
    offset: float = param(13, 0.0)
    step_mmdetection: int = param(14)
    center_mmdetection: int = param(15)

    def check(self) -> None:
        require(len(self.min_sizes) > 0, "min_sizes is empty")
        good = all(r > 0 for r in self.aspect_ratios)
        require(good, f"aspect_ratios {self.aspect_ratios} must be positive")
        pairs = len(self.max_sizes) in (0, len(self.min_sizes))
        require(pairs, f"{len(self.max_sizes)} max_sizes for {len(self.min_sizes)} min_sizes")

    @property
    def variances(self) -> tuple[float, float, float, float]:
        """The four variances."""
        return self.variance_0, self.variance_1, self.variance_2, self.variance_3


@attributes
class DetectionOutputParams(Params):
    """Parameters of DetectionOutput."""

    num_class: int = param(0)
    nms_threshold: float = param(1, 0.05)
    nms_top_k: int = param(2, 300)
    keep_top_k: int = param(3, 100)
    confidence_threshold: float = param(4, 0.5)
    variance_0: float = param(5, 0.1)
    variance_1: float = param(6, 0.1)
    variance_2: float = param(7, 0.2)
    variance_3: float = param(8, 0.2)

    def check(self) -> None:
        good = self.num_class == _AUTO or self.num_class > 0
        require(good, f"num_class {self.num_class} must be positive, or -233 for MXNet's form")
        require(min(self.nms_top_k, self.keep_top_k) >= 0, "nms_top_k or keep_top_k is negative")


@attributes
class ProposalParams(Params):
    """Parameters of Proposal."""

    feat_stride: int = param(0, 16)
    base_size: int = param(1, 16)
    pre_nms_top_n: int = param(2, 6000)
    after_nms_top_n: int = param(3, 300)
    nms_threshold: float = param(4, 0.7)
    min_size: int = param(5, 16)

    def check(self) -> None:
        require(self.base_size > 0, f"base_size {self.base_size} must be positive")
        require(self.after_nms_top_n >= 0, f"after_nms_topN {self.after_nms_top_n} is negative")


@layer("PriorBox", params=PriorBoxParams, inputs=(1, None))
def prior_box(c: Context[PriorBoxParams]) -> Value:
    """Prior boxes for shapes of inputs: boxes and variances (2, boxes * 4), MXNet's (boxes * 4)."""
    p = c.params
    height, width = as_image(c, c.x).type.dims[2:]
    mxnet = p.image_width == _AUTO == p.image_height and not p.max_sizes and len(c.inputs) == 1
    if mxnet:
        c.require(len(p.aspect_ratios) > 0, "MXNet's form has a ratio at least, aspect_ratios none")
        return c.add(_mxnet_priors(p, height, width))
    needed = _AUTO in (p.image_width, p.image_height)
    c.require(not needed or len(c.inputs) > 1, "takes the image's size from a second input")
    image = as_image(c, c.inputs[1]).type.dims[2:] if needed else (0, 0)
    image_h, image_w = (
        size if given == _AUTO else given
        for given, size in zip((p.image_height, p.image_width), image, strict=True)
    )
    c.require(image_h > 0 and image_w > 0, f"the image would be {image_h} x {image_w}")
    step = (
        _step(p, p.step_height, image_h, height),
        _step(p, p.step_width, image_w, width),
    )
    first = tuple(p.offset * (s - 1 if p.center_mmdetection else s) for s in step)
    op = PriorBox(
        feature=(height, width),
        sizes=tuple(_ssd_sizes(p)),
        step=step,
        first=(first[0], first[1]),
        image=(float(image_h), float(image_w)),
        clip=bool(p.clip),
        variances=p.variances,
    )
    return c.add(op)


def _step(p: PriorBoxParams, given: float, image: int, places: int) -> float:
    if given != _AUTO:
        return given
    step = float(np.float32(image) / np.float32(places))
    return math.ceil(step) if p.step_mmdetection else step


def _ssd_sizes(p: PriorBoxParams) -> list[Pair]:
    """(width, height) of the boxes at each place."""
    sizes: list[Pair] = []
    for number, least in enumerate(p.min_sizes):
        sizes.append((least, least))
        if p.max_sizes:
            side = math.sqrt(max(least * p.max_sizes[number], 0.0))
            sizes.append((side, side))
        for ratio in p.aspect_ratios:
            pair = least * math.sqrt(ratio), least / math.sqrt(ratio)
            sizes += [pair, pair[::-1]] if p.flip else [pair]
    return sizes


def _mxnet_priors(p: PriorBoxParams, height: int, width: int) -> PriorBox:
    """Prior boxes of MXNet: sizes relative to the image; the first size has all other ratios."""
    least, shape_ = p.min_sizes[0], height / width
    sizes = [(size * shape_, size) for size in p.min_sizes]
    ratios = [math.sqrt(r) for r in p.aspect_ratios[1:]]
    sizes += [(least * shape_ * r, least / r) for r in ratios]
    step = (
        1 / height if p.step_height == _AUTO else p.step_height,
        1 / width if p.step_width == _AUTO else p.step_width,
    )
    first = (p.offset * step[0], p.offset * step[1])
    return PriorBox((height, width), tuple(sizes), step, first, clip=bool(p.clip))


@layer("DetectionOutput", params=DetectionOutputParams, inputs=3)
def detection_output(c: Context[DetectionOutputParams]) -> Value:
    """Detections of an SSD as rows (label, score, x1, y1, x2, y2).

    ncnn differs: with equal scores its order is that of its quicksort; here the lower class, then
    the earlier prior comes first. A prior whose background score is at least 1 less the confidence
    threshold has an undefined box; here its own.
    """
    p = c.params
    location, confidence, priors = c.inputs
    mxnet = p.num_class == _AUTO
    c.require(rank(priors) == 2, f"priors should have two axes, not {list(shape(priors))}")
    rows, columns = shape(priors)
    boxes, classes = (rows, p.num_class) if mxnet else (columns // 4, p.num_class)
    if mxnet:
        c.require(columns == 4, f"priors should be (boxes, 4), not {list(shape(priors))}")
        good = rank(confidence) == 2 and shape(confidence)[1] == boxes
        wanted = f"(classes, {boxes})"
        c.require(good, f"confidences should be {wanted}, not {list(shape(confidence))}")
        classes = shape(confidence)[0]
    else:
        good = rows >= 2 and columns % 4 == 0 and columns > 0
        c.require(good, f"priors should be (2, boxes * 4), not {list(shape(priors))}")
        if rows > 2:
            priors = c.add(Slice((0,), (2,), (1,)), priors)
    for value, count, what in ((location, 4, "locations"), (confidence, classes, "confidences")):
        good = value.type.size == boxes * count
        c.require(good, f"{value.type.size} {what} for {boxes} boxes, not {boxes * count}")
    op = DetectionOutput(
        num_class=classes,
        nms_threshold=p.nms_threshold,
        confidence_threshold=p.confidence_threshold,
        nms_top_k=p.nms_top_k,
        keep_top_k=p.keep_top_k,
        variances=(p.variance_0, p.variance_1, p.variance_2, p.variance_3) if mxnet else None,
        class_major=mxnet,
    )
    flat = [c.reshape(v, (1, v.type.size)) for v in (location, confidence, priors)]
    return c.add(op, *flat)


@layer("Proposal", params=ProposalParams, inputs=3, outputs=(1, 2))
def proposal(c: Context[ProposalParams]) -> Sequence[Value]:
    """Region proposals (n, 1, 4) and, as a second output, their scores (n, 1, 1).

    ncnn differs: with no region left it fails; here there are no rows. Of several regions without
    area it keeps the best only; here they do not overlap.
    """
    p = c.params
    scores, deltas, info = c.inputs
    anchors = _anchors(p.base_size)
    channels = (2 * len(anchors), 4 * len(anchors))
    good = rank(scores) == rank(deltas) == 3 and shape(scores)[1:] == shape(deltas)[1:]
    good = good and (shape(scores)[0], shape(deltas)[0]) == channels
    c.require(
        good,
        f"takes ({channels[0]}, h, w) and ({channels[1]}, h, w), "
        f"not {list(shape(scores))} and {list(shape(deltas))}",
    )
    count = info.type.size
    c.require(count >= 3, f"the image's height, width and scale are three values, not {count}")
    flat = c.reshape(info, (1, count))
    op = Proposal(
        anchors=anchors,
        stride=float(p.feat_stride),
        pre_nms_top_n=max(p.pre_nms_top_n, 0),
        post_nms_top_n=p.after_nms_top_n,
        nms_threshold=p.nms_threshold,
        min_size=float(p.min_size),
    )
    if count > 3:
        flat = c.add(Slice((0,), (3,), (1,)), flat)
    results = c.add_many(op, scores, deltas, flat, parts=("boxes", "scores"))
    return results[: len(c.record.tops)]


def _anchors(base: int) -> tuple[tuple[float, float, float, float], ...]:
    """Nine anchors (x1, y1, x2, y2) about the centre of a ``base`` square: 3 ratios by 3 scales."""
    middle, anchors = base * 0.5, []
    for ratio in _RATIOS:
        width = math.floor(float(np.float32(base) / np.sqrt(np.float32(ratio))) + 0.5)
        height = math.floor(width * ratio + 0.5)
        for scale in _SCALES:
            x, y = width * scale * 0.5, height * scale * 0.5
            anchors.append((middle - x, middle - y, middle + x, middle + y))
    return tuple(anchors)
