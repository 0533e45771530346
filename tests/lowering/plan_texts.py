"""Plans as text without names: of every op case by each of its candidates, and of networks.

Names of kernels, buffers, nodes and candidates are left out, so that what is compared is what a
device is asked to do: sizes, offsets, workgroups, constants, push constants, barriers, order.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

from tests.lowering.limits import DEVICES, DISCRETE
from tests.lowering.op_cases import FAMILIES, with_epilogues

from vknn.chaining import chain_nodes
from vknn.formats import load
from vknn.graph import DType, Graph, TensorType
from vknn.lowering import LoweringOptions, WeightCache, candidates, format_plan, lower
from vknn.passes import run_passes
from vknn.plan import CooperativeMatrix, DeviceLimits
from vknn.stacking import stack_products

SHUFFLING = dataclasses.replace(
    DEVICES["cpu"], features=DISCRETE.features | {"integer_dot", "fp16_arithmetic"}
)
MATRICES = dataclasses.replace(
    DISCRETE,
    features=DISCRETE.features
    | {"integer_dot", "integer_dot_fast", "fp16_arithmetic", "cooperative_matrix"},
    cooperative=(CooperativeMatrix(16, 16, 16), CooperativeMatrix(16, 8, 8)),
)
#: Name -> limits, precision, arithmetic.
TARGETS: dict[str, tuple[DeviceLimits, str, str]] = {
    "minimum": (DEVICES["minimum"], "fp32", "fp32"),
    "minimum, cpu": (DEVICES["minimum, cpu"], "fp32", "fp32"),
    "discrete": (DISCRETE, "fp32", "fp32"),
    "cpu, everything": (SHUFFLING, "fp32", "fp32"),
    "discrete, everything, fp16": (MATRICES, "fp16", "fp32"),
    "discrete, everything, fp16 arithmetic": (MATRICES, "fp16", "fp16"),
}
_BUFFER = re.compile(r"^(  %\d+ \S+ \[[^]]*\](?: in %\d+)?) .*$")
_KERNEL = re.compile(r"^  [a-z0-9_]+/[A-Za-z0-9_]+<")
_PORT = re.compile(r"^  (input|output) .*: ([^:]*)$")


def without_names(text: str) -> str:
    """The text of a plan without the names in it."""
    lines = [line.partition("  ; ")[0] for line in text.splitlines()[1:]]
    lines = [_BUFFER.sub(r"\1", line) for line in lines]
    lines = [_PORT.sub(r"  \1 \2", line) for line in lines]
    return "\n".join(_KERNEL.sub("  <", line) for line in lines)


def of_family(family: str, target: str) -> Iterator[tuple[str, str]]:
    """Case and candidate, with the plan that the candidate makes."""
    limits, precision, arithmetic = TARGETS[target]
    cases = list(FAMILIES[family]())
    for number, case in enumerate([*cases, *with_epilogues(cases)]):
        graph = case.graph()
        plain = LoweringOptions(precision=precision, arithmetic=arithmetic)
        for candidate in candidates(graph.nodes[0], limits, plain):
            options = dataclasses.replace(
                plain, algorithm=candidate.name, layout=candidate.outputs[0]
            )
            layout = candidate.outputs[0].value
            yield f"{number} {candidate.name} {layout}", format_plan(lower(graph, limits, options))


def network(path: Path, weights: Path, shape: tuple[int, ...]) -> Graph:
    """A benchmark network's graph, rewritten as a session does."""
    model = load(path, weights)
    (spec,) = model.inputs
    graph = model.build({spec.name: TensorType(shape, DType.FLOAT32)}, {})
    return run_passes(graph, frozenset())


def of_network(graph: Graph) -> Iterator[tuple[str, str]]:
    """Target, and the plan of the graph on it."""
    weights = WeightCache()
    for target, (limits, precision, arithmetic) in TARGETS.items():
        options = LoweringOptions(precision=precision, arithmetic=arithmetic)
        chained = chain_nodes(stack_products(graph, limits, options), limits, options)
        yield target, format_plan(lower(chained, limits, options, weights))
