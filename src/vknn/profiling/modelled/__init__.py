"""Modelled times of dispatches: arithmetic on machine code or counts, for devices of a table.

`assumptions` holds what is assumed, `machines` the devices' numbers, `assembly` and `rdna` read
machine code of AMD's GPUs, `times` puts it together. `estimated` has GPUs that no table has.
"""

from vknn.profiling.modelled.assumptions import ASSUMPTIONS, Assumptions
from vknn.profiling.modelled.estimated import is_estimated, known_machine, machine_text
from vknn.profiling.modelled.times import ModelledTime, Work
from vknn.runtime.machines import GpuMachine, gpu_machine

__all__ = [
    "ASSUMPTIONS",
    "Assumptions",
    "GpuMachine",
    "ModelledTime",
    "Work",
    "gpu_machine",
    "is_estimated",
    "known_machine",
    "machine_text",
]
