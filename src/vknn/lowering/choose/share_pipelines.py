"""Pipeline sharing: layers whose candidates cost about the same take the same one.

A driver compiles each pipeline when a model is first run, for some 100 milliseconds on a CPU. Two
tile widths in one network, each the best for its layers by a hair, cost more there than a thousand
runs give back.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence

from vknn.graph import Node
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.machine import Machine
from vknn.ops.elementwise import Fused

#: Most time that one pipeline less may add to a run, by that of a dispatch: 50 us on CPUs.
PIPELINE_WORTH = 2.5
#: Times as long as before that a layer may take on a GPU for it: drivers compile there once and
#: keep the code on disk, and a layer of a few microseconds would be slower by half.
MOST_LONGER = 1.05
#: Attributes that are numbers to a kernel, not another pipeline.
_NUMBERS = frozenset(("pads", "group", "output_size"))


def with_fewer_pipelines(
    choice: Mapping[Node, Candidate],
    candidates: Mapping[Node, Sequence[Candidate]],
    machine: Machine,
) -> dict[Node, Candidate]:
    """Choice of candidates in which nodes of a kind share one where that costs next to nothing.

    A node only changes to a candidate that looks the same to its neighbours.
    """
    kinds: dict[Hashable, list[Node]] = {}
    for node, candidate in choice.items():
        if len(candidates[node]) > 1 and not candidate.parts:
            kinds.setdefault((_kind(node), candidate.inputs, candidate.outputs), []).append(node)
    result = dict(choice)
    for nodes in kinds.values():
        least = {node: choice[node].cost for node in nodes} if machine.simds > 1 else {}
        worth = PIPELINE_WORTH * machine.dispatch
        while moved := _cheapest_move(nodes, result, candidates, worth, least):
            result.update(moved)
    return result


def _kind(node: Node) -> Hashable:
    """Properties besides the candidate's name that make pipelines of a kernel differ."""
    op, steps = (node.op.base, node.op.steps) if isinstance(node.op, Fused) else (node.op, ())
    return type(op), tuple(i for i in op.attributes().items() if i[0] not in _NUMBERS), steps


def _cheapest_move(
    nodes: Sequence[Node],
    choice: Mapping[Node, Candidate],
    candidates: Mapping[Node, Sequence[Candidate]],
    worth: float,
    least: Mapping[Node, float],
) -> dict[Node, Candidate]:
    """All nodes on one name moved to another's; nothing where that costs ``worth`` or more.

    ``least``: costs at first of nodes that may not become much slower.
    """
    users: dict[str, list[Node]] = {}
    for node in nodes:
        users.setdefault(choice[node].name, []).append(node)
    best: dict[Node, Candidate] = {}
    lowest = worth
    for old, new in itertools.permutations(users, 2):
        taken = {node: _alike(candidates[node], choice[node], new) for node in users[old]}
        found = {node: candidate for node, candidate in taken.items() if candidate is not None}
        extra = sum(candidate.cost - choice[node].cost for node, candidate in found.items())
        near = all(c.cost <= MOST_LONGER * least[n] for n, c in found.items() if n in least)
        if len(found) == len(taken) and near and extra < lowest:
            best, lowest = found, extra
    return best


def _alike(candidates: Sequence[Candidate], chosen: Candidate, name: str) -> Candidate | None:
    form = (chosen.inputs, chosen.outputs, chosen.view, chosen.view_offset)
    alike = (c for c in candidates if (c.inputs, c.outputs, c.view, c.view_offset) == form)
    return next((c for c in alike if c.name == name and not c.parts), None)
