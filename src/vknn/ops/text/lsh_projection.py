"""LshProjection: hashes of rows as bits."""

from __future__ import annotations

import numpy as np

from vknn import run_limits
from vknn.graph import DType, Op, TensorType, attributes
from vknn.ops.common.checks import arguments, require, require_dtype, require_vector
from vknn.ops.text.fingerprint import fingerprint64


@attributes
class LshProjection(Op):
    """Bits by locality-sensitive hashing, as TensorFlow Lite has them.

    Inputs seeds [hashes, bits] (float32), x (any numbers), weights [rows of x] (optional). A bit is
    1 where the sum over the rows of x of weight * hash is above 0; the hash is FarmHash's
    Fingerprint64 of the seed's and the row's bytes as a signed number. Gives int32: all bits
    [hashes * bits], or with ``sparse`` [hashes] one number for each hash, its bits (the first is
    the highest) plus hash << bits. Computed on the host: it needs the bytes as the host has them,
    and products of 64 bits.
    """

    sparse: bool = False

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        seeds, x, weights = arguments(self, inputs, 2, optional=1)
        require_dtype(self, DType.FLOAT32, seeds)
        require(seeds.rank == 2, f"LshProjection: the seeds are {seeds}")
        require(seeds.size // max(1, seeds.dims[0]) <= 32, f"LshProjection: {seeds} has many bits")
        require(x.rank >= 1 and x.dtype is not DType.STRING, f"LshProjection: hashes {x}")
        if weights is not None:
            require_dtype(self, DType.FLOAT32, weights)
            require_vector(self, "weights", weights, x.shape[0])
        return (TensorType((seeds.dims[0] if self.sparse else seeds.size,), DType.INT32),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        seeds, x, weights = arguments(self, inputs, 2, optional=1)
        rows = np.ascontiguousarray(x).reshape(x.shape[0], -1).view(np.uint8)
        factors = np.ones(len(rows), np.float32) if weights is None else weights
        bits = np.array([self._bit(s, rows, factors) for s in seeds.reshape(-1)], np.int64)
        if not self.sparse:
            return (bits.astype(np.int32),)
        bits = bits.reshape(seeds.shape)
        hashes, count = seeds.shape
        places = np.int64(1) << np.arange(count - 1, -1, -1, dtype=np.int64)
        numbers = (bits * places).sum(axis=1) + (np.arange(hashes, dtype=np.int64) << count % 32)
        return (numbers.astype(np.int32),)

    @staticmethod
    def _bit(seed: np.float32, rows: np.ndarray, factors: np.ndarray) -> int:
        run_limits.check()
        if not len(rows):
            return 0
        front = np.frombuffer(np.asarray(seed, "<f4").tobytes(), np.uint8)
        keys = np.concatenate([np.broadcast_to(front, (len(rows), 4)), rows], axis=1)
        hashes = fingerprint64(keys).view(np.int64).astype(np.float64)
        return int(np.cumsum(factors * hashes)[-1] > 0)
