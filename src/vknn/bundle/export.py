"""Export: a model and what it is to run on become a bundle. Needs no Vulkan device."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from vknn import __version__
from vknn.bundle import schema
from vknn.bundle.plans import Portrait, add_plan
from vknn.bundle.schema import NONE, Direction, ElementType
from vknn.bundle.tables import Tables
from vknn.bundle.writer import write
from vknn.graph import Graph
from vknn.lowering import LoweringOptions, WeightCache
from vknn.plan import DeviceLimits, Plan, Port
from vknn.planning import outlined
from vknn.runtime.device_array import storage_dtype
from vknn.runtime.pipelines import pipeline_keys, shipped


def export_graph(
    graph: Graph, path: Path, limits: DeviceLimits, options: LoweringOptions, target: str
) -> Plan:
    """A graph of one segment written as a bundle for a device of these limits; its plan."""
    outline = outlined(graph, limits, options)
    [segment] = outline.segments
    plan = outline.lowered(segment, WeightCache())
    tables = Tables()
    keys = pipeline_keys(plan.dispatches, shipped)
    ports = [_port(tables, n, p, Direction.INPUT) for n, p in plan.inputs.items()]
    ports += [_port(tables, n, p, Direction.OUTPUT) for n, p in plan.outputs.items()]
    shapes = ";".join(f"{n}={','.join(map(str, p.type.dims))}" for n, p in plan.inputs.items())
    add_plan(tables, Portrait(plan, keys, {}, target, shapes, options.precision, ports))
    write(path, tables, json.dumps({"vknn": __version__}).encode())
    return plan


def _port(tables: Tables, name: str, port: Port, direction: Direction) -> tuple[object, ...]:
    dims = list(port.type.dims)
    element = ElementType[np.dtype(storage_dtype(port)).name.upper()]
    row: Mapping[str, object] = {f.name: 0 for f in schema.PORT.fields} | {
        "name": tables.string(name), "direction": int(direction), "type": int(element),
        "rank": len(dims), "dims": dims + [1] * (schema.MOST_AXES - len(dims)),
        "buffer": port.buffer, "count": NONE if port.count is None else port.count,
        "open_axis": port.open_axis,
    }  # fmt: skip
    return tuple(row.values())
