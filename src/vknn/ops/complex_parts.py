"""Complex numbers and their real and imaginary parts."""

from __future__ import annotations

import numpy as np

from vknn.graph import DType, Op, TensorType, attributes
from vknn.ops.common.checks import arguments, require

_PARTS = {DType.COMPLEX64: DType.FLOAT32, DType.COMPLEX128: DType.FLOAT64}
_WHOLE = {part: whole for whole, part in _PARTS.items()}


class _Part(Op):
    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        require(x.dtype.is_complex, f"{self.type_name} wants complex numbers, not {x}")
        return (x.with_dtype(_PARTS[x.dtype]),)


@attributes
class RealPart(_Part):
    """The real parts of complex numbers, float32 of complex64, float64 of complex128."""

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        return (np.array(x.real),)


@attributes
class ImaginaryPart(_Part):
    """The imaginary parts of complex numbers, float32 of complex64, float64 of complex128."""

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        return (np.array(x.imag),)


@attributes
class ComplexMagnitude(_Part):
    """The absolute values of complex numbers, float32 of complex64, float64 of complex128."""

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        return (np.asarray(np.abs(x)),)


@attributes
class ComplexOf(Op):
    """Complex numbers of real parts and imaginary ones of the same shape: complex64 of float32."""

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        real, imaginary = arguments(self, inputs, 2)
        good = real == imaginary and real.dtype in _WHOLE
        require(good, f"ComplexOf: {real} and {imaginary} are no parts of complex numbers")
        return (real.with_dtype(_WHOLE[real.dtype]),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        real, imaginary = arguments(self, inputs, 2)
        whole = np.empty(real.shape, _WHOLE[DType.of(real)].numpy)
        whole.real, whole.imag = real, imaginary
        return (whole,)
