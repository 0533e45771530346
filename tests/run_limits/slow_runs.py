"""Networks whose runs take long or never end, and how runs are cancelled."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import vknn
from vknn.formats.ncnn.random_weights import write_random_weights

BACKENDS = [pytest.param("vulkan", marks=pytest.mark.device), "numpy"]
#: About ten seconds of NumPy and one of a CPU driver.
SLOW = """7767517
5 5
Input       data 0 1 data 0=256 1=256 2=64
Convolution c1   1 1 data c1 0=64 1=3 4=1 5=0 6=36864
Convolution c2   1 1 c1   c2 0=64 1=3 4=1 5=0 6=36864
Convolution c3   1 1 c2   c3 0=64 1=3 4=1 5=0 6=36864
Pooling     out  1 1 c3   out 0=1 4=1
"""
SLOW_SHAPE = (64, 256, 256)


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def slow_session(folder: Path, device: str) -> vknn.Session:
    path = folder / "slow.param"
    path.write_text(SLOW)
    write_random_weights(path, path.with_suffix(".bin"))
    return vknn.Session(path, device=device)


@contextlib.contextmanager
def cancelled(session: vknn.Session, seconds: float) -> Iterator[None]:
    """Cancels the session's run from another thread; what goes on within has to end by that."""
    timer = threading.Timer(seconds, session.cancel)
    timer.start()
    with pytest.raises(vknn.RunCancelledError, match="the run was cancelled"):
        yield
    timer.join()


def feeds_of(go_on: bool) -> dict[str, np.ndarray]:
    return {"c": np.array([go_on]), "x": np.float32([1, 2])}
