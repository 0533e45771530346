"""Inventory: what a bundle holds, as a document for tables and JSON. Sizes in bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from vknn.bundle import schema
from vknn.bundle.reader import Bundle
from vknn.bundle.records import BundlePlan, BundlePort
from vknn.bundle.schema import NONE, StepKind
from vknn.bundle.suitability import needs_text


def inventory(bundle: Bundle) -> dict[str, Any]:
    """Document of all but the steps. Raises ModelFormatError where the SHA-256 is not the file's.

    Keys: "file", "version", "bytes", "sha256", "meta", "sections" (bytes by name), "modules" (bytes
    and kernels), "blobs", "plans".
    """
    pipelines = bundle.tables[schema.PIPELINE]
    modules = [
        {
            "bytes": int(row["nbytes"]),
            "kernels": sorted(
                {bundle.string(p["kernel"]) for p in pipelines[pipelines["module"] == number]}
            ),
        }
        for number, row in enumerate(bundle.tables[schema.MODULE])
    ]
    return {
        "file": bundle.file,
        "version": bundle.version,
        "bytes": bundle.nbytes,
        "sha256": bundle.sha256,
        "meta": bundle.meta,
        "sections": {name: len(body) for name, body in bundle.sections.items() if len(body)},
        "modules": modules,
        "blobs": len(bundle.tables[schema.BLOB]),
        "plans": [plan_document(bundle, plan) for plan in bundle.plans],
    }


def plan_document(bundle: Bundle, plan: BundlePlan) -> dict[str, Any]:
    """A plan: what goes in and out, what it needs, and how large it is."""
    steps = plan.steps
    kinds = {
        kind.name.lower(): int((steps["kind"] == kind).sum())
        for kind in StepKind
        if (steps["kind"] == kind).any()
    }
    arenas = plan.row["arenas"].tolist()
    return {
        "plan": plan.index,
        "name": plan.name,
        "target": plan.target,
        "shapes": plan.shapes,
        "precision": plan.precision,
        "inputs": [port_document(port) for port in plan.inputs],
        "outputs": [port_document(port) for port in plan.outputs],
        "states": [{"name": state.name, "bytes": state.nbytes} for state in plan.states],
        "steps": kinds,
        "submits": len(plan.submits),
        "pipelines": len(np.unique(steps["pipeline"][steps["kind"] == StepKind.DISPATCH])),
        "work": int(plan.row["work"]),
        "weights": plan.weight_bytes,
        "arenas": dict(zip(("inputs", "outputs", "activations"), arenas, strict=True)),
        "needs": needs_text(plan.needs),
        "example": bool(plan.examples),
    }


def port_document(port: BundlePort) -> dict[str, Any]:
    """An input or output; a size that depends on data is None."""
    shape: list[int | None] = list(port.shape)
    if port.is_open:
        shape[port.open_axis] = None
    return {
        "name": port.name,
        "dtype": str(port.dtype),
        "shape": shape,
        "bytes": port.nbytes,
        "layout": port.layout,
        "picture": port.picture,
        "scale": port.scale,
        "zero_point": port.zero_point if port.scale is not None else None,
        "labels": len(port.labels),
    }


def layer_documents(bundle: Bundle, plan: BundlePlan) -> list[dict[str, Any]]:
    """The steps of a plan but for barriers, in order."""
    pipelines, modules = bundle.tables[schema.PIPELINE], bundle.tables[schema.MODULE]
    blobs, buffers = bundle.tables[schema.BLOB], plan.buffers
    found = []
    for row in plan.steps:
        kind = StepKind(int(row["kind"]))
        if kind is StepKind.BARRIER:
            continue
        document: dict[str, Any] = {
            "layers": bundle.string(row["label"]),
            "op": bundle.string(row["op"]),
            "kernel": kind.name.lower(),
            "groups": None,
            "weights": 0,
            "spirv": 0,
            "flops": int(row["flops"]),
            "bytes": int(row["traffic"]),
        }
        if kind is StepKind.DISPATCH:
            pipeline = pipelines[row["pipeline"]]
            first = int(row["first_bindings"])
            bound = bundle.tables[schema.BINDING]["buffer"][first : first + int(row["bindings"])]
            held = np.unique(buffers["blob"][bound])
            document |= {
                "kernel": bundle.string(pipeline["kernel"]),
                "groups": row["groups"].tolist(),
                "weights": int(blobs["nbytes"][held[held != NONE]].sum(dtype=np.uint64)),
                "spirv": int(modules["nbytes"][pipeline["module"]]),
            }
        found.append(document)
    return found
