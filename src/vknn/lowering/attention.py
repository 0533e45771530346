"""Attention in three dispatches: scores, softmax, weighted values. Heads are read by strides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vknn.graph import TensorType
from vknn.lowering.emitter import Emitter, Ref, ceil_div, read1, read4, write
from vknn.lowering.grids import fits_buffer, fits_loops
from vknn.lowering.layouts import Layout
from vknn.lowering.matmul import emit_scalar, emit_tile
from vknn.lowering.product import Axis, Product, fits_device, subgroup_tile
from vknn.lowering.registry import (
    BYTE_COST,
    DISPATCH_COST,
    FLOP_COST,
    Candidate,
    Problem,
    lowers,
)
from vknn.lowering.rows import row_shape
from vknn.ops.attention import Attention


@lowers(Attention)
def attention(problem: Problem) -> Sequence[Candidate]:
    """By vec4s where a head's width is a multiple of 4, by scalars anywhere."""
    sizes = _sizes(problem)
    limits = problem.limits
    scores_bytes = 4 * sizes.rows * sizes.padded
    products = sizes.scores(), sizes.values()
    if not fits_buffer(limits, sizes.rows * sizes.padded):
        return []
    if not all(fits_device(p, limits) for p in products):
        return []
    width = sizes.padded // 4
    if not row_shape(sizes.rows, width, limits).fits(sizes.rows, width, limits):
        return []
    inputs = tuple(Layout.LINEAR if t is not None else None for t in problem.inputs)
    work = sum(p.flops for p in products) * FLOP_COST + 4 * scores_bytes * BYTE_COST
    found = []
    for wide in (True, False):
        if wide and (sizes.depth % 4 or sizes.value_depth % 4):
            continue
        if not all(fits_loops(limits, ceil_div(p.k, 4) if wide else p.k) for p in products):
            continue
        cost = 3 * DISPATCH_COST + work * (1 if wide else 3)
        name = "vec4" if wide else "scalar"
        found.append(Candidate(name, inputs, (Layout.LINEAR,), _Emit(sizes, wide), cost))
    return found


@dataclass(frozen=True)
class _Sizes:
    """Sizes of an Attention; ``padded``: elements from one row of scores to the next."""

    batch: int
    heads: int
    queries: int
    keys: int
    depth: int
    value_depth: int
    scale: float

    @property
    def padded(self) -> int:
        return 4 * ceil_div(self.keys, 4)

    @property
    def rows(self) -> int:
        return self.batch * self.heads * self.queries

    def scores(self) -> Product:
        """scale * q k^T, rows ``padded`` apart."""
        s, t, d, h = self.queries, self.keys, self.depth, self.heads
        plane = s * self.padded
        axes = (Axis(self.batch, s * h * d, t * h * d, h * plane), Axis(h, d, d, plane))
        return Product(s, t, d, h * d, 1, 1, h * d, self.padded, axes, self.scale)

    def values(self) -> Product:
        """softmax(scores) v, each head into its slice of the output."""
        s, t, d, h = self.queries, self.keys, self.value_depth, self.heads
        plane = s * self.padded
        axes = (Axis(self.batch, h * plane, t * h * d, s * h * d), Axis(h, plane, d, d))
        return Product(s, d, t, self.padded, 1, h * d, 1, h * d, axes)


def _sizes(problem: Problem) -> _Sizes:
    op = problem.op
    q, k, v = (_dims(t) for t in problem.inputs[:3])
    assert isinstance(op, Attention)
    heads = op.num_heads
    return _Sizes(q[0], heads, q[1], k[1], q[2] // heads, v[2] // heads, float(op.scale))


def _dims(type_: TensorType | None) -> tuple[int, ...]:
    assert type_ is not None
    return type_.dims


@dataclass(frozen=True)
class _Emit:
    sizes: _Sizes
    wide: bool

    def __call__(self, emitter: Emitter) -> None:
        sizes = self.sizes
        q, k, v = (emitter.input(i) for i in range(3))
        scores = emitter.scratch("scores", sizes.rows * sizes.padded)
        weights = emitter.scratch("weights", sizes.rows * sizes.padded)
        self._product(emitter, sizes.scores(), q, k, scores, "Attention scores")
        self._softmax(emitter, scores, weights)
        out = emitter.output()
        self._product(emitter, sizes.values(), weights, v, out, "Attention values")

    def _product(
        self, emitter: Emitter, product: Product, a: Ref, b: Ref, c: Ref, label: str
    ) -> None:
        if self.wide:
            subgroup = subgroup_tile(product, emitter.problem.limits) is not None
            emit_tile(emitter, product, a, b, c, subgroup=subgroup, label=label)
        else:
            emit_scalar(emitter, product, a, b, c, label=label)

    def _softmax(self, emitter: Emitter, scores: Ref, weights: Ref) -> None:
        sizes, limits = self.sizes, emitter.problem.limits
        mask = emitter.inputs[3] if len(emitter.inputs) > 3 else None
        steps = [0, 0, 0, 0]
        if mask is not None:
            steps = _broadcast_steps(_dims(emitter.problem.inputs[3]))
        width = sizes.padded // 4
        shape = row_shape(sizes.rows, width, limits)
        emitter.dispatch(
            "attention/softmax",
            [read4(scores), write(weights)] + ([read1(mask)] if mask is not None else []),
            groups=shape.groups(sizes.rows, limits),
            local=shape.local,
            push=[sizes.rows, sizes.keys, width, sizes.queries, sizes.heads, *steps],
            spec={10: shape.lanes, 11: shape.rows},
            defines={"MASKED": int(mask is not None)},
            flops=20 * sizes.rows * sizes.keys,
            label="Attention softmax",
        )


def _broadcast_steps(shape: tuple[int, ...]) -> list[int]:
    """Elements from one index to the next along [batch, heads, queries, keys]; 0 where shared."""
    full = (1,) * (4 - len(shape)) + shape
    steps, step = [], 1
    for size in full[::-1]:
        steps.append(step if size > 1 else 0)
        step *= size
    return steps[::-1]
