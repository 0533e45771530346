"""Tuned choices: candidates taken by measurement instead of estimate, and their keys.

A choice is made among candidates of one *form* (the layouts they take and give), so that the
layouts of a whole network are assigned as freely with choices as without.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from vknn.graph import Op, TensorType
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.layouts import Layout
from vknn.lowering.kit.problem import Epilogue, Problem

#: Attributes longer than this as text (anchors, masks) are replaced by their hash.
LONGEST_ATTRIBUTE = 200


def problem_key(problem: Problem) -> str:
    """Key of a problem: text of all that its running time depends on, the same in every process.

    Op and attributes, types, which inputs are constants, the epilogue's operations, precision and
    arithmetic; not the data, and not the device.
    """
    inputs = ", ".join(
        _type(type_, constant is not None)
        for type_, constant in zip(problem.inputs, problem.constants, strict=True)
    )
    outputs = ", ".join(str(t) for t in problem.outputs)
    precision = f" in {problem.options.precision}" if problem.options.half else ""
    precision += " by fp16" if problem.half_sums else ""
    return f"{_op(problem.op)}: {inputs} -> {outputs}{_steps(problem.epilogue)}{precision}"


def form_of(candidate: Candidate) -> str:
    """Form of a candidate, the layouts of its inputs and outputs: "c4 - -> c4"."""
    return f"{_layouts(candidate.inputs)} -> {_layouts(candidate.outputs)}"


def choice_key(problem: str, form: str) -> str:
    """Key of ``LoweringOptions.choices``, whose value is a candidate's name."""
    return f"{problem} | {form}"


def problem_of_choice(key: str) -> str:
    """The key of the problem that a key of choices is about."""
    return key.rpartition(" | ")[0]


def forms(found: Sequence[Candidate]) -> dict[str, list[Candidate]]:
    """The candidates by form."""
    grouped: dict[str, list[Candidate]] = {}
    for candidate in found:
        grouped.setdefault(form_of(candidate), []).append(candidate)
    return grouped


def chosen(
    found: Sequence[Candidate], problem: Problem, choices: Mapping[str, str]
) -> list[Candidate]:
    """Candidates with each form that a choice is known for reduced to the chosen one.

    It takes over the lowest estimate of its form: what is known is that none is faster. A choice
    that names no candidate (of another version, or switched off) changes nothing.
    """
    if not choices or len(found) < 2:
        return list(found)
    key = problem_key(problem)
    kept: list[Candidate] = []
    for form, group in forms(found).items():
        name = choices.get(choice_key(key, form))
        winners = [c for c in group if c.name == name]
        if winners:
            cost = min(c.cost for c in group)
            winners = [dataclasses.replace(c, cost=cost) for c in winners]
        kept += winners or group
    return kept


def _op(op: Op) -> str:
    attributes = ", ".join(f"{name}={_value(value)}" for name, value in op.attributes().items())
    return f"{op.type_name}({attributes})"


def _value(value: object) -> str:
    if isinstance(value, enum.Enum):
        return str(value.value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, tuple):
        text = f"({', '.join(_value(v) for v in value)})"
    else:
        text = repr(value)
    if len(text) <= LONGEST_ATTRIBUTE:
        return text
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def _type(type_: TensorType | None, constant: bool) -> str:
    if type_ is None:
        return "none"
    return f"{type_} constant" if constant else str(type_)


def _steps(epilogue: Epilogue) -> str:
    """Codes and modes (operand, by channel, reverse) of the steps; their numbers cost nothing."""
    if epilogue.quantized is not None:
        return f" + {epilogue.quantized.kind}"
    if not epilogue.steps:
        return ""
    steps = " ".join(f"{s.code}:{s.mode}" for s in epilogue.steps)
    return f" + [{steps}] of {len(epilogue.operands)}"


def _layouts(layouts: Sequence[Layout | None]) -> str:
    return " ".join("-" if layout is None else layout.value for layout in layouts)
