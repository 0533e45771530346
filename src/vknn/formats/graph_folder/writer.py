"""Writing of a graph with the arrays of its inputs as a folder (see ``reader``)."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vknn.errors import VknnError
from vknn.formats.graph_folder.attributes import op_document
from vknn.graph import DType, Graph, Quantization, Value
from vknn.graph.graph import unique_name
from vknn.named_files import replacing

VERSION = 1
GRAPH, ARRAYS = "graph.json", "arrays.npz"


def save(
    folder: str | os.PathLike[str],
    graph: Graph,
    feeds: Mapping[str, np.ndarray],
    *,
    compressed: bool = True,
) -> None:
    """The graph and the arrays of its inputs, by name, written to a folder that exists.

    Raises VknnError for what a folder cannot hold: a continuation (loops, branches) and operators
    that are none of vknn's.
    """
    if graph.continuation is not None:
        raise VknnError("a graph that data decide about (loops, branches) cannot be written")
    arrays: dict[str, np.ndarray] = {}
    document = _document(graph, feeds, arrays)
    target = Path(folder)
    with replacing(target / ARRAYS) as file:
        (np.savez_compressed if compressed else np.savez)(file, **arrays)  # type: ignore[arg-type]
    with replacing(target / GRAPH) as file:
        file.write(_text(document).encode())


def _document(
    graph: Graph, feeds: Mapping[str, np.ndarray], arrays: dict[str, np.ndarray]
) -> dict[str, Any]:
    """The graph as JSON; puts its arrays into ``arrays``. Values are numbered: inputs, constants,
    results."""
    constants = [v for v in graph.values() if v.constant is not None]
    results = [v for node in graph.nodes for v in node.outputs]
    numbers = {v: i for i, v in enumerate([*graph.inputs, *constants, *results])}
    taken: set[str] = set()
    inputs = []
    for value in graph.inputs:
        name = unique_name(value.name, taken)
        taken.add(name)
        described = _described(value, name)
        inputs.append(described | _stored(feeds[value.name], arrays))
    stored = [
        _described(v, v.name) | _stored(v.constant, arrays)
        for v in constants
        if v.constant is not None
    ]
    nodes = [
        {
            "name": node.name,
            "layer": [node.origin.name, node.origin.type],
            "op": op_document(node.op),
            "inputs": [None if v is None else numbers[v] for v in node.inputs],
            "outputs": [_described(v, v.name) for v in node.outputs],
        }
        for node in graph.nodes
    ]
    outputs = {name: numbers[v] for name, v in graph.outputs.items()}
    return {
        "vknn graph": VERSION,
        "name": graph.name,
        "inputs": inputs,
        "constants": stored,
        "nodes": nodes,
        "outputs": outputs,
    }


def _described(value: Value, name: str) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name}
    if value.quantization is not None:
        found["quantization"] = _quantization(value.quantization)
    return found


def _quantization(q: Quantization) -> dict[str, Any]:
    scales = [float(s) if np.isfinite(s) else {"float": str(float(s))} for s in q.scale]
    return {"scale": scales, "zero_point": [int(z) for z in q.zero_point], "axis": int(q.axis)}


def _stored(array: np.ndarray, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """Description of an array, which goes to ``arrays``; texts stay in the description."""
    dtype = DType.of(array)
    if dtype is DType.STRING:
        texts = [base64.b64encode(_bytes(t)).decode() for t in array.reshape(-1).tolist()]
        return {"dtype": dtype.value, "shape": list(array.shape), "texts": texts}
    name = f"a{len(arrays)}"
    plain = np.ascontiguousarray(array).reshape(array.shape)
    if plain.dtype.kind == "V" or dtype.is_small_float or dtype.is_small_integer:
        plain = plain.view(f"u{plain.dtype.itemsize}")  # NumPy's files know no such dtypes
    arrays[name] = plain
    return {"dtype": dtype.value, "shape": list(array.shape), "array": name}


def _bytes(text: Any) -> bytes:
    return text if isinstance(text, bytes) else str(text).encode()


def _text(document: dict[str, Any]) -> str:
    """JSON with a line for each node and array, which people can read."""
    lines = []
    for key, value in document.items():
        if isinstance(value, list) and value:
            items = ",\n  ".join(json.dumps(item, allow_nan=False) for item in value)
            lines.append(f"{json.dumps(key)}: [\n  {items}\n]")
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}")
    return "{" + ",\n".join(lines) + "}\n"
