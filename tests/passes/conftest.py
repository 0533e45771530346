"""What the tests of passes share: a graph before, its text and its results after."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import numpy as np
import pytest

from vknn import reference
from vknn.graph import Graph, format_graph, validate

Rewrite = Callable[[Graph], Graph]


def _run(graph: Graph, seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    feeds = {
        v.name: (random.standard_normal(v.type.dims) * 2).astype(v.type.dtype.numpy)
        for v in graph.inputs
    }
    return reference.run(graph, feeds)


def assert_same_results(before: Graph, after: Graph) -> None:
    """Both graphs are well formed and give the same on random inputs, up to rounding."""
    validate(before)
    validate(after)
    assert [v.name for v in after.inputs] == [v.name for v in before.inputs]
    expected, actual = _run(before), _run(after)
    assert list(actual) == list(expected)
    for name, array in expected.items():
        assert actual[name].dtype == array.dtype
        assert actual[name].shape == array.shape
        scale = max(1.0, float(np.nanmax(np.abs(array), initial=0.0)))
        np.testing.assert_allclose(actual[name], array, rtol=1e-5, atol=2e-6 * scale)


def body(graph: Graph) -> str:
    """The nodes and outputs of a graph as text."""
    lines = format_graph(graph).splitlines()
    return "\n".join(line.strip() for line in lines[1 + len(graph.inputs) :])


@pytest.fixture
def same_results() -> Callable[[Graph, Graph], None]:
    return assert_same_results


@pytest.fixture
def becomes() -> Callable[[Graph, Rewrite, str], Graph]:
    """becomes(graph, pass, text): the pass makes these nodes of it, which compute the same."""

    def check(graph: Graph, rewrite: Rewrite, text: str) -> Graph:
        before = format_graph(graph)
        after = rewrite(graph)
        assert format_graph(graph) == before, "the pass changed the graph it was given"
        assert body(after) == textwrap.dedent(text).strip()
        assert_same_results(graph, after)
        return after

    return check


@pytest.fixture
def stays(becomes: Callable[[Graph, Rewrite, str], Graph]) -> Callable[[Graph, Rewrite], None]:
    """stays(graph, pass): the pass changes nothing."""
    return lambda graph, rewrite: (becomes(graph, rewrite, body(graph)), None)[1]
