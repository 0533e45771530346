"""Chaining: nodes joined to one dispatch where the device's model says that it costs less.

A dispatch with its barrier takes a GPU as long as millions of multiply-adds. What a chain of small
layers costs as one dispatch is estimated by the rule of its kernel, what its parts cost by theirs,
and the cheaper of both is taken. On CPUs there are no chains.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from vknn.graph import Graph, Node, Op, Value
from vknn.lowering import LoweringOptions, candidates
from vknn.lowering.kit.machine import machine_of
from vknn.ops.convolution.conv import Conv
from vknn.ops.elementwise import Fused, Mul
from vknn.ops.matmul import MatMul
from vknn.ops.movement.shape import Reshape
from vknn.ops.normalization import LayerNormalization
from vknn.ops.pooling.pool import AveragePool, GlobalAveragePool
from vknn.ops.reduction import LogSoftmax, Softmax
from vknn.passes.chains import joined
from vknn.plan import DeviceLimits


class _Readings:
    """Producers of values that one node reads once, as its first input.

    Of a product that others read, too, the first LayerNormalization of it may go on.
    """

    def __init__(self, graph: Graph) -> None:
        self._producers = graph.producers()
        self._uses = Counter(v for node in graph.nodes for v in node.inputs if v is not None)
        self._uses.update(graph.outputs.values())
        self._normalizations: dict[Value | None, Node] = {}
        for node in graph.nodes:
            if isinstance(node.op, LayerNormalization):
                self._normalizations.setdefault(node.inputs[0], node)

    def before(self, node: Node) -> Node | None:
        """The node that makes the first input, where nothing else reads it."""
        value: Value | None = node.inputs[0] if node.inputs else None
        if value is None or self._uses[value] != 1:
            return None
        found = self._producers.get(value)
        return found if found is not None and len(found.outputs) == 1 else None

    def product(self, node: Node) -> Node | None:
        """The product that a LayerNormalization, the first of its result, reads."""
        found = self._producers.get(node.inputs[0]) if node.inputs[0] is not None else None
        first = self._normalizations.get(node.inputs[0]) is node
        return found if first and found is not None and isinstance(_base(found), MatMul) else None

    def goes_on_from(self, node: Node) -> Node | None:
        """The node of which a chain may go on with this one."""
        return self.before(node) or (self.product(node) if node.inputs else None)

    def joined(self, run: Sequence[Node]) -> Node:
        """The chain of the nodes, with the results that others read, too."""
        shown = [n for n, node in enumerate(run[:-1]) if self._uses[node.outputs[0]] != 1]
        return joined(run, tuple(shown))

    def run(self, node: Node, *wanted: Callable[[Node], bool]) -> list[Node] | None:
        """The node and those before it as ``wanted``, the last first; reshapes may lie between."""
        nodes = [node]
        for accepts in wanted:
            before = self.before(nodes[0])
            while before is not None and isinstance(before.op, Reshape):
                nodes.insert(0, before)
                before = self.before(before)
            if before is None or not accepts(before):
                return None
            nodes.insert(0, before)
        return nodes


def _base(node: Node) -> Op:
    return node.op.base if isinstance(node.op, Fused) else node.op


def _is_layer(node: Node) -> bool:
    """True for a fully connected layer of few numbers: one pixel, or rows without one."""
    if not isinstance(_base(node), MatMul | Conv):
        return False
    (type_,) = node.output_types
    return type_.is_static and type_.rank >= 2 and math.prod(type_.dims[2:]) == 1


def _is_mean(node: Node) -> bool:
    """True for means of images, or what may be some: whole windows are the kernels' to tell."""
    base = _base(node)
    if isinstance(base, AveragePool):
        return math.prod(node.output_types[0].dims[2:]) == 1
    return isinstance(base, GlobalAveragePool)


def _gates(readings: _Readings, node: Node) -> Iterator[list[Node] | None]:
    """The layers of a squeeze-and-excitation block, with the mean before them and without."""
    if _is_layer(node):
        yield readings.run(node, _is_layer, _is_mean)
        yield readings.run(node, _is_layer)


def _is_softmax(node: Node) -> bool:
    return isinstance(node.op, Softmax | LogSoftmax)


def _heads(readings: _Readings, node: Node) -> Iterator[list[Node] | None]:
    """The end of a classifier: the mean, a layer and the softmax, or two of them."""
    if _is_softmax(node):
        yield readings.run(node, _is_layer, _is_mean)
        yield readings.run(node, _is_layer)
        yield readings.run(node, _is_mean)
    elif _is_layer(node):
        yield readings.run(node, _is_mean)


def _is_depthwise(node: Node) -> bool:
    base = _base(node)
    return isinstance(base, Conv) and base.group > 1


def _separables(readings: _Readings, node: Node) -> Iterator[list[Node] | None]:
    """A depthwise convolution and one of a tap behind it."""
    base = _base(node)
    if isinstance(base, Conv) and base.group == 1 and node.output_types[0].rank == 4:
        yield readings.run(node, _is_depthwise)


def _is_pointwise(node: Node) -> bool:
    base = _base(node)
    return isinstance(base, Conv) and base.group == 1


def _expansions(readings: _Readings, node: Node) -> Iterator[list[Node] | None]:
    """A convolution of a tap and a depthwise one behind it."""
    if _is_depthwise(node) and node.output_types[0].rank == 4:
        yield readings.run(node, _is_pointwise)


def _inverted(readings: _Readings, node: Node) -> Iterator[list[Node] | None]:
    """An inverted residual block: a convolution of a tap, a depthwise one, one of a tap."""
    if _is_pointwise(node) and node.output_types[0].rank == 4:
        yield readings.run(node, _is_depthwise, _is_pointwise)


def _normalized(readings: _Readings, node: Node) -> Iterator[list[Node] | None]:
    """A product and the LayerNormalization of its rows; others may read the product, too."""
    product = readings.product(node) if isinstance(node.op, LayerNormalization) else None
    yield [product, node] if product is not None else None


def _is_product(node: Node) -> bool:
    return isinstance(_base(node), Mul)


def _scalings(readings: _Readings, node: Node) -> Iterator[list[Node] | None]:
    """A product, with a gate for the kernel to tell, and a convolution of a tap behind it."""
    if _is_pointwise(node) and node.output_types[0].rank == 4:
        yield readings.run(node, _is_product)


#: What VKNN_DISABLE calls a kind of chain -> the runs of nodes that end at a node.
_KINDS: dict[str, Callable[[_Readings, Node], Iterator[list[Node] | None]]] = {
    "gates": _gates,
    "heads": _heads,
    "separable": _separables,
    "expanded": _expansions,
    "inverted": _inverted,
    "normalized": _normalized,
    "scaled": _scalings,
}


@dataclass(frozen=True, eq=False)
class ChainChoice:
    """Choice among runs of nodes that end at the same node and have a kernel as a chain.

    ``saved``: microseconds that each saves as a chain, by estimates; below 0 where it costs more.
    ``taken``: the one that is a chain from now on; empty where none is. ``chain``: gives the chain
    of a run's nodes.
    """

    runs: tuple[list[Node], ...]
    saved: tuple[float, ...]
    taken: list[Node]
    chain: Callable[[Sequence[Node]], Node]


@dataclass(frozen=True)
class _Path:
    """Chains among a node and those before it: microseconds that they save, the last chain.

    ``rest``: the same of the nodes before that chain.
    """

    saved: float = 0.0
    run: Sequence[Node] = ()
    rest: _Path | None = None

    def runs(self) -> Iterator[list[Node]]:
        """The nodes of each chain."""
        path: _Path | None = self
        while path is not None and path.run:
            yield list(path.run)
            path = path.rest


def chain_choices(
    graph: Graph, limits: DeviceLimits, options: LoweringOptions
) -> list[ChainChoice]:
    """Choices of a graph, without runs that lost nodes to chains taken elsewhere. None on CPUs."""
    if limits.kind == "cpu":
        return []
    readings = _Readings(graph)
    finders = [finder for name, finder in _KINDS.items() if name not in options.disabled]
    possible: dict[Node, list[tuple[list[Node], float]]] = {}
    for node in graph.nodes:
        runs = [run for finder in finders for run in finder(readings, node) if run]
        saved = [(run, _saved(readings, run, limits, options)) for run in runs]
        if known := [(run, time) for run, time in saved if time > -math.inf]:
            possible[node] = known
    taken = {run[-1]: run for run in _best_runs(graph, readings, possible)}
    if _lose_to_a_fill(readings, taken, possible, limits, options):
        possible = {
            node: apart
            for node, runs in possible.items()
            if (apart := [r for r in runs if not _counts(readings, r[0], limits, options)])
        }
        taken = {run[-1]: run for run in _best_runs(graph, readings, possible)}
    busy = {node: run for run in taken.values() for node in run}
    choices = []
    for node, known in possible.items():
        # Nodes may be in no chain but the one that ends at the same node.
        free = [(r, time) for r, time in known if all(busy.get(n, r)[-1] is node for n in r)]
        if free:
            chains, times = tuple(r for r, _ in free), tuple(time for _, time in free)
            choices.append(ChainChoice(chains, times, taken.get(node, []), readings.joined))
    return choices


def chain_nodes(graph: Graph, limits: DeviceLimits, options: LoweringOptions) -> Graph:
    """The graph with chains in place of nodes that cost the device more apart."""
    choices = [choice for choice in chain_choices(graph, limits, options) if choice.taken]
    if not choices:
        return graph
    chains = [(choice.taken, choice.chain(choice.taken)) for choice in choices]
    # What others read stands where it stood; what is behind it needs constants beside it alone.
    found = {run[0 if len(chain.outputs) > 1 else -1]: chain for run, chain in chains}
    taken = {node for run, _ in chains for node in run}
    kept = (found.get(node, node) for node in graph.nodes if node in found or node not in taken)
    return Graph(graph.inputs, graph.outputs, list(kept), graph.name, graph.continuation)


def _best_runs(
    graph: Graph,
    readings: _Readings,
    possible: Mapping[Node, Sequence[tuple[list[Node], float]]],
) -> list[list[Node]]:
    """The runs that save the most together: none shares a node with another."""
    best: dict[Node | None, _Path] = {None: _Path()}
    ends: dict[Node, _Path] = {}  # of nodes that no other goes on from
    for node in graph.nodes:
        before = readings.goes_on_from(node)
        path = best[before]
        for run, time in possible.get(node, ()):
            rest = best[readings.goes_on_from(run[0])]
            if rest.saved + time > path.saved:
                path = _Path(rest.saved + time, run, rest)
        best[node] = ends[node] = path
        if before is not None:
            ends.pop(before, None)
    return [run for path in ends.values() for run in path.runs()]


def _lose_to_a_fill(
    readings: _Readings,
    taken: Mapping[Node, list[Node]],
    possible: Mapping[Node, Sequence[tuple[list[Node], float]]],
    limits: DeviceLimits,
    options: LoweringOptions,
) -> bool:
    """True where chains count, and save less together than the fill that they share."""
    counting = [run for run in taken.values() if _counts(readings, run, limits, options)]
    saved = sum(time for run in counting for r, time in possible[run[-1]] if r == run)
    return bool(counting) and saved <= machine_of(limits).fill


def _counts(
    readings: _Readings, run: list[Node], limits: DeviceLimits, options: LoweringOptions
) -> bool:
    """True where the cheapest kernel of a chain counts workgroups."""
    found = candidates(readings.joined(run), limits, options)
    return min(found, key=lambda c: c.cost).counts


def _saved(
    readings: _Readings, run: list[Node], limits: DeviceLimits, options: LoweringOptions
) -> float:
    """Microseconds that a chain saves; minus infinity where no kernel takes it.

    None takes layers of which some keep float32 and others do not.
    """
    if len({options.of(node.origin.name).precision for node in run}) > 1:
        return -math.inf
    whole = _cost(readings.joined(run), limits, options)
    if whole == math.inf:
        return -math.inf
    return sum(_cost(node, limits, options) for node in run) - whole


def _cost(node: Node, limits: DeviceLimits, options: LoweringOptions) -> float:
    """Least estimated microseconds; infinite where no kernel takes the node."""
    return min((c.cost for c in candidates(node, limits, options)), default=math.inf)
