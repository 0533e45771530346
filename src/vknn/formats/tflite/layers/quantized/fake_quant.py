"""FAKE_QUANT: quantization simulated in float32 (quantization-aware training)."""

from __future__ import annotations

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.registry import operator
from vknn.graph import Value
from vknn.ops import elementwise as ew


@operator("FAKE_QUANT")
def fake_quant(c: Context) -> Value:
    """x rounded to the nearest of 2^num_bits steps between min and max, nudged so that 0 is a step.

    Computed in float32.
    """
    low, high, scale = _grid(c)
    x = c.add(ew.Clip(float(low), float(high)), c.x)
    steps = c.add(
        ew.Mul(), c.add(ew.Sub(), x, c.scalar(float(low))), c.scalar(float(np.float32(1) / scale))
    )
    whole = c.add(ew.Floor(), c.add(ew.Add(), steps, c.scalar(0.5)))
    return c.add(ew.Add(), c.add(ew.Mul(), whole, c.scalar(float(scale))), c.scalar(float(low)))


def _grid(c: Context) -> tuple[np.float32, np.float32, np.float32]:
    """Lowest and highest step, and the distance of steps."""
    bits, narrow = c.options["num_bits"], c.options["narrow_range"]
    low, high = np.float32(c.options["min"]), np.float32(c.options["max"])
    c.require(1 <= bits <= 16, f"has {bits} bits")
    c.require(not narrow, "has a narrow range, which is for weights only")
    c.require(bool(low < high), f"has the range {low} to {high}")
    last = np.float32((1 << bits) - 1)
    scale = (high - low) / last
    zero = np.clip(np.floor(np.float32(0.5) - low / scale), np.float32(0), last)
    return -zero * scale, (last - zero) * scale, scale
