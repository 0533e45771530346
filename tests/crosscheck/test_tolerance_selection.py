"""What scattering and suppression are allowed: more than rounding needs, less than a mistake."""

from __future__ import annotations

import numpy as np
import pytest

from vknn.crosscheck import allowances
from vknn.ops.detection.non_max_suppression import NonMaxSuppression
from vknn.ops.indexing.gather import GatherND
from vknn.ops.indexing.scatter import ScatterND
from vknn.ops.quantized.codes import GatherCodes
from vknn.ops.random import RandomBernoulli, RandomNormal, RandomUniform


@pytest.mark.parametrize("reduction", ["add", "mul"])
def test_scattered_sums(reduction: str) -> None:
    """Updates added up in the other direction, in float32."""
    rng = np.random.default_rng(0)
    x, places = np.ones((3, 5), np.float32), rng.integers(0, 3, (400, 1)).astype(np.int32)
    updates = rng.uniform(0.9, 1.1, (400, 5)).astype(np.float32)
    op = ScatterND(reduction)
    expected = op.reference(x, places, updates)
    (bound,) = allowances(op, (x, places, updates), expected)
    y = x.copy()
    combine = np.add if reduction == "add" else np.multiply
    for place, update in zip(places[::-1, 0], updates[::-1], strict=True):
        y[place] = combine(y[place], update)
    assert (np.abs(y - expected[0]) <= bound.allowed).all()
    assert (bound.allowed < 1e-4 * bound.magnitude).all()


def test_what_only_moves_is_exact() -> None:
    x, places = np.ones((3, 5), np.float32), np.zeros((2, 1), np.int32)
    for op, inputs in (
        (ScatterND(), (x, places, np.ones((2, 5), np.float32))),
        (GatherND(), (x, places)),
        (GatherCodes(5), (np.ones((4, 3), np.uint8), places)),
        (
            NonMaxSuppression(2, 0.5),
            (np.ones((1, 2, 4), np.float32), np.ones((1, 1, 2), np.float32)),
        ),
    ):
        for bound in allowances(op, inputs, op.reference(*inputs)):
            assert not bound.allowed.any()


def test_soft_scores() -> None:
    boxes = np.array([[[0, 0, 1, 1], [0, 0.4, 1, 1.4], [0, 0.8, 1, 1.8]]], np.float32)
    op, inputs = NonMaxSuppression(3, 0.9, soft_sigma=0.5), (boxes, np.ones((1, 1, 3), np.float32))
    _, scores, _ = allowances(op, inputs, op.reference(*inputs))
    assert (scores.allowed > 1e-7).all()
    assert (scores.allowed < 1e-4).all()


def test_random_numbers() -> None:
    """The same everywhere, but for the roundings of a cosine that may be near 0."""
    draw = np.zeros(1, np.int32)
    for exact in (RandomUniform((9,)), RandomBernoulli((9,))):
        (bound,) = allowances(exact, (draw,), exact.reference(draw))
        assert not bound.allowed.any()
    op = RandomNormal((4000,), 3, 1.0, 2.0)
    (bound,) = allowances(op, (draw,), op.reference(draw))
    assert (bound.allowed > 4e-6).all()
    assert (bound.allowed < 2e-5).all()
