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
#: Most vec4s of results of a lane where it has few registers: Intel's compiler spills with
#: more, as the next block is prefetched beside them.
MOST_RESULTS = 4


def shared_memory_tiles(problem: Problem, rows: int, columns: int) -> list[SharedMemoryTile]:
    """Tiles for a product of so many rows and vec4s of columns.

    None on a CPU, where shared memory is no faster than other memory.
    """
    limits = problem.limits
    if limits.kind == "cpu" or "shared" in problem.options.disabled:
        return []
    few = problem.machine.few_registers
    own = [tile for tile in TILES if not few or tile.rows * tile.cols <= MOST_RESULTS]
    found = [*own, *cooperative_tiles(problem)]
    return [tile for tile in found if tile.fits(limits) and tile.suits(rows, columns)]
