"""Inputs of a lab: the bytes of its memories, read from their files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from vknn.errors import VknnError
from vknn.kernel_lab.arrays import read_array, storage
from vknn.kernel_lab.description import LabDescription


def read_memories(description: LabDescription, folder: Path) -> list[np.ndarray | None]:
    """Bytes (uint8) of each memory; None for those without a file.

    Raises VknnError for files of another size or element type than lab.json says.
    """
    found: list[np.ndarray | None] = []
    for number, memory in enumerate(description.memories):
        if memory.file is None:
            found.append(None)
            continue
        kinds = [b.dtype for b in description.bindings if b.memory == number]
        if not kinds:
            raise VknnError(f"{folder}: no binding lies in memory {number}")
        kind = storage(kinds[0])
        count = memory.nbytes // kind.itemsize
        found.append(read_array(folder, memory.file, kind, count).view(np.uint8))
    return found
