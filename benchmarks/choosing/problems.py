"""Distinct problems of networks, and what the planner takes for each of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from vknn.graph import DType, Graph, TensorType, validate
from vknn.lowering import Layout, LoweringOptions
from vknn.lowering.choose.candidates import make_problem
from vknn.lowering.choose.layout_assignment import assign
from vknn.lowering.choose.share_pipelines import with_fewer_pipelines
from vknn.lowering.choose.tuned_choices import form_of, problem_key
from vknn.lowering.kit.machine import machine_of
from vknn.partition import partition
from vknn.passes import run_passes
from vknn.plan import DeviceLimits
from vknn.tuning.jobs import Contest, Job, find_jobs

#: A problem, the layout that a candidate of it gives, and the candidate's name.
Kernel = tuple[Job, Layout, str]


@dataclass(eq=False)
class Choice:
    """A problem in one form (the layouts of its tensors), and its candidates.

    Attributes:
        job: The problem.
        contest: The candidates of the form.
        estimates: Microseconds by the planner, by candidate.
        counting: Candidates that take counters, which a fill clears once a run.
        taken: Layers by network and candidate.
    """

    job: Job
    contest: Contest
    estimates: dict[str, float]
    counting: frozenset[str]
    taken: dict[str, Counter[str]] = field(default_factory=dict)

    def ways(self) -> dict[str, list[Kernel]]:
        """The kernel of each candidate, by its name."""
        return {name: [(self.job, self.contest.layout, name)] for name in self.contest.names}


def network_graph(network: dict[str, Any], options: LoweringOptions) -> Graph:
    """The graph of a network of counting.child's jobs after all passes."""
    from vknn.formats import load

    model = load(network["param"], network["weights"])
    (spec,) = model.inputs
    types = {spec.name: TensorType(tuple(network["shape"]), DType.FLOAT32)}
    graph = model.build(types, {})
    validate(graph)
    return run_passes(graph, options.disabled)


def add_choices(
    found: dict[tuple[str, str], Any],
    name: str,
    graph: Graph,
    limits: DeviceLimits,
    options: LoweringOptions,
) -> None:
    """Addition of a network's choices to those of other networks, by problem and form.

    Problems without rivals in the form that is taken are no choices.
    """
    parts = partition(graph, limits, options)
    machine = machine_of(limits)
    for segment in parts.segments:
        if parts.placement[segment.nodes[0]] == "host":
            continue
        offers = {node: parts.candidates[node] for node in segment.nodes}
        chosen = assign(segment, offers, machine)
        chosen = with_fewer_pipelines(chosen, offers, machine)
        jobs = {job.key: job for job in find_jobs(segment.nodes, limits, options)}
        for node in segment.nodes:
            key = problem_key(make_problem(node, limits, options))
            form = form_of(chosen[node])
            job = jobs.get(key)
            contest = next((c for c in job.contests if c.form == form), None) if job else None
            if job is None or contest is None:
                continue
            if (key, form) not in found:
                rivals = [c for c in offers[node] if form_of(c) == form]
                estimates = {c.name: c.cost for c in rivals}
                counting = frozenset(c.name for c in rivals if c.counts)
                found[key, form] = Choice(job, contest, estimates, counting)
            taken = found[key, form].taken.setdefault(name, Counter())
            taken[chosen[node].name] += 1
