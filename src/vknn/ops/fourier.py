"""DFT: the discrete Fourier transform, by FFT on the host."""

from __future__ import annotations

import numpy as np

from vknn.graph import Op, TensorType, attributes
from vknn.ops.common.checks import arguments, require, require_float


def dft_matrix(count: int, length: int, real: bool, inverse: bool, onesided: bool) -> np.ndarray:
    """The matrix that transforms ``count`` numbers, float64.

    Rows are real numbers or, not ``real``, the real and imaginary parts in turn; columns are those
    of the result, as :class:`DFT` gives it.
    """
    halved = onesided and inverse
    bins = length // 2 + 1 if onesided and not inverse else length
    turns = np.outer(np.arange(count, dtype=np.int64), np.arange(bins, dtype=np.int64)) % length
    angle = turns * (2 * np.pi / length)
    cos, sin = np.cos(angle), np.sin(angle) * (1 if inverse else -1)
    if halved:  # each but the first and the middle one stands for its conjugate, too
        twice = np.full((count, 1), 2.0)
        twice[0] = 1.0
        if length % 2 == 0 and count == length // 2 + 1:
            twice[-1] = 1.0
        cos, sin = cos * twice, sin * twice
    if inverse:
        cos, sin = cos / length, sin / length
    if halved:
        return np.stack([cos, -sin], 1).reshape(2 * count, bins)
    of_real = np.stack([cos, sin], -1).reshape(count, 2 * bins)
    if real:
        return of_real
    of_imaginary = np.stack([-sin, cos], -1).reshape(count, 2 * bins)
    return np.stack([of_real, of_imaginary], 1).reshape(2 * count, 2 * bins)


@attributes
class DFT(Op):
    """The discrete Fourier transform of x [..., n, 1 or 2] (real, or real and imaginary part).

    sum over j of x[j] e^(-2 pi i j k / length), j up to ``length``, x being cut or padded with 0;
    [..., length, 2]. ``inverse``: with e^(+2 pi i j k / length), divided by length. ``onesided``:
    only k up to length / 2; the ``inverse`` of that takes so many and gives reals [..., length, 1].
    """

    length: int
    inverse: bool = False
    onesided: bool = False

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        require_float(self, x)
        good = x.rank >= 2 and x.shape[-1] in ((2,) if self.onesided and self.inverse else (1, 2))
        require(good and self.length >= 1, f"DFT: {x} of length {self.length}")
        bins = self.length // 2 + 1 if self.onesided and not self.inverse else self.length
        parts = 1 if self.onesided and self.inverse else 2
        return (x.with_shape((*x.shape[:-2], bins, parts)),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        wide = x.astype(np.float64)
        numbers = wide[..., 0] + 1j * wide[..., 1] if x.shape[-1] == 2 else wide[..., 0]
        with np.errstate(all="ignore"):
            if self.onesided and self.inverse:
                found = np.fft.irfft(numbers, self.length)[..., None]
                return (found.astype(x.dtype),)
            transform = np.fft.ifft if self.inverse else np.fft.fft
            spectrum = transform(numbers, self.length)
            if self.onesided:
                spectrum = spectrum[..., : self.length // 2 + 1]
            return (np.stack([spectrum.real, spectrum.imag], -1).astype(x.dtype),)
