"""Validation: checks that a graph is well formed."""

from __future__ import annotations

from vknn.errors import ShapeError
from vknn.graph.graph import Graph, Node, Value


def validate(graph: Graph) -> None:
    """Check of a graph: each value is made once, before it is read, with the type its op infers.

    Raises ShapeError, naming the node.
    """
    made: set[Value] = set(graph.inputs)
    for node in graph.nodes:
        for value in node.inputs:
            if value is not None and value.constant is None and value not in made:
                raise ShapeError(
                    f"node {node.name!r} reads {value.name!r} before anything makes it"
                )
        for value in node.outputs:
            if value in made:
                raise ShapeError(f"value {value.name!r} is made twice, again by node {node.name!r}")
            made.add(value)
        _check_types(node)
    for name, value in graph.outputs.items():
        if value.constant is None and value not in made:
            raise ShapeError(f"nothing makes output {name!r} ({value.name!r})")


def _check_types(node: Node) -> None:
    inferred = node.op.infer(*node.input_types)
    if len(inferred) != len(node.outputs):
        raise ShapeError(f"node {node.name!r} has {len(node.outputs)} outputs, not {len(inferred)}")
    for value, type_ in zip(node.outputs, inferred, strict=True):
        same_rank = value.type.rank == type_.rank and value.type.dtype == type_.dtype
        # A later stage of a program knows dimensions that inference alone leaves open.
        fits = same_rank and all(
            b is None or a == b for a, b in zip(value.type.shape, type_.shape, strict=True)
        )
        if not fits:
            raise ShapeError(
                f"node {node.name!r}: {value.name!r} is {value.type}, inferred {type_}"
            )
