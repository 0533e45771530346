"""Weights quantized in blocks: integers of a few bits, packed in bytes, with a scale a block."""

from __future__ import annotations

import numpy as np

from vknn.graph import DType, Op, TensorType, attributes
from vknn.ops.common.blocks import blocks
from vknn.ops.common.checks import (
    arguments,
    fits,
    normal_axis,
    require,
    require_float,
    require_vector,
)


def unpacked_bits(packed: np.ndarray, bits: int, count: int) -> np.ndarray:
    """The first ``count`` unsigned integers of ``bits`` bits in the bytes of the last axis.

    The first is in the lowest bits; they may lie across bytes. uint8 [..., n] -> [..., count].
    """
    if bits == 8:
        return packed[..., :count]
    single = np.unpackbits(np.ascontiguousarray(packed), axis=-1, bitorder="little")
    groups = single[..., : count * bits].reshape(*packed.shape[:-1], count, bits)
    return np.packbits(groups, axis=-1, bitorder="little")[..., 0]


def packed_bytes(count: int, bits: int) -> int:
    """Bytes that so many integers of ``bits`` bits take."""
    return -(-count * bits // 8)


@attributes
class DequantizeBlocks(Op):
    """(x - zero point) * scale in float32, with one scale for each block along ``axis``.

    Inputs x, scale, zero points (optional, else ``zero`` stands for all). With ``bits`` below 8, x
    and zero points are uint8 that hold integers of so many bits along their last axes, the first in
    the lowest bits; the last axis of the result has ``count`` elements then. Otherwise x holds
    integers or floats of a whole byte or more each. The blocks along ``axis`` have ``block``
    elements, of the last one some may lack; along other axes scales may have the size 1.
    """

    axis: int
    block: int
    bits: int = 8
    count: int = 0
    zero: int = 0

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        x, scale, zeros = arguments(self, inputs, 2, optional=1)
        require_float(self, scale)
        good = 1 <= self.bits <= 8 and self.block > 0 and x.rank > 0
        require(good, f"DequantizeBlocks: blocks of {self.block} times {self.bits} bits of {x}")
        axis = normal_axis(self, self.axis, x.rank)
        if self.bits < 8:
            packed = x.dtype is DType.UINT8 and x.dims[-1] == packed_bytes(self.count, self.bits)
            require(packed, f"DequantizeBlocks: {x} does not hold {self.count} integers")
            x = x.with_shape((*x.dims[:-1], self.count))
        self._check_scale("scale", scale, self._blocks(x.dims, axis))
        if zeros is not None:
            wanted = self._blocks(x.dims, axis)
            if self.bits < 8 and zeros.dtype is DType.UINT8:
                wanted = (*wanted[:-1], packed_bytes(wanted[-1], self.bits))
            self._check_scale("zero points", zeros, wanted)
        return (x.with_dtype(DType.FLOAT32),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        x, scale, zeros = arguments(self, inputs, 2, optional=1)
        if self.bits < 8:
            x = unpacked_bits(x, self.bits, self.count)
        axis = self.axis % x.ndim
        blocks = self._blocks(x.shape, axis)
        places = np.arange(x.shape[axis]) // self.block
        whole = x.astype(np.float32)
        if zeros is None:
            whole = whole - np.float32(self.zero) if self.zero else whole
        else:
            if self.bits < 8 and zeros.dtype == np.uint8:
                zeros = unpacked_bits(zeros, self.bits, blocks[-1])
            whole = whole - np.take(zeros.astype(np.float32), places, axis=axis)
        spread = np.take(scale.astype(np.float32), places, axis=axis)
        return ((whole * spread).astype(np.float32),)

    def _blocks(self, dims: tuple[int, ...], axis: int) -> tuple[int, ...]:
        """The shape that scales have."""
        return (*dims[:axis], -(-dims[axis] // self.block), *dims[axis + 1 :])

    def _check_scale(self, what: str, found: TensorType, wanted: tuple[int, ...]) -> None:
        dims = found.dims
        fits = len(dims) == len(wanted)
        fits = fits and all(d in (w, 1) for d, w in zip(dims, wanted, strict=True))
        axis = self.axis % len(wanted)
        fits = fits and dims[axis] == wanted[axis]
        require(fits, f"DequantizeBlocks: {what} {found} should have the shape {wanted}")


@attributes
class MatMulNBits(Op):
    """a @ w^T + bias by weights w in blocks of a few bits along their rows, each with a scale.

    Inputs a [..., K], codes uint8 [N, blocks, bytes of a block], scales [N, blocks], zero points
    (optional, else half of all codes, 2^(bits - 1)) as numbers [N, blocks], bias [N] (optional).
    A row's ``size`` (K) weights are (code - zero point) * scale in float32; its codes of ``bits``
    bits lie as DequantizeBlocks has them, ``block`` in each block, those behind the K-th unused.
    Sums are kept in float64.
    """

    size: int
    block: int
    bits: int = 4

    @property
    def has_words(self) -> bool:
        """True where k is of whole vec4s and a block of whole words of 32 bits, and of 4 words or a
        half or quarter of that, as devices' kernels want it. Codes take 2, 4 or 8 bits there."""
        words, ragged = divmod(self.block * self.width, 32)
        return not ragged and self.size % 4 == 0 and (words % 4 == 0 or 4 % words == 0)

    @property
    def width(self) -> int:
        """Bits of a code on a device."""
        return next(width for width in (2, 4, 8) if width >= self.bits)

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        a, codes, scales, zeros, bias = arguments(self, inputs, 3, optional=2)
        require_float(self, a)
        require_float(self, scales)
        held = 2 <= self.bits <= 8 and self.block > 0 and self.block * self.bits % 8 == 0
        require(held, f"MatMulNBits: blocks of {self.block} times {self.bits} bits")
        good = a.rank >= 1 and fits(a.shape[-1], self.size)
        require(good, f"MatMulNBits: {a} has no rows of {self.size}")
        count = -(-self.size // self.block)
        packed = codes.dtype is DType.UINT8 and codes.rank == 3
        wanted = (count, packed_bytes(self.block, self.bits))
        require(packed and codes.dims[1:] == wanted, f"MatMulNBits: codes {codes}, not {wanted}")
        for name, found in (("scales", scales), ("zero points", zeros)):
            if found is not None:
                shaped = found.dims == codes.dims[:2]
                require(shaped, f"MatMulNBits: {name} {found} should be {codes.dims[:2]}")
        if bias is not None:
            require_float(self, bias)
        require_vector(self, "bias", bias, codes.dims[0])
        return (a.with_shape((*a.shape[:-1], codes.dims[0])),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        a, codes, scales, zeros, bias = arguments(self, inputs, 3, optional=2)
        rows = a.reshape(-1, self.size).astype(np.float64)
        y = np.empty((len(rows), len(codes)), a.dtype)
        with np.errstate(all="ignore"):
            for part in blocks(len(codes), 24 * max(self.size, len(rows))):
                own = None if zeros is None else zeros[part]
                sums = rows @ self.weights(codes[part], scales[part], own).T.astype(np.float64)
                y[:, part] = sums if bias is None else sums + bias[part]
        return (y.reshape(*a.shape[:-1], len(codes)),)

    def weights(
        self, codes: np.ndarray, scales: np.ndarray, zeros: np.ndarray | None
    ) -> np.ndarray:
        """The weights as float32 [N, K]."""
        numbers = unpacked_bits(codes, self.bits, self.block).astype(np.float32)
        middle = np.float32(1 << (self.bits - 1))
        with np.errstate(all="ignore"):
            numbers -= middle if zeros is None else zeros.astype(np.float32)[..., None]
            numbers *= scales.astype(np.float32)[..., None]
        return numbers.reshape(len(codes), -1)[:, : self.size]
