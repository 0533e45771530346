"""AudioSpectrogram, Mfcc and NumericVerify: custom operators that TensorFlow Lite brings along."""

from __future__ import annotations

import math

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.layers.common.quantization import dequantized
from vknn.formats.tflite.registry import operator
from vknn.graph import Value
from vknn.ops import elementwise as ew
from vknn.ops.indexing.gather import Gather
from vknn.ops.matmul import MatMul

_MOST = 1 << 16
_FLOOR = 1e-12


def _whole(c: Context, name: str) -> int:
    found = c.options.get(name)
    c.require(isinstance(found, int | float), f"has no number as option {name!r}: {found!r}")
    c.require(abs(found) < 1 << 24, f"has {name} {found}")
    return int(found)


@operator("AudioSpectrogram", custom=True)
def audio_spectrogram(c: Context) -> Value:
    """Power (or magnitude) spectra [channels, frames, bins] of samples [n, channels].

    Frames have a Hann window and are padded with zeros to a power of two.
    """
    window, stride = _whole(c, "window_size"), _whole(c, "stride")
    c.require(c.x.type.rank == 2, f"has samples {c.x.type}")
    c.require(2 <= window <= _MOST and stride >= 1, f"has windows of {window} every {stride}")
    samples, channels = c.x.type.dims
    frames = 0 if samples < window else 1 + (samples - window) // stride
    length = 1 << (window - 1).bit_length()
    bins = 1 + length // 2
    if not frames:
        return c.constant(np.zeros((channels, 0, bins), np.float32), "empty")
    c.makeable(frames * window)
    rows = np.arange(frames)[:, None] * stride + np.arange(window)
    sound = c.transpose(c.x, (1, 0))
    cut = c.add(Gather(1, from_end=False), sound, c.constant(rows.astype(np.int32), "frames"))
    flat = c.reshape(cut, (channels * frames, window))
    c.makeable(window * bins)
    parts = [c.add(MatMul(), flat, c.constant(m, "waves")) for m in _waves(window, length)]
    power = c.add(ew.Add(), *(c.add(ew.Square(), part) for part in parts))
    if not c.options.get("magnitude_squared"):
        power = c.add(ew.Sqrt(), power)
    return c.reshape(power, (channels, frames, bins))


def _waves(window: int, length: int) -> list[np.ndarray]:
    """Cosines and sines times the periodic Hann window, each [window, bins]."""
    place, turn = np.arange(window), 2 * math.pi / length
    hann = 0.5 - 0.5 * np.cos(2 * math.pi / window * place)
    angle = turn * (place[:, None] * np.arange(1 + length // 2) % length)
    return [(hann[:, None] * f(angle)).astype(np.float32) for f in (np.cos, np.sin)]


@operator("Mfcc", inputs=2, custom=True)
def mfcc(c: Context) -> Value:
    """Mel-frequency cepstral coefficients [channels, frames, coefficients] of power spectra."""
    rate = c.number(1, "the sample rate")
    bands, wanted = _whole(c, "filterbank_channel_count"), _whole(c, "dct_coefficient_count")
    low, high = _whole(c, "lower_frequency_limit"), _whole(c, "upper_frequency_limit")
    c.require(c.x.type.rank == 3, f"has spectra {c.x.type}")
    channels, frames, bins = c.x.type.dims
    good = rate > 0 and bins >= 2 and 0 <= low < high and 1 <= wanted <= bands <= _MOST
    c.require(good, f"has {wanted} of {bands} bands, {low} to {high} Hz, {bins} bins at {rate} Hz")
    weights = mel_bands(bins, rate, bands, (low, high))
    if weights is None:  # bands beyond the spectrum, for which TensorFlow Lite gives zeros
        return c.constant(np.zeros((channels, frames, wanted), np.float32), "empty")
    flat = c.reshape(c.x, (channels * frames, bins))
    found = c.add(MatMul(), c.add(ew.Sqrt(), flat), c.constant(weights, "bands"))
    found = c.add(ew.Log(), c.add(ew.Max(), found, c.scalar(_FLOOR)))
    places = np.arange(wanted) * (np.arange(bands)[:, None] + 0.5)
    waves = math.sqrt(2.0 / bands) * np.cos(math.pi / bands * places)
    y = c.add(MatMul(), found, c.constant(waves.astype(np.float32), "waves"))
    return c.reshape(y, (channels, frames, wanted))


def mel_bands(bins: int, rate: int, bands: int, limits: tuple[int, int]) -> np.ndarray | None:
    """Mel filter bank [bins, bands]: weight of each frequency in each band; None: too few bins.

    Bands are triangles over the mel scale, 1127 ln(1 + f / 700) (O'Shaughnessy 1987); the frequency
    0 has no weight. ``limits``: lowest and highest frequency in Hz, as ``rate``.
    """

    def mel(f: np.ndarray | float) -> np.ndarray:
        return np.asarray(1127.0 * np.log1p(np.asarray(f, np.float64) / 700.0))

    low, high = (float(mel(f)) for f in limits)
    step = 0.5 * rate / (bins - 1)
    first, last = int(1.5 + limits[0] / step), int(limits[1] / step)
    if last >= bins:
        return None
    centres = low + (high - low) / (bands + 1) * np.arange(1, bands + 2)
    weights = np.zeros((bins, bands + 1))
    for i in range(first, last + 1):
        place = float(mel(i * step))
        band = min(int(np.searchsorted(centres, place, "left")), bands)
        left = centres[band - 1] if band else low
        falling = (centres[band] - place) / (centres[band] - left)
        if band:
            weights[i, band - 1] += falling
        weights[i, band] += 1.0 - falling
    return weights[:, :bands].astype(np.float32)


@operator("NumericVerify", inputs=2, outputs=(0, 1), takes_quantized=True, custom=True)
def numeric_verify(c: Context) -> list[Value]:
    """Difference of dequantized numbers from reference numbers; the tolerance is ignored."""
    return [c.add(ew.Sub(), dequantized(c, 0), c.value(1))]
