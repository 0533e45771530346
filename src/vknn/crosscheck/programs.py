"""Programs of a cross-check, kept from one input to the next."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator

from vknn.compile import Target, compile_graph
from vknn.errors import OutOfMemoryError
from vknn.graph import Graph
from vknn.program import Program


class KeptPrograms:
    """Programs without passes by key; one that is not kept is closed after its use.

    ``keep``: whether any are kept. Where memory runs out, all are closed and it is tried again.
    """

    def __init__(self, target: Target, keep: bool) -> None:
        self._target, self.keep = target, keep
        self._found: dict[Hashable, tuple[Hashable, Program]] = {}
        self._graph: Graph | None = None

    def begin(self, graph: Graph) -> None:
        """Check of a graph begins; programs of the nodes of another one are closed."""
        if graph is not self._graph:
            self.close()
            self._graph = graph

    @contextlib.contextmanager
    def of(
        self, key: Hashable, types: Hashable, make: Callable[[], Graph], keep: bool
    ) -> Iterator[Program]:
        """Program of a graph that is made unless the key's is there, with inputs of these types."""
        known = self._found.get(key)
        if known is not None and known[0] == types:
            yield known[1]
            return
        program = self._compiled(make())
        if not (self.keep and keep):
            with contextlib.closing(program):
                yield program
            return
        if known is not None:
            known[1].close()
        self._found[key] = types, program
        yield program

    def close(self) -> None:
        """Release of all; may be called twice."""
        while self._found:
            self._found.popitem()[1][1].close()

    def _compiled(self, graph: Graph) -> Program:
        try:
            return compile_graph(graph, self._target, passes=False)
        except OutOfMemoryError:
            if not self._found:
                raise
            self.close()
            return compile_graph(graph, self._target, passes=False)
