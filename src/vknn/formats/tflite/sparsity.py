"""Sparse constants (the schema's SparsityParameters) -> dense arrays.

The encoding is that of TACO (Kjolstad et al. 2017, "The Tensor Algebra Compiler"): the axes of the
tensor and of its blocks are visited in ``traversal_order``; each is DENSE (all coordinates are
stored) or SPARSE_CSR (the listed ones are). A block axis subdivides the axis that ``block_map``
names: its coordinate counts within a block.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vknn.formats.tflite.generated import accessors
from vknn.formats.tflite.verifier import Damaged
from vknn.graph import DType
from vknn.run_limits import make_room

_DENSE, _SPARSE = 0, 1
_INDEX_VECTORS = (
    None, accessors.Int32Vector, accessors.Uint16Vector, accessors.Uint8Vector,
)  # fmt: skip
_MAX_AXES = 16


def densify(
    sparsity: Any, shape: tuple[int, ...], dtype: DType, raw: memoryview, what: str
) -> np.ndarray:
    """Dense array of a sparse constant with the values ``raw``. Raises Damaged."""
    position = sparsity._tab.Pos
    try:
        return _dense(sparsity, shape, dtype, raw, what)
    except _Bad as problem:
        raise Damaged(f"{what}: its sparsity {problem}", position) from None


class _Bad(ValueError):
    """Contradictory SparsityParameters."""


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise _Bad(message)


def _dense(
    sparsity: Any, shape: tuple[int, ...], dtype: DType, raw: memoryview, what: str
) -> np.ndarray:
    rank = len(shape)
    order = _vector(sparsity.TraversalOrderAsNumpy())
    blocks = _vector(sparsity.BlockMapAsNumpy())
    total = rank + len(blocks)
    _require(total <= _MAX_AXES, f"has {total} axes")
    _require(sorted(order) == list(range(total)), f"visits the axes {order} of {total}")
    _require(all(0 <= b < rank for b in blocks), f"has blocks of the axes {blocks}")
    _require(len(set(blocks)) == len(blocks), "refines an axis twice")
    _require(
        sparsity.DimMetadataLength() == total, f"describes {sparsity.DimMetadataLength()} axes"
    )
    limit = math.prod(shape)
    sizes, coordinates = _coordinates(sparsity, order, limit, what)
    _check_sizes(shape, blocks, sizes)
    places = [coordinates[axis] for axis in range(rank)]
    for number, axis in enumerate(blocks):
        places[axis] = places[axis] * sizes[rank + number] + coordinates[rank + number]
    count = len(places[0]) if places else 1
    _require(
        len(raw) == count * dtype.itemsize, f"lists {count} values, {len(raw)} bytes are there"
    )
    for axis, place in enumerate(places):
        _require(place.size == 0 or int(place.max()) < shape[axis], f"leaves axis {axis}")
    make_room(limit * dtype.itemsize, f"{what} of the shape {list(shape)}, which becomes dense")
    dense = np.zeros(shape, dtype.numpy)
    values = np.frombuffer(raw, dtype.numpy.newbyteorder("<"))
    dense[tuple(places)] = values if places else values[0]
    return dense


def _coordinates(
    sparsity: Any, order: list[int], limit: int, what: str
) -> tuple[dict[int, int], dict[int, np.ndarray]]:
    """Size of each axis (-1: sparse), and the coordinates of all entries along each axis."""
    sizes: dict[int, int] = {}
    coordinates: dict[int, np.ndarray] = {}
    count = 1
    for level, axis in enumerate(order):
        metadata = sparsity.DimMetadata(level)
        if metadata.Format() == _DENSE:
            size = metadata.DenseSize()
            _require(size >= 0 and count * size <= limit, f"has {size} places along axis {axis}")
            make_room(8 * (level + 2) * count * size, f"{what} has {size} places along axis {axis}")
            repeats = np.full(count, size)
            own = np.tile(np.arange(size), count)
            sizes[axis] = size
        else:
            _require(metadata.Format() == _SPARSE, f"stores axis {axis} in an unknown way")
            segments = _indices(metadata.ArraySegmentsType(), metadata.ArraySegments())
            own = _indices(metadata.ArrayIndicesType(), metadata.ArrayIndices())
            _require(
                len(segments) == count + 1, f"has {len(segments)} segments for {count} entries"
            )
            _require(segments[0] == 0 and segments[-1] == len(own), "has loose segments")
            repeats = np.diff(segments)
            _require(bool((repeats >= 0).all()) and len(own) <= limit, "has segments that overlap")
            sizes[axis] = -1
        coordinates = {a: np.repeat(c, repeats) for a, c in coordinates.items()}
        coordinates[axis] = own
        count = len(own)
    return sizes, coordinates


def _check_sizes(shape: tuple[int, ...], blocks: list[int], sizes: dict[int, int]) -> None:
    rank = len(shape)
    inner = {axis: sizes[rank + number] for number, axis in enumerate(blocks)}
    _require(all(size > 0 for size in inner.values()), "has blocks that are not dense")
    for axis, size in enumerate(shape):
        whole, part = divmod(size, inner.get(axis, 1))
        _require(part == 0, f"has blocks of {inner.get(axis)} in an axis of {size}")
        _require(sizes[axis] in (-1, whole), f"has {sizes[axis]} places in an axis of {whole}")


def _indices(kind: int, table: Any) -> np.ndarray:
    _require(0 < kind < len(_INDEX_VECTORS) and table is not None, "lacks its indices")
    vector = _INDEX_VECTORS[kind]()  # type: ignore[misc]
    vector.Init(table.Bytes, table.Pos)
    values = vector.ValuesAsNumpy()
    array = np.array(values, np.int64) if isinstance(values, np.ndarray) else np.zeros(0, np.int64)
    _require(bool((array >= 0).all()), "has negative indices")
    return array


def _vector(array: Any) -> list[int]:
    return [int(v) for v in array] if isinstance(array, np.ndarray) else []
