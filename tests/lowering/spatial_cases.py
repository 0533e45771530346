"""Sampling, regions, columns and detection for the tests of lowering."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vknn.graph import Op
from vknn.ops.convolution.im2col import Col2Im, Im2Col
from vknn.ops.detection.image_detections import ImageDetections
from vknn.ops.detection.image_proposals import ImageProposals
from vknn.ops.detection.proposal import Proposal
from vknn.ops.detection.ssd import DetectionOutput, PriorBox
from vknn.ops.pooling.roi_pooling import MaxRoiPool, PositionSensitiveRoiPool, RoiAlign
from vknn.ops.pooling.roi_sampled import BilinearRoiPool, DeformableRoiPool
from vknn.ops.sampling.grid_sample import GridSample

_IMAGE = (1, 12, 9, 11)
_ANCHORS = ((0.0, 0.0, 9.0, 9.0), (-4.0, -4.0, 12.0, 12.0))


def cases() -> Iterator[tuple[Op, tuple[object, ...]]]:
    """Ops and the shapes of their inputs."""
    yield from _CASES
    yield Im2Col((2, 3), value=3.0), ((_IMAGE, np.int8),)


_CASES: list[tuple[Op, tuple[tuple[int, ...], ...]]] = [
    (GridSample("nearest"), (_IMAGE, (1, 5, 6, 2))),
    (GridSample("cubic", "reflection"), (_IMAGE, (1, 5, 6, 2))),
    (GridSample("nearest", "reflection", to_even=True, repeated=True), (_IMAGE, (1, 5, 6, 2))),
    (GridSample("linear", "border", grid_first=True), ((2, 3, 4, 5, 6), (2, 3, 4, 3, 2))),
    (RoiAlign((3, 2), 0.5), (_IMAGE, (4, 4))),
    (RoiAlign((3, 2), 0.5, mode="max"), (_IMAGE, (4, 4))),
    (RoiAlign((3, 2), sampling_ratio=2, clipped=True), (_IMAGE, (4, 5))),
    (MaxRoiPool((3, 2)), (_IMAGE, (4, 4))),
    (PositionSensitiveRoiPool((3, 2)), (_IMAGE, (4, 4))),
    (MaxRoiPool((3, 2), whole=True), (_IMAGE, (4, 5))),
    (BilinearRoiPool((3, 2)), (_IMAGE, (4, 5))),
    (DeformableRoiPool((3, 2), 0.5, 2, (2, 3)), (_IMAGE, (4, 5))),
    (DeformableRoiPool((3, 2), 0.5, 2, (2, 3), 2), (_IMAGE, (4, 5), (4, 2, 2, 2))),
    (BilinearRoiPool((3, 2), 0.5, parts=(2, 3)), (_IMAGE, (4, 4))),
    (Im2Col((3, 3), pads=(1, 1, 1, 1)), (_IMAGE,)),
    (Col2Im((3, 3), pads=(1, 1, 1, 1), image=(9, 11)), ((1, 12 * 9, 99),)),
    (PriorBox((9, 11), ((2.0, 3.0), (4.0, 4.0)), (1.0, 1.0), (0.5, 0.5)), ()),
    (
        DetectionOutput(5, 0.4, 0.1, 50, 30),
        ((1, 4 * 99), (1, 5 * 99), (1, 8 * 99)),
    ),
    (Proposal(_ANCHORS, 8.0, 100, 20, 0.7, 4.0), ((1, 4, 9, 11), (1, 8, 9, 11), (1, 3))),
    (
        ImageDetections(5, 40, 0.4, 0.1, 50, 30),
        ((3, 4 * 99), (3, 5 * 99), (1, 2, 4 * 99)),
    ),
    (
        ImageDetections(5, 40, 0.4, own_boxes=True, encoded=True, background=-1),
        ((2, 20 * 99), (2, 5 * 99), (2, 1, 4 * 99), (2, 4 * 99)),
    ),
    (
        ImageDetections(5, 40, 0.4, best_class=True, corners=True),
        ((2, 4 * 99), (2, 5 * 99), (1, 2, 4 * 99)),
    ),
    (ImageProposals(_ANCHORS, 8.0, 100, 20, 0.7, 4.0), ((2, 4, 9, 11), (2, 8, 9, 11), (4,))),
    (
        ImageProposals(_ANCHORS, 8.0, 100, 20, 0.7, 4.0, drop_small=True),
        ((1, 4, 9, 11), (1, 8, 9, 11), (3,)),
    ),
]

#: Ops on tensors of half a gigabyte and more, with the shapes of their inputs and weights.
BIG = (1, 64, 2048, 1024)
LARGE: list[tuple[Op, tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]] = [
    (GridSample(), (BIG, (1, 2048, 1024, 2)), ()),
    (RoiAlign((7, 7), 0.25), (BIG, (1000, 4)), ()),
    (MaxRoiPool((7, 7), 0.25), (BIG, (1000, 4)), ()),
    (PositionSensitiveRoiPool((4, 4)), (BIG, (300, 4)), ()),
    (BilinearRoiPool((7, 7)), (BIG, (1000, 5)), ()),
    (DeformableRoiPool((7, 7), samples=(2, 2)), (BIG, (1000, 5)), ()),
    (Im2Col((2, 2), strides=(2, 2)), (BIG,), ()),
    (Col2Im((2, 2), strides=(2, 2), image=(2048, 1024)), ((1, 256, 1 << 19),), ()),
]
