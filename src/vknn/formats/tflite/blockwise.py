"""Blockwise quantization: scales (and zero points) of blocks along the last axis of a tensor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vknn.formats.tflite.records import BlockQuant, TensorRecord
from vknn.graph import DType


def block_scales(
    tensors: Sequence[TensorRecord], record: TensorRecord
) -> tuple[np.ndarray, np.ndarray | None]:
    """Scales and zero points (None: 0) of a tensor's blocks, as float32 [..., blocks].

    The tensor has passed :func:`blocks_problem`.
    """
    blocks = record.blocks
    assert blocks is not None
    scales, zeros = tensors[blocks.scales].data, _zero_points(tensors, record, blocks)
    assert scales is not None
    return scales.astype(np.float32), None if zeros is None else zeros.astype(np.float32)


def blocks_problem(tensors: Sequence[TensorRecord], record: TensorRecord) -> str | None:
    """Problem, as text, of the blockwise quantization of a tensor; None where there is none."""
    blocks = record.blocks
    if blocks is None:
        return None
    shape = record.shape
    if blocks.size <= 0 or not shape or shape[-1] is None or shape[-1] % blocks.size:
        return f"{list(shape)} has blocks of {blocks.size}, which do not divide its rows"
    if not 0 <= blocks.scales < len(tensors):
        return f"its scales are tensor {blocks.scales} of {len(tensors)}"
    wanted = _scales_shape(record, blocks)
    given = tensors[blocks.scales]
    scales = given.stored
    if (
        not isinstance(scales, np.ndarray)
        or given.dtype is not DType.FLOAT16
        or given.shape != wanted
    ):
        found = f"{given.type_name} {list(given.shape)}" + " without data" * (scales is None)
        return f"its scales are {found}, not constant float16 {list(wanted)}"
    if not np.isfinite(scales).all() or (scales < 0).any():
        return "has scales that are negative or not finite"
    index = blocks.zero_points
    if index and not 0 <= index < len(tensors):
        return f"its zero points are tensor {index} of {len(tensors)}"
    if index and _zero_points(tensors, record, blocks) is None:
        other = tensors[index]
        found = f"{other.type_name} {list(other.shape)}"
        return f"its zero points are {found}, not constant integers {list(wanted)}"
    return None


def _scales_shape(record: TensorRecord, blocks: BlockQuant) -> tuple[int, ...]:
    dims = [d or 0 for d in record.shape]
    return (*dims[:-1], dims[-1] // blocks.size)


def _zero_points(
    tensors: Sequence[TensorRecord], record: TensorRecord, blocks: BlockQuant
) -> np.ndarray | None:
    """The zero points. Number 0, the schema's default, names tensor 0 only where that has them."""
    if blocks.zero_points is None:
        return None
    given = tensors[blocks.zero_points]
    good = given.dtype.is_integer and given.shape == _scales_shape(record, blocks)
    return given.data if good else None
