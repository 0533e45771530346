"""The product of a recurrent op's input with W: one GEMM for all steps, gates and directions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vknn.lowering.kernels.matmul.gemm import (
    Gemm,
    choose_tile,
    fits_device,
    pack_columns,
    subgroup_tile,
)
from vknn.lowering.kernels.matmul.kernels import (
    Packed,
    Product,
    emit_row,
    emit_scalar,
    emit_tile,
    row_split,
    scalar_tile,
)
from vknn.lowering.kernels.recurrent.shape import (
    RecurrentShape,
    gemm_size,
    input_bias,
    input_matrix,
)
from vknn.lowering.kit.emitter import Emitter, Ref
from vknn.lowering.kit.layouts import ceil_div
from vknn.lowering.kit.workgroups import allows_groups, fits_buffer, fits_loops
from vknn.plan import DeviceLimits


@dataclass(frozen=True)
class InputGemm:
    """A GEMM whose rows are steps and batch entries, whose columns the gates of all directions.

    ``kernel``: "row", "scalar", "tile" or "subgroup", of matmul. ``width``: vec4s in a panel of
    the packed matrix.
    """

    sizes: Gemm
    kernel: str
    width: int

    @property
    def panels(self) -> int:
        return ceil_div(self.sizes.n, 4 * self.width)

    def fits(self, limits: DeviceLimits) -> bool:
        """True where the device can have the workgroups, the loops and the packed matrix."""
        sizes, k = self.sizes, self.sizes.k
        groups_fit = self.kernel != "row" or allows_groups(
            row_split(sizes, limits).groups(sizes), limits
        )
        packed = self.panels * self.width * 4 * (k + 1)
        loops = fits_loops(limits, k if self.kernel == "scalar" else ceil_div(k, 4))
        return groups_fit and loops and fits_device(sizes, limits) and fits_buffer(limits, packed)


def input_gemm(shape: RecurrentShape, limits: DeviceLimits) -> InputGemm:
    """The GEMM of a recurrent op, with the kernel that suits it best."""
    rows, columns, inputs = shape.steps * shape.batch, shape.columns, shape.inputs
    sizes = Gemm(rows, columns, inputs, inputs, 1, columns, 1, columns)
    shared = None
    if sizes.one_row:
        kernel, width = "row", row_split(sizes, limits).block
    elif inputs % 4:
        kernel, width = "scalar", scalar_tile(sizes, limits).block
    else:
        shared = subgroup_tile(sizes, limits)
        kernel = "tile" if shared is None else "subgroup"
        width = (shared or choose_tile(sizes, limits)).block
    return InputGemm(sizes, kernel, min(width, sizes.n // 4))


def emit_input_gemm(emitter: Emitter, shape: RecurrentShape, gemm: InputGemm) -> Ref:
    """Dispatches the GEMM; its result is float32."""
    packed = _packed(emitter, shape, gemm)
    c = emitter.scratch("products", gemm_size(shape))
    product = Product(gemm.sizes, emitter.input(0), packed, c)
    if gemm.kernel == "row":
        emit_row(emitter, product)
    elif gemm.kernel == "scalar":
        emit_scalar(emitter, product)
    else:
        emit_tile(emitter, product, subgroup=gemm.kernel == "subgroup")
    return c


def _packed(emitter: Emitter, shape: RecurrentShape, gemm: InputGemm) -> Packed:
    """W and the biases; a normalized LSTM adds its biases behind the normalization."""
    constants = emitter.problem.constants
    w, bias = constants[1], constants[3] if len(constants) > 3 else None
    assert w is not None
    if shape.normalized:
        bias = None
    sources = (w,) if bias is None else (w, bias)
    ref = emitter.weight(
        f"recurrent input {gemm.width}",
        lambda: _columns(shape, gemm.width, w, bias),
        *sources,
    )
    panel = gemm.sizes.k * gemm.width
    return Packed(ref, gemm.width, panel, -1 if bias is None else gemm.panels * panel)


def _columns(
    shape: RecurrentShape, width: int, w: np.ndarray, bias: np.ndarray | None
) -> np.ndarray:
    shift = None if bias is None else input_bias(shape, bias)
    return pack_columns(input_matrix(shape, w), shift, width)
