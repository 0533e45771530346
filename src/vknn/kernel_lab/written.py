"""Elements that a dispatch writes, found by running it over two different fills."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from vknn.kernel_lab.arrays import storage
from vknn.kernel_lab.description import LabDescription
from vknn.kernel_lab.execution import LoadedKernel
from vknn.kernel_lab.inputs import read_memories
from vknn.kernel_lab.kernel_source import FOLDER, read_source
from vknn.kernel_lab.lab_plan import POISON, lab_plan
from vknn.kernel_lab.request import requested
from vknn.runtime import Device

OTHER_FILL = 0x2A2A2A2A


def written_elements(
    description: LabDescription, folder: Path, device: Device
) -> dict[int, np.ndarray]:
    """Elements that are written (bool), by binding, of those that leave some as they were.

    Only of memory of which nothing was known beforehand: elsewhere it cannot be told.
    """
    source = read_source(folder, description.kernel)
    compiled = source.compile(folder / FOLDER, description.variant)
    request = requested(description, compiled, device.limits)
    data = read_memories(description, folder)
    results = []
    for fill in (POISON, OTHER_FILL):
        lab = lab_plan(
            "lab", description.memories, data, description.bindings, request.dispatch,
            device.limits, fill,
        )  # fmt: skip
        with LoadedKernel(device, lab, compiled.spirv) as kernel:
            results.append(kernel.written())
    masks = {}
    for number in lab.filled:
        binding = description.bindings[number]
        kind = storage(binding.dtype)
        first, second = (r[number][: binding.nbytes].view(np.uint8) for r in results)
        same = (first == second).reshape(-1, kind.itemsize).all(axis=1)
        if not same.all():
            masks[number] = same
    return masks
