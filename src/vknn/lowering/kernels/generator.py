"""GeneratorUniform and GeneratorNormal: a group of four numbers to a lane.

GeneratorCategorical adds up in float64 and RandomBits has a state of 64 bits: they are the host's.
"""

from __future__ import annotations

from collections.abc import Sequence

from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, read1, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import Layout, vector_count
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits_loops, rounds
from vknn.ops.generator.numbers import GeneratorNormal, GeneratorUniform
from vknn.ops.random import key_of

#: Rounds of Philox4x32-10.
_PHILOX = 10
#: Cost of a group in bytes moved.
_GROUP_BYTES = 64


@lowers(GeneratorUniform, GeneratorNormal)
def generator_numbers(problem: Problem) -> Sequence[Candidate]:
    """The candidate: a lane for each four elements; the first writes the new position."""
    y = problem.outputs[0]
    if y.size == 0 or not fits_loops(problem.limits, 1, _PHILOX):
        return []
    machine = problem.machine
    cost = machine.dispatch + y.size // 4 * _GROUP_BYTES * machine.byte
    outputs = (Layout.LINEAR, Layout.LINEAR)
    return [Candidate("groups", (Layout.LINEAR,), outputs, _emit, cost)]


def _emit(emitter: Emitter) -> None:
    op, y = emitter.problem.op, emitter.problem.outputs[0]
    assert isinstance(op, GeneratorUniform | GeneratorNormal)
    count = vector_count(y, Layout.LINEAR)
    emitter.dispatch_items(
        "generator/numbers",
        [read1(emitter.input(0)), write(emitter.output(0)), write(emitter.output(1))],
        grid(emitter.problem.limits, count, item_rounds=rounds(_PHILOX)),
        push={"count": count, **_words("key", op.key), **_words("stream", op.stream)},
        spec={"KIND": int(isinstance(op, GeneratorNormal))},
    )


def _words(name: str, number: int) -> dict[str, int]:
    """The low and the high word of a number as int32."""
    low, high = (word - (word >> 31 << 32) for word in key_of(number))
    return {f"{name}_low": low, f"{name}_high": high}
