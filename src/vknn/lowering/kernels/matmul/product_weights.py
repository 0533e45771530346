"""Packed weights of matrix products: one matrix, or several that multiply the same a."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import numpy as np

from vknn.lowering.kernels.matmul.float_dots import packed_for_dots
from vknn.lowering.kernels.matmul.gemm import Gemm, pack_columns
from vknn.lowering.kernels.matmul.kernels import Packed
from vknn.lowering.kit.emitter import Emitter
from vknn.lowering.kit.layouts import ceil_div
from vknn.lowering.kit.problem import Problem
from vknn.ops.matmul import MatMul, Projections


@dataclass(frozen=True, eq=False)
class ProductWeights:
    """Constant matrices b [K, N] ([N, K] where ``transposed``), and the bias of each or None.

    ``inputs``: numbers of the inputs that are packed.
    """

    matrices: tuple[np.ndarray, ...]
    biases: tuple[np.ndarray | None, ...]
    inputs: frozenset[int]

    @property
    def count(self) -> int:
        """Number of matrices."""
        return len(self.matrices)

    @property
    def has_bias(self) -> bool:
        """True where there are biases to pack."""
        return any(bias is not None for bias in self.biases)

    def vec4s(self, gemm: Gemm, block: int) -> int:
        """vec4s of all matrices and biases, packed in panels of ``block`` vec4s."""
        return self.count * _entry(gemm, block)

    def placed(self, gemm: Gemm, block: int) -> Gemm:
        """The product with the packed matrices' places, where each is a batch entry's own."""
        if self.count == 1:
            return gemm
        (entries,) = gemm.batch
        return replace(gemm, batch=(replace(entries, b=4 * _entry(gemm, block)),))

    def packed(self, emitter: Emitter, gemm: Gemm, block: int, run: int) -> Packed:
        """Each matrix in panels, its bias behind it; ``run``: k of a column beside each other."""
        transposed = gemm.b_row == 1 and gemm.b_col != 1
        panel = gemm.k * block
        behind = ceil_div(ceil_div(gemm.n, 4), block) * panel
        pack = functools.partial(self._pack, gemm, block, transposed, 4 * behind, run)
        sources = [a for pair in zip(self.matrices, self.biases, strict=True) for a in pair]
        present = [a for a in sources if a is not None]
        # Which matrices have a bias is not told by the arrays alone.
        which = "".join(str(int(bias is not None)) for bias in self.biases)
        key = f"b{'t' if transposed else ''}{block}{f'.run{run}' if run > 1 else ''}"
        ref = emitter.weight(key if self.count == 1 else f"{key}.{which}", pack, *present)
        return Packed(ref, block, panel, behind if self.has_bias else -1)

    def _pack(self, gemm: Gemm, block: int, transposed: bool, behind: int, run: int) -> np.ndarray:
        """``behind``: numbers of a matrix before its bias."""
        entries = []
        for b, bias in zip(self.matrices, self.biases, strict=True):
            flat = b.reshape(gemm.n, gemm.k).T if transposed else b.reshape(-1, gemm.n)
            packed = pack_columns(flat.astype(np.float32, copy=False), bias, block)
            entries.append(packed_for_dots(packed, behind, block, run) if run > 1 else packed)
        return entries[0] if len(entries) == 1 else np.concatenate(entries)


def _entry(gemm: Gemm, block: int) -> int:
    """vec4s of a packed matrix with its bias."""
    return ceil_div(ceil_div(gemm.n, 4), block) * block * (gemm.k + 1)


def of_matmul(problem: Problem) -> ProductWeights | None:
    """The weights of a MatMul whose b all batch entries share; None where b is no constant."""
    assert isinstance(problem.op, MatMul)
    b, bias = (*problem.constants, None)[1:3]
    if b is None:
        return None
    packed = {1} if bias is None else {1, 2}
    return ProductWeights((b,), (bias,), frozenset(packed))


def of_projections(problem: Problem) -> ProductWeights | None:
    """The weights of Projections; None where one of them is no constant."""
    assert isinstance(problem.op, Projections)
    pairs = list(zip(problem.inputs, problem.constants, strict=True))[1:]
    if any(type_ is not None and array is None for type_, array in pairs):
        return None
    constants = problem.constants
    matrices = tuple(b for b in constants[1::2] if b is not None)
    return ProductWeights(matrices, tuple(constants[2::2]), frozenset(range(1, len(constants))))
