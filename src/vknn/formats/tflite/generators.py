"""Generators of the operators that draw random numbers: each operator has one of its own.

A generator's position is state of the session. It goes into every graph of a run, those of loops
and branches too, and comes out where it is then (:mod:`vknn.ops.generator.numbers`). Generators
with a seed begin anew wherever an operator calls the subgraph that they are in, as TensorFlow Lite
prepares that again; from round to round of a loop they go on.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from vknn.formats.tflite.records import ModelRecord, OperatorRecord, SubgraphRecord

_DRAWING = ("RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL", "MULTINOMIAL")
_ALL = (1 << 64) - 1


def generator_name(graph: SubgraphRecord, operator: OperatorRecord) -> str:
    """Name of an operator's generator among the inputs and outputs of graphs, which no file has."""
    return f"\0generator:{graph.index}:{operator.index}"


def first_positions(record: ModelRecord) -> dict[str, int]:
    """The generators of a model by name, and the word of which their first positions consist.

    It is 0 where there is a seed, else a random one.
    """
    return {
        generator_name(graph, operator): 0 if any(seeds(operator)) else _random_word()
        for graph in record.subgraphs
        for operator in graph.operators
        if operator.code in _DRAWING
    }


def restarted(record: ModelRecord, operator: OperatorRecord) -> list[str]:
    """Names of the generators that begin anew with an operator that calls their subgraphs."""
    called: list[int] = []
    for name, value in operator.options.items():
        if "subgraph" in name:
            called += value if isinstance(value, tuple) else (value,)
    return [
        generator_name(graph, inner)
        for graph in record.subgraphs
        if graph.index in called
        for inner in graph.operators
        if inner.code in _DRAWING and any(seeds(inner))
    ]


def _random_word() -> int:
    return int.from_bytes(os.urandom(4), "little", signed=True)


def seeds(operator: OperatorRecord) -> tuple[int, int]:
    """Both seeds, as TensorFlow Lite takes them: the low 32 bits, with their sign, in 64."""
    options: Mapping[str, int] = operator.options
    first, second = (_low_word(options[name]) & _ALL for name in ("seed", "seed2"))
    return first, second


def _low_word(seed: int) -> int:
    return (seed + (1 << 31)) % (1 << 32) - (1 << 31)


def key_and_stream(graph: SubgraphRecord, operator: OperatorRecord) -> tuple[int, int]:
    """Key and stream of an operator's generator: its seeds.

    Without any, its place in the file keeps it apart from others that begin at the same number.
    """
    if any(seeds(operator)):
        return seeds(operator)
    return graph.index, operator.index
