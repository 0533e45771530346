"""Tiles of workgroups that are tried for a product: of lanes, and of cooperative matrices."""

from __future__ import annotations

from vknn.lowering.kernels.matmul.cooperative_tiles import cooperative_tiles
from vknn.lowering.kernels.matmul.shared_memory_tiles import SharedMemoryTile
from vknn.lowering.kit.problem import Problem

#: Tiles from the largest to the smallest. Lanes and height divide one another, and every lane loads
#: as many vec4s as any other.
TILES = (
    SharedMemoryTile(8, 2, 16, 16),
    SharedMemoryTile(8, 2, 8, 8),
    SharedMemoryTile(8, 1, 16, 8),
    SharedMemoryTile(4, 1, 8, 8),
)


def shared_memory_tiles(problem: Problem, rows: int, columns: int) -> list[SharedMemoryTile]:
    """Tiles for a product of so many rows and vec4s of columns.

    None on a CPU, where shared memory is no faster than other memory.
    """
    limits = problem.limits
    if limits.kind == "cpu" or "shared" in problem.options.disabled:
        return []
    found = [*TILES, *cooperative_tiles(problem)]
    return [tile for tile in found if tile.fits(limits) and tile.suits(rows, columns)]
