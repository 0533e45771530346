"""Determinants and inverses of matrices."""

from __future__ import annotations

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.registry import MICROSOFT, operator
from vknn.graph import Value
from vknn.ops.linear_algebra import Det, Inverse


@operator("Det", 11, 22)
def det(c: Context) -> Value:
    """The determinant of each square matrix"""
    return c.add(Det(), c.x)


@operator("Inverse", 1, domain=MICROSOFT)
def inverse(c: Context) -> Value:
    """The inverse of each square matrix; NaN where there is none"""
    return c.add(Inverse(), c.x)
