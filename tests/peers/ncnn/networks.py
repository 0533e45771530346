"""The benchmark networks with random weights, and the real models with recorded answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from vknn.formats.ncnn.reader import parse_param
from vknn.formats.ncnn.records import LayerRecord, NetRecord
from vknn.formats.ncnn.writer import save, weight_specs

#: Name -> shape of the input.
NETWORKS: dict[str, tuple[int, int, int]] = {
    "squeezenet": (3, 227, 227),
    "mobilenet": (3, 224, 224),
    "mobilenet_v2": (3, 224, 224),
    "mobilenet_v3": (3, 224, 224),
    "shufflenet_v2": (3, 224, 224),
    "resnet18": (3, 224, 224),
    "googlenet": (3, 224, 224),
    "efficientnet_b0": (3, 224, 224),
    "blazeface": (3, 128, 128),
    "nanodet_m": (3, 320, 320),
    "yolov4-tiny": (3, 416, 416),
    "vision_transformer": (3, 384, 384),
}


#: Blobs to compare beside the outputs, where these say too little: a softmax over an axis of size
#: 1, and detections, whose order and number hang on the last bit of their scores.
TAPS = {"vision_transformer": ("cls_score",), "yolov4-tiny": ("29_208", "36_259")}


def write_network(shared: Path, name: str, folder: Path) -> Path:
    """Writes a benchmark network with random weights; gives the path of its .param."""
    net = parse_param((shared / "benchmark" / "ncnn" / f"{name}.param").read_bytes())
    taps = [LayerRecord("Noop", f"tap{b}", (b,), (f"tap{b}",)) for b in TAPS.get(name, ())]
    net = NetRecord((*net.layers, *taps))
    path = folder / f"{name}.param"
    save(net, he_weights(net), path)
    return path


def network_input(name: str) -> np.ndarray:
    """An image-like input for a benchmark network."""
    rng = np.random.default_rng(1)
    return rng.uniform(-1, 1, NETWORKS[name]).astype(np.float32)


def he_weights(net: NetRecord, seed: int = 0) -> dict[str, dict[str, np.ndarray]]:
    """Random weights under which activations keep their size through the layers.

    A matrix has variance gain / fan-in; the gain is 2 where a rectifier follows and 1 where the
    result is added to a shortcut or leaves linearly, so that residual sums grow slowly.
    """
    rng = np.random.default_rng(seed)
    weights: dict[str, dict[str, np.ndarray]] = {}
    linear = _linear_layers(net)
    for record, spec in weight_specs(net):
        values = rng.standard_normal(spec.shape, dtype=np.float32)
        if spec.name.endswith("weight") or spec.name in ("A", "B"):
            fan_in = spec.count // spec.shape[0]
            values *= np.float32(np.sqrt((1.0 if record.name in linear else 2.0) / fan_in))
        elif spec.name in ("gamma", "slope"):
            values = 1 + np.float32(0.1) * values
        elif spec.name == "var":
            values = 1 + np.abs(values)
        else:
            values *= np.float32(0.05)
        weights.setdefault(record.name, {})[spec.name] = values.astype(np.float32)
    return weights


def _linear_layers(net: NetRecord) -> set[str]:
    """Names of layers whose result no activation follows."""
    readers: dict[str, list[str]] = {}
    for layer in net.layers:
        for blob in layer.bottoms:
            readers.setdefault(blob, []).append(layer.type)
    curved = {"ReLU", "Swish", "HardSwish", "GELU"}
    return {
        layer.name
        for layer in net.layers
        if not layer.params.get(9)
        and not any(reader in curved for top in layer.tops for reader in readers.get(top, []))
    }


def real_models(shared: Path) -> Iterator[tuple[Path, Path]]:
    """The .param of each real model and its recorded inputs and outputs."""
    for path in sorted((shared / "models" / "ncnn").glob("*.param")):
        yield path, path.with_name(f"{path.stem}.expected.npz")
