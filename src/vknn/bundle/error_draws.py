"""Draws of a network's errors: what roundings of its operators come to at its outputs.

The reference is run a few times more with every result moved at random, so that each operator reads
what others before it got wrong; the largest differences at the outputs are an estimate of how far
a device that is right may lie off there. By how much a result is moved follows from what
``vknn verify`` allows its operator by itself (``tolerance``), which is a bound. Roundings of sums
are as often up as down, and use little of it: in the mean of all operators a device on the
benchmark's networks errs by a hundredth of it in fp32. So of what sums are allowed a SHARE is drawn
at most; of single numbers all, for functions of drivers are inexact in one direction.

In 16 bits what counts is the rounding of each result that is stored. It is drawn several times as
large as it is (ROUNDINGS), in one draw always towards zero: Vulkan leaves to a device whether it
rounds to the nearest number or cuts off, and errors in one direction do not average out.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

import numpy as np

from vknn import reference
from vknn.crosscheck import tolerance_products
from vknn.crosscheck.storage import HALF_SUMS, HALF_UNIT, UNITS, as_held
from vknn.crosscheck.tolerance import allowances, is_exact, stored_rounding
from vknn.graph import Graph, Node, Op, Value
from vknn.lowering import LoweringOptions
from vknn.ops.chain import Chain
from vknn.ops.elementwise import Fused
from vknn.ops.recurrent.rnn import GRU, LSTM, RNN
from vknn.passes.chains import unchain

#: Draws: with three of them, one element's largest error is less than a third of what is usual once
#: in a hundred times.
DRAWS = 3

Arrays = dict[Value, np.ndarray]

#: Part of what sums are allowed that is drawn at most.
SHARE = 1.0 / 16.0
#: Roundings of a stored result that are drawn at most, each half the distance between two numbers:
#: what is cut off errs by up to two.
ROUNDINGS = 4.0
#: Ops that add up products.
_SUMS: tuple[type[Op], ...] = (*tolerance_products.RULES, RNN, GRU, LSTM)


def drawn(
    graph: Graph,
    feeds: Mapping[str, np.ndarray],
    options: LoweringOptions,
    seed: int = 0,
    singles: float = 1.0,
) -> tuple[dict[str, np.ndarray], list[dict[str, np.ndarray]]]:
    """Outputs of a graph by the reference, and the same of DRAWS runs that err.

    ``singles``: of what operators that are no sums are allowed, how much they err at most.
    """
    random = np.random.default_rng(seed)
    right: Arrays = {v: feeds[v.name] for v in graph.inputs}
    runs: list[Arrays] = [dict(right) for _ in range(DRAWS)]
    nodes = [part for node in graph.nodes for part in _parts(node)]
    readers = _last_readers(nodes, set(graph.outputs.values()))
    for index, node in enumerate(nodes):
        inputs = _inputs(node, right)
        results = reference.run_node(node, tuple(inputs))
        errors = _errors(node, inputs, results, options, singles)
        stored = _held(node, [None if v is None else v.constant for v in node.inputs], options)
        for number, run in enumerate(runs):
            held = _held(node, _results(node, run), options)
            held = [c if x is None else x for c, x in zip(stored, held, strict=True)]
            erring = reference.run_node(node, tuple(held))
            moved = [
                _moved(y, *e, random, number == 0) if y.shape == r.shape else y
                for y, r, e in zip(erring, results, errors, strict=True)
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


def _errors(
    node: Node,
    inputs: Sequence[np.ndarray | None],
    results: Sequence[np.ndarray],
    options: LoweringOptions,
    singles: float,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Largest errors that are drawn of each result: of its computation, and of storing it."""
    own = options.of(node.origin.name)
    storage = UNITS[own.precision]
    if any(y.dtype == np.float16 for y in results):
        storage = max(storage, HALF_UNIT)
    sums = HALF_SUMS if own.arithmetic == "fp16" else 0.0
    found = allowances(node.op, list(inputs), list(results), storage=storage, sums=sums)
    op = node.op.base if isinstance(node.op, Fused) else node.op
    share = SHARE if storage or isinstance(op, _SUMS) else singles
    errors = []
    for allowance, result in zip(found, results, strict=True):
        stored = stored_rounding(result, storage)
        rest = share * np.maximum(allowance.allowed - stored, 0.0)
        # What is moved alone was rounded before.
        errors.append((rest, np.zeros_like(stored) if is_exact(node.op) else ROUNDINGS * stored))
    return errors


def _moved(
    result: np.ndarray,
    computed: np.ndarray,
    stored: np.ndarray,
    random: np.random.Generator,
    to_zero: bool,
) -> np.ndarray:
    """A result with random errors, that of storing it towards zero or in either direction;
    integers and text as they are."""
    if result.dtype.kind != "f":
        return result
    with np.errstate(all="ignore"):
        error = random.uniform(-1.0, 1.0, result.shape) * computed
        if to_zero:
            error -= np.sign(result) * random.uniform(0.0, 1.0, result.shape) * stored
        else:
            error += random.uniform(-1.0, 1.0, result.shape) * stored
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
