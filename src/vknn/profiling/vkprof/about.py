"""Model, machine, device and options of a profile, as its document has them (docs/vkprof.md)."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from vknn.graph.layers import layers_of
from vknn.precision import ChosenPrecision
from vknn.profiling.vkprof.plans import kernels_of, segment_document
from vknn.runtime import Device
from vknn.runtime.device_tensor import DeviceTensor
from vknn.segment import Segment
from vknn.session import Session, engine_of


def about(
    session: Session,
    name: str,
    feeds: Mapping[str, np.ndarray],
    results: Mapping[str, Any],
    segments: Sequence[Segment],
    asked: Mapping[str, int],
) -> dict[str, Any]:
    """All of a profile's document but the measured times, the kernels still without their texts.

    ``results``: what a run gave; ``segments``: what ran, in order; ``asked``: "runs", "warmup",
    "seed".
    """
    engine = engine_of(session)
    layers = layers_of(engine.graph(feeds), [s.graph for s in segments])
    names = {layer["name"] for layer in layers}
    return {
        "created": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "model": {
            "name": Path(session.model.file or name).name,
            "format": _format(session),
            "hash": _hash(layers),
            "inputs": {n: _tensor(a) for n, a in feeds.items()},
            "outputs": {n: _tensor(a) for n, a in results.items()},
        },
        "machine": _machine(),
        "versions": {"vknn": _own_version(), "numpy": np.__version__},
        "device": None if session.device is None else _device(session.device),
        "options": {
            "precision": ChosenPrecision(session.precision, session.layer_precisions).text(),
            "arithmetic": session.arithmetic,
            "disabled": sorted(engine.target.options.disabled),
            "tuned": bool(engine.target.options.choices),
            **asked,
        },
        "limits": None,
        "layers": layers,
        "segments": [segment_document(s, names) for s in segments],
        "kernels": kernels_of([s.plan for s in segments if s.plan is not None]),
        "static": None,
    }


def _format(session: Session) -> str:
    """Name of the package of :mod:`vknn.formats` that read the model; "" where it is another's."""
    parts = type(session.model).__module__.split(".")
    return parts[2] if parts[:2] == ["vknn", "formats"] and len(parts) > 2 else ""


def _hash(layers: list[dict[str, Any]]) -> str:
    return hashlib.sha256(json.dumps(layers, sort_keys=True).encode()).hexdigest()


def _own_version() -> str:
    # The package's front imports this module, which therefore must not import it.
    return str(sys.modules["vknn"].__dict__.get("__version__", ""))


def _tensor(array: Any) -> dict[str, Any]:
    if not isinstance(array, DeviceTensor):
        array = np.asarray(array)
    return {"shape": [int(n) for n in array.shape], "dtype": str(array.dtype)}


def _machine() -> dict[str, Any]:
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
        "cores": os.cpu_count() or 0,
        "python": platform.python_version(),
    }


def _processor() -> str:
    """The processor's name where Linux tells it, else what Python knows of it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _device(device: Device) -> dict[str, Any]:
    snapshot, limits = device.snapshot, device.limits
    return {
        "name": snapshot.name,
        "kind": snapshot.kind,
        "driver": f"{snapshot.driver_name} {snapshot.driver_info}".strip(),
        "api_version": ".".join(map(str, snapshot.api_version)),
        "uuid": snapshot.uuid_name,
        "vendor_id": snapshot.vendor_id,
        "device_id": snapshot.device_id,
        "timestamp_period": snapshot.timestamp_period,
        "limits": {
            "subgroup_size": limits.subgroup_size,
            "shared_memory": limits.shared_memory,
            "max_group_invocations": limits.max_group_invocations,
            "max_storage_buffer_range": limits.max_storage_buffer_range,
            "unified_memory": limits.unified_memory,
            "preferred_access": limits.preferred_access,
            "features": sorted(limits.features),
        },
    }
