"""Custom layer: one that vknn does not have, run with NumPy and on the device.

    python examples/custom_layer.py --picture examples/data/squares.png --output clean.png

The layer is a median filter: each pixel becomes the median of the 3 x 3 pixels around it, which
takes single wrong pixels out of a picture. It is given twice, as a function in NumPy, which says
what the layer means, and as a compute shader in GLSL. vknn.register_layer makes it known under a
name; files with layers of this name then open like any other. Here the file is an ncnn network of
nothing but this layer, written to a temporary folder.

The script puts wrong pixels into a picture, filters it on both, and writes what the device made of
it. It prints how far the picture with the wrong pixels and the filtered one are from the original,
and what vknn.verify says of the shader.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import vknn

NETWORK = """7767517
2 2
Input    picture  0 1 picture
Median   filter   1 1 picture filtered 0={strength}
"""

#: A lane computes an element of y, [channels, height, width]. Beyond the edges the nearest pixel
#: counts. The nine values are sorted as far as the middle one.
SHADER = """
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/grid.glsl"

INPUT1F(0, x);
OUTPUT1F(1, y);

layout(push_constant) uniform P {
    int count;       // elements of y
    int height;
    int width;
    float strength;  // 1: the median, 0: the pixel as it is
} p;

void main() {
    int i = linear_lane();
    if (i >= p.count) return;
    int row = i / p.width % p.height, column = i % p.width;
    int plane = i - row * p.width - column;
    float v[9];
    for (int k = 0; k < 9; ++k) {
        int r = clamp(row + k / 3 - 1, 0, p.height - 1);
        int c = clamp(column + k % 3 - 1, 0, p.width - 1);
        v[k] = LOAD1(x, plane + r * p.width + c);
    }
    for (int a = 0; a < 5; ++a) {
        for (int b = a + 1; b < 9; ++b) {
            float low = min(v[a], v[b]);
            v[b] = max(v[a], v[b]);
            v[a] = low;
        }
    }
    STORE1(y, i, mix(LOAD1(x, i), v[4], p.strength));
}
"""


def median(
    arrays: Sequence[np.ndarray], weights: Mapping[str, np.ndarray], options: Mapping[str, Any]
) -> np.ndarray:
    """The layer in NumPy, for x [channels, height, width]."""
    x = arrays[0]
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)), mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    medians = np.median(windows, axis=(3, 4)).astype(np.float32)
    return x + np.float32(options["strength"]) * (medians - x)


def push(
    inputs: Sequence[tuple[int, ...]],
    outputs: Sequence[tuple[int, ...]],
    options: Mapping[str, Any],
) -> list[int | float]:
    """The shader's push constants: ints and floats in the order of its block."""
    channels, height, width = outputs[0]
    return [channels * height * width, height, width, options["strength"]]


def register() -> None:
    """Registration of the layer for ncnn files."""
    vknn.register_layer(
        "ncnn",
        "Median",
        shape=lambda shapes, options: shapes[0],
        compute=median,
        parameters={"strength": (0, 1.0)},  # key 0 of the .param file, 1.0 where it is missing
        shader=vknn.Shader(SHADER, push=push),
    )


def with_wrong_pixels(picture: np.ndarray, share: float) -> np.ndarray:
    """The picture [3, height, width] with a share of its pixels black or white."""
    random = np.random.default_rng(0)
    chance = random.random(picture.shape[1:])
    noisy = np.where(chance < share / 2, np.float32(0), picture)
    return np.where(chance > 1 - share / 2, np.float32(255), noisy)


def mean_error(picture: np.ndarray, original: np.ndarray) -> float:
    """The mean absolute difference of two pictures, of 255."""
    return float(np.abs(picture - original).mean())


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = Path(__file__).resolve().parent / "data" / "squares.png"
    parser.add_argument("--picture", type=Path, default=default, help="(data/squares.png)")
    parser.add_argument("--share", type=float, default=0.05, help="of wrong pixels (0.05)")
    parser.add_argument("--strength", type=float, default=1.0, help="of the filter, 0 to 1 (1)")
    parser.add_argument("--output", type=Path, default=Path("clean.png"), help="(clean.png)")
    parser.add_argument("--device", default="auto", help="auto, vulkan:1, numpy or part of a name")
    options = parser.parse_args(arguments)
    with Image.open(options.picture) as file:
        original = np.asarray(file.convert("RGB"), np.float32).transpose(2, 0, 1)
    noisy = with_wrong_pixels(original, options.share)
    register()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "median.param"
        path.write_text(NETWORK.format(strength=options.strength))
        path.with_suffix(".bin").touch()  # no weights
        print(f"with wrong pixels: mean error {mean_error(noisy, original):.3f}")
        for device in ("numpy", options.device):
            with vknn.Session(path, device=device) as session:
                filtered = session.run({"picture": noisy})["filtered"]
                name = session.device.name if session.device is not None else "NumPy"
                where = session.placement["filter"]
                report = vknn.verify(session, {"picture": noisy})
            print(f"filtered on {name} ({where}): mean error {mean_error(filtered, original):.3f}")
        print(report.summary())
    vknn.unregister_layer("ncnn", "Median")
    pixels = np.rint(filtered.clip(0, 255)).astype(np.uint8).transpose(1, 2, 0)
    Image.fromarray(pixels).save(options.output)
    print(f"the filtered picture is in {options.output}")
    return 0 if report.ok else 1


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except vknn.VknnError as error:
        raise SystemExit(f"error: {error}") from None
