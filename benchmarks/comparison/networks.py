"""The networks that are compared, with weights and inputs made up."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vknn.errors import VknnError
from vknn.formats.ncnn.random_weights import write_random_weights
from vknn.session import Session
from vknn.tool_inputs import complete_feeds

#: Names of the files, and the input sizes (c, h, w).
NETWORKS = {
    "squeezenet": (3, 227, 227),
    "mobilenet": (3, 224, 224),
    "mobilenet_v2": (3, 224, 224),
    "mobilenet_v3": (3, 224, 224),
    "shufflenet_v2": (3, 224, 224),
    "efficientnet_b0": (3, 224, 224),
    "resnet18": (3, 224, 224),
    "googlenet": (3, 224, 224),
    "blazeface": (3, 128, 128),
    "nanodet_m": (3, 320, 320),
    "yolov4-tiny": (3, 416, 416),
    "vision_transformer": (3, 384, 384),
}


@dataclass(frozen=True)
class Prepared:
    """A network's files and the names of its outputs."""

    name: str
    param: str
    weights: str
    feeds: str
    outputs: tuple[str, ...]


def prepare(name: str, source: Path, folder: Path) -> Prepared:
    """Random weights and inputs, written into ``folder``. Raises VknnError where the file cannot
    be read."""
    param = source / f"{name}.param"
    if not param.exists():
        raise VknnError(f"{param} does not exist")
    weights, arrays = folder / f"{name}.bin", folder / f"{name}.npz"
    write_random_weights(param, weights)
    with Session(param, weights, device="numpy") as session:
        (spec,) = session.inputs
        feeds = complete_feeds(session, shapes={spec.name: NETWORKS[name]})
        outputs = tuple(spec.name for spec in session.outputs)
    np.savez(arrays, allow_pickle=False, **feeds)
    return Prepared(name, str(param), str(weights), str(arrays), outputs)
