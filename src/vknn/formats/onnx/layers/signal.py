"""Windows of signals."""

from __future__ import annotations

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.movement.made import MAX_MADE
from vknn.formats.onnx.registry import Convert, operator
from vknn.graph import DType, Value

#: Factors of 1, cos x and cos 2x by window.
_WINDOWS = {
    "HannWindow": (0.5, -0.5, 0.0),
    "HammingWindow": (25 / 46, -21 / 46, 0.0),
    "BlackmanWindow": (0.42, -0.5, 0.08),
}


def _window(factors: tuple[float, float, float]) -> Convert:
    def convert(c: Context) -> Value:
        count = int(c.number(0, "size"))
        c.require(0 <= count <= MAX_MADE, f"has the size {count}")
        steps = count if c.flag("periodic", True) else count - 1
        x = 2 * np.pi * np.arange(count) / max(steps, 1)
        made = factors[0] + factors[1] * np.cos(x) + factors[2] * np.cos(2 * x)
        dtype: DType = c.dtype("output_datatype", DType.FLOAT32)
        return c.constant(made.astype(dtype.numpy), "window")

    convert.__doc__ = f"{factors[0]:.4g} {factors[1]:+.4g} cos x {factors[2]:+.4g} cos 2x"
    return convert


for _name, _factors in _WINDOWS.items():
    operator(_name, 17)(_window(_factors))
