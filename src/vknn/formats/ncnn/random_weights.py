"""Random weights for networks without a .bin, for benchmarks and tests."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from vknn.formats.ncnn.loader import check_layers, read_net
from vknn.formats.ncnn.records import LayerRecord, NetRecord
from vknn.formats.ncnn.weights import WeightSpec
from vknn.formats.ncnn.writer import format_bin, weight_specs
from vknn.named_files import replacing

#: Ranges of weights that scale or divide, by name ("slope" is that of BatchNorm, not of PReLU).
_POSITIVE = {"slope": (0.8, 1.2), "var": (0.5, 1.5), "gamma": (0.8, 1.2), "scale": (0.8, 1.2)}
_STEPS = 40.0  # of int8 weights in 1.0
_ACTIVATION = 9  # the parameter that fuses an activation into a convolution or inner product
_FUSING = frozenset(
    f"{kind}{group}{axes}"
    for kind in ("Convolution", "Deconvolution")
    for group in ("", "DepthWise")
    for axes in ("", "1D", "3D")
) | {"InnerProduct", "DeformableConv2D"}
_CONSTANT_K = 9  # Gemm's parameter for the length of its sums
_RELU_LIKE = frozenset({"ELU", "GELU", "HardSwish", "Mish", "PReLU", "ReLU", "SELU", "Swish"})


def random_weights(net: NetRecord, seed: int = 0) -> dict[str, dict[str, np.ndarray]]:
    """Random weights: layer name -> weight name -> float32 (or int8) array.

    Matrices and kernels are normally distributed with variance 2 / fan-in in front of ReLU and its
    kin (He et al. 2015), 1 / fan-in elsewhere, so that values neither vanish nor overflow.
    """
    random = np.random.default_rng(seed)
    weights: dict[str, dict[str, np.ndarray]] = {layer.name: {} for layer in net.layers}
    activated = _activated(net)
    for record, spec in weight_specs(net):
        gain = 2.0 if record.name in activated else 1.0
        weights[record.name][spec.name] = _array(record, spec, gain, random)
    return weights


def write_random_weights(param: Path, target: Path, seed: int = 0) -> None:
    """Writing of a .bin of random weights for a .param or .param.bin.

    Raises as :func:`loader.load` does.
    """
    net = read_net(param)
    check_layers(net, str(param))
    data = format_bin(net, random_weights(net, seed))
    with replacing(target) as file:
        file.write(data)


def _activated(net: NetRecord) -> set[str]:
    """Layers whose results go through an activation, fused or in the next layer."""
    found = {
        layer.name
        for layer in net.layers
        if layer.type in _FUSING and layer.params.get(_ACTIVATION)
    }
    made_by: dict[str, LayerRecord] = {}  # but for Split and its like: what made their input
    for layer in net.layers:
        source = made_by.get(layer.bottoms[0]) if layer.bottoms else None
        if layer.type in _RELU_LIKE and source is not None:
            found.add(source.name)
        maker = source if layer.type in ("Split", "BatchNorm", "Scale") else layer
        made_by.update((top, maker) for top in layer.tops if maker is not None)
    return found


def _array(
    record: LayerRecord, spec: WeightSpec, gain: float, random: np.random.Generator
) -> np.ndarray:
    if spec.name in _POSITIVE or spec.name.startswith("scale"):
        low, high = _POSITIVE.get(spec.name, _POSITIVE["scale"])
        if record.type == "PReLU":
            low, high = 0.1, 0.3
        return random.uniform(low, high, spec.shape).astype(np.float32)
    if spec.name.endswith("_scale"):  # of int8 weights and activations
        return random.uniform(20.0, 60.0, spec.shape).astype(np.float32)
    deviation = 0.1
    if spec.tagged and len(spec.shape) > 1 and spec.name != "C":
        fan_in = record.params.get(_CONSTANT_K, 0) if record.type == "Gemm" else 0
        count = int(fan_in) if isinstance(fan_in, int) and fan_in > 0 else 0
        deviation = math.sqrt(gain / max(1, count or math.prod(spec.shape[1:])))
    values = random.standard_normal(spec.shape, np.float32) * np.float32(deviation)
    if spec.int8:
        return np.clip(np.rint(values * _STEPS), -127, 127).astype(np.int8)
    return values
