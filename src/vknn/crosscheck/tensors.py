"""All tensors of a run, by the names that the model's file gives them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vknn import reference
from vknn.compile import compile_graph
from vknn.crosscheck.kept_inputs import without_objects, write_npz
from vknn.errors import InputError
from vknn.graph import Graph, Node, Value
from vknn.named_files import replacing
from vknn.precision import Precision
from vknn.session import Session, engine_of
from vknn.tool_inputs import Shapes, complete_feeds, opened

#: In place of names: all tensors, and the outputs alone.
ALL, OUTPUTS = "all", "outputs"


@dataclass(frozen=True, eq=False)
class NamedTensor:
    """A value of the graph as it was read, with its array.

    ``node``: what makes it, None of an input, and of an output behind the first graph.
    ``aliases``: other names of it in the model's file.
    """

    name: str
    node: Node | None
    array: np.ndarray
    aliases: frozenset[str] = frozenset()


def tensors_of(
    session: Session, feeds: Mapping[str, np.ndarray], on_device: bool
) -> list[NamedTensor]:
    """The inputs and each operator's results of a session's graph before the passes, in order.

    Each operator is computed from the results before it, on the device or with NumPy. Of models
    whose graph goes on behind computed shapes it is the first graph, and the model's outputs.
    """
    engine = engine_of(session)
    graph = engine.graph(feeds)
    encoded = engine.encode(feeds)
    taken = {v.name: encoded[v.name] for v in graph.inputs}
    plain = Graph(graph.inputs, graph.outputs, graph.nodes, graph.name)
    known = _on_device(session, plain, taken) if on_device else _by_reference(plain, taken)
    named: dict[Value, list[str]] = {}  # outputs first: they are what users call it
    ends = {} if graph.continuation is not None else graph.outputs
    for name, value in {**ends, **graph.blobs, **ends}.items():
        named.setdefault(value, []).append(name)
    inputs = [NamedTensor(name, None, np.asarray(feeds[name])) for name in feeds]
    made = [(named.get(v, [v.name]), v, node) for node in graph.nodes for v in node.outputs]
    found = [
        NamedTensor(names[0], node, _decoded(session, known[v]), frozenset(names[1:]))
        for names, v, node in made
    ]
    if graph.continuation is not None:
        found += _outputs(session, graph, taken, on_device)
    return inputs + list(_unique(iter(found), feeds))


def dump(
    model: str | os.PathLike[str] | Session,
    inputs: Mapping[str, np.ndarray] | None = None,
    *,
    tensors: str | Sequence[str] = ALL,
    weights: str | os.PathLike[str] | None = None,
    device: str = "auto",
    precision: Precision = "fp32",
    arithmetic: str = "fp32",
    shapes: Shapes | None = None,
    seed: int = 0,
) -> dict[str, np.ndarray]:
    """Tensors of a run by name, the inputs among them, for :func:`vknn.crosscheck.against`.

    Args:
        model: A model file or an open session; on "numpy" the reference computes.
        inputs: Arrays by name; random ones stand in for those that are missing.
        tensors: "all", "outputs", or names.
        weights: As for :func:`vknn.verify`, and so are the others.

    Raises:
        vknn.InputError: There is no tensor of a name.
        vknn.VknnError: As for :func:`vknn.verify`.
    """
    with opened(
        model, weights, device=device, precision=precision, arithmetic=arithmetic
    ) as session:
        feeds = complete_feeds(session, inputs, shapes, seed)
        found = {t.name: t.array for t in tensors_of(session, feeds, session.device is not None)}
        if tensors == ALL:
            return found
        outputs = [spec.name for spec in session.outputs if spec.name in found]
        if tensors == OUTPUTS:
            tensors = outputs
        names = [tensors] if isinstance(tensors, str) else tensors
        missing = [name for name in names if name not in found]
        if missing:
            raise InputError(f"the model has no tensor {missing[0]!r}; it has {', '.join(found)}")
        return {name: found[name] for name in dict.fromkeys([*feeds, *names])}


def write_tensors(path: str | os.PathLike[str], tensors: Mapping[str, np.ndarray]) -> None:
    """Tensors written to a compressed .npz under their names. Raises OSError and VknnError."""
    arrays = {name: without_objects(name, array) for name, array in tensors.items()}
    with replacing(path) as file:
        write_npz(file, arrays)


def _by_reference(graph: Graph, feeds: Mapping[str, np.ndarray]) -> dict[Value, np.ndarray]:
    known: dict[Value, np.ndarray] = {}

    def keep(node: Node, results: tuple[np.ndarray, ...]) -> None:
        known.update(zip(node.outputs, results, strict=True))

    reference.run(graph, feeds, observe=keep)
    return known


def _on_device(
    session: Session, graph: Graph, feeds: Mapping[str, np.ndarray]
) -> dict[Value, np.ndarray]:
    values = {f"{i}": v for i, v in enumerate(v for n in graph.nodes for v in n.outputs)}
    whole = Graph(graph.inputs, values, graph.nodes, graph.name)
    target = engine_of(session).target
    with contextlib.closing(compile_graph(whole, target, passes=False)) as program:
        return {values[name]: array for name, array in program.run(feeds).items()}


def _outputs(
    session: Session, graph: Graph, feeds: Mapping[str, np.ndarray], on_device: bool
) -> list[NamedTensor]:
    """The outputs of a model whose data decide how it goes on, without what is no array."""
    engine = engine_of(session)
    target = engine.target if on_device else replace(engine.target, device=None, pool=None)
    wanted = {spec.name for spec in session.outputs}
    with contextlib.closing(compile_graph(graph, target)) as program:
        found = program.run(feeds)
        kept = {name: found[name] for name in found if name in wanted}
        arrays = engine.decoded(kept)
    return [
        NamedTensor(name, None, array)
        for name, array in arrays.items()
        if isinstance(array, np.ndarray)
    ]


def _decoded(session: Session, array: np.ndarray) -> np.ndarray:
    """A value in the layout of the file; one that the file has no name for may be in none."""
    found = np.asarray(session.model.decode_blob(array))
    return found if found.size == array.size else array


def _unique(tensors: Iterator[NamedTensor], taken: Iterable[str]) -> Iterator[NamedTensor]:
    """The tensors with names that none before them has, and none of those that are taken."""
    seen = set(taken)
    for tensor in tensors:
        name, number = tensor.name, 1
        while name in seen:
            number += 1
            name = f"{tensor.name}#{number}"
        seen.add(name)
        yield replace(tensor, name=name)
