"""Mutators of ONNX files: fields of the messages, and what makes the graph another one."""

from __future__ import annotations

import copy
import functools
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from fuzzing.protobuf import messages, mutate
from fuzzing.values import clipped, integer, spoiled_weights
from vknn.formats.onnx import onnx_pb2 as pb

Files = Mapping[str, bytes]
Donor = Callable[[], Any]
_INT64, _FLOAT = 7, 1
#: Types of attributes: one number, numbers.
_INT, _INTS = 2, 7


def mutated(
    rng: random.Random, files: Files, other: Callable[[], Files], count: int
) -> tuple[Files, list[str]]:
    """The file with ``count`` changes, and what was done."""
    model = pb.Model.FromString(files[".onnx"])
    donor = functools.cache(lambda: pb.Model.FromString(other()[".onnx"]))
    done = []
    for _ in range(count):
        if rng.random() < 0.4:
            done.append(mutate(rng, model, donor))
        else:
            done.append(rng.choice(_MUTATORS)(rng, model, donor))
    return {".onnx": model.SerializeToString()}, done


def _graphs(model: Any) -> list[Any]:
    """The graph, its subgraphs, and the functions."""
    return [m for m in messages(model) if isinstance(m, pb.Graph | pb.Function)]


def _nodes(model: Any) -> list[Any]:
    return [node for graph in _graphs(model) for node in graph.node]


def _chosen(rng: random.Random, model: Any) -> Any | None:
    nodes = _nodes(model)
    return rng.choice(nodes) if nodes else None


def _names(graphs: list[Any]) -> list[str]:
    """Names of values."""

    def each() -> Iterator[str]:
        for graph in graphs:
            for node in graph.node:
                yield from (*node.input, *node.output)
            if isinstance(graph, pb.Graph):
                yield from (t.name for t in graph.initializer)

    return sorted(set(each())) or [""]


def _operator(rng: random.Random, model: Any, other: Donor) -> str:
    """Another operator on the same values."""
    if (node := _chosen(rng, model)) is None:
        return "nothing"
    donor = _chosen(rng, other())
    if donor is not None:
        node.op_type, node.domain = donor.op_type, donor.domain
        if rng.random() < 0.5:
            del node.attribute[:]
            node.attribute.extend(copy.deepcopy(list(donor.attribute)))
    return "operator"


def _wiring(rng: random.Random, model: Any, _: Donor) -> str:
    """Another value as an input or output of a node."""
    if (node := _chosen(rng, model)) is None:
        return "nothing"
    names = node.output if node.output and rng.random() < 0.2 else node.input
    name = rng.choice([*_names(_graphs(model)), ""])
    if names and rng.random() < 0.8:
        names[rng.randrange(len(names))] = name
    else:
        names.append(name)
    return "wiring"


def _attribute(rng: random.Random, model: Any, other: Donor) -> str:
    """An attribute changed, dropped, or one of another node."""
    if (node := _chosen(rng, model)) is None:
        return "nothing"
    if not node.attribute or rng.random() < 0.2:
        donors = [a for n in [*_nodes(other()), *_nodes(model)] for a in n.attribute]
        if donors:
            node.attribute.append(copy.deepcopy(rng.choice(donors)))
        return "add attribute"
    found = node.attribute[rng.randrange(len(node.attribute))]
    if rng.random() < 0.1:
        node.attribute.remove(found)
        return "delete attribute"
    if found.type == _INT:
        found.i = clipped(integer(rng, found.i, wide=True), 64, signed=True)
    elif found.type == _INTS and found.ints:
        at = rng.randrange(len(found.ints))
        if rng.random() < 0.2:
            del found.ints[at]
        else:
            found.ints[at] = clipped(integer(rng, found.ints[at], wide=True), 64, signed=True)
    else:
        mutate(rng, found, other)
    return "attribute"


def _tensor(rng: random.Random, model: Any, _: Donor) -> str:
    """Data of a constant: shapes, axes and indices, or weights."""
    tensors = [m for m in messages(model) if isinstance(m, pb.Tensor) and m.raw_data]
    if not tensors:
        return "nothing"
    small = [t for t in tensors if t.data_type == _INT64 and len(t.raw_data) <= 256]
    found = rng.choice(small if small and rng.random() < 0.7 else tensors)
    if found.data_type == _FLOAT:
        found.raw_data = spoiled_weights(rng, found.raw_data)
        return "weights"
    if found.data_type == _INT64:
        numbers = np.frombuffer(found.raw_data[: len(found.raw_data) // 8 * 8], "<i8").copy()
        if numbers.size:
            at = rng.randrange(numbers.size)
            new = integer(rng, int(numbers[at]), wide=True)
            numbers[at] = clipped(new, 64, signed=True)
            found.raw_data = numbers.tobytes()
        return "integers"
    at = rng.randrange(len(found.raw_data))
    data = bytearray(found.raw_data)
    data[at] = rng.randrange(256)
    found.raw_data = bytes(data)
    return "data"


def _dims(rng: random.Random, model: Any, _: Donor) -> str:
    """Sizes that an input or a tensor is declared with."""
    dims = [m for m in messages(model.graph) if m.DESCRIPTOR.name == "Dimension"]
    tensors = [t for t in model.graph.initializer if t.dims]
    if dims and (not tensors or rng.random() < 0.7):
        dim = rng.choice(dims)
        if rng.random() < 0.2:
            dim.dim_param = rng.choice(("n", "m", ""))
        else:
            dim.dim_value = clipped(integer(rng, dim.dim_value, wide=True), 64, signed=True)
        return "dim"
    if not tensors:
        return "nothing"
    found = rng.choice(tensors)
    at = rng.randrange(len(found.dims))
    if rng.random() < 0.5:  # the same number of elements
        found.dims.insert(at, 1)
    else:
        found.dims[at] = clipped(integer(rng, found.dims[at], wide=True), 64, signed=True)
    return "shape"


def _version(rng: random.Random, model: Any, _: Donor) -> str:
    """Another opset or version of the format."""
    if model.opset_import and rng.random() < 0.8:
        found = rng.choice(list(model.opset_import))
        found.version = rng.choice((*range(1, 30), 1 << 40, -1))
    else:
        model.ir_version = rng.randrange(0, 16)
    return "version"


def _type(rng: random.Random, model: Any, _: Donor) -> str:
    """Another element type of an input, output or tensor."""
    found = [m for m in messages(model.graph) if m.DESCRIPTOR.name == "TensorType"]
    tensors = [m for m in messages(model.graph) if isinstance(m, pb.Tensor)]
    number = rng.randrange(30)
    if found and (not tensors or rng.random() < 0.6):
        rng.choice(found).elem_type = number
    elif tensors:
        rng.choice(tensors).data_type = number
    return "type"


def _node_list(rng: random.Random, model: Any, other: Donor) -> str:
    """A node deleted, doubled, moved, or taken from the other file."""
    graphs = [g for g in _graphs(model) if g.node]
    if not graphs:
        return "nothing"
    nodes = rng.choice(graphs).node
    place, way = rng.randrange(len(nodes)), rng.randrange(4)
    if way == 0:
        del nodes[place]
        return "delete node"
    if way == 1:
        first, second = copy.deepcopy(nodes[place]), rng.randrange(len(nodes))
        nodes[place].CopyFrom(nodes[second])
        nodes[second].CopyFrom(first)
        return "move node"
    donor = nodes[place] if way == 2 else _chosen(rng, other())
    if donor is not None:
        new = copy.deepcopy(donor)
        known = _names(_graphs(model))
        for number, name in enumerate(new.output):
            new.output[number] = f"{name}+{rng.randrange(1000)}"
        for number in range(len(new.input)):
            if new.input[number]:
                new.input[number] = rng.choice(known)
        for node in nodes[place:]:  # whoever read its twin may read it
            for number, name in enumerate(node.input):
                if name and new.output and rng.random() < 0.3:
                    node.input[number] = rng.choice(list(new.output))
        nodes.insert(place, new)
    return "add node"


def _function(rng: random.Random, model: Any, _: Donor) -> str:
    """A node made a function, which may call itself."""
    if (node := _chosen(rng, model)) is None or not node.op_type:
        return "nothing"
    domain = rng.choice(("fuzz", node.domain))
    made = model.functions.add(name=rng.choice(("F", node.op_type)), domain=domain)
    inner = copy.deepcopy(node)
    made.input.extend(dict.fromkeys(name for name in node.input if name))
    made.output.extend(name for name in node.output if name)
    for _ in range(rng.randrange(1, 4)):
        made.node.append(inner)
    made.opset_import.extend(copy.deepcopy(list(model.opset_import)))
    if not any(found.domain == domain for found in model.opset_import):
        model.opset_import.add(domain=domain, version=1)
    node.op_type, node.domain = made.name, domain
    if rng.random() < 0.7:
        del node.attribute[:]
    return "function"


def _outputs(rng: random.Random, model: Any, _: Donor) -> str:
    """Another value as an output of the model."""
    graph = model.graph
    found = graph.output.add(name=rng.choice(_names([graph])))
    if len(graph.output) > 1 and rng.random() < 0.5:
        found.type.CopyFrom(graph.output[0].type)
    return "output"


_MUTATORS: tuple[Callable[[random.Random, Any, Donor], str], ...] = (
    _operator, _wiring, _wiring, _attribute, _attribute, _attribute, _tensor, _tensor, _dims,
    _version, _type, _node_list, _function, _outputs,
)  # fmt: skip
