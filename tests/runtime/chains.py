"""Runs of chain plans, and what they give."""

from __future__ import annotations

import numpy as np

from vknn.runtime import Executable

WEIGHT = np.arange(52, dtype=np.float32).reshape(1, 13, 4)


def random_input(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(WEIGHT.shape).astype(np.float32)


def check_chain(executable: Executable, seed: int = 0, steps: int = 3) -> None:
    x = random_input(seed)
    y = executable.run({"x": x})["y"]
    np.testing.assert_allclose(y, x + steps * WEIGHT, rtol=1e-6, atol=1e-5)
