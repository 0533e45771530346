"""GridSample: sampling at coordinates that a tensor gives."""

from __future__ import annotations

import itertools
import math

import numpy as np

from vknn.errors import ShapeError
from vknn.graph import Op, TensorType, attributes
from vknn.ops.common.blocks import blocks, index_of
from vknn.ops.common.checks import arguments, fits, require, require_float
from vknn.ops.sampling.resize import keys_weights

MODES = ("nearest", "linear", "cubic")
PADDINGS = ("zeros", "border", "reflection")
#: Parameter of the cubic kernel.
CUBIC_A = -0.75
#: Coordinates are cut off here, far outside of any axis, so that they fit an integer.
FAR = float(1 << 24)


@attributes
class GridSample(Op):
    """y[n, c, p] = x[n, c] sampled at the coordinates grid[n, p], as ONNX's GridSample.

    x [N, C, spatial...] of two axes and more; grid [N, out..., axes], the innermost axis'
    coordinate first, or with ``grid_first`` [N, axes, out...]. Coordinate g means place
    (g + 1) / 2 * (size - 1) with ``align_corners``, else ((g + 1) * size - 1) / 2.

    ``mode`` "nearest" takes floor(place + 0.5), or with ``to_even`` the nearest place, halves to
    even, before it is moved into x; "linear" the 2 neighbours along each axis, "cubic" 4
    with Keys' kernel of parameter -0.75. ``padding``: outside of x lie "zeros"; with "border"
    places are moved to the next edge; with "reflection" they are reflected, once at either end, or
    with ``repeated`` as often as it takes, about the middles of the outermost elements with
    ``align_corners`` and else about their outer edges (and then moved to the next edge); what is
    still outside is 0. For "cubic" that is done with each neighbour, for the others with the place.
    Coordinates are computed in float32, of a grid of float64 in float64.
    """

    mode: str = "linear"
    padding: str = "zeros"
    align_corners: bool = False
    grid_first: bool = False
    to_even: bool = False
    repeated: bool = False

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        x, grid = arguments(self, inputs, 2)
        require_float(self, x, grid)
        require(self.mode in MODES, f"GridSample: no mode {self.mode!r}")
        require(self.padding in PADDINGS, f"GridSample: no padding {self.padding!r}")
        axes = x.rank - 2
        require(axes >= 2, f"GridSample: {x} should have 2 or more spatial axes")
        require(0 not in x.shape[2:], f"GridSample: {x} has an empty spatial axis")
        first, *rest = grid.shape
        shape, count = (rest[1:], rest[0]) if self.grid_first else (rest[:-1], rest[-1])
        if len(rest) != axes + 1 or not fits(count, axes) or not fits(first, x.shape[0]):
            where = f"[{x.shape[0]}, {axes}, ...]" if self.grid_first else f"[N, ..., {axes}]"
            raise ShapeError(f"GridSample: grid {grid} should be {where} for {x}")
        return (x.with_shape((*x.shape[:2], *shape)),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        x, grid = arguments(self, inputs, 2)
        if not self.grid_first:
            grid = np.moveaxis(grid, -1, 1)
        y = np.zeros((*x.shape[:2], *grid.shape[2:]), x.dtype)
        count = math.prod(grid.shape[2:])
        flat = y.reshape(*x.shape[:2], count)
        with np.errstate(all="ignore"):
            for n, places in enumerate(grid.reshape(*grid.shape[:2], count)):
                for part in blocks(places.shape[1], 8 * max(1, x.shape[1])):
                    flat[n, :, part] = self._sample(x[n], places[:, part])
        return (y,)

    def _sample(self, x: np.ndarray, coordinates: np.ndarray) -> np.ndarray:
        """x [C, spatial...] at [axes, count] coordinates, the innermost axis first: [C, count]."""
        sizes = x.shape[1:]
        taps = [self._taps(coordinates[::-1][a], size) for a, size in enumerate(sizes)]
        total = np.zeros((x.shape[0], coordinates.shape[1]))
        for neighbours in itertools.product(*taps):
            at = [place for place, _ in neighbours]
            inside = np.logical_and.reduce(
                [(p >= 0) & (p < s) for p, s in zip(at, sizes, strict=True)]
            )
            clipped = [np.clip(p, 0, s - 1) for p, s in zip(at, sizes, strict=True)]
            weight = math.prod(w for _, w in neighbours)
            total += (
                np.where(inside, x[index_of(slice(None), *clipped)].astype(np.float64), 0.0)
                * weight
            )
        return total

    def _taps(self, g: np.ndarray, size: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Index and weight of each neighbour of coordinate ``g`` along an axis."""
        kind = np.float64 if g.dtype == np.float64 else np.float32
        half, one, length = kind(0.5), kind(1.0), kind(size)
        g = g.astype(kind)
        if self.align_corners:
            place = (g + one) * half * (length - one)
        else:
            place = ((g + one) * length - one) * half
        if self.mode == "cubic":
            whole, fraction = _split(place)
            weights = keys_weights(fraction, CUBIC_A)
            shifted = [(whole + n).astype(kind) for n in range(-1, 3)]
            places = [np.trunc(self._moved(p, size)).astype(np.int64) for p in shifted]
            return list(zip(places, weights, strict=True))
        if self.to_even:
            place = np.rint(place)
        place = self._moved(place, size)
        if self.mode == "nearest":
            return [(_split(place + half)[0], np.ones(len(place)))]
        whole, fraction = _split(place)
        return [(whole, 1.0 - fraction), (whole + 1, fraction)]

    def _moved(self, place: np.ndarray, size: int) -> np.ndarray:
        """``place`` moved into x as ``padding`` says."""
        kind = place.dtype.type
        last, half, length = kind(size - 1), kind(0.5), kind(size)
        if self.padding == "border":
            return np.clip(place, kind(0), last)
        if self.padding == "zeros":
            return place
        if self.align_corners:
            inside = self._reflected(place, last)
            return np.clip(inside, kind(0), last) if self.repeated else inside
        return np.clip(self._reflected(place + half, length) - half, kind(0), last)

    def _reflected(self, place: np.ndarray, length: np.floating) -> np.ndarray:
        """``place`` reflected at 0 and ``length``."""
        away = np.abs(place)
        if self.repeated:
            away = np.fmod(np.minimum(away, FAR).astype(place.dtype), max(2 * float(length), 1.0))
        return length - np.abs(away - length)


def _split(place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The whole number below ``place`` and the rest; NaN counts as far outside."""
    place = np.clip(np.nan_to_num(place, nan=-FAR), np.float32(-FAR), np.float32(FAR))
    whole = np.floor(place)
    return whole.astype(np.int64), (place - whole).astype(np.float64)
