"""BilinearRoiPool and DeformableRoiPool: bilinear samples on a grid in each region."""

from __future__ import annotations

import numpy as np

from vknn import run_limits
from vknn.graph import TensorType, attributes
from vknn.ops.common.blocks import columns
from vknn.ops.common.checks import arguments, fits, require, require_float
from vknn.ops.pooling.roi_pooling import RegionPool, rounded, sampled


@attributes
class BilinearRoiPool(RegionPool):
    """Bilinear samples on a grid in each region, whose corners are fractions of the image.

    Sample i of n along an axis lies at (low + (high - low) * i / (n - 1)) * (size - 1), a single
    one in the middle; samples beyond the image are 0. With ``parts`` (rows, columns) a region is
    cut into so many parts after its corners were multiplied by ``spatial_scale``; part number b
    has a grid of its own in channels b * C and following of x [N, parts * C, H, W], and the result
    is the mean over the parts. Without them ``spatial_scale`` is not used.
    """

    parts: tuple[int, int] | None = None

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        good = self.parts is None or (len(self.parts) == 2 and min(self.parts) >= 1)
        require(good, f"BilinearRoiPool: parts {self.parts}")
        return super().infer(*inputs)

    def _channels(self, x: TensorType) -> int | None:
        rows, columns = self.parts or (1, 1)
        if x.shape[1] is None:
            return None
        whole = x.shape[1] % (rows * columns) == 0
        require(whole, f"BilinearRoiPool: {x} should have a multiple of {rows * columns} channels")
        return x.shape[1] // (rows * columns)

    def _pool(self, x: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        down, across = self.parts or (1, 1)
        own = x.reshape(down, across, -1, *x.shape[1:]).astype(np.float64)
        y = np.zeros((own.shape[2], *self.output_size))
        for i, j in np.ndindex(down, across):
            of_rows = self._weights(rows, i, down, 0, x.shape[1])
            of_columns = self._weights(columns, j, across, 1, x.shape[2])
            y += sampled(of_rows, own[i, j], of_columns)
        return y / (down * across)

    def _weights(
        self, corners: np.ndarray, part: int, parts: int, axis: int, size: int
    ) -> np.ndarray:
        """Weights of each place along an axis in each of n samples: [n, size]."""
        low, high = corners
        if self.parts is not None:
            low, high = corners * np.float32(self.spatial_scale)
            share = (high - low) / np.float32(parts)
            low, high = low + np.float32(part) * share, low + np.float32(part + 1) * share
        count, last = self.output_size[axis], np.float32(size - 1)
        if count > 1:
            step = (high - low) * last / np.float32(count - 1)
            places = np.arange(count, dtype=np.float32) * step + low * last
        else:
            places = np.array([np.float32(0.5) * (low + high) * last])
        weights = np.zeros((count, size))
        for number, place in enumerate(places):
            if 0 <= place <= last:
                first = int(place)
                fraction = float(place) - first
                weights[number, first] += 1.0 - fraction
                weights[number, min(first + 1, size - 1)] += fraction
        return weights


@attributes
class DeformableRoiPool(RegionPool):
    """The mean of bilinear samples in each bin of a region, each bin moved by an offset of its own.

    Inputs x [N, C * group^2, H, W], regions and optionally offsets [R, 2 * K, parts, parts], of x
    and y of each of K classes (C / K channels each). Corners are rounded, halves away from 0, 1
    added to the second, scaled by ``spatial_scale`` and moved by -0.5; a region is at least 0.1
    wide and high. Bin i of n moves by ``spread`` times the region's size times the offset of part
    i * parts // n. Its samples (rows, columns) begin at its low corner and lie a share of it
    apart, of its height by their number along the width and the other way round. Those more than
    0.5 beyond the image are left out; the others are moved inside. Channel c of bin (i, j) is
    (c * group + i * group // n) * group + j * group // m of x. Without samples the result is 0.
    """

    group: int = 1
    samples: tuple[int, int] = (1, 1)
    parts: int = 1
    spread: float = 1.0

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        x, rois, offsets = arguments(self, inputs, 2, optional=1)
        good = len(self.samples) == 2 and min(*self.samples, self.group, self.parts) >= 1
        require(good, f"DeformableRoiPool: {self}")
        (y,) = super().infer(x, rois)
        if offsets is not None:
            require_float(self, offsets)
            good = offsets.rank == 4 and fits(offsets.shape[0], rois.shape[0])
            good = good and offsets.shape[2:] == (self.parts, self.parts)
            kinds = (offsets.shape[1] or 0) if good else 0
            good = good and kinds >= 2 and kinds % 2 == 0
            good = good and (y.shape[1] or 0) % (kinds // 2) == 0
            wanted = f"[R, 2 * K, {self.parts}, {self.parts}]"
            require(good, f"DeformableRoiPool: offsets {offsets} should be {wanted} for {y}")
        return (y,)

    def _channels(self, x: TensorType) -> int | None:
        parts = self.group * self.group
        if x.shape[1] is None:
            return None
        whole = x.shape[1] % parts == 0
        require(whole, f"DeformableRoiPool: {x} should have a multiple of {parts} channels")
        return x.shape[1] // parts

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        x, rois, offsets = arguments(self, inputs, 2, optional=1)
        if offsets is None:
            return super().reference(x, rois)
        channels = self._channels(TensorType.of(x)) or 0
        y = np.zeros((len(rois), channels, *self.output_size), x.dtype)
        # Regions of a class are pooled as if they were of no other.
        kinds = offsets.shape[1] // 2
        own = x.reshape(len(x), kinds, -1, *x.shape[2:])
        parts = y.reshape(len(rois), kinds, -1, *self.output_size)
        images = rois[:, 0] if rois.shape[1] == 5 else np.zeros(len(rois))
        moves = offsets.reshape(len(rois), kinds, 2, self.parts, self.parts)
        with np.errstate(all="ignore"):
            for row, kind in np.ndindex(len(rois), kinds):
                number, corners = images[row], rois[row, -4:].astype(np.float32).reshape(2, 2)
                if 0 <= number < len(x) and np.isfinite(corners).all():
                    by = moves[row, kind] * np.float32(self.spread)
                    parts[row, kind] = self._moved(own[int(number), kind], corners, by)
        return (y,)

    def _pool(self, x: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        still = np.zeros((2, self.parts, self.parts), np.float32)
        return self._moved(x, np.stack([columns, rows], axis=1), still)

    def _moved(self, x: np.ndarray, corners: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """x [C * group^2, H, W] pooled in a region (two corners); offsets [2, parts, parts]."""
        x = x.reshape(-1, self.group, self.group, *x.shape[1:])
        high, wide = self.output_size
        ends = rounded(corners) + np.array([[0], [1]], np.float32)
        low, end = ends * np.float32(self.spatial_scale) - np.float32(0.5)
        size = np.maximum(end - low, np.float32(0.1))  # x, y
        bins = size / np.array([wide, high], np.float32)
        steps = bins / np.array(self.samples, np.float32)
        y = np.zeros((len(x), high, wide))
        for i, j in np.ndindex(high, wide):
            run_limits.check()
            moved = offsets[:, i * self.parts // high, j * self.parts // wide] * size
            start = np.array([j, i], np.float32) * bins + low + moved
            own = x[:, i * self.group // high, j * self.group // wide]
            across, down = (
                self._mean_weights(start[k], steps[k], count, size_in)
                for k, (count, size_in) in enumerate(
                    zip(self.samples[::-1], own.shape[:0:-1], strict=True)
                )
            )
            if len(across) and len(down):
                y[:, i, j] = sampled(down, own, across)[:, 0, 0]
        return y

    @staticmethod
    def _mean_weights(start: np.float32, step: np.float32, count: int, size: int) -> np.ndarray:
        """The mean along an axis of the weights of each place in the samples within the image.

        [1, size], or [0, size] where no sample is. The mean over a grid is the one along both axes.
        """
        half, last, weights, inside = np.float32(0.5), np.float32(size - 1), np.zeros(size), 0
        for part in columns((count,)):
            places = start + np.arange(part.start, part.stop).astype(np.float32) * step
            places = places[(places >= -half) & (places <= np.float32(size) - half)]
            places = np.clip(places, np.float32(0), last)
            first = places.astype(np.int64)
            fraction = places.astype(np.float64) - first
            weights += np.bincount(first, 1.0 - fraction, size)
            weights += np.bincount(np.minimum(first + 1, size - 1), fraction, size)
            inside += len(places)
        return weights[None] / inside if inside else np.zeros((0, size))
