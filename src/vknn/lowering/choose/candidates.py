"""Candidates of a node: those of its family's rule that the device and the options allow."""

from __future__ import annotations

from collections.abc import Sequence

from vknn.errors import ShapeError
from vknn.graph import Node, Op, TensorType
from vknn.lowering.choose.tuned_choices import chosen
from vknn.lowering.kernels import find_rule
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.epilogue import problem_of
from vknn.lowering.kit.layouts import Layout, holds, on_device, storage_bytes
from vknn.lowering.kit.problem import LoweringOptions, Problem
from vknn.ops.elementwise import Cast, Fused
from vknn.ops.elementwise.zeros import has_zero_factor
from vknn.plan import DeviceLimits


def make_problem(node: Node, limits: DeviceLimits, options: LoweringOptions) -> Problem:
    """Problem of a node: base op, concrete types, epilogue and its layer's precision apart."""
    constants = tuple(v.constant if v is not None else None for v in node.inputs)
    own = options.of(node.origin.name)
    return problem_of(node.op, node.input_types, node.bounds, constants, limits, own)


def candidates(node: Node, limits: DeviceLimits, options: LoweringOptions) -> list[Candidate]:
    """Candidates of a node on the device, filtered by ``options``; none: it runs on the host."""
    base = node.op.base if isinstance(node.op, Fused) else node.op
    rule = find_rule(type(base))
    if rule is None or not _possible(node):
        return []
    problem = make_problem(node, limits, options)
    found = [c for c in rule(problem) if _fits(c, problem)]
    return _preferred([c for c in found if not _is_off(c, problem)], problem)


def kernel_switch(op: str, kernel: str = "") -> str:
    """Name in VKNN_DISABLE of a kernel of an operator, or of all of them."""
    return f"kernel:{op}/{kernel}" if kernel else f"kernel:{op}"


def _is_off(candidate: Candidate, problem: Problem) -> bool:
    op, disabled = problem.op.type_name, problem.options.disabled
    return kernel_switch(op) in disabled or kernel_switch(op, candidate.name) in disabled


def _preferred(found: list[Candidate], problem: Problem) -> list[Candidate]:
    options = problem.options
    if options.algorithm is None:
        found = chosen(found, problem, options.choices)
    else:
        found = [c for c in found if c.name == options.algorithm] or found
    if options.layout is not None:
        found = [c for c in found if c.outputs[0] is options.layout] or found
    return found


def _possible(node: Node) -> bool:
    """True when every tensor is one that a device buffer can hold, and no constant hides any."""
    if _hides_specials(node.op):
        return False
    present = [t for t in node.input_types if t is not None]
    if any(not t.is_static for t in present):
        return False
    try:
        outputs = node.bounds
    except ShapeError:
        return False
    types: Sequence[TensorType] = [*present, *outputs]
    fit = all(map(on_device, types)) or is_widened(node)
    return fit and all(t.is_static and t.size > 0 for t in types)


def is_widened(node: Node) -> bool:
    """True for a cast to a type of the host's alone that is a port's work: it reads the elements of
    the narrower type, and its array on the host has the wider one (int32 to int64)."""
    if not isinstance(node.op, Cast) or node.inputs[0] is None:
        return False
    narrow, wide = node.inputs[0].type.dtype, node.op.to
    return narrow.on_device and not wide.on_device and holds(wide, narrow)


def _hides_specials(op: Op) -> bool:
    """True where a compiler that sees the op's numbers hides NaN and infinities."""
    if isinstance(op, Fused):
        steps = any(has_zero_factor(step.op, step.scalar) for step in op.steps)
        return steps or has_zero_factor(op.base)
    return has_zero_factor(op)


def _fits(candidate: Candidate, problem: Problem) -> bool:
    """True when a shader can see each tensor whole, in the layout that the candidate has it in."""
    held = [
        (t, layout)
        for t, layout in zip(problem.inputs, candidate.inputs, strict=True)
        if t is not None and layout is not None
    ]
    held += zip(problem.outputs, candidate.outputs, strict=True)
    held += [(t, candidate.outputs[0]) for t in problem.epilogue.operands]
    most = problem.limits.max_storage_buffer_range
    half = problem.options.half
    # Whatever comes to C4B or leaves it has elements of 32 bits there.
    widest = ((t, Layout.C4 if layout is Layout.C4B else layout) for t, layout in held)
    return all(storage_bytes(t, layout, half) <= most for t, layout in widest)
