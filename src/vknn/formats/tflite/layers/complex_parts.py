"""REAL, IMAG and COMPLEX_ABS: real numbers of complex ones."""

from __future__ import annotations

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.registry import operator
from vknn.graph import Op, Value
from vknn.ops.complex_parts import ComplexMagnitude, ImaginaryPart, RealPart

_PARTS: dict[str, Op] = {
    "REAL": RealPart(),
    "IMAG": ImaginaryPart(),
    "COMPLEX_ABS": ComplexMagnitude(),
}


@operator(*_PARTS)
def part(c: Context) -> Value:
    """Real parts, imaginary parts and absolute values of complex numbers."""
    dtype = c.x.type.dtype
    c.require(dtype.is_complex, f"takes complex64 or complex128, not {dtype.value}")
    return c.add(_PARTS[c.operator.code], c.x)
