"""Documents of profiles that were never measured: layers with the times that a test wants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

#: Milliseconds by layer: ten layers, of which "conv3" takes a tenth of the time.
TIMES = {f"conv{number}": 1.0 + 0.1 * (number % 3) for number in range(10)}


def command(layers: Sequence[str], kernel: str = "convolution/conv", **more: Any) -> dict[str, Any]:
    """A dispatch that computes these layers."""
    common = {"label": "Conv tile", "op": "Conv", "flops": 1000, "nbytes": 100}
    bindings = [{"buffer": 0, "access": "write", "view": "storage", "format": None}]
    return {
        "kind": "dispatch", "kernel": kernel, "layers": list(layers), **common,
        "groups": [1, 1, 1], "source": "k", "specialization": [{"id": 0, "name": None, "value": 8}],
        "push": "00ff", "bindings": bindings, **more,
    }  # fmt: skip


def layer(name: str, shape: Sequence[int] = (1, 8, 4, 4)) -> dict[str, Any]:
    tensor = {"name": name, "shape": list(shape), "dtype": "float32"}
    return {"name": name, "type": "Convolution", "ops": ["Conv"], "inputs": [], "outputs": [tensor]}


def document(
    commands: Sequence[dict[str, Any]],
    seconds: np.ndarray,
    layers: Sequence[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """A document of runs on a device; ``seconds``: of each run and command, [runs, commands]."""
    names = dict.fromkeys(name for c in commands for name in c["layers"])
    tensor = {"shape": [1, 8, 4, 4], "dtype": "float32"}
    limits = {
        "subgroup_size": 8, "shared_memory": 32768, "max_group_invocations": 1024,
        "max_storage_buffer_range": 1 << 27, "unified_memory": True, "preferred_access": "storage",
        "features": ["timestamps"],
    }  # fmt: skip
    buffer = {"name": "x", "role": "activation", "offset": 0, "nbytes": 512, "first": 0, "last": 0}
    segment = {
        "where": "vulkan", "commands": list(commands), "buffers": [buffer],
        "arenas": {"activation": 512}, "submits": [len(commands)], "barriers": [],
    }  # fmt: skip
    return {
        "format": "vkprof", "version": 1, "created": "2026-11-28T17:30:00Z",
        "model": {"name": "net.param", "format": "ncnn", "hash": "00", "inputs": {"data": tensor},
                  "outputs": {"out": tensor}},
        "machine": {"system": "Linux", "processor": "none", "cores": 2, "python": "3.11.0"},
        "versions": {"vknn": "0.1.0", "numpy": "2.0.0"},
        "device": {"name": "device", "kind": "cpu", "driver": "driver 1", "api_version": "1.3.0",
                   "uuid": None, "vendor_id": 1, "device_id": 2, "timestamp_period": 1.0,
                   "limits": limits},
        "options": {"precision": "fp32", "arithmetic": "fp32", "disabled": [], "tuned": False,
                    "runs": len(seconds), "warmup": 2, "seed": 0},
        "limits": None,
        "layers": [layer(n) for n in names] if layers is None else list(layers),
        "segments": [segment],
        "kernels": {"k": {"kernel": "convolution/conv", "variant": {}, "own": False,
                          "glsl": "void main() {}", "spirv": "AAAA"}},
        "runs": [_run(row) for row in seconds],
        "plain": [round(float(row.sum()) + 1e-4, 10) for row in seconds],
        "static": None,
    }  # fmt: skip


def processes(
    count: int,
    seed: int,
    times: Mapping[str, float] = TIMES,
    *,
    spread: float = 0.015,
    runs: int = 8,
    slower: Mapping[str, float] | None = None,
) -> list[dict[str, Any]]:
    """Documents of so many processes, whose layers differ by ``spread`` between processes and runs.

    ``slower``: factors by layer.
    """
    rng = np.random.default_rng(seed)
    base = 1e-3 * np.array([t * (slower or {}).get(n, 1.0) for n, t in times.items()])
    found = []
    for _ in range(count):
        own = base * np.exp(rng.normal(0, spread, len(base))) * np.exp(rng.normal(0, spread))
        each = own * np.exp(rng.normal(0, spread, (runs, len(base))))
        found.append(document([command([name]) for name in times], each))
    return found


def _run(row: np.ndarray) -> dict[str, Any]:
    ends = 1e-5 + np.cumsum(row)
    begins = np.concatenate([[1e-5], ends[:-1]])
    spans = [[round(float(b), 10), round(float(e), 10)] for b, e in zip(begins, ends, strict=True)]
    total = round(float(ends[-1]) if len(row) else 0.0, 10)
    segment = {"start": 0.0, "seconds": total, "upload": 1e-6, "download": 1e-6,
               "submits": [[1e-5, max(total, 1e-5)]], "spans": spans}  # fmt: skip
    return {"seconds": total, "segments": [segment]}
