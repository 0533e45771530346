"""Sizes of an Attention, and strides of the heads in q, k, v and the output."""

from __future__ import annotations

from dataclasses import dataclass

from vknn.graph import TensorType
from vknn.lowering.kernels.matmul.gemm import BatchAxis, Gemm
from vknn.lowering.kit.layouts import ceil_div
from vknn.lowering.kit.problem import Problem
from vknn.ops.attention import Attention


@dataclass(frozen=True)
class HeadStrides:
    """Elements from one batch entry, head and row of a tensor to the next."""

    batch: int
    head: int
    row: int


@dataclass(frozen=True)
class RowBlock:
    """A part of an Attention: ranges of batch entries, heads of k and v, and queries."""

    batch: range
    groups: range
    queries: range


@dataclass(frozen=True)
class AttentionSizes:
    """Sizes of an Attention.

    ``groups``: heads of k and v. ``apart``: heads are an axis of their own (rank 4), else they
    follow each other in a row. ``empty_zero``: as the op's.
    """

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
        """Multiplications and additions of both products."""
        return 2 * self.rows * self.keys * (self.depth + self.value_depth)

    def q(self) -> HeadStrides:
        """Strides of q."""
        return self._steps(self.heads, self.queries, self.depth)

    def k(self) -> HeadStrides:
        """Strides of k."""
        return self._steps(self.groups, self.keys, self.depth)

    def v(self) -> HeadStrides:
        """Strides of v."""
        return self._steps(self.groups, self.keys, self.value_depth)

    def out(self) -> HeadStrides:
        """Strides of the output."""
        return self._steps(self.heads, self.queries, self.value_depth)

    def _steps(self, heads: int, length: int, width: int) -> HeadStrides:
        if self.apart:
            return HeadStrides(heads * length * width, length * width, width)
        return HeadStrides(heads * length * width, width, heads * width)

    def block_rows(self, block: RowBlock) -> int:
        """Rows of scores of a block."""
        return len(block.batch) * len(block.groups) * self.sharing * len(block.queries)

    def scores(self, block: RowBlock) -> Gemm:
        """scale * q k^T of a block, rows ``padded`` apart; q and k begin at the block's."""
        s, d = len(block.queries), self.depth
        axes = self._axes(block, self.q(), self.k(), s * self.padded)
        q, k = self.q().row, self.k().row
        return Gemm(s, self.keys, d, q, 1, 1, k, self.padded, axes, self.scale)

    def values(self, block: RowBlock) -> Gemm:
        """softmax(scores) v of a block, each head into its slice of the output."""
        s, d, plane = len(block.queries), self.value_depth, len(block.queries) * self.padded
        out, v = self.out(), self.v()
        axes = tuple(BatchAxis(a.size, a.c, a.b, a.a) for a in self._axes(block, out, v, plane))
        return Gemm(s, d, self.keys, self.padded, 1, v.row, 1, out.row, axes)

    def _axes(
        self, block: RowBlock, own: HeadStrides, shared: HeadStrides, plane: int
    ) -> tuple[BatchAxis, ...]:
        """Axes of batch entries, heads of k and v, heads of q sharing them; c has the scores."""
        r, groups = self.sharing, len(block.groups)
        axes = (
            BatchAxis(len(block.batch), own.batch, shared.batch, groups * r * plane),
            BatchAxis(groups, r * own.head, shared.head, r * plane),
            BatchAxis(r, own.head, 0, plane),
        )
        return axes if r > 1 else axes[:2]


def sizes_of(problem: Problem) -> AttentionSizes:
    """The sizes of an Attention problem."""
    op = problem.op
    q, k, v = (dims_of(t) for t in problem.inputs[:3])
    assert isinstance(op, Attention)
    heads, groups, scale = op.num_heads, op.groups, float(op.scale)
    if len(q) == 4:
        return AttentionSizes(
            q[0], heads, groups, q[2], k[2], q[3], v[3], scale, True, op.empty_zero
        )
    widths = q[2] // heads, v[2] // groups
    return AttentionSizes(q[0], heads, groups, q[1], k[1], *widths, scale, False, op.empty_zero)


def dims_of(type_: TensorType | None) -> tuple[int, ...]:
    """The dimensions of an input that is there."""
    assert type_ is not None
    return type_.dims


def mask_steps(problem: Problem) -> tuple[int, int, int, int] | None:
    """Strides of the mask along batch entries, heads, queries and keys; None without a mask.

    They are 0 along axes that the mask is broadcast along.
    """
    mask = problem.inputs[3] if len(problem.inputs) > 3 else None
    if mask is None:
        return None
    steps, step = [], 1
    for size in ((1,) * (4 - mask.rank) + mask.dims)[::-1]:
        steps.append(step if size > 1 else 0)
        step *= size
    key, query, head, batch = steps
    return batch, head, query, key
