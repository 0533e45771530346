"""Ports as the plan has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from vknn.bundle import schema
from vknn.bundle.schema import NONE, Direction, ElementType
from vknn.bundle.tables import Tables
from vknn.formats import Model
from vknn.graph import Graph
from vknn.plan import DeviceLimits, Plan, Port
from vknn.runtime.device_array import storage_dtype


@dataclass(frozen=True)
class PortRow:
    name: str
    port: Port
    direction: Direction

    def row(self, tables: Tables) -> tuple[object, ...]:
        port = self.port
        dims = list(port.type.dims)
        element = ElementType[np.dtype(storage_dtype(port)).name.upper()]
        row: Mapping[str, object] = {f.name: 0 for f in schema.PORT.fields} | {
            "name": tables.string(self.name), "direction": int(self.direction),
            "type": int(element), "rank": len(dims),
            "dims": dims + [1] * (schema.MOST_AXES - len(dims)), "buffer": port.buffer,
            "count": NONE if port.count is None else port.count, "open_axis": port.open_axis,
        }  # fmt: skip
        return tuple(row.values())


@dataclass
class PortedPlan:
    plan: Plan
    ports: list[PortRow]
    states: list[PortRow] = field(default_factory=list)


def ported(model: Model, graph: Graph, plan: Plan, limits: DeviceLimits) -> PortedPlan:
    rows = [PortRow(n, p, Direction.INPUT) for n, p in plan.inputs.items()]
    return PortedPlan(
        plan, rows + [PortRow(n, p, Direction.OUTPUT) for n, p in plan.outputs.items()]
    )
