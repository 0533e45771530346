"""RoiAlign, MaxRoiPool and PositionSensitiveRoiPool: pooling of regions of interest.

The regions of all ops here are rois [R, 4]: x1, y1, x2, y2 in image 0, or [R, 5]: the number of
the image first; a number that no image has gives zeros. Coordinates are computed in float32, those
of float64 in float64.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from vknn import run_limits
from vknn.graph import Op, TensorType, attributes
from vknn.ops.common.blocks import blocks
from vknn.ops.common.checks import arguments, require, require_float

#: Numbers of samples and places are cut off here, so that they fit an integer.
FAR = float(1 << 24)


@attributes
class RegionPool(Op):
    """Base of region pooling: x [N, C, H, W] pooled in each region gives [R, C, h, w].

    ``output_size``: (h, w).
    """

    output_size: tuple[int, int]
    spatial_scale: float = 1.0

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        x, rois = arguments(self, inputs, 2)
        name = type(self).__name__
        require_float(self, x, rois)
        sizes = self.output_size
        require(len(sizes) == 2 and min(sizes) >= 1, f"{name}: output_size {sizes}")
        known = math.isfinite(self.spatial_scale)
        require(known, f"{name}: spatial_scale {self.spatial_scale}")
        require(x.rank == 4 and 0 not in x.shape[2:], f"{name}: {x} should be [N, C, H, W]")
        fits = rois.rank == 2 and rois.shape[1] in (4, 5)
        require(fits, f"{name}: rois {rois} should be [R, 4] or [R, 5]")
        return (x.with_shape((rois.shape[0], self._channels(x), *sizes)),)

    def _channels(self, x: TensorType) -> int | None:
        return x.shape[1]

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        x, rois = arguments(self, inputs, 2)
        channels = self._channels(TensorType.of(x)) or 0
        y = np.zeros((len(rois), channels, *self.output_size), x.dtype)
        images = rois[:, 0] if rois.shape[1] == 5 else np.zeros(len(rois))
        kind = np.float64 if rois.dtype == np.float64 else np.float32
        with np.errstate(all="ignore"):
            for row, (number, corners) in enumerate(zip(images, rois[:, -4:], strict=True)):
                run_limits.check()
                if 0 <= number < len(x) and np.isfinite(corners).all():
                    corners = corners.astype(kind).reshape(2, 2)  # (x1, y1), (x2, y2)
                    y[row] = self._pool(x[int(number)], corners[:, 1], corners[:, 0])
        return (y,)

    @abstractmethod
    def _pool(self, x: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """x [C, H, W] pooled in the region from rows[0], columns[0] to rows[1], columns[1]."""


@attributes
class RoiAlign(RegionPool):
    """The mean of bilinear samples in each bin of a region, or the largest share of one.

    Regions are scaled by ``spatial_scale``, then with ``aligned`` (half_pixel in ONNX) moved by
    -0.5, and without it they are at least 1 wide and high. A bin has ``sampling_ratio`` samples
    along each axis, or with 0 as many as ceil(its size); samples are 0 beyond -1 and the image's
    size, and closer to it are moved to its edge.

    With ``clipped`` bins are cut off at the image's edges first: the number of samples is the
    ceiling of what is left (an empty bin gives 0), and they start where that starts.

    ``mode``: ONNX's, "avg" for the mean, "max" for the largest of the products of which the samples
    are sums (an element times its weight).
    """

    sampling_ratio: int = 0
    aligned: bool = False
    clipped: bool = False
    mode: str = "avg"

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        known = self.mode == "avg" or (self.mode == "max" and not self.clipped)
        require(known, f"RoiAlign: no mode {self.mode!r}")
        good = 0 <= self.sampling_ratio <= FAR
        require(good, f"RoiAlign: sampling_ratio {self.sampling_ratio}, not 0 to {FAR:.0f}")
        return super().infer(*inputs)

    def _pool(self, x: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        down, across = (
            self._neighbours(corners, bins, size)
            for corners, bins, size in zip(
                (rows, columns), self.output_size, x.shape[1:], strict=True
            )
        )
        if self.mode == "max":
            return self._largest(x, *([_extremes(b) for b in bins] for bins in (down, across)))
        weights = _summed_weights(down, x.shape[1]), _summed_weights(across, x.shape[2])
        return sampled(weights[0], x, weights[1], x.dtype)

    def _neighbours(self, corners: np.ndarray, bins: int, size: int) -> Iterator[_Neighbours]:
        """Along an axis the samples of each bin."""
        kind = corners.dtype.type
        low, high = corners * kind(self.spatial_scale)
        if self.aligned:
            low, high = low - kind(0.5), high - kind(0.5)
        length = high - low if self.aligned else max(high - low, kind(1))
        width = length / kind(bins)
        for number in range(bins):
            run_limits.check()
            places, count = self._samples(low, width, number, size)
            first = np.minimum(places.astype(np.int64), size - 1)
            second = np.minimum(first + 1, size - 1)
            fraction = np.where(first < size - 1, places - first, 0.0).astype(np.float64)
            at, weights = np.stack([first, second]), np.stack([1.0 - fraction, fraction])
            yield _Neighbours(at, weights, count)

    def _largest(
        self, x: np.ndarray, down: list[_Neighbours], across: list[_Neighbours]
    ) -> np.ndarray:
        """The largest product of an element and its weight in each bin, of extreme weights."""
        y = np.zeros((len(x), *self.output_size))
        for i, j in np.ndindex(*self.output_size):
            run_limits.check()
            row, column = down[i], across[j]
            if row.places.size == 0 or column.places.size == 0:
                continue  # no samples, or all of them beyond the image
            parts = x[:, row.places.reshape(-1)][:, :, column.places.reshape(-1)]
            weights = np.multiply.outer(row.weights.reshape(-1), column.weights.reshape(-1))
            y[:, i, j] = (parts * weights).max(axis=(1, 2))
            if not row.inside or not column.inside:
                y[:, i, j] = np.maximum(y[:, i, j], 0)
        return y

    def _samples(
        self, low: np.floating, width: np.floating, number: int, size: int
    ) -> tuple[np.ndarray, float]:
        """Places of a bin's samples within the image, and how many samples it has in all."""
        kind = type(low)
        start, extent = low + kind(number) * width, width
        if self.clipped:
            end = low + kind(number + 1) * width
            start, end = (np.clip(v, kind(0), kind(size)) for v in (start, end))
            extent = end - start
            if not extent > 0:  # a corner may be no number
                return np.zeros(0), 1.0
        count = float(self.sampling_ratio or min(np.ceil(extent), FAR))
        if count < 1:
            return np.zeros(0), 1.0
        step = width / kind(count)
        first, last = 0.0, count
        if not self.clipped and not self.sampling_ratio:
            first = max(0.0, float((-1 - start) / step - 2))
            last = min(count, float((size - start) / step + 2))
        if not np.floor(first) < np.floor(last):  # the first may have no such float
            return np.zeros(0), count
        index = np.arange(np.floor(first), np.floor(last), dtype=kind)
        places = start + (index + kind(0.5)) * width / kind(count)
        if not self.clipped:
            places = places[(places >= -1) & (places <= size)]
        return np.clip(places, kind(0), kind(size)), count


@dataclass(frozen=True)
class _Neighbours:
    """Places along an axis and their weights [2, samples] of the samples of a bin in the image.

    ``count``: of all samples, those beyond the image included.
    """

    places: np.ndarray
    weights: np.ndarray
    count: float

    @property
    def inside(self) -> bool:
        """True where no sample lies beyond the image."""
        return self.places.shape[1] >= self.count


def _summed_weights(bins: Iterable[_Neighbours], size: int) -> np.ndarray:
    """Weights of each place along an axis in the means of bins: [bins, size]."""
    rows = []
    for found in bins:
        row = np.zeros(size)
        np.add.at(row, found.places, found.weights / found.count)
        rows.append(row)
    return np.stack(rows)


def _extremes(found: _Neighbours) -> _Neighbours:
    """Each place once with its least weight and once with its greatest.

    Weights are from 0 on: what is the largest product with an element has one of these.
    """
    places, number = np.unique(found.places, return_inverse=True)
    least, most = np.full(len(places), np.inf), np.zeros(len(places))
    np.minimum.at(least, number.reshape(-1), found.weights.reshape(-1))
    np.maximum.at(most, number.reshape(-1), found.weights.reshape(-1))
    count = 0.0 if found.inside else np.inf
    return _Neighbours(np.stack([places, places]), np.stack([least, most]), count)


@attributes
class _WholePlaces(RegionPool):
    """Base of pooling the whole places that bins cover."""

    def _edges(self, corners: np.ndarray, axis: int, size: int) -> list[tuple[int, int]]:
        """Places at which each bin along an axis begins, and ends (behind its last place)."""
        low, length = self._extent(corners)
        number = np.arange(self.output_size[axis], dtype=corners.dtype)
        begins, ends = self._places(low, self._width(length, axis), number)
        # A scale may take corners beyond float32; where no number is left, bins are empty.
        unknown = np.isnan(begins) | np.isnan(ends)
        places = (np.where(unknown, 0, np.clip(v, 0, size)) for v in (begins, ends))
        return [(int(a), int(b)) for a, b in zip(*places, strict=True)]

    def _width(self, length: np.floating, axis: int) -> np.floating:
        """The size of a bin along an axis."""
        return length / type(length)(self.output_size[axis])

    @abstractmethod
    def _extent(self, corners: np.ndarray) -> tuple[np.floating, np.floating]:
        """Begin of a region along an axis, and its size."""

    @abstractmethod
    def _places(
        self, low: np.floating, width: np.floating, number: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Begins and ends of bins ``number`` of a region from ``low`` on, each ``width`` wide."""


@attributes
class MaxRoiPool(_WholePlaces):
    """The maximum of each bin of a region, as ONNX's MaxRoiPool; 0 for an empty bin.

    Corners are scaled by ``spatial_scale`` and rounded, halves away from 0; a region reaches to its
    second corner's far edge and is at least 1 wide and high. Bin i of n reaches from
    floor(i * size / n) to ceil((i + 1) * size / n). ``shares``: what a region's size is multiplied
    by to give that of a bin (height, width), for formats that do not divide: where a bin ends on a
    whole place the last bit decides. ``whole``: bins are computed in whole numbers, without any
    rounding.
    """

    shares: tuple[float, float] | None = None
    whole: bool = False

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        good = self.shares is None or (len(self.shares) == 2 and min(self.shares) > 0)
        require(good, f"MaxRoiPool: shares {self.shares}")
        require(not (self.whole and self.shares), "MaxRoiPool: shares of whole bins")
        return super().infer(*inputs)

    def _pool(self, x: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        down = self._edges(rows, 0, x.shape[1])
        across = self._edges(columns, 1, x.shape[2])
        y = np.zeros((len(x), *self.output_size), x.dtype)
        for i, (top, bottom) in enumerate(down):
            run_limits.check()
            for j, (left, right) in enumerate(across):
                if top < bottom and left < right:
                    y[:, i, j] = x[:, top:bottom, left:right].max(axis=(1, 2))
        return y

    def _extent(self, corners: np.ndarray) -> tuple[np.floating, np.floating]:
        low, high = rounded(corners * corners.dtype.type(self.spatial_scale))
        one = corners.dtype.type(1)
        return low, np.maximum(high - low + one, one)

    def _width(self, length: np.floating, axis: int) -> np.floating:
        if self.shares is None:
            return super()._width(length, axis)
        return length * type(length)(self.shares[axis])

    def _places(
        self, low: np.floating, width: np.floating, number: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        return low + np.floor(number * width), low + np.ceil(
            (number + number.dtype.type(1)) * width
        )

    def _edges(self, corners: np.ndarray, axis: int, size: int) -> list[tuple[int, int]]:
        if not self.whole:
            return super()._edges(corners, axis, size)
        ends = np.clip(rounded(corners * corners.dtype.type(self.spatial_scale)), -FAR, FAR)
        low, bins = int(ends[0]), self.output_size[axis]
        length = max(int(ends[1]) - low + 1, 1)
        places = [(n * length // bins, -(-(n + 1) * length // bins)) for n in range(bins)]
        return [(_within(low + a, size), _within(low + b, size)) for a, b in places]


@attributes
class PositionSensitiveRoiPool(_WholePlaces):
    """The mean of each bin of a region, each bin in a channel of its own; 0 for an empty bin.

    x [N, C * h * w, H, W]; channel c of bin (i, j) is (c * h + i) * w + j of x. Corners are
    rounded, halves away from 0 (the second after 1 was added), then scaled by ``spatial_scale``; a
    region is at least 0.1 wide and high. Bin i of n reaches from floor(begin + i * size / n) to
    ceil(begin + (i + 1) * size / n).
    """

    def _channels(self, x: TensorType) -> int | None:
        parts = self.output_size[0] * self.output_size[1]
        if x.shape[1] is None:
            return None
        whole = x.shape[1] % parts == 0
        require(whole, f"{type(self).__name__}: {x} should have a multiple of {parts} channels")
        return x.shape[1] // parts

    def _pool(self, x: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        down = self._edges(rows, 0, x.shape[1])
        across = self._edges(columns, 1, x.shape[2])
        parts = x.reshape(-1, *self.output_size, *x.shape[1:])
        y = np.zeros(parts.shape[:3])
        for i, (top, bottom) in enumerate(down):
            run_limits.check()
            for j, (left, right) in enumerate(across):
                if top < bottom and left < right:
                    part = parts[:, i, j, top:bottom, left:right]
                    y[:, i, j] = part.mean(axis=(1, 2), dtype=np.float64)
        return y

    def _extent(self, corners: np.ndarray) -> tuple[np.floating, np.floating]:
        ends = rounded(corners + np.asarray((0, 1), corners.dtype))
        kind = corners.dtype.type
        low, high = ends * kind(self.spatial_scale)
        return low, np.maximum(high - low, kind(0.1))

    def _places(
        self, low: np.floating, width: np.floating, number: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        begins = np.floor(low + number * width)
        return begins, np.ceil(low + (number + number.dtype.type(1)) * width)


def sampled(
    down: np.ndarray, x: np.ndarray, across: np.ndarray, dtype: Any = np.float64
) -> np.ndarray:
    """``down @ x @ across.T`` for weights from 0 on, computed in float64.

    Places of weight 0 are not read: an infinity or NaN there is none of the sample's.
    """
    y = np.empty((*x.shape[:-2], len(down), len(across)), dtype)
    for at in np.ndindex(*x.shape[:-2]):
        for rows in blocks(len(down), 8 * max(x.shape[-1], len(across))):
            y[at][rows] = _sampled(down[rows], x[at], across)
    return y


def _sampled(down: np.ndarray, x: np.ndarray, across: np.ndarray) -> np.ndarray:
    wide = x.astype(np.float64)
    y = down @ np.where(np.isfinite(x), wide, 0) @ across.T
    if np.isfinite(x).all():
        return y
    reads = [(down > 0).astype(float), (across > 0).astype(float)]
    nan, most, least = (
        reads[0] @ special @ reads[1].T > 0
        for special in (np.isnan(x), wide == np.inf, wide == -np.inf)
    )
    y = np.where(least, -np.inf, np.where(most, np.inf, y))
    return np.where(nan | (most & least), np.nan, y)


def _within(place: int, size: int) -> int:
    return min(max(place, 0), size)


def rounded(values: np.ndarray) -> np.ndarray:
    """Values rounded to the nearest whole number, halves away from 0."""
    whole = np.trunc(values)
    up = np.abs(values - whole) >= values.dtype.type(0.5)
    return np.where(up, whole + np.copysign(values.dtype.type(1), values), whole).astype(
        values.dtype
    )
