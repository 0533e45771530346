"""Operators that no schema has any more, by their formulas."""

from __future__ import annotations

import numpy as np
import pytest

from vknn.errors import VknnError


def test_given_tensor_fill(run) -> None:
    x = np.zeros((2, 3), np.float32)
    numbers = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    wanted = np.arange(1, 7, dtype=np.float32)
    (y,) = run("GivenTensorFill", [x], opset=6, values=numbers)
    np.testing.assert_array_equal(y, wanted.reshape(2, 3))
    (y,) = run("GivenTensorFill", [None], opset=6, values=numbers, shape=[3, 2])
    np.testing.assert_array_equal(y, wanted.reshape(3, 2))
    dims = np.array([1, 2], np.int64)
    (y,) = run("GivenTensorFill", [dims], 6, values=numbers, input_as_shape=1, extra_shape=[3])
    np.testing.assert_array_equal(y, wanted.reshape(1, 2, 3))
    with pytest.raises(VknnError, match=r"1 values for the shape \[2, 3, 1\]"):
        run("GivenTensorFill", [x], opset=6, values=[1.0], extra_shape=[1])


def test_constant_fill(run) -> None:
    (y,) = run("ConstantFill", [np.array([2, 3], np.int64)], 6, input_as_shape=1, value=0.5)
    np.testing.assert_array_equal(y, np.full((2, 3), 0.5, np.float32))
    (y,) = run("ConstantFill", [np.zeros((2, 1), np.float32)], 6, dtype=6, value=7.0)
    assert (y.dtype, y.tolist()) == (np.int32, [[7], [7]])


def test_experimental_mean_variance_normalization(run) -> None:
    x = np.random.default_rng(1).standard_normal((2, 3, 4, 5)).astype(np.float32)
    for attributes, axes in (({}, (0, 2, 3)), ({"across_channels": 1}, (1, 2, 3))):
        (y,) = run("MeanVarianceNormalization", [x], 8, **attributes)
        rest = x - x.mean(axes, keepdims=True)
        np.testing.assert_allclose(y, rest / x.std(axes, keepdims=True), atol=1e-5)
    (y,) = run("MeanVarianceNormalization", [x], 8, normalize_variance=0)
    np.testing.assert_allclose(y, x - x.mean((2, 3), keepdims=True), atol=1e-5)


@pytest.mark.parametrize("drop", [0, 1])
def test_gru_unit(run, drop: int) -> None:
    rng = np.random.default_rng(3)
    state, gates = (rng.standard_normal((1, 5, d)).astype(np.float32) for d in (3, 9))
    lengths, step = np.array([4, 2, 3, 0, 7], np.int32), np.array([2], np.int32)
    (y,) = run("GRUUnit", [state, gates, lengths, step], opset=6, drop_states=drop)
    share = 1 / (1 + np.exp(-gates[..., 3:6].astype(np.float64)))
    wanted = state * share + np.tanh(gates[..., 6:]) * (1 - share)
    runs = (lengths > 2)[None, :, None]
    np.testing.assert_allclose(y, np.where(runs, wanted, 0 if drop else state), atol=1e-6)
    with pytest.raises(VknnError, match="has gates"):
        run("GRUUnit", [state, gates[..., :6], lengths, step], opset=6)
