"""Draws of a network's errors: what roundings of its operators come to at its outputs.

``vknn verify`` says how far each operator may lie from the reference by itself (``tolerance``), by
its arithmetic and by the storage of the plan's precision. Here the reference is run a few times
more with every result moved by a random share of that, in either direction, so that each operator
reads what others before it got wrong; the largest differences at the outputs are an estimate of how
far a device that is right may lie off there. What is allowed to operators is a bound, of which
roundings use little: a device errs by about a hundredth of the draws in fp32 and by a tenth in
fp16, as a test on the benchmark's networks has it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence

import numpy as np

from vknn import reference
from vknn.crosscheck.storage import HALF_SUMS, HALF_UNIT, UNITS, as_held
from vknn.crosscheck.tolerance import allowances
from vknn.graph import Graph, Node, Value
from vknn.lowering import LoweringOptions
from vknn.ops.chain import Chain
from vknn.passes.chains import unchain

#: Draws: with three of them, one element's largest error is less than a third of what is usual once
#: in a hundred times.
DRAWS = 3

Arrays = dict[Value, np.ndarray]
#: What the user has for an output of the graph.
Decode = Callable[[str, np.ndarray], np.ndarray]


def drawn(
    graph: Graph,
    feeds: Mapping[str, np.ndarray],
    options: LoweringOptions,
    seed: int = 0,
    share: float = 1.0,
) -> tuple[dict[str, np.ndarray], list[dict[str, np.ndarray]]]:
    """Outputs of a graph by the reference, and the same of DRAWS runs that err.

    ``share``: of what operators are allowed, how much they err at most.
    """
    random = np.random.default_rng(seed)
    right: Arrays = {v: feeds[v.name] for v in graph.inputs}
    runs: list[Arrays] = [dict(right) for _ in range(DRAWS)]
    nodes = [part for node in graph.nodes for part in _parts(node)]
    readers = _last_readers(nodes, set(graph.outputs.values()))
    for index, node in enumerate(nodes):
        inputs = _inputs(node, right)
        results = reference.run_node(node, tuple(inputs))
        allowed = [share * a for a in _allowed(node, inputs, results, options)]
        stored = _held(node, [None if v is None else v.constant for v in node.inputs], options)
        for run in runs:
            held = _held(node, _results(node, run), options)
            held = [c if x is None else x for c, x in zip(stored, held, strict=True)]
            erring = reference.run_node(node, tuple(held))
            moved = [
                _moved(y, a, random) if y.shape == r.shape else y
                for y, r, a in zip(erring, results, allowed, strict=True)
            ]
            run.update(zip(node.outputs, moved, strict=True))
        right.update(zip(node.outputs, results, strict=True))
        for value in readers.get(index, ()):
            for arrays in (right, *runs):
                arrays.pop(value, None)

    def outputs(arrays: Arrays) -> dict[str, np.ndarray]:
        return {
            name: arrays[v] if v.constant is None else v.constant
            for name, v in graph.outputs.items()
        }

    return outputs(right), [outputs(run) for run in runs]


def _inputs(node: Node, arrays: Arrays) -> list[np.ndarray | None]:
    return [
        None if v is None else (arrays[v] if v.constant is None else v.constant)
        for v in node.inputs
    ]


def _results(node: Node, arrays: Arrays) -> list[np.ndarray | None]:
    """The inputs of a node but for constants."""
    return [None if v is None or v.constant is not None else arrays[v] for v in node.inputs]


def _held(
    node: Node, inputs: Sequence[np.ndarray | None], options: LoweringOptions
) -> list[np.ndarray | None]:
    """Inputs as the device has them: rounded where they lie in 16 bits."""
    precision = options.of(node.origin.name).precision
    return list(inputs) if precision == "fp32" else as_held(node.op, inputs, precision)


def _allowed(
    node: Node,
    inputs: Sequence[np.ndarray | None],
    results: Sequence[np.ndarray],
    options: LoweringOptions,
) -> list[np.ndarray]:
    """The error that ``vknn verify`` allows each result of a node by itself."""
    own = options.of(node.origin.name)
    storage = UNITS[own.precision]
    if any(y.dtype == np.float16 for y in results):
        storage = max(storage, HALF_UNIT)
    sums = HALF_SUMS if own.arithmetic == "fp16" else 0.0
    found = allowances(node.op, list(inputs), list(results), storage=storage, sums=sums)
    return [a.allowed for a in found]


def _moved(result: np.ndarray, allowed: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """A result with a random error of what is allowed; integers and text as they are."""
    if result.dtype.kind != "f":
        return result
    with np.errstate(all="ignore"):
        error = random.uniform(-1.0, 1.0, result.shape) * allowed
        return (result + np.where(np.isfinite(error), error, 0.0)).astype(result.dtype)


def _parts(node: Node) -> Sequence[Node]:
    """The node, or the links of a chain: of each the allowance is narrower than of the whole."""
    return unchain(node) if isinstance(node.op, Chain) else (node,)


def _last_readers(nodes: Sequence[Node], outputs: Container[Value]) -> dict[int, list[Value]]:
    """The values that nothing reads any more behind each node, by the node's number."""
    last: dict[Value, int] = {}
    for index, node in enumerate(nodes):
        last.update(dict.fromkeys(node.outputs, index))
        last.update((v, index) for v in node.inputs if v is not None)
    behind: dict[int, list[Value]] = {}
    for value, index in last.items():
        if value not in outputs:
            behind.setdefault(index, []).append(value)
    return behind
