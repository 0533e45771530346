"""Weights are uploaded once, however many shapes a model is run with."""

from __future__ import annotations

import numpy as np
import pytest
from tests.coreml_writer import half_weights, layer, model, session, weights
from tests.helpers import shared_device

from vknn.formats.coreml.constant_cache import ConstantCache

RNG = np.random.default_rng(3)


def test_equal_arrays_become_one() -> None:
    cache = ConstantCache()
    one = RNG.standard_normal(1000).astype(np.float32)
    one[3] = np.nan
    assert cache.intern(("k",), one) is one
    assert cache.intern(("k",), one.copy()) is one
    assert cache.intern(("other",), one.copy()) is not one
    other = one.copy()
    other[5] += 1
    assert cache.intern(("k",), other) is other
    assert cache.intern(("k",), other.astype(np.float64)) is not other
    assert cache.intern(("k",), np.asfortranarray(other.reshape(20, 50))).shape == (20, 50)


@pytest.mark.device
def test_one_copy_on_the_device() -> None:
    kernel, w = RNG.standard_normal((32, 8, 3, 3)), RNG.standard_normal((64, 32))
    layers = [
        layer("convolution", ["x"], ["c"], outputChannels=32, kernelChannels=8,
              weights=half_weights(kernel), hasBias=True, bias=weights(np.ones(32))),
        layer("pooling", ["c"], ["p"], globalPooling=True),
        layer("flatten", ["p"], ["f"]),
        layer("innerProduct", ["f"], ["y"], inputChannels=32, outputChannels=64,
              weights=weights(w)),
    ]  # fmt: skip
    message = model(layers, {"x": ()})
    with session(message, shared_device()) as s:
        for size in (9, 10, 11, 12):
            s.run({"x": np.ones((1, 8, size, 9))})
        # Packed in one way or another, but always of the same arrays.
        packed = s._engine.target.weights._entries
        assert len({key[1:] for key in packed}) == 2
