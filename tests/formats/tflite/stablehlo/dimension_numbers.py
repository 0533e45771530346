"""Dimension numbers of StableHLO's gathers and scatters, drawn at random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass
class Numbers:
    """Dimension numbers of a gather or a scatter, drawn at random."""

    dims: tuple[int, ...]
    windows: tuple[int, ...]
    left_out: tuple[int, ...]
    named: tuple[int, ...]
    batch: tuple[int, ...]
    vector: int
    offsets: tuple[int, ...]

    @property
    def index_shape(self) -> tuple[int, ...]:
        """Shape of the indices."""
        shape = list(self.batch)
        shape.insert(self.vector, len(self.named))
        return tuple(shape)

    @property
    def whole(self) -> tuple[int, ...]:
        """Shape of the windows: a gather's output, a scatter's updates."""
        kept = iter(w for a, w in enumerate(self.windows) if a not in self.left_out)
        batch = iter(self.batch)
        rank = len(self.batch) + len(self.offsets)
        return tuple(next(kept) if a in self.offsets else next(batch) for a in range(rank))

    def vectors(self, indices: np.ndarray) -> np.ndarray:
        """Indices with the axis of their vectors last."""
        return np.moveaxis(indices, self.vector, -1)

    def split(self, place: tuple[int, ...]) -> tuple[tuple[int, ...], list[int]]:
        """A place of ``whole`` as that of a vector, and one in a window."""
        batch = tuple(p for a, p in enumerate(place) if a not in self.offsets)
        kept = iter([p for a, p in enumerate(place) if a in self.offsets])
        within = [0 if a in self.left_out else next(kept) for a in range(len(self.dims))]
        return batch, within


def drawn(rng: np.random.Generator) -> Numbers:
    """Dimension numbers that fit one another."""
    rank = int(rng.integers(1, 4))
    dims = tuple(int(rng.choice([2, 3, 5, 7])) for _ in range(rank))
    named = tuple(rng.permutation(rank)[: rng.integers(1, rank + 1)].tolist())
    left_out = tuple(a for a in range(rank) if rng.random() < 0.4)
    windows = tuple(
        1 if a in left_out else d if rng.random() < 0.3 else int(rng.integers(1, d + 1))
        for a, d in enumerate(dims)
    )
    batch = tuple(int(n) for n in rng.choice([1, 2, 3], rng.integers(0, 3)))
    kept = rank - len(left_out)
    offsets = tuple(sorted(rng.permutation(len(batch) + kept)[:kept].tolist()))
    vector = int(rng.integers(0, len(batch) + 1))
    return Numbers(dims, windows, left_out, named, batch, vector, offsets)


def gather_options(n: Numbers) -> dict[str, Any]:
    """Options of a STABLEHLO_GATHER."""
    return {
        "offset_dims": n.offsets, "collapsed_slice_dims": n.left_out, "start_index_map": n.named,
        "index_vector_dim": n.vector, "slice_sizes": n.windows,
    }  # fmt: skip


def scatter_options(n: Numbers) -> dict[str, Any]:
    """Options of a STABLEHLO_SCATTER."""
    return {
        "update_window_dims": n.offsets, "inserted_window_dims": n.left_out,
        "scatter_dims_to_operand_dims": n.named, "index_vector_dim": n.vector,
    }  # fmt: skip
