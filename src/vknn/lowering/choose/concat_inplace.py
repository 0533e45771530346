"""Concatenations in place: inputs that their producers write straight into the result.

A candidate that joins says where in its output each input lies (``Candidate.parts``). Lowering
makes an input's buffer a part of the output's, whatever commands write and read it, where it is
free to be moved; the rest is copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vknn.graph import Graph, Node, Value
from vknn.lowering.kit.candidate import Candidate, Part
from vknn.lowering.kit.emitter import Ref
from vknn.lowering.kit.layouts import Layout, same_bytes
from vknn.plan import Role


def place_parts(inputs: Sequence[Ref | None], parts: Sequence[Part], output: Ref) -> frozenset[int]:
    """Indices of the inputs whose buffers became parts of ``output``.

    Not constants and a plan's inputs, whose bytes lie elsewhere; not what is a part or view of
    another buffer, and so no tensor twice. A view of a whole buffer takes that along.
    """
    placed = set()
    for index, (ref, part) in enumerate(zip(inputs, parts, strict=False)):
        if ref is None or part.offset is None:
            continue
        root = ref.root
        whole = ref.root_offset == 0 and ref.nbytes == root.nbytes
        movable = root.role is Role.ACTIVATION and root is not output
        if whole and movable and root.width == output.width:
            root.parent, root.offset = output, part.offset
            placed.add(index)
    return frozenset(placed)


class PartCosts:
    """Estimate of the copies that concatenations in place save, for the choice of layouts."""

    def __init__(self, graph: Graph, options: Mapping[Node, Sequence[Candidate]]) -> None:
        self._producer = {v: (n, i) for n in graph.nodes for i, v in enumerate(n.outputs)}
        self._joins = {n for n in graph.nodes if any(c.parts for c in options[n])}
        #: The first that joins a value; the others have to copy it.
        self._owner: dict[Value, tuple[Node, int]] = {}
        for node in graph.nodes:
            if node in self._joins:
                for index, value in enumerate(node.inputs):
                    if value is not None:
                        self._owner.setdefault(value, (node, index))

    def saved(self, node: Node, choice: Mapping[Node, Candidate]) -> float:
        """Microseconds of copies that the node, as chosen, does not need."""
        chosen = choice.get(node)
        if chosen is None or not chosen.parts:
            return 0.0
        pairs = zip(node.inputs, chosen.inputs, chosen.parts, strict=True)
        return sum(
            part.cost
            for index, (value, layout, part) in enumerate(pairs)
            if part.offset is not None
            and value is not None
            and layout is not None
            and self._owner[value] == (node, index)
            and self._movable(value, layout, choice)
        )

    def saved_around(self, node: Node, choice: Mapping[Node, Candidate]) -> float:
        """Copies saved (:meth:`saved`) by the node and by those that join its outputs."""
        owners = (self._owner[v][0] for v in node.outputs if v in self._owner)
        return sum(self.saved(n, choice) for n in dict.fromkeys((node, *owners)))

    def _movable(self, value: Value, layout: Layout, choice: Mapping[Node, Candidate]) -> bool:
        """True where the value lies in a buffer of its own in this layout."""
        if value.constant is not None:
            return False
        made = self._producer.get(value)
        chosen = choice.get(made[0]) if made is not None else None
        have = Layout.LINEAR if made is None or chosen is None else chosen.outputs[made[1]]
        if not same_bytes(value.type, have, layout):
            return True  # repacked, into its place
        if made is None:
            return False
        return chosen is None or chosen.view is None or self._is_whole(made[0], chosen, choice)

    def _is_whole(self, node: Node, chosen: Candidate, choice: Mapping[Node, Candidate]) -> bool:
        """True for a view of all of a buffer that could be moved."""
        assert chosen.view is not None
        source, layout = node.inputs[chosen.view], chosen.inputs[chosen.view]
        if source is None or layout is None or source.type.size != node.outputs[0].type.size:
            return False
        return self._movable(source, layout, choice)
