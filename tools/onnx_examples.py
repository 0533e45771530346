#!/usr/bin/env python3
"""Record of where ONNX's operators run, by version and element type: tools/onnx_examples.json.

tools/onnx_examples.py     runs the test vectors (shared/vectors/onnx) with NumPy, some minutes

Each vector is run by the references; a node is one of the device where a rule takes it with
no more than Vulkan 1.1 guarantees. docs/onnx.md is made of the record.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "tools" / "onnx_examples.json"
for path in (ROOT / "src", ROOT):
    if str(path) not in sys.path:
        sys.path.insert(0, str(path))

from tests.onnx_vectors import FOLDER, _arrays, cases  # noqa: E402
from tools.kernels import has_kernel  # noqa: E402

from vknn import reference  # noqa: E402
from vknn.errors import VknnError  # noqa: E402
from vknn.formats.onnx.functions import all_nodes  # noqa: E402
from vknn.formats.onnx.layers import operator_type  # noqa: E402
from vknn.formats.onnx.loader import load  # noqa: E402
from vknn.formats.onnx.model import OnnxModel  # noqa: E402
from vknn.graph import Node, TensorType  # noqa: E402
from vknn.ops.elementwise.binary import Cast  # noqa: E402
from vknn.ops.indexing.gather import Bounded  # noqa: E402

#: Version -> element type of the first input -> where its nodes run.
Places = dict[str, dict[str, str]]


class Entry(TypedDict):
    """Record of an operator of ONNX: where it runs, and operators of the graph."""

    places: Places
    operators: list[str]


#: By ONNX's operator, with its domain before "::" unless that is ONNX's own.
Record = dict[str, Entry]
DEVICE, HOST, BOTH = "device", "host", "both"


def recorded() -> Record:
    """Record of all vectors that are right."""
    places: dict[str, Places] = {}
    becomes: dict[str, set[str]] = {}
    for case in cases():
        try:
            for operator, version, dtype, nodes in _of_case(case):
                kinds = places.setdefault(operator, {}).setdefault(str(version), {})
                device = all(map(has_kernel, _counted(nodes)))
                where = DEVICE if device else HOST
                kinds[dtype] = where if kinds.get(dtype, where) == where else BOTH
                becomes.setdefault(operator, set()).update(n.op.type_name for n in nodes)
        except VknnError:
            continue
    return {
        operator: {
            "places": {v: dict(sorted(versions[v].items())) for v in sorted(versions, key=int)},
            "operators": sorted(becomes[operator]),
        }
        for operator, versions in sorted(places.items())
    }


def _of_case(case: Mapping[str, Any]) -> Iterator[tuple[str, int, str, list[Node]]]:
    """Operator, version, element type and the nodes that it becomes, for a vector."""
    folder = FOLDER / case["id"]
    model = load(folder / "model.onnx")
    name = case["op"].rpartition("::")[2]
    wanted = {
        (node.key[0], node.key[1]): node.type
        for node in all_nodes(model.record.graph.nodes)
        if node.key[1] == name
    }
    if not wanted:
        return
    arrays = _arrays(folder / "inputs.npz", case["inputs"])
    feeds = {spec["name"]: array for spec, array in zip(case["inputs"], arrays, strict=True)}
    nodes = _nodes(model, feeds)
    dtype = next((s["dtype"] for s in case["inputs"] if s.get("dtype")), "no input")
    for (domain, name), label in wanted.items():
        found = operator_type(domain, name, model.record.imports.get(domain, 1))
        if found is None:
            continue
        own = [node for node in nodes if node.origin.type == label]
        yield f"{domain}::{name}" if domain else name, found.version, dtype, own


def _counted(nodes: Sequence[Node]) -> Iterator[Node]:
    """Nodes that say where their operator runs.

    Those that look whether indices lie within their axis do not: that is the host's always.
    """
    checked = {id(value) for n in nodes if isinstance(n.op, Bounded) for value in n.outputs}
    for node in nodes:
        narrowed = isinstance(node.op, Cast) and id(node.inputs[0]) in checked
        if _counts(node) and not isinstance(node.op, Bounded) and not narrowed:
            yield node


def _counts(node: Node) -> bool:
    """Whether a node says where its operator runs: the host alone knows empty tensors."""
    values = [v for v in (*node.inputs, *node.outputs) if v is not None]
    return node.is_static and all(v.type.size > 0 for v in values if v.type.is_static)


def _nodes(model: OnnxModel, feeds: Mapping[str, Any]) -> list[Node]:
    """All nodes that a run of a model computes."""
    arrays = {
        name: model.encode(name, np.asarray(array))
        for name, array in model.complete(feeds).items()
        if array is not None
    }
    graph = model.build({name: TensorType.of(array) for name, array in arrays.items()})
    seen: list[Node] = []
    reference.run(graph, arrays, observe=lambda node, _: seen.append(node))
    return seen


def main() -> int:
    """Writing of the record."""
    if not cases():
        print(f"needs the test vectors in {FOLDER}", file=sys.stderr)
        return 1
    RECORD.write_text(json.dumps(recorded(), indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
