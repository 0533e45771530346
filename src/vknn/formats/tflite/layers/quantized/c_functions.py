"""Functions of the C library in float32: tables of TensorFlow Lite have their last digits."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable

import numpy as np

_EXACT: dict[str, Callable[[float], float]] = {"erfc": math.erfc, "tanh": math.tanh}


def c_function(name: str) -> Callable[[np.ndarray], np.ndarray]:
    """The function "erfc" or "tanh" of float32 arrays [n].

    Where the C library is not known (on Windows), its result in float64 is rounded, which is the
    same number almost always.
    """
    function = _found(f"{name}f") or _EXACT[name]
    return lambda x: np.array([function(float(v)) for v in x], np.float32)


def _found(name: str) -> Callable[[float], float] | None:
    try:
        function = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return None
    function.restype, function.argtypes = ctypes.c_float, [ctypes.c_float]
    found: Callable[[float], float] = function
    return found
