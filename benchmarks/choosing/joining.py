"""Chains that the planner considers beside their nodes apart, and which of both it takes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from vknn.chaining import ChainChoice, chain_choices
from vknn.graph import Graph, Node
from vknn.lowering import LoweringOptions, candidates
from vknn.lowering.choose.candidates import make_problem
from vknn.lowering.choose.tuned_choices import problem_key
from vknn.lowering.kit.candidate import Candidate
from vknn.plan import DeviceLimits
from vknn.tuning.jobs import Job

from .problems import Kernel
from .report import CHAIN

APART = "apart"


@dataclass(eq=False)
class Joining:
    """A run of nodes: as a chain, the last or the first of them as one, or all apart, each with the
    candidates of the lowest estimates.

    Attributes:
        kernels: Those of each way, by the way's name.
        estimates: Microseconds by the planner, by way.
        counting: Ways with a kernel that takes counters.
        taken: Runs by network and way.
    """

    kernels: dict[str, list[Kernel]]
    estimates: dict[str, float]
    counting: frozenset[str]
    taken: dict[str, Counter[str]] = field(default_factory=dict)

    def ways(self) -> dict[str, list[Kernel]]:
        """The kernels of each way, by its name."""
        return self.kernels


def add_joinings(
    found: dict[tuple[str, str], Any],
    name: str,
    graph: Graph,
    limits: DeviceLimits,
    options: LoweringOptions,
) -> None:
    """Addition of the runs of a network that may be chains to those of other networks."""
    for choice in chain_choices(graph, limits, options):
        longest = max(choice.runs, key=len)
        keys = [problem_key(make_problem(node, limits, options)) for node in longest]
        key = " >> ".join(keys), CHAIN
        if key not in found:
            found[key] = _joining(choice, limits, options)
        taken = found[key].taken.setdefault(name, Counter())
        taken[_way(choice.taken)] += 1


def _way(run: list[Node]) -> str:
    return f"chain of {len(run)}" if run else APART


def _joining(choice: ChainChoice, limits: DeviceLimits, options: LoweringOptions) -> Joining:
    longest = max(choice.runs, key=len)
    ways = {APART: longest}
    for run in choice.runs:  # the last nodes of the longest
        ways[_way(run)] = [*longest[: len(longest) - len(run)], choice.chain(run)]
    if len(longest) == 3 and candidates(lead := choice.chain(longest[:2]), limits, options):
        ways["chain of 2, then 1"] = [lead, longest[2]]
    kernels, estimates, counting = {}, {}, set()
    for way, nodes in ways.items():
        least = [min(candidates(n, limits, options), key=lambda c: c.cost) for n in nodes]
        parts = zip(nodes, least, strict=True)
        # A view is no dispatch.
        kernels[way] = [_kernel(n, c, options) for n, c in parts if c.view is None]
        estimates[way] = sum(c.cost for c in least)
        if any(c.counts for c in least):
            counting.add(way)
    return Joining(kernels, estimates, frozenset(counting))


def _kernel(node: Node, candidate: Candidate, options: LoweringOptions) -> Kernel:
    constants = tuple(v.constant if v is not None else None for v in node.inputs)
    job = Job("", node.op, node.input_types, constants, (), options)
    return job, candidate.outputs[0], candidate.name
