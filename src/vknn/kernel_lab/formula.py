"""Formulas of sweeps: integer arithmetic over named numbers, and nothing else of Python."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from vknn.errors import VknnError

Number = int | float

_OPERATORS: dict[type, Callable[[Any, Any], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_FUNCTIONS: dict[str, Callable[..., Number]] = {
    "ceil": math.ceil,
    "floor": math.floor,
    "min": min,
    "max": max,
}
_LONGEST = 1000
#: Integers within a float's whole numbers.
_LARGEST = 1 << 53


def evaluated(formula: str, names: Mapping[str, Number], count: int, what: str) -> list[int]:
    """The ``count`` integers of a formula, parted by commas.

    + - * / // % and ceil, floor, min, max. Raises VknnError, which begins with ``what``, for
    anything else, for names that are not known, and for results that are no integers.
    """
    if len(formula) > _LONGEST:
        raise VknnError(f"{what}: a formula of over {_LONGEST} characters")
    try:
        tree = ast.parse(formula.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise VknnError(
            f"{what}: {formula!r} is no formula, such as ceil(total / LX), 1, 1"
        ) from None
    parts = tree.elts if isinstance(tree, ast.Tuple) and count > 1 else [tree]
    if len(parts) != count:
        raise VknnError(f"{what}: {formula!r} has {len(parts)} parts, and {count} are needed")
    try:
        return [_integer(_value(part, names, what), formula, what) for part in parts]
    except (ArithmeticError, TypeError, ValueError, RecursionError) as error:
        raise VknnError(f"{what}: {formula!r}: {error}") from None


def _value(node: ast.expr, names: Mapping[str, Number], what: str) -> Number:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return _bounded(value)
        case ast.Name(id=name):
            if name not in names:
                raise VknnError(f"{what}: {name!r} is not known; known: {', '.join(names)}")
            return names[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, names, what)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            sides = _value(left, names, what), _value(right, names, what)
            return _bounded(_OPERATORS[type(op)](*sides))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            return _bounded(_FUNCTIONS[name](*(_value(a, names, what) for a in args)))
    raise VknnError(
        f"{what}: {ast.unparse(node)!r} is not arithmetic (+ - * / // % ceil floor min max)"
    )


def _bounded(value: Number) -> Number:
    if not abs(value) <= _LARGEST:
        raise ValueError(f"{value} is too large")
    return value


def _integer(value: Number, formula: str, what: str) -> int:
    if value != int(value):
        raise VknnError(f"{what}: {formula!r} gives {value}, which is no integer: ceil(...)")
    return int(value)
