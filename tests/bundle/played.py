"""The layer that plays other devices (device_layer/), built, and what switches it on."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.counting.layer import Layer, Unbuildable
from benchmarks.counting.layer import built as built_layer
from tests.bundle import build

LAYER = Layer(
    "VK_LAYER_VKNN_plays", Path(__file__).with_name("device_layer"), "plays other devices"
)


def played() -> tuple[Path, dict[str, str]]:
    """The layer's library, and the variables of a process that runs under it; skips without one."""
    try:
        folder = built_layer(build.ROOT / ".cache", LAYER)
    except Unbuildable as error:
        pytest.skip(f"needs the layer that plays devices: {error}")
    variables = {"VK_LAYER_PATH": str(folder), "VK_INSTANCE_LAYERS": LAYER.name}
    return folder / LAYER.library, variables
