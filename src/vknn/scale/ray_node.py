"""Machine of a Ray cluster: what it has to offer so that batch jobs find its devices."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from vknn import environment
from vknn.runtime import devices
from vknn.runtime.snapshot import Snapshot
from vknn.scale.accelerators import offered
from vknn.scale.optional import ray_module

#: Resource that machines offer whose devices Ray does not count.
VULKAN = "vulkan"
#: Logical processors of a machine on which Ray is started: listing, reading and the filter of a
#: resumed job hold one each, and with two a resumed job stands still.
LEAST_CPUS = 4


@dataclass(frozen=True)
class NodeOptions:
    """Options that ``ray start`` should get on a machine.

    Attributes:
        num_cpus: Logical processors to offer; None: as many as Ray counts.
        vulkan: Devices to offer as the resource "vulkan"; 0 where Ray counts its GPUs.
        gpus: GPUs that Ray counts by itself.
        devices: The devices by names that last.
    """

    num_cpus: int | None
    vulkan: int
    gpus: int
    devices: tuple[str, ...]

    @property
    def arguments(self) -> list[str]:
        """The options as arguments."""
        found = [] if self.num_cpus is None else [f"--num-cpus={self.num_cpus}"]
        if self.vulkan:
            found.append(f"--resources={json.dumps({VULKAN: self.vulkan})}")
        return found

    def to_json(self) -> dict[str, Any]:
        """The options as a document."""
        return {**asdict(self), "devices": list(self.devices), "arguments": self.arguments}


def node_options() -> NodeOptions:
    """The options of this machine. Raises VknnError where Ray is missing."""
    ray_module()
    return options_for(devices(), counted_gpus(), os.cpu_count() or 1)


def options_for(snapshots: Sequence[Snapshot], gpus: int, cpus: int) -> NodeOptions:
    """The options of a machine with these Vulkan devices, GPUs of Ray's and processors."""
    found = offered(snapshots, environment.read().null_device)
    few = LEAST_CPUS if cpus < LEAST_CPUS else None
    return NodeOptions(few, 0 if gpus else len(found), gpus, tuple(found))


def counted_gpus() -> int:
    """GPUs of this machine that Ray finds by itself."""
    accelerators = ray_module("ray._private.accelerators")
    manager = accelerators.get_accelerator_manager_for_resource("GPU")
    return 0 if manager is None else int(manager.get_current_node_num_accelerators())
