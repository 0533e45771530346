"""Windows of signals, and Fourier transforms."""

from __future__ import annotations

import numpy as np

from vknn.formats.fourier import transformed
from vknn.formats.onnx.context import Context
from vknn.formats.onnx.registry import MICROSOFT, Convert, operator
from vknn.graph import DType, Value
from vknn.ops.elementwise import Mul
from vknn.ops.indexing.gather import Gather

#: Factors of 1, cos x and cos 2x by window.
_WINDOWS = {
    "HannWindow": (0.5, -0.5, 0.0),
    "HammingWindow": (25 / 46, -21 / 46, 0.0),
    "BlackmanWindow": (0.42, -0.5, 0.08),
}


def _window(factors: tuple[float, float, float]) -> Convert:
    def convert(c: Context) -> Value:
        count = int(c.number(0, "size"))
        c.require(count >= 0, f"has the size {count}")
        c.makeable(count, DType.FLOAT64)
        steps = count if c.flag("periodic", True) else count - 1
        x = 2 * np.pi * np.arange(count) / max(steps, 1)
        made = factors[0] + factors[1] * np.cos(x) + factors[2] * np.cos(2 * x)
        dtype: DType = c.dtype("output_datatype", DType.FLOAT32)
        return c.constant(made.astype(dtype.numpy), "window")

    convert.__doc__ = f"{factors[0]:.4g} {factors[1]:+.4g} cos x {factors[2]:+.4g} cos 2x"
    return convert


for _name, _factors in _WINDOWS.items():
    operator(_name, 17)(_window(_factors))


@operator("DFT", 17, inputs=(1, 2))
@operator("DFT", 20, inputs=(1, 3))
def dft(c: Context) -> Value:
    """The discrete Fourier transform along an axis; real and imaginary part along the last one"""
    rank = c.rank
    c.require(rank >= 2 and c.x.type.dims[-1] in (1, 2), f"takes no {c.x.type}")
    axis = c.int("axis", 1) if c.version < 20 else -2
    if c.version >= 20 and c.optional(2) is not None:
        axis = int(c.number(2, "axis"))
    axis = c.axis(axis, rank)
    c.require(axis < rank - 1, f"transforms along the last axis of {c.x.type}")
    inverse, onesided = c.flag("inverse"), c.flag("onesided")
    size = c.x.type.dims[axis]
    length = 2 * (size - 1) if inverse and onesided else size
    if c.optional(1) is not None:
        length = int(c.number(1, "dft_length"))
    perm = (*(a for a in range(rank - 1) if a != axis), axis, rank - 1)
    found = transformed(c, c.transpose(c.x, perm), length, inverse, onesided)
    return c.transpose(found, [perm.index(a) for a in range(rank)])


@operator("STFT", 17, inputs=(2, 4))
def stft(c: Context) -> Value:
    """Discrete Fourier transforms of frames of a signal, each times a window"""
    signal, kind = c.x, c.x.type.dtype
    if signal.type.rank == 2:
        signal = c.reshape(signal, (*signal.type.dims, 1))
    c.require(signal.type.rank == 3 and signal.type.dims[2] in (1, 2), f"takes no {c.x.type}")
    batch, size, _ = signal.type.dims
    step, window = int(c.number(1, "frame_step")), c.optional(2)
    if c.optional(3) is not None:
        length = int(c.number(3, "frame_length"))
    else:
        length = size if window is None else window.type.size
    c.require(step >= 1 and 1 <= length <= size, f"has frames of {length}, {step} apart, of {size}")
    count = (size - length) // step + 1
    c.makeable(count * length)
    places = np.arange(count)[:, None] * step + np.arange(length)
    frames = c.add(Gather(1), signal, c.constant(places.astype(np.int32), "frames"))
    if window is not None:
        good = window.type.dims == (length,)
        c.require(good, f"has the window {window.type} for frames of {length}")
        factors = c.reshape(c.cast(window, kind), (length, 1))
        frames = c.add(Mul(), frames, factors)
    found = transformed(c, frames, length, False, c.flag("onesided", True))
    return c.reshape(found, (batch, count, *found.type.dims[2:]))


@operator("MelWeightMatrix", 17, inputs=5, like=-1)
def mel_weight_matrix(c: Context) -> Value:
    """Weights of triangles on the mel scale, for each of them a column"""
    names = ("num_mel_bins", "dft_length", "sample_rate")
    mels, length, rate = (int(c.number(i, name)) for i, name in enumerate(names))
    low, high = float(c.number(3, "lower_edge_hertz")), float(c.number(4, "upper_edge_hertz"))
    bins = length // 2 + 1
    sane = mels >= 0 and length >= 0 and rate > 0
    c.require(sane, f"has {mels} mel bins of {length} samples at the rate {rate}")
    c.makeable(max(mels, 1) * bins, DType.FLOAT64)
    c.makeable(mels + 2, DType.FLOAT64)
    ends = 2595 * np.log10(1 + np.asarray([low, high]) / 700)
    scale = np.arange(mels + 2) * ((ends[1] - ends[0]) / (mels + 2)) + ends[0]
    hertz = 700 * (10 ** (scale / 2595) - 1)
    edges = np.floor((length + 1) * hertz / rate).astype(np.int64)
    c.require(edges.min() >= 0 and edges.max() < max(bins, 1), "has edges beyond the spectrum")
    made = np.zeros((bins, mels))
    for number in range(mels):
        first, middle, last = edges[number : number + 3]
        rising = np.arange(first, middle + 1)
        made[rising, number] = (rising - first) / (middle - first) if middle > first else 1.0
        falling = np.arange(middle, last)
        made[falling, number] = (last - falling) / max(last - middle, 1)
    dtype: DType = c.dtype("output_datatype", DType.FLOAT32)
    return c.constant(made.astype(dtype.numpy), "weights")


@operator("Rfft", 1, domain=MICROSOFT)
def rfft(c: Context) -> Value:
    """The first half of the spectrum of real signals; real and imaginary part along a new axis"""
    axes = _signal_axes(c, c.rank)
    x = c.reshape(c.x, (*c.x.type.dims, 1))
    found = transformed(c, x, x.type.dims[-2], False, True)
    if axes == 2:
        rank = found.type.rank
        perm = (*range(rank - 3), rank - 2, rank - 3, rank - 1)
        turned = c.transpose(found, perm)
        found = c.transpose(transformed(c, turned, turned.type.dims[-2], False, False), perm)
    return found


@operator("Irfft", 1, domain=MICROSOFT)
def irfft(c: Context) -> Value:
    """Real signals from the first half of their spectrum"""
    axes = _signal_axes(c, c.rank - 1)
    x = c.x
    c.require(x.type.dims[-1] == 2, f"takes no {x.type}")
    if axes == 2:
        rank = x.type.rank
        perm = (*range(rank - 3), rank - 2, rank - 3, rank - 1)
        turned = c.transpose(x, perm)
        x = c.transpose(transformed(c, turned, turned.type.dims[-2], True, False), perm)
    found = transformed(c, x, 2 * (x.type.dims[-2] - 1), True, True)
    return c.reshape(found, found.type.dims[:-1])


def _signal_axes(c: Context, rank: int) -> int:
    """The number of axes of a signal."""
    axes: int = c.int("signal_ndim")
    if c.flag("normalized"):
        c.refuse("normalized transforms")
    if not 1 <= axes <= 2:
        c.refuse(f"signals of {axes} axes")
    c.require(rank >= axes and c.flag("onesided", True), f"takes no {c.x.type}")
    return axes
