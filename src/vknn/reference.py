"""Reference: a graph run with NumPy, op by op.

Every op says in its ``reference`` what it means; this module only passes arrays along. It is what
results of a device are held against, and what runs where there is no device.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field

import numpy as np

from vknn import run_limits
from vknn.errors import InputError, OutOfMemoryError, ShapeError, VknnError
from vknn.graph import DType, Graph, Node, TensorType, Value

#: Graphs of a continuation that are kept; a loop's rounds share theirs.
_MOST_KEPT = 16

Observer = Callable[[Node, tuple[np.ndarray, ...]], None]


def run(
    graph: Graph,
    feeds: Mapping[str, np.ndarray],
    *,
    observe: Observer | None = None,
    free: bool = True,
) -> dict[str, np.ndarray]:
    """The outputs of ``graph`` by name, for an array of the right type for each input.

    ``observe`` is called with each node and its results as they come. ``free``: results that
    nothing reads any more are let go. Raises InputError for unfit feeds; errors inside an op are
    raised as VknnError (ShapeError, OutOfMemoryError) that names the layer. The arrays given back
    may share memory with feeds, constants or one another.
    """
    return _run(graph, feeds, observe, free, OrderedDict())


@dataclass(frozen=True, eq=False)
class _Kept:
    """A graph of a continuation, and those of its own continuation."""

    graph: Graph
    further: OrderedDict[Hashable, _Kept] = field(default_factory=OrderedDict)


def _run(
    graph: Graph,
    feeds: Mapping[str, np.ndarray],
    observe: Observer | None,
    free: bool,
    kept: OrderedDict[Hashable, _Kept],
) -> dict[str, np.ndarray]:
    """As :func:`run`; ``kept``: the graphs of the continuation that ran before."""
    arrays = _inputs(graph, feeds)
    run_limits.check()
    last = _last_readers(graph) if free else {}
    for index, node in enumerate(graph.nodes):
        results = run_node(node, tuple(_lookup(v, arrays, node) for v in node.inputs))
        arrays.update(zip(node.outputs, results, strict=True))
        run_limits.check()
        if observe is not None:
            observe(node, results)
        for value in last.get(index, ()):
            arrays.pop(value, None)
    outputs = {name: _output(name, value, arrays) for name, value in graph.outputs.items()}
    if graph.continuation is not None:
        taken = {name: outputs.pop(name) for name in graph.continuation.takes}

        def call(
            key: Hashable, make: Callable[[], Graph], arrays: Mapping[str, np.ndarray]
        ) -> dict[str, np.ndarray]:
            if key not in kept:
                kept[key] = _Kept(make())
                if len(kept) > _MOST_KEPT:
                    kept.popitem(last=False)
            return _run(kept[key].graph, arrays, observe, free, kept[key].further)

        outputs |= graph.continuation.resume(taken, call)
    return outputs


def run_node(node: Node, inputs: tuple[np.ndarray | None, ...]) -> tuple[np.ndarray, ...]:
    """The results of one node, checked against its types; errors name the layer."""
    place = f"layer {node.origin.name!r} ({node.origin.type})"

    try:
        results = node.op.computed(
            inputs, sum(v.type.size for v in node.outputs if v.type.is_static)
        )
    except MemoryError as error:
        raise OutOfMemoryError(f"{place}: host memory is exhausted: {error}") from error
    except ShapeError as error:
        raise ShapeError(f"{place}: {error}") from error
    except VknnError:
        raise
    except Exception as error:
        raise VknnError(f"{place}: {node.op.type_name} failed: {error}") from error
    if len(results) != len(node.outputs):
        raise ShapeError(f"{place}: gave {len(results)} results instead of {len(node.outputs)}")
    for value, result in zip(node.outputs, results, strict=True):
        if not _fits(result, value.type):
            found = TensorType.of(result)
            raise ShapeError(f"{place}: {value.name!r} came out as {found} instead of {value.type}")
    return results


def _inputs(graph: Graph, feeds: Mapping[str, np.ndarray]) -> dict[Value, np.ndarray]:
    names = [value.name for value in graph.inputs]
    unknown = sorted(set(feeds) - set(names))
    missing = sorted(set(names) - set(feeds))
    if unknown or missing:
        text = [f"no input is called {', '.join(map(repr, unknown))}"] if unknown else []
        text += [f"input {', '.join(map(repr, missing))} is missing"] if missing else []
        raise InputError(f"{'; '.join(text)} (inputs: {', '.join(map(repr, names))})")
    arrays = {}
    for value in graph.inputs:
        array = np.asarray(feeds[value.name])
        try:
            found = TensorType.of(array)
        except ShapeError as error:
            raise InputError(f"input {value.name!r}: {error}") from error
        if not _fits(array, value.type):
            raise InputError(f"input {value.name!r} is {found}, not {value.type}")
        arrays[value] = array
    return arrays


def _fits(array: np.ndarray, type_: TensorType) -> bool:
    if array.ndim != type_.rank or DType.of(array) is not type_.dtype:
        return False
    return all(d is None or d == s for s, d in zip(array.shape, type_.shape, strict=True))


def _last_readers(graph: Graph) -> dict[int, list[Value]]:
    """The values that nothing reads any more behind each node, by the node's index."""
    last: dict[Value, int] = {}
    for index, node in enumerate(graph.nodes):
        last.update((v, index) for v in node.outputs)
        last.update((v, index) for v in node.inputs if v is not None)
    kept = set(graph.outputs.values())
    behind: dict[int, list[Value]] = {}
    for value, index in last.items():
        if value not in kept:
            behind.setdefault(index, []).append(value)
    return behind


def _lookup(
    value: Value | None, arrays: Mapping[Value, np.ndarray], node: Node
) -> np.ndarray | None:
    if value is None:
        return None
    if value.constant is not None:
        return value.constant
    if value not in arrays:
        raise ShapeError(
            f"layer {node.origin.name!r} reads {value.name!r} before anything makes it"
        )
    return arrays[value]


def _output(name: str, value: Value, arrays: Mapping[Value, np.ndarray]) -> np.ndarray:
    if value.constant is not None:
        return value.constant
    if value not in arrays:
        raise ShapeError(f"nothing makes output {name!r} ({value.name!r})")
    return arrays[value]
