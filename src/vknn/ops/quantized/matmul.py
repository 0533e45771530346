"""Matrix products of quantized integers, requantized in fixed point (``quantized.fixed_point``)."""

from __future__ import annotations

import numpy as np

from vknn.graph import DType, TensorType, attributes
from vknn.ops.matmul import product_dims, product_shape, products
from vknn.ops.quantized.convolution import DATA, Requantized, of_channels, requantized_inputs


@attributes
class QuantizedGemm(Requantized):
    """MatMul of quantized integers: the sums of (a - zero_in) * (b - zero_b), requantized.

    Inputs a [..., M, K] ([..., K, M] when ``transpose_a``) and b [..., K, N] ([..., N, K] when
    ``transpose_b``) of int8, uint8 or int16, whose leading axes broadcast; bias (None or int32 [N];
    with rounding "wide" or "long" also [2, N]: low and high words), multiplier and shift (int32,
    [N] or [1]).
    Formulas: :class:`Requantized`, after TensorFlow Lite's kernels.
    """

    transpose_a: bool = False
    transpose_b: bool = False
    zero_b: int = 0

    @property
    def channel_axis(self) -> int:
        return -1

    @property
    def weight_axis(self) -> int:
        return -2 if self.transpose_b else -1

    @property
    def weight_zero(self) -> int:
        return self.zero_b

    @property
    def most_weight(self) -> int:
        return 1 << 15

    @property
    def weight_types(self) -> tuple[DType, ...]:
        return DATA

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        a, b, *vectors = requantized_inputs(self, inputs)
        shape = product_shape(self, a, b, self.transpose_a, self.transpose_b)
        return (self._finished(shape, a, b, *vectors),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        a, b, *vectors = requantized_inputs(self, inputs)
        y = np.empty(product_dims(a, b, self.transpose_a, self.transpose_b), self.dtype.numpy)
        zeros = (self.zero_in, self.zero_b)
        for rows, columns, sums in products(a, b, self.transpose_a, self.transpose_b, zeros):
            y[..., rows, columns] = self._requantize(sums, *of_channels(vectors, columns))
        return (y,)
