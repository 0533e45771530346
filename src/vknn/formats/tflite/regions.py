"""Regions: subgraphs that say what an operator does with its elements (StableHLO's reductions,
scatters and sorts), and what of them is known by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vknn.formats.tflite.records import ModelRecord, OperatorRecord, SubgraphRecord
from vknn.graph import DType

#: Operators with a region -> the option that names it.
REGIONS = {
    "STABLEHLO_REDUCE": "body_subgraph_index",
    "STABLEHLO_REDUCE_WINDOW": "body_subgraph_index",
    "STABLEHLO_SCATTER": "update_computation_subgraph_index",
    "STABLEHLO_SORT": "comparator_subgraph_index",
}
_FUNCTIONS = {
    "ADD": "add", "MUL": "mul", "MAXIMUM": "max", "MINIMUM": "min",
    "STABLEHLO_ADD": "add", "STABLEHLO_MULTIPLY": "mul",
    "STABLEHLO_MAXIMUM": "max", "STABLEHLO_MINIMUM": "min",
}  # fmt: skip
_FUNCTIONS_OF_BOOL = {
    "LOGICAL_AND": "min", "LOGICAL_OR": "max", "STABLEHLO_AND": "min", "STABLEHLO_OR": "max",
    "STABLEHLO_ADD": "max", "STABLEHLO_MULTIPLY": "min",
    "STABLEHLO_MAXIMUM": "max", "STABLEHLO_MINIMUM": "min",
}  # fmt: skip
#: Comparisons that put the smaller (False) or the larger (True) first; of StableHLO's by direction.
_ORDERS = {"LESS": False, "LESS_EQUAL": False, "GREATER": True, "GREATER_EQUAL": True}
_DIRECTIONS = {2: True, 3: True, 4: False, 5: False}
_TOTAL_ORDER = 2
#: Operators that give of tensors, element by element, what they give of scalars.
_ELEMENTWISE = (
    "ABS ADD CEIL COS DIV EXP FLOOR FLOOR_DIV FLOOR_MOD LOG LOGICAL_AND LOGICAL_NOT LOGICAL_OR",
    "LOGISTIC MAXIMUM MINIMUM MUL NEG POW ROUND RSQRT SIGN SIN SQRT SQUARE SQUARED_DIFFERENCE SUB",
    "TANH EQUAL NOT_EQUAL LESS LESS_EQUAL GREATER GREATER_EQUAL",
    "STABLEHLO_ABS STABLEHLO_ADD STABLEHLO_AND STABLEHLO_CBRT STABLEHLO_CLAMP STABLEHLO_COMPARE",
    "STABLEHLO_CONVERT STABLEHLO_COSINE STABLEHLO_DIVIDE STABLEHLO_EXPONENTIAL STABLEHLO_FLOOR",
    "STABLEHLO_LOG STABLEHLO_LOGISTIC STABLEHLO_MAXIMUM STABLEHLO_MINIMUM STABLEHLO_MULTIPLY",
    "STABLEHLO_NEGATE STABLEHLO_OR STABLEHLO_POWER STABLEHLO_REMAINDER STABLEHLO_RSQRT",
    "STABLEHLO_SELECT STABLEHLO_SHIFT_LEFT STABLEHLO_SUBTRACT STABLEHLO_TANH",
)
ELEMENTWISE = frozenset(name for line in _ELEMENTWISE for name in line.split())


@dataclass(frozen=True)
class Order:
    """A sort by one operand: its number, whether the largest is first, whether in total order."""

    operand: int
    largest: bool
    total: bool


def region_ends(operator: OperatorRecord) -> tuple[int, int]:
    """Numbers of arguments and results that an operator's region has."""
    count = len(operator.inputs)
    if operator.code == "STABLEHLO_SORT":
        return 2 * count, 1
    return (2, 1) if operator.code == "STABLEHLO_SCATTER" else (count, count // 2)


def region_problem(
    graph: SubgraphRecord, operator: OperatorRecord, region: SubgraphRecord
) -> str | None:
    """Problem, as text, of a region whose arguments have other types than the operator's inputs."""
    given = [graph.tensors[i].dtype for i in operator.inputs]
    if operator.code == "STABLEHLO_SCATTER":
        given = [given[0], given[2]]
    elif operator.code == "STABLEHLO_SORT":
        given = [dtype for dtype in given for _ in range(2)]
    taken = [region.tensors[i].dtype for i in region.inputs]
    kinds = [", ".join(dtype.value for dtype in dtypes) for dtypes in (taken, given)]
    return None if taken == given else f"has a region of {kinds[0]} for {kinds[1]}"


def function_of(region: SubgraphRecord) -> str | None:
    """Function of two scalars that a region computes, by its name in ScatterND and ReduceWindow.

    "none" gives the second one. None for all that is not just one known operator.
    """
    if len(region.inputs) != 2:
        return None
    a, b = region.inputs
    if not region.operators:
        return "none" if region.outputs[0] == b != a else None
    if len(region.operators) > 1:
        return None
    operator = region.operators[0]
    plain = operator.options.get("fused_activation_function", 0) == 0
    both = a != b and sorted(operator.inputs) == sorted((a, b))
    if not (plain and both and operator.outputs == region.outputs):
        return None
    of_bool = region.tensors[a].dtype is DType.BOOL
    return (_FUNCTIONS_OF_BOOL if of_bool else _FUNCTIONS).get(operator.code)


def order_of(region: SubgraphRecord) -> Order | None:
    """Order that a comparator says by one comparison of the two elements of an operand."""
    if len(region.operators) != 1:
        return None
    operator, places = region.operators[0], {index: i for i, index in enumerate(region.inputs)}
    total = operator.code == "STABLEHLO_COMPARE" and (
        operator.options["compare_type"] == _TOTAL_ORDER
    )
    largest = _ORDERS.get(operator.code)
    if operator.code == "STABLEHLO_COMPARE":
        largest = _DIRECTIONS.get(operator.options["comparison_direction"])
    first, second = (places.get(index, -1) for index in _pair(operator.inputs))
    pair = first // 2 == second // 2 and first >= 0 and first != second
    if largest is None or not pair or operator.outputs != region.outputs:
        return None
    return Order(first // 2, largest != (first > second), total)


def _pair(inputs: Sequence[int]) -> tuple[int, int]:
    return (inputs[0], inputs[1]) if len(inputs) == 2 else (-1, -1)


def is_interpreted(model: ModelRecord, operator: OperatorRecord) -> bool:
    """True for sorts and scatters whose region is called for their elements at run time."""
    option = REGIONS.get(operator.code)
    if option is None:
        return False
    region = model.subgraphs[operator.options[option]]
    if operator.code == "STABLEHLO_SORT":
        return order_of(region) is None
    return operator.code == "STABLEHLO_SCATTER" and function_of(region) is None


def strangers(region: SubgraphRecord) -> list[str]:
    """Operators of a region that are not computed element by element."""
    return sorted({o.type for o in region.operators if o.code not in ELEMENTWISE})
