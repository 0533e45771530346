"""Jobs of a tuning: the distinct problems of a network that have a choice of kernels."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from vknn.graph import Graph, GraphBuilder, Node, Op, TensorType, Value
from vknn.graph.graph import Origin
from vknn.lowering import Layout, LoweringOptions, candidates
from vknn.lowering.choose.candidates import make_problem
from vknn.lowering.choose.tuned_choices import choice_key, forms, problem_key
from vknn.lowering.kit.candidate import Candidate
from vknn.plan import DeviceLimits

#: Bytes behind each buffer that candidates must leave alone.
GUARD_BYTES = 64
#: Name of the one layer of a job's graph; no buffer has it, so it tells its kernels from repacks.
LAYER = "measured layer"


@dataclass(frozen=True)
class Contest:
    """Candidates of one form, by name, the lowest estimate first. ``layout``: of output 0."""

    form: str
    layout: Layout
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Job:
    """A problem to measure: an op, the types of its inputs and the data of those that are constant.

    ``layers``: those of the network that pose it. Goes to another process by pickle.
    """

    key: str
    op: Op
    types: tuple[TensorType | None, ...]
    constants: tuple[np.ndarray | None, ...]
    contests: tuple[Contest, ...]
    options: LoweringOptions
    layers: list[str] = field(default_factory=list)

    def choice_key(self, contest: Contest) -> str:
        """Key of a contest's winner in the database."""
        return choice_key(self.key, contest.form)

    def before(self, contest: Contest, choices: Mapping[str, str]) -> str:
        """The candidate taken before: chosen earlier, or of the lowest estimate."""
        earlier = choices.get(self.choice_key(contest))
        return earlier if earlier in contest.names else contest.names[0]

    def graph(self) -> Graph:
        """The op alone: inputs "x0", "x1"... but for constants, outputs "y0", "y1"..."""
        builder = GraphBuilder(self.op.type_name)
        values: list[Value | None] = []
        for index, (type_, array) in enumerate(zip(self.types, self.constants, strict=True)):
            if type_ is None:
                values.append(None)
            elif array is not None:
                values.append(builder.constant(array, f"c{index}"))
            else:
                values.append(builder.input(f"x{index}", type_))
        names = tuple(f"y{i}" for i in range(len(self.op.infer(*self.types))))
        origin = Origin(LAYER, self.op.type_name)
        outputs = builder.add_many(self.op, *values, origin=origin, names=names)
        return builder.finish(dict(zip(names, outputs, strict=True)))


def find_jobs(nodes: Iterable[Node], limits: DeviceLimits, options: LoweringOptions) -> list[Job]:
    """A job for each distinct problem that has more than one candidate in some form."""
    options = dataclasses.replace(options, choices={}, guard=GUARD_BYTES)
    jobs: dict[str, Job] = {}
    for node in nodes:
        contests = _contests(candidates(node, limits, options))
        if not contests:
            continue
        key = problem_key(make_problem(node, limits, options))
        if key not in jobs:
            constants = tuple(v.constant if v is not None else None for v in node.inputs)
            own = options.of(node.origin.name)
            jobs[key] = Job(key, node.op, node.input_types, constants, contests, own)
        jobs[key].layers.append(node.origin.name)
    return list(jobs.values())


def _contests(found: list[Candidate]) -> tuple[Contest, ...]:
    grouped = forms(found)
    made = []
    for form, group in grouped.items():
        rivals = [c for f, others in grouped.items() if f != form for c in others]
        elsewhere = {(c.name, c.outputs[0]) for c in rivals}
        names = tuple(c.name for c in sorted(group, key=lambda c: c.cost))
        # Views are left out: one costs nothing in a network, but a copy in a job's graph. So are
        # forms with a candidate that shares name and layout with another: neither can be asked for.
        clear = len(set(names)) == len(names)
        clear &= not any((c.name, c.outputs[0]) in elsewhere for c in group)
        if len(names) > 1 and clear and not any(c.view is not None for c in group):
            made.append(Contest(form, group[0].outputs[0], names))
    return tuple(made)
