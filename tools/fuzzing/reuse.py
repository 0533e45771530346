"""Reuse: what a child process keeps from case to case, so that a case costs its own work alone.

None of it changes what is compared: modules are the same for the same kernel and constants, and
pipelines for the same modules. A device by itself keeps fewer pipelines that nothing uses.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import vknn.session
from vknn import compile as compiling
from vknn import engine, environment, planning
from vknn.formats import Model
from vknn.graph import Graph
from vknn.runtime import pipelines
from vknn.runtime.spirv import modules

#: Pipelines without users that a device keeps.
PIPELINES = 1024
#: Modules, cut to their constants, that are kept.
MODULES = 4096


def keep_modules() -> None:
    """Keeping of modules as they are read and cut, and of more pipelines, in this process.

    Sources of shaders are not looked at again, so they must not change meanwhile.
    """
    modules.spirv = functools.cache(modules.spirv)
    pipelines.specialized = functools.lru_cache(MODULES)(pipelines.specialized)
    pipelines.MOST_UNUSED = PIPELINES
    environment.read = functools.cache(environment.read)


@contextlib.contextmanager
def read_once() -> Iterator[None]:
    """A block in which a second session of the same file, on an open device, reads nothing.

    It takes the first one's model, and its graph as the passes left it: reading and rewriting once
    more would give the same. A graph with a continuation, which data decide about, is made anew.
    """
    first = _First()
    places = [(vknn.session, "load_and_open"), (engine, "compile_model"), (planning, "run_passes")]
    before = [getattr(*place) for place in places]
    try:
        for place, name in places:
            setattr(place, name, functools.partial(getattr(first, name), getattr(place, name)))
        yield
    finally:
        for (place, name), function in zip(places, before, strict=True):
            setattr(place, name, function)


class _First:
    """What the first session of a file made; methods stand for the functions of their names."""

    def __init__(self) -> None:
        self._model: Model | None = None
        self._graphs: dict[object, Graph] = {}
        self._rewritten: list[Graph] = []

    def load_and_open(
        self, load: Callable[..., Any], path: Any, weights: Any, device: Any, *more: Any
    ) -> Any:
        if self._model is not None:
            return self._model, device
        self._model, opened = load(path, weights, device, *more)
        return self._model, opened

    def compile_model(
        self, make: Callable[..., Any], model: Model, types: Any, values: Any, target: Any,
        blobs: Sequence[str] = (), outputs: bool = True,
    ) -> Any:  # fmt: skip
        key = (tuple(types.items()), tuple((n, v.tobytes()) for n, v in values.items()))
        whole = outputs and not blobs
        if whole and key in self._graphs:
            return compiling.compile_graph(self._graphs[key], target)
        self._rewritten.clear()
        made = make(model, types, values, target, blobs, outputs)
        if whole and self._rewritten and self._rewritten[0].continuation is None:
            self._graphs[key] = self._rewritten[0]
        return made

    def run_passes(self, rewrite: Callable[..., Graph], graph: Graph, disabled: Any) -> Graph:
        if any(graph is known for known in self._graphs.values()):
            return graph
        self._rewritten.append(rewrite(graph, disabled))
        return self._rewritten[-1]
