"""Functions of the C library in float32."""

from __future__ import annotations

import ctypes
import math

import numpy as np
import pytest

from vknn.formats.tflite.layers.quantized.c_functions import c_function

X = np.linspace(-9, 9, 1001).astype(np.float32)


@pytest.mark.parametrize("name", ["erfc", "tanh"])
@pytest.mark.parametrize("there", [True, False])
def test_results(name: str, there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within two units of the last digit, and correctly rounded where there is no C library."""
    exact = np.array([getattr(math, name)(float(v)) for v in X]).astype(np.float32)

    def missing(_: object) -> object:
        raise OSError

    if not there:
        monkeypatch.setattr(ctypes, "CDLL", missing)
    found = c_function(name)(X)
    assert found.dtype == np.float32
    most = 2 if there else 0
    assert (np.abs(found - exact) <= most * np.spacing(np.abs(exact))).all()
