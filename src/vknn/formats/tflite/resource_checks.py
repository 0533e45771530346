"""Checks of handles: that resources stand where operators take them, and nothing else does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vknn.errors import ModelFormatError
from vknn.formats.tflite.records import ModelRecord, OperatorRecord, SubgraphRecord
from vknn.formats.tflite.resources import MAKERS, table_types
from vknn.graph import DType

#: Operators that take a handle first -> those that make it.
_TAKERS = {
    "READ_VARIABLE": "VAR_HANDLE",
    "ASSIGN_VARIABLE": "VAR_HANDLE",
    "HASHTABLE_FIND": "HASHTABLE",
    "HASHTABLE_IMPORT": "HASHTABLE",
    "HASHTABLE_SIZE": "HASHTABLE",
}
#: Types of keys and values that tables have.
TABLE_TYPES = ((DType.INT64, DType.STRING), (DType.STRING, DType.INT64))

#: Control flow operator -> options that name subgraphs, and number of inputs not passed to them.
Calls = Mapping[str, tuple[tuple[str, ...], int]]


def check_resources(record: ModelRecord, calls: Calls, file: str | None = None) -> None:
    """Check: ModelFormatError for handles and numbers in one another's place, and odd tables."""
    for graph in record.subgraphs:
        for operator in graph.operators:
            for problem in _problems(record, graph, operator, calls):
                place = f"operator {operator.index} ({operator.type}) of subgraph {graph.index}"
                raise ModelFormatError(f"{place}: {problem}", file=file)
    _check_tables(record, file)
    for number in sorted({0, *(s.subgraph for s in record.signatures)}):
        graph = record.subgraphs[number]
        for index in (*graph.inputs, *graph.outputs):
            if graph.tensors[index].resource:
                raise ModelFormatError(
                    f"tensor {index} ({graph.tensors[index].name!r}) of subgraph {number} is a "
                    "resource, which cannot be an input or output of the model: it has to be made "
                    "with its resources inside",
                    file=file,
                )


def _problems(
    record: ModelRecord, graph: SubgraphRecord, operator: OperatorRecord, calls: Calls
) -> Iterator[str]:
    """What is wrong with the kinds of an operator's inputs and outputs."""
    if operator.code in calls:
        yield from _call_problems(record, graph, operator, calls)
        return
    maker = _TAKERS.get(operator.code)
    for place, index in enumerate(operator.inputs):
        if index == -1:
            if maker and not place:
                yield f"input 0 is missing: it has to be the handle that a {maker} gives"
            continue
        tensor = graph.tensors[index]
        what = f"input {place}, tensor {index} ({tensor.name!r}),"
        if maker and not place and not tensor.resource:
            yield f"{what} is {tensor.type_name}: it has to be the handle that a {maker} gives"
        if tensor.resource and not (maker and not place):
            yield f"{what} is a resource, not numbers: READ_VARIABLE or HASHTABLE_FIND gives those"
    for place, index in enumerate(operator.outputs):
        tensor = graph.tensors[index]
        what = f"output {place}, tensor {index} ({tensor.name!r}),"
        if tensor.resource != (operator.code in MAKERS):
            yield f"{what} is declared as {tensor.type_name}" + (
                ", not resource" if operator.code in MAKERS else ", which it does not give"
            )


def _call_problems(
    record: ModelRecord, graph: SubgraphRecord, operator: OperatorRecord, calls: Calls
) -> Iterator[str]:
    """Handles that a call passes as numbers, or numbers that it passes as handles."""
    options, skipped = calls[operator.code]
    for option in options:
        named = operator.options[option]
        for number in (named,) if isinstance(named, int) else named:
            callee = record.subgraphs[number]
            pairs = [*zip(operator.inputs[skipped:], callee.inputs, strict=False)]
            if option != "cond_subgraph_index":
                pairs += zip(operator.outputs, callee.outputs, strict=False)
            for index, own in pairs:
                kinds = [callee.tensors[own].type_name]
                kinds.append("nothing" if index == -1 else graph.tensors[index].type_name)
                if kinds[0] != kinds[1] and "resource" in kinds:
                    yield (
                        f"tensor {own} ({callee.tensors[own].name!r}) of subgraph {number} is "
                        f"{kinds[0]}, and {kinds[1]} stands for it"
                    )


def _check_tables(record: ModelRecord, file: str | None) -> None:
    """Check of the types of HASHTABLEs, which are one for each number."""
    found: dict[int, tuple[DType, ...]] = {}
    for graph in record.subgraphs:
        for operator in graph.operators:
            if operator.code != "HASHTABLE":
                continue
            options, types = operator.options, table_types(operator)
            place = f"operator {operator.index} (HASHTABLE) of subgraph {graph.index}"
            if types not in TABLE_TYPES:
                numbers = f"{options['key_dtype']} -> {options['value_dtype']}"
                raise ModelFormatError(
                    f"{place}: has the types {numbers} (keys -> values): TensorFlow Lite has "
                    "tables of 4 -> 5 (int64 -> string) and 5 -> 4 (string -> int64)",
                    file=file,
                )
            if found.setdefault(options["table_id"], types) != types:
                raise ModelFormatError(
                    f"{place}: table {options['table_id']} has other types elsewhere", file=file
                )
