"""Chains of nodes as one node (:class:`vknn.ops.chain.Chain`), and such a node as its parts."""

from __future__ import annotations

from collections.abc import Sequence

from vknn.graph import Node, Value
from vknn.ops.chain import Chain
from vknn.passes.rewriter import merged


def joined(nodes: Sequence[Node], kept: tuple[int, ...] = ()) -> Node:
    """The node that does the work of all, each of which reads the one before as its first input.

    ``kept``: numbers of the nodes whose results others read, too.
    """
    inputs = list(nodes[0].inputs)
    for node in nodes[1:]:
        inputs += node.inputs[1:]
    counts = tuple(len(node.inputs) - (number > 0) for number, node in enumerate(nodes))
    origin = merged(*(node.origin for node in nodes))
    op = Chain(tuple(node.op for node in nodes), counts, kept)
    outputs = op.outputs([node.outputs[0] for node in nodes])
    return Node(op, tuple(inputs), outputs, origin.name, origin)


def unchain(node: Node) -> list[Node]:
    """The nodes that a Chain node stands for, one for each link."""
    op = node.op
    assert isinstance(op, Chain)
    made: list[Node] = []
    *kept, end = node.outputs
    known = {**dict(zip(op.kept, kept, strict=True)), len(op.links) - 1: end}
    for number, (link, own) in enumerate(zip(op.links, op.split(node.inputs), strict=True)):
        inputs: tuple[Value | None, ...] = (made[-1].outputs[0], *own) if made else own
        last = number + 1 == len(op.links)
        name = node.name if last else f"{node.name}.{number}"
        types = link.infer(*(v.type if v is not None else None for v in inputs))
        outputs = (known[number],) if number in known else tuple(Value(name, t) for t in types)
        made.append(Node(link, inputs, outputs, name, node.origin))
    return made
