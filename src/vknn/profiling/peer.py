"""Peer: another engine to measure against, the ncnn wheel."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vknn.errors import VknnError

#: Ways to run it: Vulkan with 32-bit floats, Vulkan as it comes, and the CPU with two threads.
MODES = ("fp32", "default", "cpu")
CPU_THREADS = 2


class NcnnPeer:
    """An ncnn network, by default on a Vulkan device, computing and storing 32-bit floats.

    ``device``: the name of the device; ``outputs``: the blobs to extract; ``mode``: one of
    MODES. Raises VknnError where the wheel is missing, has no such device, or does not load the
    files.
    """

    def __init__(
        self,
        param: str | os.PathLike[str],
        weights: str | os.PathLike[str] | None,
        device: str,
        outputs: Sequence[str],
        mode: str = "fp32",
    ) -> None:
        self._ncnn = ncnn = _import()
        self._outputs = list(outputs)
        self.name = f"ncnn {ncnn.__version__}"
        self._net = net = ncnn.Net()
        net.opt.use_vulkan_compute = mode != "cpu"
        if mode != "default":
            _only_float32(net.opt)
        if mode == "cpu":
            net.opt.num_threads = CPU_THREADS
        else:
            net.set_vulkan_device(self._index(device))
        bin_path = Path(weights) if weights is not None else Path(param).with_suffix(".bin")
        if net.load_param(str(param)) != 0 or net.load_model(str(bin_path)) != 0:
            raise VknnError(f"ncnn cannot load {param} with {bin_path}")

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Outputs by blob name."""
        extractor = self._net.create_extractor()
        for name, array in feeds.items():
            # A Mat over an array has no padding between its channels; its clone has.
            mat = self._ncnn.Mat(np.ascontiguousarray(array, np.float32)).clone()
            extractor.input(name, mat)
        return {name: self._extract(extractor, name) for name in self._outputs}

    def close(self) -> None:
        """Release of the network."""
        self._net.clear()

    def _extract(self, extractor: Any, name: str) -> np.ndarray:
        code, mat = extractor.extract(name)
        if code != 0:
            raise VknnError(f"ncnn cannot compute {name!r} (code {code})")
        return np.array(mat)

    def _index(self, device: str) -> int:
        count = self._ncnn.get_gpu_count()
        names = [self._ncnn.get_gpu_info(i).device_name() for i in range(count)]
        if device not in names:
            raise VknnError(f"ncnn does not see {device!r}; it sees {', '.join(names) or 'none'}")
        return names.index(device)


def _import() -> Any:
    try:
        import ncnn
    except ImportError:
        raise VknnError("the peer ncnn is not installed: pip install ncnn") from None
    return ncnn


def _only_float32(options: Any) -> None:
    for name in ("fp16_packed", "fp16_storage", "fp16_arithmetic", "bf16_packed", "bf16_storage"):
        if hasattr(options, f"use_{name}"):
            setattr(options, f"use_{name}", False)
