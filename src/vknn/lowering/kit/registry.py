"""Registry of kernel rules: op class -> the rule that turns a problem into candidates."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vknn.graph import Op
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.problem import Problem
from vknn.reimports import comes_again

Rule = Callable[[Problem], Sequence[Candidate]]

_RULES: dict[type[Op], Rule] = {}


def lowers(*ops: type[Op]) -> Callable[[Rule], Rule]:
    """Decorator that registers a rule for op classes. A rule may give no candidate."""

    def register(rule: Rule) -> Rule:
        for op in ops:
            known = _RULES.get(op)
            if known is not None and not comes_again(known, rule):
                raise ValueError(f"{op.__name__} has two lowering rules")
            _RULES[op] = rule
        return rule

    return register


def rule_for(op: type[Op]) -> Rule | None:
    """The rule of an op class, or None: the op runs on the host."""
    return _RULES.get(op)
