"""Dimension numbers of StableHLO's scatter: where each element of the updates goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vknn.formats.layer_errors import Malformed
from vknn.graph import TensorType


def strictly_rising(numbers: Sequence[int], end: int) -> bool:
    """True where ``numbers`` rise from each to the next and lie within range(``end``)."""
    return list(numbers) == sorted(set(numbers)) and all(0 <= n < end for n in numbers)


def vector_axis(axis: int, indices: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Axes of ``indices`` that are not its axis of vectors, which may be one behind its last.

    Raises Malformed where the vectors have not ``count`` elements.
    """
    rank = len(indices)
    if not 0 <= axis <= rank or (indices[axis] if axis < rank else 1) != count:
        raise Malformed(f"has no vectors of {count} indices along axis {axis} of {list(indices)}")
    return tuple(a for a in range(rank) if a != axis)


@dataclass(frozen=True)
class ScatterNumbers:
    """Axes of a scatter.

    ``dims``: sizes of the operand. ``windows``: sizes of a window along each of its axes.
    ``indexed``: axes of the operand that a vector of indices names. ``batch``: sizes of the indices
    without their vectors; ``batch_axes``, ``vector``: their axes. ``scattered``: axes of the
    updates that go in step with them; ``window_axes``: those for the operand's axes that are not
    ``inserted``.
    """

    dims: tuple[int, ...]
    windows: tuple[int, ...]
    indexed: tuple[int, ...]
    inserted: tuple[int, ...]
    batch: tuple[int, ...]
    batch_axes: tuple[int, ...]
    vector: int
    scattered: tuple[int, ...]
    window_axes: tuple[int, ...]

    @classmethod
    def of(
        cls,
        options: Mapping[str, Any],
        x: TensorType | np.ndarray,
        indices: TensorType | np.ndarray,
        updates: TensorType | np.ndarray,
    ) -> ScatterNumbers:
        """Those of an operator's options for its operands. Raises Malformed."""
        dims, places, given = (_dims(v) for v in (x, indices, updates))
        window_axes = tuple(options["update_window_dims"])
        inserted = tuple(options["inserted_window_dims"])
        indexed = tuple(options["scatter_dims_to_operand_dims"])
        vector = int(options["index_vector_dim"])
        good = strictly_rising(window_axes, len(given)) and strictly_rising(inserted, len(dims))
        good = good and len(window_axes) + len(inserted) == len(dims)
        good = good and strictly_rising(sorted(indexed), len(dims))
        scattered = tuple(a for a in range(len(given)) if a not in window_axes)
        if not good:
            raise Malformed(
                f"has windows of axes {list(window_axes)} and {list(inserted)}, indices of axes "
                f"{list(indexed)} for {list(dims)} and updates {list(given)}"
            )
        batch_axes = vector_axis(vector, places, len(indexed))
        batch = tuple(places[a] for a in batch_axes)
        sizes = iter(given[a] for a in window_axes)
        windows = tuple(1 if a in inserted else next(sizes) for a in range(len(dims)))
        fits = all(w <= d for w, d in zip(windows, dims, strict=True) if 0 not in given)
        if batch != tuple(given[a] for a in scattered) or not fits:
            raise Malformed(f"writes updates {list(given)} by {list(places)} into {list(dims)}")
        return cls(
            dims, windows, indexed, inserted, batch, batch_axes, vector, scattered, window_axes
        )

    def places(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Places in the operand, flattened, of all elements of the updates, and which of them are
        within it; both flat."""
        axes = (*self.batch_axes, *([self.vector] if self.vector < indices.ndim else []))
        vectors = indices.transpose(axes).reshape(*self.batch, len(self.indexed))
        rank = len(self.scattered) + len(self.window_axes)
        kept = [a for a in range(len(self.dims)) if a not in self.inserted]
        at_axis = dict(zip(kept, self.window_axes, strict=True))
        total, inside = np.zeros((1,) * rank, np.int64), np.ones((1,) * rank, bool)
        for axis, size in enumerate(self.dims):
            place = np.zeros((1,) * rank, np.int64)
            if axis in self.indexed:
                start = vectors[..., self.indexed.index(axis)]
                low = -self.windows[axis] if start.dtype.kind == "i" else 0
                start = np.clip(start, low, size).astype(np.int64)
                place = self._spread(start, self.scattered, rank)
            if axis in at_axis:
                own = np.arange(self.windows[axis])
                place = place + self._spread(own, (at_axis[axis],), rank)
            inside = inside & (place >= 0) & (place < size)
            total = total * size + place
        whole = tuple(np.broadcast_shapes(total.shape, self._updates(rank)))
        return tuple(np.broadcast_to(a, whole).reshape(-1) for a in (total, inside))  # type: ignore[return-value]

    def _updates(self, rank: int) -> tuple[int, ...]:
        """Shape of the updates."""
        sizes = dict(zip(self.scattered, self.batch, strict=True))
        kept = (w for a, w in enumerate(self.windows) if a not in self.inserted)
        sizes |= dict(zip(self.window_axes, kept, strict=True))
        return tuple(sizes[a] for a in range(rank))

    @staticmethod
    def _spread(array: np.ndarray, axes: Sequence[int], rank: int) -> np.ndarray:
        """``array`` with its axes as ``axes``, in order, of ``rank`` ones."""
        shape = [1] * rank
        for axis, size in zip(axes, array.shape, strict=True):
            shape[axis] = size
        return array.reshape(shape)


def _dims(value: TensorType | np.ndarray) -> tuple[int, ...]:
    return value.dims if isinstance(value, TensorType) else value.shape
