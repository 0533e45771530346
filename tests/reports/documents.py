"""Documents of profiles (docs/vkprof.md) with numbers that are made up, of any size."""

from __future__ import annotations

import base64
import copy
import random
from statistics import median
from typing import Any

SPIRV = base64.b64encode(b"\x03\x02\x23\x07").decode()
GLSL = """#version 450
#extension GL_GOOGLE_cpp_style_line_directive : enable
#line 2 "{kernel}.comp"
#define ACCESS 2
#line 1 "common/tensor.glsl"
layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;
layout(constant_id = 12) const bool MIXED = false;
#line 3 "{kernel}.comp"
layout(constant_id = 10) const int ROWS = 4;
layout(constant_id = 11) const float SCALE = 1.0;
void main() {{ /* {kernel} */ }}
"""
KERNELS = ("convolution/conv", "matmul/tile", "elementwise/add", "reduction/softmax")
OPS = ("Conv", "MatMul", "Add", "Softmax")
LIMITS = {
    "device": "made up",
    "driver": "1.0",
    "fma": {"4 vec4 a lane, 8 steps a round": 900.0, "8 vec4 a lane, 8 steps a round": 1000.0},
    "fp16": {"2 vec4 a lane, 16 steps a round": 2000.0},
    "integer_dot": {"4 vec4 a lane, 16 steps a round": 4000.0},
    "copy": {
        "storage buffer, 1 vec4 a lane": 90.0,
        "storage buffer, 4 vec4 a lane": 100.0,
        "texelFetch, 4 vec4 a lane": 80.0,
        "imageLoad, 4 vec4 a lane": 60.0,
        "vkCmdCopyBuffer": 120.0,
    },
    "submit": 1e-5,
    "dispatch": 1e-6,
    "dispatch_barrier": 2e-6,
    "group": 1e-9,
    "gflops": 1000.0,
    "gbytes": 120.0,
    "shader_gbytes": 100.0,
}


def document(
    dispatches: int = 12,
    *,
    runs: int = 3,
    name: str = "made up",
    layer: str = "layer {}",
    per_layer: int = 2,
    seed: int = 0,
    limits: bool = True,
    static: bool = False,
    host: bool = False,
) -> dict[str, Any]:
    """A profile of ``dispatches`` dispatches, ``per_layer`` a layer, a buffer between each two.

    ``layer``: its names, with ``{}`` in place of a number. ``static``: with what a driver made of
    them, where the second spills. ``host``: with an operator on the host behind the plan.
    """
    numbers = random.Random(seed)
    layers = [layer.replace("{}", str(i)) for i in range(-(-dispatches // per_layer))]
    commands = [_dispatch(i, layers[i // per_layer], numbers) for i in range(dispatches)]
    times = [numbers.lognormvariate(3.0, 1.0) for _ in commands]
    buffers = [_buffer(i, dispatches) for i in range(dispatches + 1)]
    segments = [
        {
            "where": "vulkan",
            "commands": commands,
            "buffers": buffers,
            "arenas": {"activation": 3 << 16},
            "submits": [dispatches // 2, dispatches] if dispatches > 1 else [dispatches],
            "barriers": list(range(1, dispatches)),
        }
    ]
    if host:
        command = {"kind": "host", "kernel": "numpy", "label": "TopK", "op": "TopK"}
        command |= {"layers": ["last"], "flops": 0, "nbytes": 0}
        parts = {"commands": [command], "buffers": [], "arenas": {}, "submits": [], "barriers": []}
        segments.append({"where": "host", **parts})
    tensor = {"name": "x", "shape": [1, 3, 8, 8], "dtype": "float32"}
    return {
        "format": "vkprof",
        "version": 1,
        "created": "2026-11-28T17:30:00Z",
        "model": {
            "name": name,
            "format": "ncnn",
            "hash": "0" * 64,
            "inputs": {"x": {"shape": [1, 3, 8, 8], "dtype": "float32"}},
            "outputs": {},
        },
        "machine": {"system": "Linux", "processor": "made up", "cores": 2, "python": "3.11"},
        "versions": {"vknn": "0.1.0", "numpy": "2.0"},
        "device": _device(),
        "options": {
            "precision": "fp32",
            "arithmetic": "fp32",
            "disabled": [],
            "tuned": False,
            "runs": runs,
            "warmup": 1,
            "seed": 0,
        },
        "limits": copy.deepcopy(LIMITS) if limits else None,
        "layers": [
            {"name": n, "type": "Layer", "ops": ["Conv"], "inputs": [tensor], "outputs": [tensor]}
            for n in layers
        ],
        "segments": segments,
        "kernels": {
            kernel: {
                "kernel": kernel,
                "variant": {"ACCESS": "2"},
                "own": False,
                "glsl": GLSL.format(kernel=kernel),
                "spirv": SPIRV,
            }
            for kernel in KERNELS
        },
        "runs": [_run(times, numbers, host) for _ in range(runs)],
        "plain": [sum(times) * 1e-6 * numbers.uniform(0.9, 1.1) for _ in range(runs)],
        "static": _static(commands) if static else None,
    }


def medians(profile: dict[str, Any]) -> list[float]:
    """Microseconds of each command, the median of the runs."""
    runs = [[s for part in run["segments"] for s in part["spans"]] for run in profile["runs"]]
    return [median((e - b) * 1e6 for b, e in spans) for spans in zip(*runs, strict=True)]


def _device() -> dict[str, Any]:
    return {
        "name": "made up",
        "kind": "discrete",
        "driver": "driver 1.0",
        "api_version": "1.3.280",
        "uuid": None,
        "vendor_id": 1,
        "device_id": 2,
        "timestamp_period": 1.0,
        "limits": {
            "subgroup_size": 32,
            "shared_memory": 49152,
            "max_group_invocations": 1024,
            "max_storage_buffer_range": 1 << 30,
            "unified_memory": False,
            "preferred_access": "storage",
            "features": ["timestamps"],
        },
    }


def _dispatch(number: int, layer: str, numbers: random.Random) -> dict[str, Any]:
    which = number % len(KERNELS)
    bound = [(number, "read"), (number + 1, "write")]
    return {
        "kind": "dispatch",
        "kernel": KERNELS[which],
        "label": f"{OPS[which]} tile",
        "op": OPS[which],
        "layers": [layer],
        "flops": 0 if which == 2 else int(10 ** numbers.uniform(5, 7)),
        "nbytes": int(10 ** numbers.uniform(4, 6)),
        "groups": [number + 1, 1, 1],
        "source": KERNELS[which],
        "specialization": [
            {"id": 0, "name": None, "value": 64},
            {"id": 10, "name": "ROWS", "value": 8 + which},
            {"id": 11, "name": "SCALE", "value": 2},
            {"id": 100, "name": None, "value": "inf"},
        ],
        "push": "",
        "bindings": [
            {"buffer": b, "access": access, "view": "storage", "format": None}
            for b, access in bound
        ],
    }


def _buffer(number: int, dispatches: int) -> dict[str, Any]:
    first, last = max(0, number - 1), min(number, dispatches - 1)
    place = {"offset": number % 3 << 16, "nbytes": 1 << 16, "first": first, "last": last}
    return {"name": f"value {number}", "role": "activation", **place}


def _run(times: list[float], numbers: random.Random, host: bool) -> dict[str, Any]:
    """Spans with 1 us between them, in two submits."""
    at, spans = 50.0, []
    for time in times:
        length = round(time * numbers.uniform(0.95, 1.15), 3)
        spans.append([at * 1e-6, (at + length) * 1e-6])
        at += length + 1.0
    middle = spans[len(spans) // 2][0] if len(spans) > 1 else 50e-6
    submits = [[40e-6, middle], [middle, (at + 5) * 1e-6]]
    seconds = (at + 30) * 1e-6
    parts = [
        {
            "start": 1e-6,
            "seconds": seconds,
            "upload": 20e-6,
            "download": 10e-6,
            "submits": submits if len(spans) > 1 else submits[1:],
            "spans": spans,
        }
    ]
    if host:
        begin = seconds + 2e-6
        more = {"upload": None, "download": None, "submits": [], "spans": [[0.0, 70e-6]]}
        parts.append({"start": begin, "seconds": 71e-6, **more})
        seconds = begin + 71e-6
    return {"seconds": seconds + 2e-6, "segments": parts}


def _static(commands: list[dict[str, Any]]) -> dict[str, Any]:
    entries = [
        {
            **{name: command[name] for name in ("layers", "kernel", "label", "groups")},
            "registers": 24 + i,
            "spills": 7 if i == 1 else 0,
            "scratch": 0,
            "shared": 1024,
            "code": 4000,
            "instructions": 500,
            "waves": 16,
            "statistics": {"VGPRs": 24 + i},
            "modelled": {"time": 10.0 + i, "bound": "memory"},
            "flags": ["spills"] if i == 1 else [],
            "texts": {"ISA": f"v_fma_f32 v{i}, v1, v2\ns_endpgm"},
        }
        for i, command in enumerate(commands)
    ]
    return {"model": "", "device": "", "time": 1.0, "assumptions": "", "dispatches": entries}
