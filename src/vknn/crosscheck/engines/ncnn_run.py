"""ncnn on the CPU in float32: every blob by its name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vknn.formats.ncnn.loader import default_weights, read_net
from vknn.formats.ncnn.reader import looks_like_param_bin
from vknn.formats.ncnn.records import NetRecord

#: Options that store or compute in fewer bits than the file has.
_FEWER_BITS = ("fp16_packed", "fp16_storage", "fp16_arithmetic", "bf16_packed", "bf16_storage")


def run(
    model: str, weights: str | None, feeds: Mapping[str, np.ndarray]
) -> tuple[str, dict[str, np.ndarray]]:
    """Name and version of the engine, and its tensors by name.

    Raises ValueError where it does not load the files, or fails.
    """
    import ncnn

    second = weights if weights is not None else str(default_weights(Path(model)))
    net = ncnn.Net()
    for name in _FEWER_BITS:
        if hasattr(net.opt, f"use_{name}"):
            setattr(net.opt, f"use_{name}", False)
    net.opt.use_vulkan_compute = False
    binary = looks_like_param_bin(Path(model).read_bytes()[:4])
    if (net.load_param_bin if binary else net.load_param)(model) != 0:
        raise ValueError(f"it does not load {model}")
    if net.load_model(second) != 0:
        raise ValueError(f"it does not load {second}")
    keys = _keys(read_net(Path(model)), binary)
    extractor = net.create_extractor()
    extractor.set_light_mode(False)  # which would free what has been read
    for name, array in feeds.items():
        # A Mat over an array has no padding between its channels; its clone has.
        mat = ncnn.Mat(np.ascontiguousarray(array)).clone()
        if extractor.input(keys[name], mat) != 0:
            raise ValueError(f"it takes no input {name!r}")
    found = {name: _extracted(extractor, name, key) for name, key in keys.items()}
    return f"ncnn {ncnn.__version__}", {n: a for n, a in found.items() if n not in feeds}


def _keys(net: NetRecord, binary: bool) -> dict[str, str | int]:
    """What ncnn knows blobs by: their names, of a .param.bin their numbers."""
    return {name: int(name) if binary else name for name in net.blobs()}


def _extracted(extractor: Any, name: str, key: str | int) -> np.ndarray:
    """A blob in the type that it is made of."""
    code, mat = extractor.extract(key)
    if code != 0:
        raise ValueError(f"it cannot compute blob {name!r} (code {code})")
    return np.array(mat)
