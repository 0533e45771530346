"""A network with a layer of one's own whose shader is wrong in ways that a test chooses."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

import vknn

#: The faults by name, as the layer's parameter.
FAULTS = {"none": 0, "channel": 1, "seam": 2, "large": 3, "nan": 4, "swap": 5}
SHAPE = (6, 16, 32)
#: Index of the element that is NaN.
NAN_AT = (0, 2, 6)

GLSL = """
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/grid.glsl"

INPUT1F(0, x);
OUTPUT1F(1, y);

layout(push_constant) uniform P { int count; int height; int width; int fault; } p;

void main() {
    int i = linear_lane();
    if (i >= p.count) return;
    float v = LOAD1(x, i);
    float half_of_it = 0.5 * v;
    int column = i % p.width;
    int channel = i / (p.width * p.height);
    if (p.fault == 1 && channel == 3) half_of_it *= 1.01;
    if (p.fault == 2 && column % 8 == 7) half_of_it += 0.01;
    if (p.fault == 3 && abs(v) > 100.0) half_of_it *= 1.01;
    if (p.fault == 4 && i == 70) half_of_it = uintBitsToFloat(0x7fc00000u);
    if (p.fault == 5) half_of_it = -half_of_it;
    STORE1(y, i, half_of_it);
}
"""


def register() -> None:
    """Registration of the layer, also where it is registered already."""
    vknn.register_layer(
        "ncnn",
        "FaultyHalf",
        shape=lambda shapes, options: shapes[0],
        compute=lambda arrays, weights, options: arrays[0] * np.float32(0.5),
        parameters={"fault": (0, 0)},
        shader=vknn.Shader(GLSL, push=_push),
        replace=True,
    )


def write_faulty_model(folder: Path, fault: str, shape: tuple[int, int, int] = SHAPE) -> Path:
    """Path of a network of the layer and a ReLU."""
    register()
    path = folder / f"{fault}.param"
    c, h, w = shape
    path.write_text(
        "7767517\n3 3\n"
        f"Input data 0 1 data 0={w} 1={h} 2={c}\n"
        f"FaultyHalf half 1 1 data h 0={FAULTS[fault]}\n"
        "ReLU relu 1 1 h y\n"
    )
    path.with_suffix(".bin").write_bytes(b"")
    return path


def _push(inputs: object, outputs: list[tuple[int, ...]], options: dict[str, int]) -> list[int]:
    return [math.prod(outputs[0]), outputs[0][1], outputs[0][2], options["fault"]]
