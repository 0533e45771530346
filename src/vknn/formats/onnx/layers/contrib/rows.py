"""Windows, distances, repeated words: operators on rows."""

from __future__ import annotations

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.registry import MICROSOFT, operator
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.elementwise.logic import Equal, Where
from vknn.ops.indexing.gather import Gather
from vknn.ops.indexing.scatter import ScatterND
from vknn.ops.matmul import MatMul
from vknn.ops.movement.shape import Concat, Expand, Slice
from vknn.ops.reduction import ReduceSumSquare
from vknn.ops.text.murmur_hash import MurmurHash3

#: Differences up to which distances are computed of them.
_FEW_DIFFERENCES = 1 << 24


@operator("UnfoldTensor", 1, domain=MICROSOFT, any_type=True)
def unfold_tensor(c: Context) -> Value:
    """Windows along an axis, whose elements are a new last axis"""
    axis, size, step = c.axis(c.int("dim", -1), c.rank), c.int("size"), c.int("step", 1)
    count = c.x.type.dims[axis]
    c.require(1 <= size <= count and step >= 1, f"has windows of {size}, {step} apart, of {count}")
    step = min(step, count)
    starts = np.arange((count - size) // step + 1, dtype=np.int32) * step
    c.makeable(starts.size * size, DType.INT32)
    places = starts[:, None] + np.arange(size, dtype=np.int32)
    found = c.add(Gather(axis), c.x, c.constant(places, "windows"))
    rank = found.type.rank
    perm = [a for a in range(rank) if a != axis + 1]
    return c.transpose(found, (*perm, axis + 1))


@operator("CDist", 1, inputs=2, domain=MICROSOFT)
def c_dist(c: Context) -> Value:
    """Distances of all rows of the one to all of the other, or their squares"""
    a, b = c.value(0), c.value(1)
    good = a.type.rank == b.type.rank == 2 and a.type.dims[1] == b.type.dims[1]
    c.require(good, f"takes no {a.type} and {b.type}")
    metric = c.text("metric", "sqeuclidean", ("euclidean", "sqeuclidean"))
    rows, width, columns = *a.type.dims, b.type.dims[0]
    if rows * columns * width <= _FEW_DIFFERENCES:
        apart = c.add(ew.Sub(), c.reshape(a, (rows, 1, width)), c.reshape(b, (1, columns, width)))
        found = c.add(ReduceSumSquare((2,), False), apart)
    else:
        squares = [c.add(ReduceSumSquare((1,), False), v) for v in (a, b)]
        total = c.add(ew.Add(), c.reshape(squares[0], (rows, 1)), squares[1])
        product = c.add(MatMul(transpose_b=True), a, b)
        twice = c.add(ew.Mul(), product, c.scalar(2.0, a.type.dtype))
        found = c.add(ew.Max(), c.add(ew.Sub(), total, twice), c.scalar(0.0, a.type.dtype))
    return found if metric == "sqeuclidean" else c.add(ew.Sqrt(), found)


@operator("NGramRepeatBlock", 1, inputs=2, domain=MICROSOFT)
def n_gram_repeat_block(c: Context) -> Value:
    """Scores, -infinity for words that would repeat a group of `ngram_size` words"""
    words, scores, size = c.value(0), c.value(1), c.int("ngram_size")
    good = words.type.rank == scores.type.rank == 2 and size >= 1
    good = good and words.type.dims[0] == scores.type.dims[0]
    c.require(good, f"takes no {words.type} and {scores.type} with ngram_size {size}")
    batch, length = words.type.dims
    classes = scores.type.dims[1]
    if length < size:
        return scores
    words = c.cast(words, DType.INT32)
    count = length - size + 1
    nexts = c.add(Slice((size - 1,), (length,), (1,)), words)
    # A word that repeats nothing is given a place that is none.
    for at in range(size - 1):
        place = length - size + 1 + at  # of the last words, which the next one follows
        last = c.add(Slice((place,), (place + 1,), (1,)), words)
        same = c.add(Equal(), c.add(Slice((at,), (at + count,), (1,)), words), last)
        nexts = c.add(Where(), same, nexts, c.scalar(classes, DType.INT32))
    rows = np.repeat(np.arange(batch, dtype=np.int32), count).reshape(batch, count, 1)
    tuples = c.add(Concat(2), c.constant(rows, "rows"), c.reshape(nexts, (batch, count, 1)))
    never = c.add(Expand((batch, count)), c.scalar(-np.inf, scores.type.dtype))
    return c.add(ScatterND(from_end=False), scores, tuples, never)


@operator("MurmurHash3", 1, domain=MICROSOFT)
def murmur_hash(c: Context) -> Value:
    """MurmurHash3 of 32 bits, as uint32 or where `positive` is 0 as int32"""
    return c.add(MurmurHash3(c.int("seed", 0) % (1 << 32), c.flag("positive", True)), c.x)


@operator("BifurcationDetector", 1, inputs=(3, 4), outputs=2, domain=MICROSOFT)
def bifurcation_detector(c: Context) -> tuple[Value, Value]:
    """Words and those foretold from where they leave the source on, and where that has the last"""
    least, most = c.int("min_ngram_size", 1), c.int("max_ngram_size", 3)
    c.require(0 < least <= most, f"has groups of {least} to {most} words")
    source, words = c.ints(0, "src_tokens"), c.ints(1, "cur_tokens")
    start = int(c.number(2, "prev_suffix_match_idx"))
    c.require(0 <= start <= len(source), f"has the prev_suffix_match_idx {start}")
    if c.optional(3) is not None:
        foretold, at = c.ints(3, "pred_tokens"), 0
        expected = source[start:]
        c.require(len(foretold) == len(expected) + 1, f"foretells {len(foretold)} words")
        while at < len(expected) and foretold[at] == expected[at]:
            at += 1
        words = words + foretold[: at + 1]
    found = -1
    for size in range(least, min(most, len(words)) + 1):
        last = words[-size:]
        places = [i for i in range(len(source) - size + 1) if source[i : i + size] == last]
        if len(places) == 1:
            found = places[0] + size
        if len(places) < 2:
            break
    tokens = c.constant(np.asarray(words, np.int64), "tokens")
    match = np.full(c.value(2).type.dims, found, np.int64)
    return tokens, c.constant(match, "match")
