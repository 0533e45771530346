"""Segments of a program and the kernels that they use, as a profile's document has them."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from vknn.graph.layers import apart
from vknn.lowering.kit.parameters import parameters_of
from vknn.plan import Barrier, Command, Copy, Dispatch, Fill, Plan, View
from vknn.profiling.lifetimes import lifetimes
from vknn.profiling.records import Entry, command_entry, host_entry
from vknn.runtime.spirv import glsl, modules
from vknn.runtime.spirv.expanded import expanded_kernel
from vknn.segment import Segment

#: Names of the constants that every kernel has: the workgroup's size.
_SIZES = {0: "local_size_x", 1: "local_size_y", 2: "local_size_z"}


def segment_document(segment: Segment, layers: Collection[str]) -> dict[str, Any]:
    """Document of a segment: a plan's commands and buffers, or operators on the host.

    ``layers``: names of the model's layers.
    """
    plan = segment.plan
    if plan is None:
        entries = [host_entry(node) for node in segment.graph.nodes]
        commands = [{"kind": "host", **_about(e, layers)} for e in entries]
        empty: dict[str, Any] = {"buffers": [], "arenas": {}, "submits": [], "barriers": []}
        return {"where": "host", "commands": commands, **empty}
    # Commands that stand in front of each step: steps are counted with their barriers in a plan.
    before = [0]
    for step in plan.steps:
        before.append(before[-1] + (not isinstance(step, Barrier)))
    barriers = [before[n] for n, step in enumerate(plan.steps) if isinstance(step, Barrier)]
    return {
        "where": "vulkan",
        "commands": [_command(c, layers) for c in plan.commands],
        "buffers": _buffers(plan),
        "arenas": {role.value: nbytes for role, nbytes in plan.arenas.items()},
        "submits": [before[end] for end in plan.submits],
        "barriers": sorted(set(barriers)),
    }


def kernels_of(plans: Sequence[Plan]) -> dict[str, dict[str, Any]]:
    """The kernels of the dispatches, by key; without the texts of vknn's own.

    :func:`with_texts` adds those, which takes a while and is of no use before a file is written.
    """
    return {
        kernel_key(d): {
            "kernel": d.kernel,
            "variant": dict(d.variant),
            "own": d.source is not None,
            "glsl": d.source,
        }
        for plan in plans
        for d in plan.dispatches
    }


def with_texts(kernels: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The kernels with GLSL, includes and defines written in, and SPIR-V as base64."""
    return {key: _with_text(k) if "spirv" not in k else k for key, k in kernels.items()}


def kernel_key(dispatch: Dispatch) -> str:
    """Key of a kernel: its name and the variant's choices; of one's own its source, too."""
    key = modules.entry_name(dispatch.kernel, dispatch.variant)
    if dispatch.source is None:
        return key
    return f"{key} {hashlib.sha256(dispatch.source.encode(errors='replace')).hexdigest()[:16]}"


def _with_text(kernel: dict[str, Any]) -> dict[str, Any]:
    name, variant = kernel["kernel"], tuple(kernel["variant"].items())
    root = glsl.source_root()
    if kernel["own"]:
        text = glsl.expand(kernel["glsl"], f"{name}.comp", root)
        module = modules.compile_glsl(kernel["glsl"], dict(variant), f"{name}.comp")
    else:
        text = expanded_kernel(root, name).text
        module = modules.spirv(name, variant)
    text = glsl.with_defines(text, dict(variant))
    return {**kernel, "glsl": text, "spirv": base64.b64encode(module).decode()}


def _about(entry: Entry, layers: Collection[str]) -> dict[str, Any]:
    return {
        "kernel": entry.kernel,
        "label": entry.label,
        "op": entry.label.partition(" ")[0],
        "layers": apart(entry.layers, layers),
        "flops": int(entry.flops),
        "nbytes": int(entry.nbytes),
    }


def _command(command: Command, layers: Collection[str]) -> dict[str, Any]:
    common = _about(command_entry(command), layers)
    match command:
        case Dispatch():
            return {"kind": "dispatch", **common, **_dispatch(command)}
        case Copy():
            return {
                "kind": "copy",
                **common,
                "source_buffer": command.source,
                "target_buffer": command.target,
                "source_offset": command.source_offset,
                "target_offset": command.target_offset,
            }
        case Fill():
            return {
                "kind": "fill",
                **common,
                "buffer": command.buffer,
                "word": command.word & 0xFFFFFFFF,
            }


def _dispatch(dispatch: Dispatch) -> dict[str, Any]:
    names = dict(_SIZES)
    if dispatch.source is None:
        constants = parameters_of(dispatch.kernel).constants
        names |= {constant.id: name for name, constant in constants.items()}
    return {
        "groups": [int(n) for n in dispatch.groups],
        "source": kernel_key(dispatch),
        "specialization": [
            {"id": number, "name": names.get(number), "value": _number(value)}
            for number, value in dispatch.specialization
        ],
        "push": dispatch.push.hex(),
        "bindings": [
            {
                "buffer": b.buffer,
                "access": b.access.value,
                "view": b.view.value,
                "format": None if b.view is View.STORAGE else b.format.value,
            }
            for b in dispatch.bindings
        ],
    }


def _number(value: Any) -> Any:
    """A constant as JSON has it: what it lacks as text."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if not isinstance(value, (float, np.floating)):
        return int(value)
    return float(value) if math.isfinite(value) else str(float(value))


def _buffers(plan: Plan) -> list[dict[str, Any]]:
    return [
        {
            "name": buffer.name,
            "role": buffer.role.value,
            "offset": int(buffer.offset),
            "nbytes": int(buffer.nbytes),
            "first": first,
            "last": last,
        }
        for buffer, (first, last) in zip(plan.buffers, lifetimes(plan), strict=True)
    ]
