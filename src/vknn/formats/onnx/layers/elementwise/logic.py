"""Comparisons, logic and Where."""

from __future__ import annotations

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.common.broadcasting import operands
from vknn.formats.onnx.registry import Convert, operator
from vknn.graph import Op, Value
from vknn.ops.elementwise import logic


def _binary(op: Op) -> Convert:
    def convert(c: Context) -> Value:
        return c.add(op, *operands(c))

    convert.__doc__ = type(op).__doc__
    return convert


operator("Equal", 1, 7, 11, 13, 19, inputs=2)(_binary(logic.Equal()))
for _type in (logic.Less, logic.Greater):
    operator(_type.__name__, 1, 7, 9, 13, inputs=2)(_binary(_type()))
for _or_equal in (logic.LessOrEqual, logic.GreaterOrEqual):
    operator(_or_equal.__name__, 12, 16, inputs=2)(_binary(_or_equal()))
for _truth in (logic.And, logic.Or, logic.Xor):
    operator(_truth.__name__, 1, 7, inputs=2)(_binary(_truth()))


@operator("Where", 9, 16, inputs=3, any_type=True)
def where(c: Context) -> Value:
    """The second input where the first holds, else the third"""
    return c.add(logic.Where(), c.value(0), c.value(1), c.value(2))
