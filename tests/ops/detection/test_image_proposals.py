"""Region proposals of several images: the device against NumPy, the reference against loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.helpers import check_op
from tests.proposals import caffe_anchors, proposals

from vknn.errors import ShapeError
from vknn.graph import TensorType
from vknn.ops.detection.image_proposals import ImageProposals

ANCHORS = tuple(caffe_anchors(8, (0.5, 1.0, 2.0), (1.0, 2.0)))
TENSORFLOW = {"extra": 0.0, "swapped": True, "clip_anchors": True}


def maps(images: int, rows: int, columns: int, seed: int = 0, equal: int = 0) -> list[np.ndarray]:
    """Scores (``equal``: so many different ones), deltas, info of images."""
    rng = np.random.default_rng(seed)
    count = len(ANCHORS)
    scores = rng.permutation(np.linspace(0.01, 1, images * 2 * count * rows * columns))
    if equal:
        scores = np.ceil(scores * equal) / equal
    deltas = rng.standard_normal((images, 4 * count, rows, columns)) * 0.6
    info = [8.0 * rows + 0.5, 8.0 * columns, 1.0, 1.5][: 3 + seed % 2]
    shape = (images, 2 * count, rows, columns)
    return [a.astype(np.float32) for a in (scores.reshape(shape), deltas, np.array(info))]


def proposer(**changes: Any) -> ImageProposals:
    settings = {"nms_threshold": 0.6, "min_size": 6.0, **changes}
    return ImageProposals(ANCHORS, 8.0, 60, 12, **settings)


def naive(op: ImageProposals, x: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    return proposals(
        x[0],
        x[1],
        x[2].tolist(),
        op.anchors,
        stride=int(op.stride),
        before=op.pre_nms_top_n,
        after=op.post_nms_top_n,
        nms=op.nms_threshold,
        least=op.min_size,
        tensorflow=op.swapped,
        simpler=op.drop_small,
        xy_scale=op.coordinate_scale,
        wh_scale=op.size_scale,
        clip_before=op.clip_before,
        clip_after=op.clip_after,
        normalize=op.normalize,
    )


CHANGES: dict[str, dict[str, Any]] = {
    "plain": {},
    "all kept": {"nms_threshold": 1.0},
    "few kept": {"nms_threshold": 0.05},
    "scaled": {"coordinate_scale": 10.0, "size_scale": 5.0},
    "not clipped": {"clip_before": False},
    "clipped after": {"clip_before": False, "clip_after": True, "normalize": True},
    "tensorflow": TENSORFLOW,
    "tensorflow, normalized": {**TENSORFLOW, "normalize": True, "clip_after": True},
    "large ones": {"min_size": 22.0},
    "dropped": {"drop_small": True},
    "dropped, large ones": {"drop_small": True, "min_size": 15.0, "nms_threshold": 0.3},
}


@pytest.mark.parametrize("name", CHANGES)
def test_proposals(name: str) -> None:
    op = proposer(**CHANGES[name])
    for number, (images, equal) in enumerate(((1, 0), (2, 0), (2, 5))):
        x = maps(images, 4, 5, number, equal)
        found, want = op.reference(*x), naive(op, x)
        for array, expected in zip(found, want, strict=True):
            np.testing.assert_allclose(array, expected, rtol=1e-5, atol=2e-4)
        check_op(op, *x, access=(("storage", "texel", "image")[number],))


def test_as_on_other_devices() -> None:
    op = proposer(min_size=18.0)
    check_op(op, *maps(1, 6, 7, equal=9), access=("storage",), kind="discrete")
    # Several dispatches of suppression and of the heap.
    check_op(op, *maps(2, 6, 7, equal=9), access=("storage",), max_loop_rounds=150)
    check_op(op, *maps(1, 6, 7), host=True, max_loop_rounds=14)


def test_in_fp16() -> None:
    scores, deltas, info = maps(1, 3, 4)
    scores = (np.arange(scores.size).reshape(scores.shape) / 512).astype(np.float32)
    op = proposer(nms_threshold=2.0, min_size=0.0)
    check_op(op, scores, deltas, np.round(info), precision="fp16", tolerance=1e-3)


@pytest.mark.host
def test_wrong_shapes() -> None:
    good = ((2, 12, 4, 5), (2, 24, 4, 5), (3,))
    found = proposer().infer(*map(TensorType, good))
    assert found == (TensorType((24, 5)), TensorType((24,)))
    wrong = ((0, (2, 10, 4, 5)), (1, (2, 24, 4, 4)), (1, (1, 24, 4, 5)), (2, (1, 3)), (2, (5,)))
    for number, shape in wrong:
        types = [TensorType(shape if i == number else s) for i, s in enumerate(good)]
        with pytest.raises(ShapeError):
            proposer().infer(*types)
    with pytest.raises(ShapeError):
        ImageProposals((), 8.0, 60, 12, 0.5, 1.0).infer(*map(TensorType, good))
    with pytest.raises(ShapeError):
        ImageProposals(ANCHORS, 8.0, -1, 12, 0.5, 1.0).infer(*map(TensorType, good))
