"""Det and Inverse by hand and by products."""

from __future__ import annotations

import numpy as np

from reference_helper import f32, refuses
from vknn.ops.linear_algebra import Det, Inverse


def test_determinants() -> None:
    x = np.array([[[1, 2], [3, 4]], [[2, 0], [5, 3]]], np.float32)
    (y,) = Det().reference(x)
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, [-2, 6], rtol=1e-6)
    (y,) = Det().reference(x[0])
    assert y.shape == ()
    turned = np.eye(3, dtype=np.float32)[[1, 2, 0]]
    assert Det().reference(np.stack([turned, -turned]))[0].tolist() == [1, -1]
    assert Det().reference(np.zeros((2, 0, 0), np.float32))[0].tolist() == [1, 1]
    assert Det().reference(np.zeros((0, 3, 3), np.float32))[0].shape == (0,)


def test_inverses() -> None:
    x = np.random.default_rng(1).standard_normal((2, 3, 4, 4))
    (y,) = Inverse().reference(x)
    np.testing.assert_allclose(x @ y, np.broadcast_to(np.eye(4), x.shape), atol=1e-12)
    x[1, 2] = 1
    (y,) = Inverse().reference(x)
    assert np.isnan(y[1, 2]).all() and np.isfinite(y[0]).all()


def test_what_is_not_square() -> None:
    for op in (Det(), Inverse()):
        refuses(op, f32(2, 3), match=r"should be \[..., n, n\]")
        refuses(op, f32(3), match=r"should be \[..., n, n\]")
