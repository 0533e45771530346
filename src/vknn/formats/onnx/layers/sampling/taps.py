"""Places and weights of a resize along one axis: which elements make each of the result's.

Coordinates follow ONNX's Resize; they are computed once, when the graph is built, so that every
mode runs on what a device can do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from vknn.ops.sampling.resize import keys_weights

COORDINATES = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
    "tf_half_pixel_for_nn", "tf_crop_and_resize",
)  # fmt: skip
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@dataclass(frozen=True)
class AxisResize:
    """A resize along one axis of ``size`` elements to ``out``; ``scale``: as stated or their ratio.

    ``region``: start and end of the part that is seen, as fractions, for "tf_crop_and_resize".
    """

    size: int
    out: int
    scale: float
    coordinates: str
    region: tuple[float, float] = (0.0, 1.0)

    def places(self, dtype: DTypeLike = np.float64) -> np.ndarray:
        """Coordinates in the axis of each element of the result, computed in ``dtype``."""
        index = np.arange(self.out, dtype=dtype)
        size, scale = self.size, self.scale
        length = size * scale  # not rounded, as in ONNX's tests
        mode = self.coordinates
        if mode == "align_corners":
            steps = length - 1
            return np.zeros(self.out) if steps == 0 else index * (size - 1) / steps
        if mode == "asymmetric":
            return index / scale
        if mode == "tf_half_pixel_for_nn":
            return (index + 0.5) / scale
        if mode == "tf_crop_and_resize":
            start, end = self.region
            if self.out == 1:
                return np.full(1, 0.5 * (start + end) * (size - 1))
            steps = length - 1
            return start * (size - 1) + index * (end - start) * (size - 1) / steps
        if mode == "pytorch_half_pixel" and self.out == 1:
            return np.zeros(1)
        middle = (index + 0.5) / scale
        if mode == "half_pixel_symmetric":
            middle = size / 2 * (1 - self.out / length) + middle
        return middle - 0.5

    def inside(self) -> np.ndarray:
        """Mask of the coordinates that lie within the axis."""
        places = self.places()
        return (places >= 0) & (places <= self.size - 1)

    def nearest(self, mode: str) -> np.ndarray:
        """Index of the one element that each element of the result is, int32.

        Mode "simple", of opset 10: the element before, or where the axis shrinks the one behind.
        """
        if mode == "simple":
            mode = "ceil" if self.scale < 1 else "floor"
        # ONNX computes in float32, whose rounding decides what lies next to a half or an element.
        places = self.places(np.float32)
        whole = {
            "round_prefer_floor": np.ceil(places - 0.5),
            "round_prefer_ceil": np.floor(places + 0.5),
            "floor": np.floor(places),
            "ceil": np.ceil(places),
        }[mode]
        return np.clip(whole, 0, max(self.size - 1, 0)).astype(np.int32)

    def taps(
        self, cubic: float | None, antialias: bool, exclude: bool
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Indices and weights of the elements of which each of the result is the sum.

        ``cubic``: the parameter of Keys' kernel, None: linear. ``antialias``: the kernel is as much
        wider as the result is smaller. ``exclude``: places outside weigh nothing, the others more.
        """
        places = self.places()
        whole = np.floor(places)
        fraction = places - whole
        narrow = min(self.scale, 1.0) if antialias else 1.0
        reach = math.ceil((1.0 if cubic is None else 2.0) / narrow)
        steps = range(-reach + 1, reach + 1) if narrow == 1.0 else range(-reach, reach + 1)
        weights = []
        if narrow == 1.0 and cubic is not None:
            weights = keys_weights(fraction, cubic)
        elif narrow == 1.0:
            weights = [1.0 - fraction, fraction]
        else:
            weights = [_kernel(np.abs(step - fraction) * narrow, cubic) for step in steps]
        found = [whole.astype(np.int64) + step for step in steps]
        if exclude:
            weights = [
                np.where((at >= 0) & (at < self.size), w, 0.0)
                for at, w in zip(found, weights, strict=True)
            ]
        if exclude or narrow < 1.0:
            total = np.sum(weights, axis=0)
            weights = [w / np.where(total == 0, 1.0, total) for w in weights]
        last = self.size - 1
        return [
            (np.clip(at, 0, last).astype(np.int32), w) for at, w in zip(found, weights, strict=True)
        ]


def _kernel(distance: np.ndarray, cubic: float | None) -> np.ndarray:
    """Weight at a distance: of the triangle, or of Keys' kernel."""
    if cubic is None:
        return np.clip(1.0 - distance, 0.0, 1.0)
    near = ((cubic + 2) * distance - (cubic + 3)) * distance**2 + 1
    far = ((cubic * distance - 5 * cubic) * distance + 8 * cubic) * distance - 4 * cubic
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))
