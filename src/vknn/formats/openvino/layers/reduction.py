"""Reductions along axes, which are the second input."""

from __future__ import annotations

from collections.abc import Callable

from vknn.formats.openvino.context import Context
from vknn.formats.openvino.layers.elementwise.arithmetic import as_bool
from vknn.formats.openvino.registry import layer
from vknn.graph import Op, Value
from vknn.ops import reduction as ops

Reduction = Callable[[tuple[int, ...], bool], Op]
#: Reductions that map integers to integers.
_EXACT: dict[str, Reduction] = {
    "ReduceSum": ops.ReduceSum, "ReduceMax": ops.ReduceMax, "ReduceMin": ops.ReduceMin,
    "ReduceProd": ops.ReduceProd, "ReduceL1": ops.ReduceL1, "ReduceSumSquare": ops.ReduceSumSquare,
}  # fmt: skip
_OF_FLOATS: dict[str, Reduction] = {
    "ReduceMean": ops.ReduceMean, "ReduceL2": ops.ReduceL2, "ReduceLogSum": ops.ReduceLogSum,
    "ReduceLogSumExp": ops.ReduceLogSumExp,
}  # fmt: skip
_OF_BOOLEANS: dict[str, Reduction] = {"ReduceAnd": ops.ReduceMin, "ReduceOr": ops.ReduceMax}


def _op(c: Context, reduction: Reduction) -> Op:
    """The reduction along the axes in input 1, which may count from the end."""
    axes = sorted({c.axis(a, c.rank) for a in c.input_ints(1, "axes")})
    return reduction(tuple(axes), c.bool("keep_dims", True))


def _exact(reduction: Reduction) -> Callable[[Context], Value]:
    def convert(c: Context) -> Value:
        x = c.float_input() if c.x.type.dtype.is_float else c.int_input()
        return c.add(_op(c, reduction), x)

    return convert


def _of_floats(reduction: Reduction) -> Callable[[Context], Value]:
    """Converter for reductions of floats; integers are rounded where both sides are integers."""

    def convert(c: Context) -> Value:
        y = c.add(_op(c, reduction), c.float_input())
        whole = c.dtype().is_integer and c.x.type.dtype.is_integer
        return c.rounded(y) if whole else y

    return convert


def _of_booleans(reduction: Reduction) -> Callable[[Context], Value]:
    """Converter for reductions of truth values: elements that are not 0."""
    return lambda c: c.add(_op(c, reduction), as_bool(c, c.x))


for _table, _convert in ((_EXACT, _exact), (_OF_FLOATS, _of_floats), (_OF_BOOLEANS, _of_booleans)):
    for _name, _reduction in _table.items():
        layer(_name, inputs=2)(_convert(_reduction))
