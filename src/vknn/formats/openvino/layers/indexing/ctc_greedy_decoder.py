"""CTCGreedyDecoder: best path decoding (section 3.2 of Graves et al., CTC, ICML 2006)."""

from __future__ import annotations

import numpy as np

from vknn.formats.openvino.context import Context
from vknn.formats.openvino.registry import layer
from vknn.graph import DType, Value
from vknn.ops.elementwise.binary import Mul
from vknn.ops.elementwise.logic import And, Equal, Less, NotEqual, Where
from vknn.ops.indexing.gather import GatherND
from vknn.ops.indexing.topk import ArgMax, TopK
from vknn.ops.movement.shape import Concat, Slice
from vknn.ops.reduction import CumSum


# The specification's own example spells it with an a.
@layer("CTCGreedyDecoder", "CTCGreadyDecoder", inputs=(1, 2))
def ctc_greedy_decoder(c: Context) -> Value:
    """The best class of each step without blanks (the last class), then -1: [N, T, 1, 1].

    With ctc_merge_repeated, classes equal to that of the previous step are dropped too.
    """
    x = c.float_input()
    dims = x.type.dims
    c.require(len(dims) == 3 and 0 not in dims, f"probabilities {list(dims)} are not [T, N, C]")
    steps, items, classes = dims
    best = c.transpose(c.add(ArgMax(2, keepdims=False), x), (1, 0))
    kept = c.add(Less(), best, _whole(c, classes - 1))
    if len(c.inputs) > 1:
        kept = c.add(And(), kept, _within(c, steps, items))
    if c.bool("ctc_merge_repeated", False) and steps > 1:
        first = c.constant(np.full((items, 1), -1, np.int32), "before")
        before = c.add(Concat(1), first, c.add(Slice((0,), (steps - 1,), (1,)), best))
        kept = c.add(And(), kept, c.add(NotEqual(), best, before))
    # Kept classes move to the front by a descending sort of keys: earlier steps have larger ones.
    keys = c.constant(np.arange(steps, 0, -1, dtype=np.int32), "steps")
    key, order = c.add_many(TopK(1, steps), c.add(Where(), kept, keys, _whole(c, 0)))
    moved = c.add(GatherND(1), best, c.reshape(order, (items, steps, 1)))
    y = c.add(Where(), c.add(Equal(), key, _whole(c, 0)), _whole(c, -1), moved)
    return c.reshape(c.cast(y, DType.FLOAT32), (items, steps, 1, 1))


def _within(c: Context, steps: int, items: int) -> Value:
    """[N, T]: whether a step is before the first one after step 0 with an indicator of 0."""
    indicators = c.value(1)
    size = indicators.type.dims
    c.require(size == (steps, items), f"indicators {list(size)} are not [{steps}, {items}]")
    ends = c.transpose(c.cast(c.add(Equal(), c.float_input(1), c.scalar(0.0)), DType.INT32), (1, 0))
    looked_at = np.ones((1, steps), np.int32)
    looked_at[:, 0] = 0
    ends = c.add(Mul(), ends, c.constant(looked_at, "looked_at"))
    return c.add(Equal(), c.add(CumSum(1), ends), _whole(c, 0))


def _whole(c: Context, number: int) -> Value:
    return c.scalar(number, DType.INT32)
