"""Small networks for the tests of the format."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from vknn import formats, reference
from vknn.formats import Model
from vknn.formats.ncnn.reader import parse_param
from vknn.formats.ncnn.writer import Storage, save, weight_specs
from vknn.graph import DType, Graph, TensorType

SMALL = """7767517
6 7
Input            data   0 1 data 0=8 1=8 2=3
Convolution      conv1  1 1 data conv1 0=4 1=3 4=1 5=1 6=108 9=2 -23310=1,1.000000e-01
Split            split  1 2 conv1 conv1_a conv1_b
Pooling          pool   1 1 conv1_a pool 0=1 4=1
InnerProduct     fc     1 1 pool prob 0=5 1=1 2=20
ReLU             relu   1 1 conv1_b features -23330=4,3,8,8,4
"""


def net(*layers: str, layer_count: int | None = None, blob_count: int = 64) -> str:
    """A .param of these layer lines."""
    count = len(layers) if layer_count is None else layer_count
    return f"7767517\n{count} {blob_count}\n" + "\n".join(layers) + "\n"


def weights_for(text: str, seed: int = 0) -> dict[str, dict[str, np.ndarray]]:
    """Random weights for every layer."""
    rng = np.random.default_rng(seed)
    weights: dict[str, dict[str, np.ndarray]] = {}
    for record, spec in weight_specs(parse_param(text.encode())):
        array = rng.standard_normal(spec.shape).astype(np.float32)
        weights.setdefault(record.name, {})[spec.name] = array
    return weights


def write(folder: Path, text: str, storage: Storage = "fp32") -> Path:
    """Writes a network with random weights; gives the path of its .param."""
    path = folder / "net.param"
    save(parse_param(text.encode()), weights_for(text), path, storage=storage)
    path.write_text(text)
    return path


def build(model: Model, **shapes: tuple[int, ...]) -> Graph:
    """The graph for float32 inputs of these shapes."""
    return model.build({n: TensorType(s, DType.FLOAT32) for n, s in shapes.items()})


def run(path: Path, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Outputs of the reference."""
    model = formats.load(path)
    feeds = {name: model.encode(name, x) for name, x in inputs.items()}
    types = {n: TensorType(inputs[n].shape, DType.of(x)) for n, x in feeds.items()}
    graph = model.build(types, {n: inputs[n] for n in model.value_inputs})
    results = reference.run(graph, {v.name: feeds[v.name] for v in graph.inputs})
    return {name: model.decode(name, array) for name, array in results.items()}
