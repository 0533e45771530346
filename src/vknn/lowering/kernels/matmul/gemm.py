"""Sizes, strides, tiles and packed weights of matrix products (GEMM)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from vknn.lowering.kit.emitter import Ref
from vknn.lowering.kit.layouts import ceil_div
from vknn.lowering.kit.machine import machine_of
from vknn.lowering.kit.workgroups import allows_groups
from vknn.plan import DeviceLimits


@dataclass(frozen=True)
class BatchAxis:
    """A batch axis: its size, and the elements from one matrix of a, b and c to the next."""

    size: int
    a: int
    b: int
    c: int


@dataclass(frozen=True)
class Gemm:
    """c[m, n] = alpha * sum over k of a[m, k] b[k, n], for every batch entry.

    Strides count elements: ``a_row`` and ``a_col`` are those of a along m and k, ``b_row`` and
    ``b_col`` those of b along k and n. c is row-major, its rows ``c_row`` apart. There are at most
    three batch axes.
    """

    m: int
    n: int
    k: int
    a_row: int
    a_col: int
    b_row: int
    b_col: int
    c_row: int
    batch: tuple[BatchAxis, ...] = ()
    alpha: float = 1.0

    @property
    def count(self) -> int:
        """Number of batch entries."""
        return math.prod(axis.size for axis in self.batch)

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.m * self.n * self.k * self.count

    @property
    def one_row(self) -> bool:
        """True where all of c is one row, so that what follows its last element may be written."""
        return self.m == 1 and self.count == 1

    def aligned(self, *steps: str) -> bool:
        """True where the named steps and all batch steps of their matrices are multiples of 4."""
        own = [getattr(self, step) for step in steps]
        names = {step[0] for step in steps}
        return all(s % 4 == 0 for s in own + [getattr(x, n) for x in self.batch for n in names])

    @property
    def a_by_vec4(self) -> bool:
        """True where rows of a are whole vec4s of k."""
        return self.a_col == 1 and self.k % 4 == 0 and self.aligned("a_row")

    @property
    def b_by_vec4(self) -> bool:
        """True where rows of b are vec4s of columns that begin at whole ones."""
        return self.b_col == 1 and self.aligned("b_row")

    def push(self, a: int = 1, b: int = 1, c: int = 1) -> dict[str, int]:
        """Push constants of sizes and strides; ``a``, ``b``, ``c`` as in :meth:`batch_push`."""
        return {
            "m": self.m,
            "n": self.n,
            "k": self.k,
            "a_row": self.a_row // a,
            "a_col": self.a_col,
            "b_row": self.b_row // b,
            "b_col": self.b_col,
            "c_row": self.c_row // c,
            **self.batch_push(a, b, c),
        }

    def batch_push(self, a: int = 1, b: int = 1, c: int = 1) -> dict[str, int]:
        """Push constants BATCH_MEMBERS of shaders/matmul/batch.glsl.

        ``a``, ``b``, ``c``: elements in what the shader reads of them at a time.
        """
        axes = [BatchAxis(1, 0, 0, 0)] * (3 - len(self.batch)) + list(self.batch)
        push = {"d1": axes[1].size, "d2": axes[2].size}
        for number, axis in enumerate(axes):
            push[f"a_step{number}"] = axis.a // a
            push[f"b_step{number}"] = axis.b // b
            push[f"c_step{number}"] = axis.c // c
        return push


@dataclass(frozen=True)
class GemmTile:
    """A lane's tile of ``rows`` x 4 ``cols`` results, and the lanes of a workgroup over m and n."""

    rows: int
    cols: int
    local_m: int
    local_n: int

    @property
    def block(self) -> int:
        """vec4s of a row of b that a workgroup reads."""
        return self.cols * self.local_n

    def groups(self, gemm: Gemm) -> tuple[int, int, int]:
        """Workgroups."""
        rows, columns = self.rows * self.local_m, 4 * self.cols * self.local_n
        return ceil_div(gemm.m, rows), ceil_div(gemm.n, columns), gemm.count

    @property
    def spec(self) -> dict[str, int]:
        """Specialization constants of the tile shaders."""
        lanes = {"LANES_M": self.local_m, "LANES_N": self.local_n}
        return {"ROWS": self.rows, "COLS": self.cols, **lanes}

    @property
    def local(self) -> tuple[int, int, int]:
        """The workgroup's size."""
        return self.local_m * self.local_n, 1, 1


def make_gemm(
    a: tuple[int, ...], b: tuple[int, ...], transpose_a: bool, transpose_b: bool
) -> Gemm | None:
    """The product of two row-major tensors (NumPy's matmul); None: too many batch axes."""
    a = (1, *a) if len(a) == 1 else a
    b = (*b, 1) if len(b) == 1 else b
    k, m = a[-2:] if transpose_a else a[:-3:-1]
    n = b[-2] if transpose_b else b[-1]
    a_row, a_col = (1, m) if transpose_a and m > 1 else (k, 1)
    b_row, b_col = (1, k) if transpose_b or n == 1 else (n, 1)
    batch = _merge(_batch_axes(a, b, m * n))
    if batch and a_col == 1 and batch[-1].b == 0 and batch[-1].a == m * k:
        m, batch = m * batch[-1].size, batch[:-1]
    if len(batch) > 3:
        return None
    return Gemm(m, n, k, a_row, a_col, b_row, b_col, n, tuple(batch))


def _batch_axes(a: tuple[int, ...], b: tuple[int, ...], c_step: int) -> list[BatchAxis]:
    """The batch axes that are longer than 1, outermost first."""
    rank = max(len(a), len(b)) - 2
    a_dims = (1,) * (rank + 2 - len(a)) + a
    b_dims = (1,) * (rank + 2 - len(b)) + b
    a_step, b_step = math.prod(a[-2:]), math.prod(b[-2:])
    axes: list[BatchAxis] = []
    for a_size, b_size in zip(a_dims[:-2][::-1], b_dims[:-2][::-1], strict=True):
        size = max(a_size, b_size)
        if size > 1:
            axes.append(BatchAxis(size, a_step * (a_size > 1), b_step * (b_size > 1), c_step))
        a_step, b_step, c_step = a_step * a_size, b_step * b_size, c_step * size
    return axes[::-1]


def _merge(axes: list[BatchAxis]) -> list[BatchAxis]:
    """Batch axes with neighbours merged where one stride steps through both in both operands."""
    merged: list[BatchAxis] = []
    for inner in axes:
        outer = merged[-1] if merged else None
        if outer and (outer.a, outer.b) == (inner.a * inner.size, inner.b * inner.size):
            merged[-1] = BatchAxis(outer.size * inner.size, inner.a, inner.b, inner.c)
        else:
            merged.append(inner)
    return merged


def pack_columns(b: np.ndarray, bias: np.ndarray | None, block: int) -> np.ndarray:
    """Panels of b [K, N]: [panels, K, 4 * block], zero-padded; then the bias, padded alike."""
    k, n = b.shape
    panels = ceil_div(n, 4 * block)
    padded = np.zeros((k, panels * 4 * block), b.dtype)
    padded[:, :n] = b
    last_row = np.zeros(panels * 4 * block, b.dtype)
    if bias is not None:
        last_row[:n] = bias.reshape(-1)
    blocked = padded.reshape(k, panels, 4 * block).swapaxes(0, 1)
    return np.concatenate([blocked.ravel(), last_row])


def choose_tile(gemm: Gemm, limits: DeviceLimits) -> GemmTile:
    """A tile that leaves enough workgroups to keep the device busy."""
    m, n4 = gemm.m, ceil_div(gemm.n, 4)
    cpu = limits.kind == "cpu"
    lanes = limits.subgroup_size if cpu else min(64, limits.max_group_invocations)
    enough = 8 * lanes if cpu else machine_of(limits).lanes
    rows = min(8 if cpu else 4, 1 << (m - 1).bit_length())
    cols = min(4 if cpu else 2, 1 << (n4 - 1).bit_length())
    while cols > 1 and ceil_div(m, rows) * ceil_div(n4, cols) * gemm.count < enough:
        cols //= 2
    while rows > 1 and ceil_div(m, rows) * ceil_div(n4, cols) * gemm.count < enough:
        rows //= 2
    row_tiles, column_tiles = ceil_div(m, rows), ceil_div(n4, cols)
    wide = GemmTile(rows, cols, 1, lanes)
    if cpu:
        # Lanes along the axis that fills them best.
        waste_m = ceil_div(row_tiles, lanes) * lanes / row_tiles
        waste_n = ceil_div(column_tiles, lanes) * lanes / column_tiles
        best = GemmTile(rows, cols, lanes, 1) if waste_m < waste_n else wide
    else:
        local_m = min(4, 1 << (row_tiles - 1).bit_length())
        best = GemmTile(rows, cols, local_m, lanes // local_m)
    return _enlarged(best, gemm, limits)


def _enlarged(tile: GemmTile, gemm: Gemm, limits: DeviceLimits) -> GemmTile:
    """The tile with other or more lanes where the device cannot have so many workgroups."""
    most = min(limits.max_group_invocations, limits.max_group_size[0])
    most_m, most_n, _ = limits.max_group_count
    while True:
        # The kernel for scalars has tiles half as wide.
        rows, columns, _ = replace(tile, cols=max(1, tile.cols // 2)).groups(gemm)
        m, n = tile.local_m, tile.local_n
        if rows > most_m and n > 1 and 2 * columns <= most_n:
            tile = replace(tile, local_m=2 * m, local_n=n // 2)
        elif columns > most_n and m > 1 and 2 * rows <= most_m:
            tile = replace(tile, local_m=m // 2, local_n=2 * n)
        elif (rows > most_m or columns > most_n) and 2 * m * n <= most:
            doubled = {"local_m": 2 * m} if rows > most_m else {"local_n": 2 * n}
            tile = replace(tile, **doubled)
        else:
            return tile


def subgroup_tile(gemm: Gemm, limits: DeviceLimits) -> GemmTile | None:
    """The tile of matmul/tile_subgroup; None where the device or the sizes do not suit it."""
    suits = limits.subgroup_size == 8 and "subgroup_shuffle" in limits.features
    if limits.kind != "cpu" or not suits or gemm.m < 6:
        return None
    # Few rows a lane: rows of a are far apart, and many of them at once fall into one cache set.
    rows = 2 if ceil_div(gemm.m, 16) * 16 <= 1.34 * gemm.m else 1
    cols = next((c for c in (8, 4) if gemm.n > 2 * c), 2)
    tile = GemmTile(rows, cols, 8, 1)
    return tile if allows_groups(tile.groups(gemm), limits) else None


def fits_device(gemm: Gemm, limits: DeviceLimits) -> bool:
    """True where even the smaller tiles need no more workgroups than the device allows."""
    tile = choose_tile(gemm, limits)
    return allows_groups(replace(tile, cols=max(1, tile.cols // 2)).groups(gemm), limits)


def half_define(a: Ref, b: Ref, c: Ref) -> dict[str, int]:
    """The define HALF (shaders/matmul/storage.glsl); none where all buffers are float32."""
    if not b.half:
        return {}
    if not a.half and not c.half:
        raise ValueError("no kernel has b alone in float16")
    return {"HALF": 1 if a.half and c.half else 2 if a.half else 3}
