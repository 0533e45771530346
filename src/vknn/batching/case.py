"""Case of a rule: an operator with the axes along which its inputs hold examples."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

from vknn.errors import VknnError
from vknn.graph import Op, TensorType


class NotIndependentError(VknnError):
    """Nothing proves that the examples of a batch would be computed each by itself."""


@dataclass(frozen=True)
class Case:
    """An operator of the graph of one example, which is to compute several.

    A value of several examples is that of each, one behind the other along an axis, in order.

    Attributes:
        op: The operator.
        types: Types of its inputs for one example; None where one is absent.
        axes: Of each input the axis of examples; None where all have the same value, or it is
            absent.
        results: Types of its outputs for one example.
        count: How many examples there are.
    """

    op: Op
    types: tuple[TensorType | None, ...]
    axes: tuple[int | None, ...]
    results: tuple[TensorType, ...]
    count: int

    def refuse(self, why: str) -> NoReturn:
        """Refusal: raises NotIndependentError."""
        raise NotIndependentError(f"{self.op.type_name} {why}")

    def type(self, number: int) -> TensorType:
        """Type of an input that is there."""
        found = self.types[number]
        if found is None:
            self.refuse(f"lacks input {number}")
        return found

    def rank(self, number: int = 0) -> int:
        """Rank of an input that is there."""
        return self.type(number).rank

    def only(self, number: int = 0) -> int:
        """Axis of the one input that holds examples."""
        axis = self.axes[number]
        others = [a for i, a in enumerate(self.axes) if i != number and a is not None]
        if axis is None or others:
            self.refuse("takes one input alone from examples")
        return axis

    def beside(self, axis: int, mixed: Collection[int]) -> int:
        """The axis, where it is none of those along which elements are combined."""
        if axis in mixed:
            self.refuse(f"combines elements along axis {axis}, which holds examples")
        return axis


@dataclass(frozen=True)
class Ruling:
    """Ruling on an operator: how several examples are computed.

    Attributes:
        op: The operator.
        axes: Of each output the axis of examples.
        spread: Inputs that all examples share -> axis along which each gets its own copy.
    """

    op: Op
    axes: tuple[int, ...]
    spread: Mapping[int, int] = field(default_factory=dict)


Rule = Callable[[Case], Ruling]
#: Operator, or base class of operators that are all of its kind -> its rule.
RULES: dict[type[Any], Rule] = {}
_R = TypeVar("_R", bound=Rule)


def rule(*classes: type[Any]) -> Callable[[_R], _R]:
    """Decorator of the rule of some classes of operators."""

    def registered(function: _R) -> _R:
        RULES.update(dict.fromkeys(classes, function))
        return function

    return registered


def rule_of(op: Op) -> Rule | None:
    """The rule of an operator; None: it is not known to keep examples apart."""
    return next((RULES[cls] for cls in type(op).__mro__ if cls in RULES), None)


def normal(axis: int, rank: int) -> int:
    """An axis counted from the front."""
    return axis % rank


def shared(case: Case, axis: int, inputs: Collection[int], results: tuple[int, ...]) -> Ruling:
    """Ruling for inputs that all hold their examples along the same axis.

    Those that examples share are copied for each; all other inputs have to be shared.
    """
    spread = {}
    for number, (type_, own) in enumerate(zip(case.types, case.axes, strict=True)):
        if type_ is None:
            continue
        if number in inputs and own is None:
            spread[number] = axis
        elif own is not None and (number not in inputs or own != axis):
            case.refuse(f"wants the examples of input {number} along axis {axis} or none")
    return Ruling(case.op, results, spread)
