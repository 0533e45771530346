"""DFT against its definition."""

from __future__ import annotations

import numpy as np
import pytest

from reference_helper import f32, refuses
from vknn.ops.fourier import DFT, dft_matrix

RNG = np.random.default_rng(3)


def transformed(x: np.ndarray, op: DFT) -> np.ndarray:
    """The sum of the definition, number by number."""
    numbers = np.zeros((*x.shape[:-2], op.length), np.complex128)
    taken = min(x.shape[-2], op.length)
    numbers[..., :taken] = x[..., :taken, 0]
    if x.shape[-1] == 2:
        numbers[..., :taken] += 1j * x[..., :taken, 1]
    k = np.arange(op.length)
    sign = 1 if op.inverse else -1
    matrix = np.exp(sign * 2j * np.pi * np.outer(k, k) / op.length)
    found = numbers @ matrix / (op.length if op.inverse else 1)
    found = found[..., : op.length // 2 + 1] if op.onesided else found
    return np.stack([found.real, found.imag], -1)


@pytest.mark.parametrize("length", [1, 2, 5, 6, 7, 9])
@pytest.mark.parametrize("parts", [1, 2])
def test_sums(length: int, parts: int) -> None:
    x = RNG.standard_normal((2, 3, 6, parts))
    for inverse in (False, True):
        op = DFT(length, inverse)
        (found,) = op.reference(x)
        np.testing.assert_allclose(found, transformed(x, op), atol=1e-12)
        rows = x[..., : min(6, length), :].reshape(2, 3, -1)
        matrix = dft_matrix(min(6, length), length, parts == 1, inverse, False)
        np.testing.assert_allclose((rows @ matrix).reshape(found.shape), found, atol=1e-12)
    op = DFT(length, onesided=True)
    (half,) = op.reference(x)
    np.testing.assert_allclose(half, transformed(x, op), atol=1e-12)
    matrix = dft_matrix(min(6, length), length, parts == 1, False, True)
    rows = x[..., : min(6, length), :].reshape(2, 3, -1)
    np.testing.assert_allclose((rows @ matrix).reshape(half.shape), half, atol=1e-12)


@pytest.mark.parametrize("length", [1, 2, 5, 6, 9])
def test_reals_from_half_a_spectrum(length: int) -> None:
    x = RNG.standard_normal((2, length, 1))
    (half,) = DFT(length, onesided=True).reference(x)
    (found,) = DFT(length, inverse=True, onesided=True).reference(half)
    np.testing.assert_allclose(found, x, atol=1e-12)
    bins = length // 2 + 1
    matrix = dft_matrix(bins, length, False, True, True)
    np.testing.assert_allclose((half.reshape(2, -1) @ matrix)[..., None], x, atol=1e-12)


def test_refused() -> None:
    refuses(DFT(4), f32(3), match="of length 4")
    refuses(DFT(4), f32(3, 3), match="of length 4")
    refuses(DFT(0), f32(3, 1), match="of length 0")
    refuses(DFT(4, True, True), f32(3, 1), match="of length 4")
