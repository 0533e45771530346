"""Convolutions whose input channels several subgroups or workgroups share out: how they are run."""

from __future__ import annotations

from typing import Any

import numpy as np

from vknn.ops.convolution.conv import Conv

#: Strides, pads, dilations, groups; shapes of input and weights.
Case = tuple[tuple[Any, ...], tuple[int, ...], tuple[int, ...]]
#: Options of check_op by the form of a kernel.
PRECISIONS: dict[str, dict[str, Any]] = {
    "fp32": {},
    "fp16": {"precision": "fp16", "features": ("fp16_storage",)},
    "bf16": {"precision": "bf16", "features": ("fp16_storage",)},
    "dots": {
        "precision": "fp16",
        "features": ("float_dot", "fp16_storage", "fp16_arithmetic"),
    },
}


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def made(case: Case) -> tuple[Conv, np.ndarray, np.ndarray, np.ndarray]:
    """The operator, x, weights and bias."""
    (strides, pads, dilations, group), x, w = case
    return Conv(strides, pads, dilations, group), random(*x), random(*w), random(w[0])
