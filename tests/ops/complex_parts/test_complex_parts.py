"""Parts of complex numbers, and complex numbers of parts."""

from __future__ import annotations

import numpy as np
import pytest

from vknn.errors import ShapeError
from vknn.graph import DType, TensorType
from vknn.ops.complex_parts import ComplexMagnitude, ComplexOf, ImaginaryPart, RealPart

pytestmark = pytest.mark.host


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_parts_make_the_number_again(dtype: type) -> None:
    x = np.array([[1 + 2j, -3.5j, np.inf]], dtype)
    (real,), (imaginary,) = RealPart().reference(x), ImaginaryPart().reference(x)
    part = np.float32 if dtype is np.complex64 else np.float64
    assert real.dtype == imaginary.dtype == part
    np.testing.assert_array_equal(real, [[1, 0, np.inf]])
    np.testing.assert_array_equal(imaginary, [[2, -3.5, 0]])
    (whole,) = ComplexOf().reference(real, imaginary)
    assert whole.dtype == dtype
    np.testing.assert_array_equal(whole, x)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_magnitudes_do_not_overflow(dtype: type) -> None:
    x = np.array([[3 + 4j, -1e30 + 1e30j, complex(np.inf, np.nan), -0.0]], dtype)
    (found,) = ComplexMagnitude().reference(x)
    assert found.dtype == (np.float32 if dtype is np.complex64 else np.float64)
    np.testing.assert_allclose(found, [[5, 2**0.5 * 1e30, np.inf, 0]], rtol=1e-6)


def test_what_are_no_parts_is_refused() -> None:
    real = TensorType((2,), DType.FLOAT32)
    with pytest.raises(ShapeError, match="RealPart wants complex numbers"):
        RealPart().infer(real)
    with pytest.raises(ShapeError, match="ComplexMagnitude wants complex numbers"):
        ComplexMagnitude().infer(real)
    with pytest.raises(ShapeError, match="no parts of complex numbers"):
        ComplexOf().infer(real, TensorType((2,), DType.FLOAT64))
