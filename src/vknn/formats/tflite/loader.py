"""Loading of .tflite files: reads a file and checks all that needs no inputs."""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Sequence
from pathlib import Path

from vknn.errors import ModelFormatError, UnsupportedLayerError
from vknn.formats.custom import TO_REGISTER
from vknn.formats.tflite import layers as _layers  # noqa: F401 (registers the operators)
from vknn.formats.tflite.custom import known_type
from vknn.formats.tflite.model import TfliteModel
from vknn.formats.tflite.reader import parse_model
from vknn.formats.tflite.records import ModelRecord, OperatorRecord, SubgraphRecord
from vknn.formats.tflite.regions import REGIONS, region_ends, region_problem
from vknn.formats.tflite.registry import OperatorType
from vknn.formats.tflite.resource_checks import check_resources
from vknn.graph import DType


def load(path: Path, weights: Path | None = None) -> TfliteModel:
    """Model of a .tflite file, which is memory-mapped.

    Raises ModelFormatError and UnsupportedLayerError.
    """
    if weights is not None:
        raise ModelFormatError(
            f"a TensorFlow Lite model has no second file; {weights} is not needed", file=str(path)
        )
    file = str(path)
    try:
        with path.open("rb") as stream:
            data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:  # an empty file cannot be mapped
        raise ModelFormatError(f"cannot be read: {error}", file=file) from error
    record = parse_model(memoryview(data), file)
    check(record, file)
    return TfliteModel(record, file)


def check(record: ModelRecord, file: str | None = None) -> None:
    """Check of all that needs no inputs. Raises ModelFormatError and UnsupportedLayerError."""
    check_operators(record, file)
    check_calls(record, file)
    check_resources(record, _CALLS, file)


def check_operators(record: ModelRecord, file: str | None = None) -> None:
    """Check: UnsupportedLayerError listing all operators that vknn does not have."""
    unknown: list[str] = []
    custom = False
    for graph in record.subgraphs:
        for operator in graph.operators:
            found = known_type(operator.code, operator.custom_code)
            if operator.code in _CALLS:
                continue
            if found is None:
                unknown.append(f"{_unknown_type(operator)} (operator {operator.index})")
                custom = custom or bool(operator.custom_code)
            else:
                _check_arity(operator, found, file)
    if unknown:
        remedy = TO_REGISTER if custom else None
        raise UnsupportedLayerError(unknown, file=file, remedy=remedy)


def _unknown_type(operator: OperatorRecord) -> str:
    if operator.code == "STABLEHLO_CUSTOM_CALL":
        return f"{operator.type} of {operator.options['call_target_name']!r}"
    return f"custom operator {operator.type}" if operator.custom_code else operator.type


def _check_arity(operator: OperatorRecord, type_: OperatorType, file: str | None) -> None:
    problem = type_.arity_problem(len(operator.inputs), len(operator.outputs))
    if problem:
        place = f"operator {operator.index} ({operator.type})"
        raise ModelFormatError(f"{place} {problem}", file=file)


#: Calls within calls that a model may have: each takes several of Python's stack frames.
_MOST_DEPTH = 50
#: Operators with those of all calls in their place that a model may have, be it small, and for each
#: of its own: a few hundred could stand for so many that building them takes minutes.
_MOST_OPERATORS = 1 << 14
_MOST_COPIES = 16
#: Control flow operator -> options that name subgraphs, and number of inputs not passed to them.
_CALLS = {
    "CALL": (("subgraph",), 0),
    "CALL_ONCE": (("init_subgraph_index",), 0),
    "IF": (("then_subgraph_index", "else_subgraph_index"), 1),
    "WHILE": (("cond_subgraph_index", "body_subgraph_index"), 0),
    "STABLEHLO_CASE": (("branch_subgraph_indices",), 1),
    "STABLEHLO_COMPOSITE": (("decomposition_subgraph_index",), 0),
    "STABLEHLO_WHILE": (("cond_subgraph_index", "body_subgraph_index"), 0),
}


def check_calls(record: ModelRecord, file: str | None = None) -> None:
    """Check: ModelFormatError for calls that are recursive, too many, or name subgraphs that do not
    fit."""
    called: dict[int, list[int]] = {}
    for graph in record.subgraphs:
        for operator in graph.operators:
            for option, number in _called(operator):
                problem = _call_problem(record, operator, option, number)
                problem = problem or _condition_problem(record, graph, operator)
                if operator.code in REGIONS and not problem:
                    problem = region_problem(graph, operator, record.subgraphs[number])
                if problem:
                    place = f"operator {operator.index} ({operator.type}) of subgraph {graph.index}"
                    raise ModelFormatError(f"{place}: {problem}", file=file)
                called.setdefault(graph.index, []).append(number)
    if problem := _nesting_problem(record, called):
        raise ModelFormatError(problem, file=file)


def _nesting_problem(record: ModelRecord, called: Mapping[int, Sequence[int]]) -> str | None:
    """What is wrong with the calls of each subgraph together: circles, depth, sizes."""
    sizes = [len(graph.operators) for graph in record.subgraphs]
    limit = max(_MOST_OPERATORS, _MOST_COPIES * sum(sizes))
    pending, depth = set(called), 0
    while ready := {g for g in pending if pending.isdisjoint(called[g])}:
        depth += 1
        if depth > _MOST_DEPTH:
            return f"subgraphs call one another more than {_MOST_DEPTH} deep"
        for g in ready:
            sizes[g] += sum(sizes[callee] for callee in called[g])
        pending -= ready
    if pending:
        circle = ", ".join(map(str, sorted(pending)))
        return f"subgraphs {circle} call one another in a circle"
    most = max(sizes, default=0)
    if most > limit:
        return f"its calls are {most} operators, written out; at most {limit} are taken"
    return None


def _called(operator: OperatorRecord) -> list[tuple[str, int]]:
    """Options that name subgraphs, and the numbers of these; -1 for a list without any."""
    options, _ = _CALLS.get(operator.code, ((), 0))
    names = [*options, *([REGIONS[operator.code]] if operator.code in REGIONS else [])]
    found: list[tuple[str, int]] = []
    for name in names:
        given = operator.options[name]
        found += [(name, n) for n in (given or (-1,) if isinstance(given, tuple) else (given,))]
    return found


def _condition_problem(
    record: ModelRecord, graph: SubgraphRecord, operator: OperatorRecord
) -> str | None:
    """What is wrong with the tensor that decides in an IF, a WHILE or a sort."""
    if operator.code == "IF":
        condition = graph.tensors[operator.inputs[0]]
    elif operator.code in ("WHILE", "STABLEHLO_WHILE"):
        decides = record.subgraphs[operator.options["cond_subgraph_index"]]
        condition = decides.tensors[decides.outputs[0]]
    elif operator.code == "STABLEHLO_SORT":
        decides = record.subgraphs[operator.options[REGIONS[operator.code]]]
        condition = decides.tensors[decides.outputs[0]]
    else:
        return None
    good = condition.dtype is DType.BOOL
    return None if good else f"its condition is {condition.dtype.value}, not bool"


def _call_problem(
    record: ModelRecord, operator: OperatorRecord, option: str, number: int
) -> str | None:
    if not 0 <= number < len(record.subgraphs):
        return f"names subgraph {number} of {len(record.subgraphs)}"
    if -1 in operator.inputs:
        return f"lacks its input {operator.inputs.index(-1)}"
    callee = record.subgraphs[number]
    _, skipped = _CALLS.get(operator.code, ((), 0))
    given, made = len(operator.inputs) - skipped, len(operator.outputs)
    if given < 0:
        return "has no inputs, of which the first has to say which subgraph runs"
    if operator.code == "CALL_ONCE" and (given or made):
        return f"has {given} inputs and {made} outputs; it takes and gives nothing"
    if option == "cond_subgraph_index":
        made = 1
    elif option == "body_subgraph_index" and operator.code not in REGIONS and made != given:
        return f"has {given} inputs and {made} outputs"
    if operator.code in REGIONS:
        given, made = region_ends(operator)
    if (len(callee.inputs), len(callee.outputs)) != (given, made):
        return (
            f"subgraph {number} has {len(callee.inputs)} inputs and {len(callee.outputs)} outputs, "
            f"not {given} and {made}"
        )
    return None
