"""Reductions and cumulative sums along any axes."""

from __future__ import annotations

from vknn.formats.coreml.context import Context
from vknn.formats.coreml.registry import layer
from vknn.graph import Value
from vknn.ops import reduction as rd

_REDUCTIONS: dict[str, type[rd.Reduction]] = {
    "reduceL1": rd.ReduceL1,
    "reduceL2": rd.ReduceL2,
    "reduceMax": rd.ReduceMax,
    "reduceMin": rd.ReduceMin,
    "reduceSum": rd.ReduceSum,
    "reduceProd": rd.ReduceProd,
    "reduceMean": rd.ReduceMean,
    "reduceLogSum": rd.ReduceLogSum,
    "reduceSumSquare": rd.ReduceSumSquare,
    "reduceLogSumExp": rd.ReduceLogSumExp,
}


@layer(*_REDUCTIONS)
def reduction(c: Context) -> Value:
    """Reduction over the axes listed, or over all without a list; [1] where no axis is left."""
    p, rank = c.params, c.x.type.rank
    axes = None
    if p.axes and not p.reduceAll:
        listed = [c.axis(a, rank) for a in p.axes]
        c.require(len(set(listed)) == len(listed), f"axes {list(p.axes)} name one twice")
        axes = tuple(sorted(listed))
    return c.add(_REDUCTIONS[c.layer.type](axes, p.keepDims), c.x)


@layer("cumSum", inputs=(1, 2))
def cum_sum(c: Context) -> Value:
    """Cumulative sums along an axis, which a second input may hold."""
    p = c.params
    given = c.ints(1, "the axis") if len(c.inputs) > 1 else [p.axis]
    c.require(len(given) == 1, f"has the axes {given}")
    axis = c.axis(given[0], c.x.type.rank)
    return c.add(rd.CumSum(axis, p.excludeFinalSum, p.reverse), c.x)
