"""Spectrogram and InverseSpectrogram: short-time Fourier transforms.

The transform of windows of n samples, h samples apart, is a convolution over blocks of h samples:
blocks are positions, samples of a block are channels, and a window covers ceil(n / h) positions.
The inverse, with the sum of overlapping windows, is the transposed convolution. Where h is larger
than n, a block is one sample and the convolution has a stride.

ncnn differs: angles of the Fourier matrices are rounded to float32 before their cosine is taken.
ncnn differs: of a blob with several rows Spectrogram reads the first; InverseSpectrogram reads the
first matrix of each channel, and the first two of more columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from vknn.formats.ncnn.context import Context, innermost, rank, shape
from vknn.formats.ncnn.params import Params, param, require
from vknn.formats.ncnn.registry import layer
from vknn.graph import DType, Value, attributes
from vknn.ops.convolution.conv import Conv
from vknn.ops.convolution.conv_transpose import ConvTranspose
from vknn.ops.elementwise import Add, Mul, Sqrt
from vknn.ops.movement.shape import Pad, Slice, Transpose

#: Limit of n_fft, whose square is the size of a Fourier matrix.
_MAX_FFT = 8192
_ONES, _HANN, _HAMMING = 0, 1, 2
_MODES = ("constant", "edge", "reflect")


@attributes
class SignalParams(Params):
    """Parameters of both layers; ``None`` stands for a default that depends on n_fft."""

    n_fft: int = param(0)
    hoplen: int = param(2, None)
    winlen: int = param(3, like="n_fft")
    window_type: int = param(4)
    center: int = param(5, 1)
    normalized: int = param(7)

    @property
    def hop(self) -> int:
        """Number of samples from one window to the next."""
        return self.n_fft // 4 if self.hoplen is None else self.hoplen

    @property
    def onesided_bins(self) -> int:
        """Number of bins from 0 to half the sample rate."""
        return self.n_fft // 2 + 1

    @property
    def block(self) -> int:
        """Number of samples in a block."""
        return self.hop if self.hop <= self.n_fft else 1

    @property
    def stride(self) -> int:
        """Number of blocks from one window to the next."""
        return self.hop // self.block

    @property
    def taps(self) -> int:
        """Number of blocks that a window covers."""
        return -(-self.n_fft // self.block)

    def count(self, frames: int) -> int:
        """Number of blocks that ``frames`` windows cover."""
        return (frames - 1) * self.stride + self.taps

    def check(self) -> None:
        n = self.n_fft
        require(0 < n <= _MAX_FFT, f"n_fft (parameter 0) is {n}, not 1 to {_MAX_FFT}")
        require(self.hop > 0, f"hoplen (parameter 2) is {self.hop}: windows do not advance")
        good = 0 < self.winlen <= n
        require(good, f"winlen (parameter 3) is {self.winlen}, not 1 to n_fft = {n}")
        kinds = (_ONES, _HANN, _HAMMING)
        require(self.window_type in kinds, f"unknown window_type {self.window_type} (parameter 4)")
        require(self.normalized in (0, 1, 2), f"unknown normalized {self.normalized} (parameter 7)")

    def window(self) -> np.ndarray:
        """Window function of n_fft weights: winlen in the middle, 0 around them."""
        turns = 2 * math.pi * np.arange(self.winlen) / self.winlen
        cosine = np.cos(turns.astype(np.float32).astype(np.float64))
        shape_ = {
            _ONES: np.ones_like(cosine),
            _HANN: 0.5 * (1 - cosine),
            _HAMMING: 0.54 - 0.46 * cosine,
        }[self.window_type]
        before = (self.n_fft - self.winlen) // 2
        return np.pad(shape_, (before, self.n_fft - self.winlen - before))

    def norm(self, window: np.ndarray) -> float:
        """Divisor of a spectrum by the parameter normalized."""
        lengths = (1.0, math.sqrt(self.n_fft), math.sqrt(float((window**2).sum())))
        return lengths[self.normalized]


@attributes
class SpectrogramParams(SignalParams):
    """Parameters of Spectrogram."""

    power: int = param(1)
    pad_type: int = param(6, 2)
    onesided: int = param(8, 1)

    def check(self) -> None:
        super().check()
        require(self.power in (0, 1, 2), f"unknown power {self.power} (parameter 1)")
        require(self.pad_type in (0, 1, 2), f"unknown pad_type {self.pad_type} (parameter 6)")


@attributes
class InverseParams(SignalParams):
    """Parameters of InverseSpectrogram; ``returns``: 0 both parts, 1 the real, 2 the imaginary."""

    returns: int = param(1)

    def check(self) -> None:
        super().check()
        require(self.returns in (0, 1, 2), f"unknown returns {self.returns} (parameter 1)")

    def outsize(self, frames: int) -> int:
        """Number of samples of the result."""
        own = self.n_fft % 2 if self.center else self.n_fft
        return (frames - 1) * self.hop + own


def _fourier(rows: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines [rows, n] of 2 pi i k / n, with angles rounded to float32."""
    products = np.arange(rows)[:, None] * np.arange(n, dtype=np.float64)
    angles = (2 * math.pi * products / n).astype(np.float32).astype(np.float64)
    return np.cos(angles), np.sin(angles)


@layer("Spectrogram", params=SpectrogramParams)
def spectrogram(c: Context[SpectrogramParams]) -> Value:
    """Spectra (bins, frames, 2), or for power 1 or 2 magnitudes or their squares (bins, frames)."""
    p = c.params
    signal = _padded_signal(c)
    size = signal.type.dims[1]
    frames = (size - p.n_fft) // p.hop + 1
    c.require(size >= p.n_fft, f"a signal of {size} samples is shorter than n_fft = {p.n_fft}")
    x = _in_blocks(c, signal, p.count(frames))
    bins = p.onesided_bins if p.onesided else p.n_fft
    c.makeable(2 * p.n_fft * bins, DType.FLOAT64)
    weight = c.constant(_analysis(p), "fourier")
    y = c.add(Conv((p.stride,), (0, 0), (1,)), x, weight)
    if p.power == 0:
        return c.add(Transpose((0, 1, 3, 2)), c.reshape(y, (1, bins, 2, frames)))
    real, imaginary = (c.add(Slice((start,), (start + bins,), (1,)), y) for start in (0, bins))
    total = c.add(Add(), c.add(Mul(), real, real), c.add(Mul(), imaginary, imaginary))
    return c.add(Sqrt(), total) if p.power == 1 else total


def _padded_signal(c: Context[SpectrogramParams]) -> Value:
    """The signal [1, samples], the first row of the input, padded by half a window if centered."""
    p, x = c.params, innermost(c, c.x, 1)
    if p.center != 1:
        return x
    half = p.n_fft // 2
    mode = _MODES[p.pad_type]
    fits = mode != "reflect" or half < x.type.dims[1]
    samples = x.type.dims[1]
    c.require(fits, f"a signal of {samples} samples is too short to be mirrored by {half}")
    return c.add(Pad((0, half, 0, half), mode), x) if half else x


def _in_blocks(c: Context[SpectrogramParams], signal: Value, count: int) -> Value:
    """The signal as [1, samples of a block, blocks], cropped or padded with zeros."""
    size, wanted = signal.type.dims[1], count * c.params.block
    if size < wanted:
        signal = c.add(Pad((0, 0, 0, wanted - size)), signal)
    elif size > wanted:
        signal = c.add(Slice((0,), (wanted,), (1,)), signal)
    return c.add(Transpose((0, 2, 1)), c.reshape(signal, (1, count, c.params.block)))


def _analysis(p: SpectrogramParams) -> np.ndarray:
    """Weights [2 bins, block, taps]: for power 0 parts within bins, else all real parts first."""
    n, window = p.n_fft, p.window()
    cosines, sines = _fourier(p.onesided_bins, n)
    parts = np.stack([cosines, -sines]) * (window / p.norm(window))
    if not p.onesided:
        mirrored = parts[:, n - np.arange(p.onesided_bins, n)] * np.array([[[1.0]], [[-1.0]]])
        parts = np.concatenate([parts, mirrored], axis=1)
    if p.power == 0:
        parts = parts.swapaxes(0, 1)
    return _by_blocks(p, parts.reshape(-1, n))


def _by_blocks(p: SignalParams, rows: np.ndarray) -> np.ndarray:
    """Rows of n_fft numbers as weights [rows, block, taps]."""
    filled = np.pad(rows, [(0, 0), (0, p.taps * p.block - p.n_fft)])
    blocked = filled.reshape(len(rows), p.taps, p.block).swapaxes(1, 2)
    return np.ascontiguousarray(blocked, np.float32)


@layer("InverseSpectrogram", params=InverseParams)
def inverse_spectrogram(c: Context[InverseParams]) -> Value:
    """Signal (samples, 2) or (samples): sum of windows divided by the sum of their squares."""
    p = c.params
    x = _spectra(c)
    bins, frames = x.type.dims[1] // 2, x.type.dims[2]
    size = p.outsize(frames)
    c.require(size > 0, f"{frames} frames are too few: no sample would be left")
    c.makeable(size, DType.FLOAT64)
    c.makeable(2 * p.n_fft * bins, DType.FLOAT64)
    window = p.window()
    taps = _synthesis(p, window, bins)
    # [2 bins, parts, n_fft] -> [2 bins, parts * block, taps]
    weight = _by_blocks(p, taps.reshape(-1, p.n_fft)).reshape(2 * bins, -1, p.taps)
    y = c.add(ConvTranspose((p.stride,), (0, 0), (1,)), x, c.constant(weight, "fourier"))
    parts, count = taps.shape[1], y.type.dims[2]
    y = c.add(Transpose((0, 3, 2, 1)), c.reshape(y, (1, parts, p.block, count)))
    start = p.n_fft // 2 if p.center == 1 else 0
    y = c.add(Slice((start,), (start + size,), (1,)), c.reshape(y, (1, count * p.block, parts)))
    factors = _factors(p, window, frames)[start : start + size]
    y = c.add(Mul(), y, c.constant(factors[None, :, None], "window"))
    return y if p.returns == 0 else c.reshape(y, (1, size))


def _spectra(c: Context[InverseParams]) -> Value:
    """The input (bins, frames, 2) as [1, 2 bins, frames], without surplus bins."""
    p, x = c.params, c.x
    sizes = shape(x)
    if rank(x) == 4 and sizes[1] > 1:
        x = c.add(Slice((0,), (1,), (2,)), x)
    leading = (sizes[0],) if rank(x) > 2 else (1,)
    c.require(rank(x) >= 2 and sizes[-1] >= 2, f"takes (bins, frames, 2), not {list(sizes)}")
    x = c.reshape(x, (1, *leading, *sizes[-2:]))
    bins, wanted = leading[0], (p.onesided_bins, p.n_fft)
    good = bins == wanted[0] or bins >= wanted[1]
    c.require(good, f"takes {wanted[0]} or {wanted[1]} bins (n_fft is {p.n_fft}), not {bins}")
    kept = bins if bins == wanted[0] else wanted[1]
    if bins > kept or sizes[-1] > 2:
        x = c.add(Slice((0, 0), (kept, 2), (1, 3)), x)
    return c.reshape(c.add(Transpose((0, 1, 3, 2)), x), (1, 2 * kept, sizes[-2]))


def _synthesis(p: InverseParams, window: np.ndarray, bins: int) -> np.ndarray:
    """Weights [2 bins, parts, n_fft] of the parts of bins for the parts of samples."""
    n = p.n_fft
    cosines, sines = _fourier(n, n)
    # [bin, part of the bin, part of the sample, sample]
    full = np.stack([np.stack([cosines, sines], 1), np.stack([-sines, cosines], 1)], 1)
    if bins < n:
        # The upper bins are the conjugates of the lower ones.
        mirrored = n - np.arange(bins, n)
        sign = np.array([1.0, -1.0])[None, :, None, None]
        np.add.at(full, mirrored, full[bins:] * sign)
        full = full[:bins]
    chosen: Sequence[int] = (0, 1) if p.returns == 0 else (p.returns - 1,)
    scaled = full[:, :, list(chosen)] * (window * p.norm(window) / n)
    return scaled.reshape(2 * bins, len(chosen), n)


def _factors(p: InverseParams, window: np.ndarray, frames: int) -> np.ndarray:
    """1 / sum of the squares of the windows at each sample; 1 where there is no window."""
    sums = np.zeros(p.count(frames) * p.block)
    squares = (window**2).astype(np.float32)
    for frame in range(frames):
        sums[frame * p.hop : frame * p.hop + p.n_fft] += squares
    return np.divide(1.0, sums, out=np.ones_like(sums), where=sums != 0).astype(np.float32)
