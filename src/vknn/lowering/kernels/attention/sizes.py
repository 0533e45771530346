"""Attention as numbers: sizes and strides of the heads in q, k, v and the output."""

from __future__ import annotations

from dataclasses import dataclass

from vknn.graph import TensorType
from vknn.lowering.kernels.matmul.gemm import Axis, Product
from vknn.lowering.kit.emitter import ceil_div
from vknn.lowering.kit.problem import Problem
from vknn.ops.attention import Attention


@dataclass(frozen=True)
class Steps:
    """Elements from one batch entry, head and row of a tensor to the next."""

    batch: int
    head: int
    row: int


@dataclass(frozen=True)
class Block:
    """Some batch entries, heads of k and v, and queries of an Attention."""

    batch: range
    groups: range
    queries: range


@dataclass(frozen=True)
class Sizes:
    """Sizes of an Attention. ``groups``: heads of k and v. ``apart``: heads have an axis of their
    own (rank 4), else they lie one after the other in a row. ``empty_zero``: as the op's."""

    batch: int
    heads: int
    groups: int
    queries: int
    keys: int
    depth: int
    value_depth: int
    scale: float
    apart: bool
    empty_zero: bool = False

    @property
    def padded(self) -> int:
        """Elements from one row of scores to the next."""
        return 4 * ceil_div(self.keys, 4)

    @property
    def rows(self) -> int:
        """Rows of scores."""
        return self.batch * self.heads * self.queries

    @property
    def sharing(self) -> int:
        """Heads of q that read the same head of k and v."""
        return self.heads // self.groups

    @property
    def flops(self) -> int:
        return 2 * self.rows * self.keys * (self.depth + self.value_depth)

    def q(self) -> Steps:
        return self._steps(self.heads, self.queries, self.depth)

    def k(self) -> Steps:
        return self._steps(self.groups, self.keys, self.depth)

    def v(self) -> Steps:
        return self._steps(self.groups, self.keys, self.value_depth)

    def out(self) -> Steps:
        return self._steps(self.heads, self.queries, self.value_depth)

    def _steps(self, heads: int, length: int, width: int) -> Steps:
        if self.apart:
            return Steps(heads * length * width, length * width, width)
        return Steps(heads * length * width, width, heads * width)

    @property
    def whole(self) -> Block:
        return Block(range(self.batch), range(self.groups), range(self.queries))

    def block_rows(self, block: Block) -> int:
        """Rows of scores of a block."""
        return len(block.batch) * len(block.groups) * self.sharing * len(block.queries)

    def scores(self, block: Block) -> Product:
        """scale * q k^T of a block, rows ``padded`` apart; q and k from the block's first on."""
        s, d = len(block.queries), self.depth
        axes = self._axes(block, self.q(), self.k(), s * self.padded)
        q, k = self.q().row, self.k().row
        return Product(s, self.keys, d, q, 1, 1, k, self.padded, axes, self.scale)

    def values(self, block: Block) -> Product:
        """softmax(scores) v of a block, each head into its slice of the output."""
        s, d, plane = len(block.queries), self.value_depth, len(block.queries) * self.padded
        out, v = self.out(), self.v()
        axes = tuple(Axis(a.size, a.c, a.b, a.a) for a in self._axes(block, out, v, plane))
        return Product(s, d, self.keys, self.padded, 1, v.row, 1, out.row, axes)

    def _axes(self, block: Block, own: Steps, shared: Steps, plane: int) -> tuple[Axis, ...]:
        """Batch, head of k and v, and head of q within that; a: q or output, c: scores."""
        r, groups = self.sharing, len(block.groups)
        axes = (
            Axis(len(block.batch), own.batch, shared.batch, groups * r * plane),
            Axis(groups, r * own.head, shared.head, r * plane),
            Axis(r, own.head, 0, plane),
        )
        return axes if r > 1 else axes[:2]


def sizes_of(problem: Problem) -> Sizes:
    """The sizes of an Attention problem."""
    op = problem.op
    q, k, v = (dims_of(t) for t in problem.inputs[:3])
    assert isinstance(op, Attention)
    heads, groups, scale = op.num_heads, op.groups, float(op.scale)
    if len(q) == 4:
        return Sizes(q[0], heads, groups, q[2], k[2], q[3], v[3], scale, True, op.empty_zero)
    widths = q[2] // heads, v[2] // groups
    return Sizes(q[0], heads, groups, q[1], k[1], *widths, scale, False, op.empty_zero)


def dims_of(type_: TensorType | None) -> tuple[int, ...]:
    """The dimensions of an input that is there."""
    assert type_ is not None
    return type_.dims


def mask_steps(problem: Problem) -> tuple[int, int, int, int] | None:
    """Elements of the mask from one batch entry, head, query and key to the next, 0 where it is
    shared; None where there is no mask."""
    mask = problem.inputs[3] if len(problem.inputs) > 3 else None
    if mask is None:
        return None
    steps, step = [], 1
    for size in ((1,) * (4 - mask.rank) + mask.dims)[::-1]:
        steps.append(step if size > 1 else 0)
        step *= size
    key, query, head, batch = steps
    return batch, head, query, key
