"""Links of a chain as problems of their own."""

from __future__ import annotations

from dataclasses import dataclass, replace

from vknn.graph import Op, TensorType
from vknn.lowering.kit.emitter import Emitter, Ref
from vknn.lowering.kit.epilogue import problem_of
from vknn.lowering.kit.problem import Problem
from vknn.ops.chain import Chain


@dataclass(frozen=True, eq=False)
class Link:
    """A link as a problem: its base op, the epilogue apart.

    ``first``: number among the chain's inputs of the first that is the link's own; ``place``:
    number among the link's inputs of that one, 1 behind a result of the chain.
    """

    problem: Problem
    first: int
    place: int

    @property
    def op(self) -> Op:
        """The base op."""
        return self.problem.op

    @property
    def output(self) -> TensorType:
        """The type of the result."""
        return self.problem.outputs[0]

    @property
    def operands(self) -> range:
        """Numbers among the chain's inputs of the epilogue's operands."""
        start = self.first + len(self.problem.inputs) - self.place
        return range(start, start + len(self.problem.epilogue.operands))

    def alone(self, emitter: Emitter, x: Ref) -> Emitter:
        """An emitter of this link to the chain's commands, whose first input is ``x``."""
        own = emitter.inputs[self.first :][: len(self.problem.inputs) - self.place]
        inputs = [x, *own[1 - self.place :]]
        operands = [emitter.input(i) for i in self.operands]
        return replace(emitter, problem=self.problem, inputs=inputs, operands=operands)


def links_of(problem: Problem) -> list[Link]:
    """The links of a chain, in their order; raises ShapeError where one does not fit."""
    op = problem.op
    assert isinstance(op, Chain)
    links: list[Link] = []
    groups = zip(op.links, op.split(problem.inputs), op.split(problem.constants), strict=True)
    first = 0
    for link, own, arrays in groups:
        types = (links[-1].output, *own) if links else own
        constants = (None, *arrays) if links else arrays
        outputs = link.bound(*types)
        made = problem_of(link, types, outputs, constants, problem.limits, problem.options)
        links.append(Link(made, first, int(bool(links))))
        first += len(own)
    return links
